# What a vacuum is going to do can be asked for beforehand, in SQL and by the tool; then
# it does just that, as history tells. When the server is down the tool answers from
# what was saved.

use strict;
use warnings;

use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

use Oracle;
use Pass;
use Resume;

my $node = resume_node('explain');
my $tool = $node->installed_command('pg_vacuum_resume');

sub query
{
	return $node->safe_psql('postgres', @_);
}

# The plans as SQL tells them, by name
sub plans
{
	my ($table, $by) = @_;
	my $rows = decode_json(query("SELECT json_agg(d) FROM vacuum_resume.decide('$table', '$by') AS d"));

	return { map { $_->{plan} => $_ } @$rows };
}

sub chosen
{
	my ($plans) = @_;
	my @chosen = grep { $_->{chosen} } values %$plans;

	is(scalar @chosen, 1, 'one plan is chosen');
	return $chosen[0];
}

# The tool's answer: exit status, rows, what it complained of
sub explained
{
	my ($table, @options) = @_;
	my ($stdout, $stderr) = ('', '');

	IPC::Run::run([ $tool, 'explain', '-D', $node->data_dir, '--json', @options, $table ],
		'>', \$stdout, '2>', \$stderr);
	return ($? >> 8, $stdout eq '' ? [] : decode_json($stdout), $stderr);
}

