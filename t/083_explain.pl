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

# So many rows die in pages that were scanned, one on each
sub let_rows_die
{
	my ($table, $rows) = @_;

	query("DELETE FROM $table WHERE k % $rows_per_page = 6 AND k / $rows_per_page < $rows");
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

# A vacuum that was stopped in its wrap has what is pending removed before its next run
# scans anything, if that run has promised all that a plain VACUUM does, and so begins
# its wrap anew. That has to be known beforehand, for the wrap costs more then.
foreach my $by ('VACUUM', 'VACUUM (RESUME)')
{
	my $table = 'in_wrap_' . lc($by =~ s/\W//gr);

	make_table($node, $table, pages => 800);
	subtest "$by, when the last one was stopped in its wrap" => sub {
		stop_vacuum($node, $table, way => 'cancel', set => [$Resume::slowly],
			phase => 'scanning heap', when => 'heap_blks_scanned >= 600');
		query("DELETE FROM $table WHERE k % 10 = 6");
		stop_vacuum($node, $table, way => 'cancel', set => [$Resume::slowly],
			phase => 'scanning heap', when => 'heap_blks_scanned = 800');
		is(query("SELECT phase, next_block FROM vacuum_resume.progress WHERE relid = '$table'::regclass"),
			'scanning heap|800', 'all of the tail is scanned, not all of the head again');

		my $plans = plans($table, $by);
		query("$by $table");
		my $run = last_run($table);
		my %work = map { $_ => $run->{(split ' ')[-1] . '_work'} } keys %$plans;
		is_deeply(\%work, { map { $_ => $plans->{$_}{work} } keys %$plans }, 'each plan costs what it was said to');
		is($run->{plan}, chosen($plans)->{plan}, '  and what was to be done is done');
		Oracle::table_ok($node, 'postgres', $table);
	};
}

# What a killed run may have reaped already is collected again, and so are its index
# entries looked for: that is known beforehand.
make_table($node, 'killed');
subtest 'a run was killed while it reaped' => sub {
	stop_vacuum($node, 'killed', way => 'kill_backend', set => [ $Resume::slowly, $Resume::saving ],
		phase => 'vacuuming heap', when => 'heap_blks_vacuumed >= 100');
	$node->poll_query_until('postgres', 'SELECT true') or die 'the server does not come back';

	my $left = query("SELECT pending_dead_tuples FROM vacuum_resume.progress WHERE relid = 'killed'::regclass");
	cmp_ok($left, '<', 600, 'of 600 row pointers some were removed');
	cmp_ok($left, '>', 0, '  and some were not');
	my $expected = chosen(plans('killed', 'VACUUM'));
	my $report = vacuum($node, 'killed');
	my $run = last_run('killed');
	my $scanned = $run->{pages_scanned} + $run->{pages_scanned_again};

	is($run->{plan}, $expected->{plan}, "it is to $expected->{plan}");
	cmp_ok(abs($scanned - $expected->{heap_pages}), '<=', 0.1 * $scanned,
		"  and to scan $expected->{heap_pages} pages, as it does");
	cmp_ok(abs($run->{work} - $expected->{work}), '<=', 0.15 * $expected->{work}, '  with that much work');
	like($report->{text}, qr/^\s*cycle: $left of these are collected again, because they may have been removed already$/m,
		'  VERBOSE says so');
	Oracle::table_ok($node, 'postgres', 'killed');
};

###############################################################################
# Whose settings
###############################################################################

# What a session that has run this SQL is told of a table, as text. Its settings end with
# it.
sub said
{
	my ($table, $by, $sql) = @_;

	return query("$sql; SELECT d FROM vacuum_resume.decide('$table', '$by') AS d");
}

# A table whose vacuum has been interrupted twice by its maximum duration
sub make_interrupted
{
	my ($table) = @_;

	make_table($node, $table);
	vacuum_part($node, $table, to => 60);
	let_rows_die($table, 20);
	query("ALTER TABLE $table SET (autovacuum_vacuum_threshold = 100, autovacuum_vacuum_scale_factor = 0)");
	return;
}

# A command has what its session has set, and autovacuum has nothing to do with that.
subtest 'the settings of a session' => sub {
	make_interrupted('asked');
	make_table($node, 'fresh');
	query(q{
		CREATE FUNCTION asked_with_setting(by text) RETURNS SETOF text
		SET vacuum_resume.mode = restart
		LANGUAGE sql AS $$ SELECT d::text FROM vacuum_resume.decide('asked', by) AS d $$});
	my %plain = map { $_ => said('asked', $_, '') } 'autovacuum', 'VACUUM';

	foreach my $set (
		'SET vacuum_resume.mode = restart', 'BEGIN; SET LOCAL vacuum_resume.mode = restart',
		"SET vacuum_resume.max_duration = '1h'", 'SET vacuum_freeze_table_age = 0',
		'SET vacuum_multixact_freeze_table_age = 0',
		'SET vacuum_freeze_table_age = 0; SET vacuum_freeze_min_age = 0',
		"SET vacuum_resume.min_table_size = '1GB'", 'SET vacuum_resume.enabled = off')
	{
		isnt(said('asked', 'VACUUM', $set), $plain{VACUUM}, "$set: a command would do something else");
		is(said('asked', 'autovacuum', $set), $plain{autovacuum}, '  autovacuum would not');
	}
	isnt(query("SELECT asked_with_setting('VACUUM')"), $plain{VACUUM},
		'a setting of a function: a command in it would do something else');
	is(query("SELECT asked_with_setting('autovacuum')"), $plain{autovacuum}, '  autovacuum would not');

	# an index whose file is away fails in between
	my $index = $node->data_dir . '/' . query("SELECT pg_relation_filepath('asked_h')");
	rename $index, "$index.away" or die "could not rename $index: $!";
	my (undef, $kept, $stderr) = $node->psql('postgres', q{
		SET vacuum_resume.mode = restart;
		BEGIN;
		SET LOCAL vacuum_resume.max_duration = '3h';
		SELECT count(*) FROM vacuum_resume.decide('fresh');
		SAVEPOINT s;
		SELECT vacuum_resume.decide('asked');
		ROLLBACK TO s;
		SHOW vacuum_resume.mode; SHOW vacuum_resume.max_duration;
		COMMIT;
		SHOW vacuum_resume.mode; SHOW vacuum_resume.max_duration}, on_error_stop => 0);
	rename "$index.away", $index or die "could not rename $index.away: $!";
	like($stderr, qr/could not open file/, 'also when no answer can be given,');
	is($kept, "3\nrestart\n3h\nrestart\n0", '  whoever asks keeps the settings that he has');
};

# What is set for the database or for the worker's role counts, also for a session that has
# begun before; and then autovacuum does what was said. In a template database it freezes
# all that it can.
my $worker_role = query('SELECT rolname FROM pg_roles WHERE oid = 10');
query('CREATE ROLE pgvr_nobody');
foreach my $story (
	{ name => 'of_database', plan => 'restart', because => $because{asked},
		set => { 'DATABASE postgres' => 'vacuum_resume.mode = restart' } },
	{ name => 'of_role', plan => 'resume', because => $because{tail_pays}, aggressive => 1, expected_work => 31,
		set => {
			'ROLE ALL' => "vacuum_resume.max_duration = '1h'",
			'DATABASE postgres' => 'vacuum_resume.mode = restart',
			"ROLE $worker_role" => 'vacuum_freeze_table_age = 0',
			"ROLE $worker_role IN DATABASE postgres" => 'vacuum_resume.mode = auto',
			'ROLE pgvr_nobody' => 'vacuum_resume.mode = restart',
			'ROLE pgvr_nobody IN DATABASE postgres' => 'vacuum_resume.mode = restart' } },
	{ name => 'of_template', plan => 'restart', because => 'an aggressive vacuum has to freeze more than was frozen',
		aggressive => 1, template => 1 })
{
	my ($plan, $because, $template) = @{$story}{qw(plan because template)};
	my $table = "settings_$story->{name}";
	my %set = %{ $story->{set} // {} };
	my @sql = map { "ALTER $_ SET $set{$_}" } sort keys %set;

	subtest "settings $story->{name}" => sub {
		make_interrupted($table);
		push @sql, 'ALTER DATABASE postgres IS_TEMPLATE true' if $template;
		my $plans = decode_json(query(join('; ', @sql)
			. "; SELECT json_object_agg(plan, d) FROM vacuum_resume.decide('$table') AS d"));
		my $expected = chosen($plans);
		is("$expected->{plan}, because $expected->{reason}", "$plan, because $because", "it is to $plan");
		is($expected->{expected_work}, $story->{expected_work}, '  within the time that there is');

		# none that began before
		$node->poll_query_until('postgres', q{
			SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'autovacuum worker')})
		  or die 'an autovacuum worker does not end';
		autovacuum($node, $table, threshold => 100);
		my $run = last_run($table);
		is("$run->{plan}, because $run->{reason}", "$plan, because $because", '  and so does autovacuum');
		is($run->{expected_work}, $story->{expected_work}, '  within that time');
		is($run->{aggressive} ? 1 : 0, $story->{aggressive} // 0,
			'  and freezes ' . ($story->{aggressive} ? 'what it has to' : 'no more than it happens to find'));
		is($run->{from_block}, $expected->{from_block}, '  from where it was to begin');
		Oracle::table_ok($node, 'postgres', $table);

		query(join '; ', (map { "ALTER $_ RESET ALL" } sort keys %set), 'ALTER DATABASE postgres IS_TEMPLATE false');
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
	my $plans = plans('fresh', 'autovacuum');

	is(chosen($plans)->{plan}, 'restart', 'a table without a record is vacuumed from its beginning');
	is($plans->{restart}{reason}, 'there is nothing to continue', '  as there is nothing to continue');
	is($plans->{resume}{possible}, JSON::PP::false, '  nor could it be');
	is($plans->{restart}{pages_ahead}, 300, '  all its pages lie ahead');
	is($plans->{restart}{heap_pages}, 400, '  and single clean ones between them are read as well');
};

subtest 'a record that is not to be continued' => sub {
	my $plans = decode_json(query(q{
		SET vacuum_resume.mode = 'restart';
		SELECT json_agg(d) FROM vacuum_resume.decide('saved', 'VACUUM') AS d}));
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
		SELECT json_agg(d) FROM vacuum_resume.decide('small', 'VACUUM') AS d}));
	is((grep { $_->{chosen} } @$plans)[0]{reason}, q{the table is vacuumed by the server's own code},
		'the server does it');
};

query('CREATE SEQUENCE counter; CREATE TABLE divided (k int) PARTITION BY RANGE (k)');
foreach my $case (
	[ "decide('fresh_k')", qr/42809: +"fresh_k" is an index/ ],
	[ "decide('pg_stat_activity')", qr/42809: +"pg_stat_activity" is not a heap table/ ],
	# of the same access method, but VACUUM passes them by
	[ "decide('counter')", qr/42809: +"counter" is not a heap table/ ],
	[ "decide('divided')", qr/42809: +"divided" is not a heap table.*HINT: +Ask about each of its partitions/s ],
	[ "decide('fresh', 'magic')", qr/22023: +unrecognized kind of vacuum: "magic"/ ],
	[ "decide(4294967295)", qr/42P01: +relation with OID 4294967295 does not exist/ ])
{
	my ($call, $message) = @$case;
	my (undef, undef, $stderr) = $node->psql('postgres', "\\set VERBOSITY verbose\nSELECT * FROM vacuum_resume.$call");

	like($stderr, $message, "$call: a clear error");
}
query('CREATE MATERIALIZED VIEW seen AS SELECT * FROM fresh');
is(query('SELECT count(*) FROM vacuum_resume.decide(' . $_ . ')'), 3, "decide($_): an answer")
  foreach q('seen'), q((SELECT reltoastrelid FROM pg_class WHERE relname = 'fresh'));

# Who may ask
query('CREATE ROLE watcher; GRANT pg_monitor TO watcher; CREATE ROLE pgvr_stranger');
is(query("SET ROLE watcher; SELECT count(*) FROM vacuum_resume.decide('fresh')"), 3, 'a monitor may ask');
my (undef, undef, $denied) = $node->psql('postgres', "SET ROLE pgvr_stranger; SELECT vacuum_resume.decide('fresh')");
like($denied, qr/permission denied for function decide/, 'others may not');

only_asked_for_crashes($node);
$node->stop;

done_testing();
