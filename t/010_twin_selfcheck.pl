
# The comparison that all other twin tests rest on, put to the test itself: with
# the server's own code on both sides it finds nothing where both did the same,
# and each kind of difference where they did not.

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