sub last_run
{
	my ($table) = @_;

	return decode_json(query(
			"SELECT json_agg(h) FROM (SELECT * FROM vacuum_resume.history
				WHERE relid = '$table'::regclass ORDER BY run DESC LIMIT 1) AS h"))->[0];
}

# So many rows die in pages that were scanned
sub let_rows_die
{
	my ($table, $rows) = @_;

	query("DELETE FROM $table WHERE k % 10 = 6 AND k < 10 * $rows");
	ok($node->poll_query_until('postgres',
			"SELECT n_dead_tup >= $rows FROM pg_stat_user_tables WHERE relname = '$table'"),
		"pg_stat knows of $rows dead rows in $table");
	return;
}

###############################################################################
# Asked before, and seen afterwards
###############################################################################

# The threshold is 100 rows. [ who vacuums, rows that die in the head, the plan ]
foreach my $story (
	[ 'VACUUM', 20, 'resume and wrap' ],
	[ 'VACUUM (RESUME)', 20, 'resume' ],
	[ 'VACUUM (RESUME)', 180, 'resume and wrap' ],
	[ 'autovacuum', 20, 'resume' ],
	[ 'autovacuum', 180, 'resume and wrap' ])
{
	my ($by, $rows, $plan) = @$story;
	my $table = lc($by =~ s/\W//gr) . $rows;

	subtest "$by, when $rows rows have died in the head" => sub {
		make_table($node, $table);
		query("ALTER TABLE $table SET (autovacuum_vacuum_threshold = 100, autovacuum_vacuum_scale_factor = 0)");
		query("SELECT pg_stat_force_next_flush()");
		stop_vacuum($node, $table, way => 'cancel', set => [$Resume::slowly],
			phase => 'scanning heap', when => 'heap_blks_scanned >= 200');
		let_rows_die($table, $rows);

		my $plans = plans($table, $by);
		my $expected = chosen($plans);
		is($expected->{plan}, $plan, "it is to $plan");
		cmp_ok($expected->{pages_ahead}, '<=', 200, '  as many pages lie ahead as can');
		cmp_ok($expected->{pages_ahead}, '>=', 140, '  and as there must');
		my (undef, $explained, $complaint) = explained($table, "--by=$by");
		is($complaint, '', 'the tool has nothing to complain of');
		is_deeply(
			[ map { [ @{$_}{qw(plan chosen possible reason)}, $_->{work} + 0 ] } @$explained ],
			[ map { [ $_, ($plans->{$_}{chosen} ? 'yes' : 'no'), ($plans->{$_}{possible} ? 'yes' : 'no'),
				$plans->{$_}{reason}, $plans->{$_}{work} ] } 'restart', 'resume', 'resume and wrap' ],
			'  and says the same');
		is($explained->[0]{estimates}, 'now', '  of now');

		my $offset = -s $node->logfile;
		if ($by eq 'autovacuum')
		{
			query("ALTER TABLE $table SET (autovacuum_enabled = on)");
			$node->poll_query_until('postgres',
				"SELECT autovacuum_count > 0 FROM pg_stat_user_tables WHERE relname = '$table'")
			  or die "autovacuum has not come to $table";
			query("ALTER TABLE $table SET (autovacuum_enabled = off)");
		}
		else
		{
			query($by . " $table");
		}
		my $run = last_run($table);
		is("$run->{plan}: $run->{reason}", "$plan: $expected->{reason}", 'so it did, for that reason');
		is($run->{outcome}, 'finished', '  to the end');
		is($run->{autovacuum}, $by eq 'autovacuum' ? JSON::PP::true : JSON::PP::false, '  whoever it was');
		is($run->{from_block}, $expected->{from_block}, '  from where it was to begin');
		is($run->{pages_behind}, $expected->{pages_behind}, '  with as many pages behind');
		my $scanned = $run->{pages_scanned} + $run->{pages_scanned_again};
		cmp_ok(abs($scanned - $expected->{heap_pages}), '<=', 60, "  it has scanned $scanned pages");
		cmp_ok(abs($run->{work} - $expected->{work}), '<=', 0.15 * $expected->{work}, '  with that much work');
		like(slurp_file($node->logfile, $offset),
			qr/interrupted vacuum of table "public\.$table" at block \d+ of 400: $plan, because \Q$expected->{reason}\E/,
			'  as the log says');
		Oracle::table_ok($node, 'postgres', $table);
	};
}

###############################################################################
# A server that is down
###############################################################################

make_table($node, 'saved');
stop_vacuum($node, 'saved', way => 'cancel', set => [$Resume::slowly],
	phase => 'scanning heap', when => 'heap_blks_scanned >= 200');
my (undef, $live) = explained('saved');
$node->stop;
subtest 'from the store alone' => sub {
	my ($status, $saved, $complaint) = explained('saved');

	is("$status$complaint", '0', 'the tool answers');
	is_deeply([ map { $_->{plan} . $_->{chosen} } @$saved ], [ map { $_->{plan} . $_->{chosen} } @$live ],
		'  as it did before');
	is($saved->[0]{estimates}, 'saved', '  but says that it goes by what was saved');
	my $text = '';
	IPC::Run::run([ $tool, 'explain', '-D', $node->data_dir, 'public.saved' ], '>', \$text);
	like($text, qr/^Next vacuum of public\.saved, by autovacuum; .* estimates that were saved, for mode auto$/m, '  in text, too');

	($status, $saved, $complaint) = explained('nobody');
	is($status, 1, 'of a table that is not in the store it can say nothing');
	like($complaint, qr/no vacuum of table "nobody" to continue/, '  and says that');
	($status, undef, $complaint) = explained('saved', '--by=magic');
	is($status, 2, 'nor can it of an unknown kind of vacuum');
	like($complaint, qr/not a kind of vacuum: "magic"/, '  and says that');
};
$node->start;

###############################################################################
# Questions that have a simple answer, or none
###############################################################################

subtest 'without a record' => sub {
	make_table($node, 'fresh');
	my $plans = plans('fresh', 'autovacuum');

	is(chosen($plans)->{plan}, 'restart', 'a table without a record is vacuumed from its beginning');
	is($plans->{restart}{reason}, 'there is nothing to continue', '  as there is nothing to continue');
	is($plans->{resume}{possible}, JSON::PP::false, '  nor could it be');
	is($plans->{restart}{heap_pages}, $plans->{restart}{pages_ahead}, '  all its pages lie ahead');
};

subtest 'a record that is not to be continued' => sub {
	my $plans = decode_json(query(q{
		SET vacuum_resume.mode = 'restart';
		SELECT json_agg(d) FROM vacuum_resume.decide('saved') AS d}));
	is((map { $_->{plan} . ': ' . $_->{reason} } grep { $_->{chosen} } @$plans)[0],
		'restart: it was asked to start over', 'by the setting');

	query('CREATE TABLE copy AS TABLE saved; VACUUM FULL saved');
	$plans = plans('saved', 'VACUUM');
	is(chosen($plans)->{reason}, 'the table has been rewritten', 'of a table that was rewritten');
	is($plans->{'resume and wrap'}{possible}, JSON::PP::false, '  nothing can be continued');
};

subtest 'of a table that is not ours' => sub {
	query('CREATE TABLE small (k int)');
	my $plans = decode_json(query(q{
		SET vacuum_resume.min_table_size = '1MB';
		SELECT json_agg(d) FROM vacuum_resume.decide('small') AS d}));
	is((grep { $_->{chosen} } @$plans)[0]{reason}, q{the table is vacuumed by the server's own code},
		'the server does it');
};

foreach my $case (
	[ "decide('fresh_k')", qr/"fresh_k" is an index/ ],
	[ "decide('pg_stat_activity')", qr/"pg_stat_activity" is not a heap table/ ],
	[ "decide('fresh', 'magic')", qr/unrecognized kind of vacuum: "magic"/ ],
	[ "decide(4294967295)", qr/could not open relation with OID 4294967295|does not exist/ ])
{
	my ($call, $message) = @$case;
	my (undef, undef, $stderr) = $node->psql('postgres', "SELECT * FROM vacuum_resume.$call");

	like($stderr, $message, "$call: a clear error");
	unlike($stderr, qr/XX000|server closed/, '  and nothing worse');
}

# Who may ask
query('CREATE ROLE watcher; GRANT pg_monitor TO watcher; CREATE ROLE pgvr_stranger');
is(query("SET ROLE watcher; SELECT count(*) FROM vacuum_resume.decide('fresh')"), 3, 'a monitor may ask');
my (undef, undef, $denied) = $node->psql('postgres', "SET ROLE pgvr_stranger; SELECT vacuum_resume.decide('fresh')");
like($denied, qr/permission denied for function decide/, 'others may not');

only_asked_for_crashes($node);
$node->stop;

done_testing();
