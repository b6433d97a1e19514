
# What other tests rest on, put to the test itself.  The comparison of twins: with
# the server's own code on both sides it finds nothing where both did the same,
# and each kind of difference where they did not.  The oracle: it finds nothing
# wrong with a sound table, and each kind of damage that a vacuum could do.

use strict;
use warnings;

use Test2::API qw(intercept);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Twin;

my @tables = qw(alike frozen uncleaned untruncated untouched);

# Run tests without counting them; returns the names of those that fail, with
# the name of the subtest before them.
sub failures
{
	my ($code) = @_;
	my @failed;
	my $collect;

	$collect = sub {
		my ($prefix, @events) = @_;
		foreach my $event (@events)
		{
			my $assert = $event->facet_data->{assert} or next;
			next if $assert->{pass};
			my @inner = $event->can('subevents') ? @{ $event->subevents || [] } : ();
			if (@inner) { $collect->("$assert->{details}: ", @inner); }
			else { push @failed, $prefix . $assert->{details}; }
		}
	};
	my $events = &intercept($code);
	$collect->('', @$events);
	return @failed;
}

# Two files and two texts

my $dir = PostgreSQL::Test::Utils::tempdir;

sub compare_pages
{
	my ($stock, $ours) = @_;
	my $count = 0;

	foreach ([ 'stock', $stock ], [ 'ours', $ours ])
	{
		my ($name, $contents) = @$_;
		open my $file, '>:raw', "$dir/$name" or die;
		print $file $contents;
		close $file or die;
	}
	my @differences = Twin::compare_files("$dir/stock", "$dir/ours", 'f', \$count, 1);
	return ($count, @differences);
}

my $pages = join('', map { Twin::empty_page() } 1 .. 100);

is_deeply([ compare_pages($pages, $pages) ], [100], 'equal files are equal, 100 pages');

my @unseen;
foreach my $byte (0 .. 8191)
{
	my $other = Twin::empty_page();
	substr($other, $byte, 1) ^= "\x01";
	my (undef, @differences) = compare_pages(Twin::empty_page(), $other);
	push @unseen, $byte unless @differences;
}
is("@unseen", '0 1 2 3 4 5 6 7 8 9',
	'one bit anywhere on a page is a difference, but in pd_lsn and pd_checksum');

my $other = $pages;
substr($other, 77 * 8192 + 4711, 1) = 'x';
my ($count, @differences) = compare_pages($pages, $other);
is(scalar(@differences), 1, 'one page differs');
like($differences[0], qr/^f block 77: 1 bytes, the first at 4711/, 'it is named');

($count, @differences) = compare_pages($pages, substr($pages, 8192));
like("@differences", qr/100 pages on the stock side, 99 on ours/, 'a missing page is a difference');

is_deeply([ Twin::differing_lines("a\nb\nc", "a\nb\nc") ], [], 'equal texts are equal');
is_deeply([ Twin::differing_lines("a\nb\nc", "a\nx\nc") ], [ 'stock: b', 'ours:  x' ], 'another line is a difference');
is(scalar(Twin::differing_lines("a\nb\nc", "a\nc\nb")), 4, 'another order is a difference');
is(scalar(Twin::differing_lines("a\nb", "a\nb\nb")), 1, 'a repeated line is a difference');

my @failed = failures(sub { Twin::same('', '', 'nothing') });
is("@failed", 'nothing: there is something to compare', 'to compare nothing is a failure');

# Two servers

my $twin = Twin->new('selfcheck', stock => 1);

# Before they are two: tables that something is wrong with.

my $sound = q{
	CREATE TABLE TABLE (a int, b text, c text);
	INSERT INTO TABLE SELECT i, i % 100, repeat('x', 50) FROM generate_series(1, 2000) AS i;
	CREATE INDEX TABLE_a ON TABLE (a DESC);
	CREATE INDEX TABLE_b ON TABLE (b COLLATE "C", a) WHERE a > 0;
	CREATE INDEX TABLE_c ON TABLE (lower(b) text_pattern_ops, a);
	CREATE INDEX TABLE_d ON TABLE (a DESC);
	VACUUM TABLE;
};

sub complaints
{
	my ($table, $damage) = @_;

	$twin->build($sound =~ s/\bTABLE(?=\b|_)/$table/gr =~ s/CREATE $table/CREATE TABLE/r);
	my ($ok, @before) = Oracle::check_table($twin->{stock}, 'postgres', $table);
	ok($ok, "the oracle finds nothing wrong with $table yet") or diag("@before");

	$damage->($table);
	my (undef, @after) = Oracle::check_table($twin->{stock}, 'postgres', $table);
	return join("\n", @after);
}

# An index is passed over while rows are removed: it keeps its entries.
my $reap_without_index = sub {
	my ($table) = @_;
	$twin->build(qq{
		UPDATE pg_index SET indisready = false, indisvalid = false WHERE indexrelid = '${table}_a'::regclass;
		DELETE FROM $table WHERE a <= 500;
		VACUUM $table;
		UPDATE pg_index SET indisready = true, indisvalid = true WHERE indexrelid = '${table}_a'::regclass;
	});
};
my $complaints = complaints('stale', $reap_without_index);
like($complaints, qr/index stale_a has an entry for \(0,1\), which is unused/, 'entries for unused line pointers');
unlike($complaints, qr/^index scan/m, '... which an index scan does not see yet');

$complaints = complaints('reused', sub {
	my ($table) = @_;
	$reap_without_index->($table);
	$twin->build("INSERT INTO $table SELECT i, 'new', repeat('y', 50) FROM generate_series(3001, 3300) AS i");
});
like($complaints, qr/^index scan of reused_a sees/m, 'entries for reused line pointers: index scan');
like($complaints, qr/^index-only scan of reused_a sees/m, 'entries for reused line pointers: index-only scan');

$complaints = complaints('missing', sub {
	my ($table) = @_;
	$twin->build(qq{
		UPDATE pg_index SET indisready = false WHERE indexrelid = '${table}_c'::regclass;
		INSERT INTO $table VALUES (5000, 'z', 'z');
		UPDATE pg_index SET indisready = true WHERE indexrelid = '${table}_c'::regclass;
	});
});
like($complaints, qr/heap tuple .* from table "missing" lacks matching index tuple within index "missing_c"/,
	'a row that an index lacks: amcheck');
like($complaints, qr/^index scan of missing_c sees/m, 'a row that an index lacks: index scan');

# Two bits for each page, all visible and all frozen, after the page header
$complaints = complaints('too_visible', sub {
	my ($table) = @_;
	$twin->build("DELETE FROM $table WHERE a <= 500");
	$twin->edit_file($table, 'vm', sub { substr($_[0], 24, 1) = "\xff"; $_[0] });
});
like($complaints, qr/pg_check_visible\(too_visible\): \("\(0,1\)"\)/, 'a dead row on an all-visible page');
like($complaints, qr/pg_check_frozen\(too_visible\): /, 'rows on an all-frozen page that are not frozen');
like($complaints, qr/^index-only scan of too_visible_a sees/m, 'a dead row on an all-visible page: index-only scan');

$complaints = complaints('too_old', sub {
	my ($table) = @_;
	$twin->build("UPDATE pg_class SET relfrozenxid = pg_current_xact_id()::xid WHERE oid = '$table'::regclass");
});
like($complaints, qr/verify_heapam\(too_old\): .*precedes relation freeze threshold/, 'rows older than relfrozenxid');

is((Oracle::check_table($twin->{stock}, 'postgres', 'pg_class'))[0], 1, 'nothing is wrong with a catalog');

# Now the twins.

foreach my $table (@tables)
{
	$twin->build(qq{
		CREATE TABLE $table AS SELECT i AS a, repeat('x', 100) AS b FROM generate_series(1, 3000) AS i;
		CREATE INDEX ${table}_a ON $table (a);
		DELETE FROM $table WHERE a % 3 = 0 OR a > 2000;
	});
}
$twin->separate;

is_deeply(
	[ failures(sub { $twin->vacuum('alike', table => 'alike', premise => qr/truncated \d+ to \d+ pages/) }) ],
	[],
	'the same VACUUM on both sides: no difference');
is_deeply(
	[ failures(sub { $twin->vacuum('story', table => 'alike', premise => qr/truncated/) }) ],
	['story: the scenario is what it is called'],
	'a scenario that goes another way than it says is a failure');

# Each of these lets one side do something else.
my @stories = (
	[ 'frozen', 'FREEZE', 'VACUUM (VERBOSE) frozen' ],
	[ 'uncleaned', 'INDEX_CLEANUP off', 'VACUUM (VERBOSE) uncleaned' ],
	[ 'untruncated', 'TRUNCATE off', 'VACUUM (VERBOSE) untruncated' ],
	[ 'untouched', '', 'SELECT' ]);
foreach my $story (@stories)
{
	my ($table, $options, $stock_command) = @$story;
	my @failed = failures(
		sub {
			$twin->vacuum($table, table => $table, options => $options, stock_command => $stock_command);
		});

	cmp_ok(scalar(grep { /VERBOSE text: (equal|there is)/ } @failed), '>', 0, "$table: the texts differ");
	cmp_ok(scalar(grep { /pg_class, pg_database, pg_stat: equal/ } @failed), '>', 0, "$table: the facts differ");
}

# A claim that our pass ran is checked against the log.
{
	local $twin->{both_stock} = 0;
	my @failed = failures(sub { $twin->vacuum('again', table => 'alike') });
	is_deeply(\@failed, ['again: our pass runs for exactly the same heaps, in the same order'],
		'a table that our pass did not vacuum is a failure');
}

# At last, compare what can only be seen when both are stopped.
$twin->observe_vacuum(command => 'VACUUM no_such_table');
push @{ $twin->{tables} }, 'no_such_table';
@failed = failures(sub { $twin->finish(oracle => 0) });
my %failed = map { /^([a-z_]+): \d+ pages of the heap/ ? ($1 => 1) : ($_ => 1) } @failed;

ok(!$failed{alike}, 'alike: no page differs');
foreach my $table (@tables)
{
	next if $table eq 'alike';
	ok(delete $failed{$table}, "$table: pages differ");
}
ok(delete $failed{'WAL written by VACUUM'}, 'WAL differs');
ok(delete $failed{'pg_class, pg_database, pg_statio of the whole database'}, 'facts differ');
ok(delete $failed{'pages of no_such_table were found'}, 'a table without pages is a failure');
ok(delete $failed{(grep { /pages of all other relations/ } keys %failed)[0] // ''}, 'pages of pg_class differ');
ok(delete $failed{'untouched: all of its pages were compared'},
	'a table without a visibility map on one side is a failure');
is(join(', ', sort keys %failed), '', 'nothing else differs');

done_testing();
