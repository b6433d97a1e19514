# What users have: RESUME and MAX_DURATION and the settings behind them, the view
# progress, the function forget; for tables of all kinds and names, and all users.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use Oracle;
use Pass;
use Resume;
use Trouble;

my $node = resume_node('options', conf => "autovacuum = off\n");

# Runs SQL with slow vacuums in a database; returns its standard error.
sub slowly
{
	my ($sql, %opt) = @_;
	my ($status, undef, $stderr) = $node->psql($opt{db} // 'postgres', "SET $Resume::slowly; $sql");

	die "$sql failed: $stderr" if $status != 0;
	return $stderr;
}

sub query
{
	my ($sql, %opt) = @_;
	return $node->safe_psql($opt{db} // 'postgres', $sql);
}

# What progress says: relation and next block, in alphabetical order
sub progress_rows
{
	my (%opt) = @_;
	return query(
		q{SELECT string_agg(concat_ws(' ', relation, next_block), ', ' ORDER BY relation COLLATE "C")
		FROM vacuum_resume.progress}, %opt);
}

# SQL fails with this message
sub fails
{
	my ($sql, $message, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my (undef, undef, $stderr) = $node->psql('postgres', $sql);

	like($stderr, qr/ERROR:  \Q$message\E/, $name);
	return;
}

###############################################################################
# RESUME, and the setting mode
###############################################################################

my $asked = 'discarding the saved progress of the vacuum of table "public.resumed": it was asked to start over';

foreach my $case (
	[ '', '', 1 ], [ 'RESUME', '', 1 ], [ 'RESUME on', '', 1 ], [ 'RESUME auto', '', 1 ],
	[ 'RESUME off', '', 0 ], [ '', 'auto', 1 ], [ '', 'resume', 1 ], [ '', 'restart', 0 ],
	[ 'RESUME', 'restart', 1 ], [ 'RESUME auto', 'restart', 1 ], [ 'RESUME off', 'resume', 0 ])
{
	my ($options, $mode, $resumes) = @$case;
	my $name = join ', ', $options || 'no option', $mode ? "mode = $mode" : ();

	make_table($node, 'resumed', %small) unless query(q{SELECT to_regclass('resumed')});
	query('UPDATE resumed SET v = v + 1 WHERE k % 3 = 1');
	my $first = slice($node, 'resumed');
	my $log = log_end($node);
	my $vacuum = careful_vacuum($node, 'resumed', options => $options || undef,
		set => [ $mode ? "vacuum_resume.mode = $mode" : () ]);

	is("$vacuum->{run} $vacuum->{from} $vacuum->{warnings}", $resumes ? '2 31 0' : '1 0 0',
		"$name: " . ($resumes ? 'goes on' : 'starts over'));
	is(log_since($node, $log) =~ /LOG:  \Q$asked\E/ ? 0 : 1, $resumes, '  and the log says why, if not');
	has_no_dead_rows($node, 'resumed');
	is(record($node, 'resumed'), undef, '  and nothing is left to go on with');
}
Oracle::table_ok($node, 'postgres', 'resumed');

###############################################################################
# MAX_DURATION, and the setting
###############################################################################

foreach my $case (
	[ 'as an option', sub { slowly("VACUUM (MAX_DURATION '20ms') timed") } ],
	[ 'as a setting', sub { slowly("SET vacuum_resume.max_duration = '20ms'; VACUUM timed") } ],
	[ 'as an option against the setting', sub {
			slowly("SET vacuum_resume.max_duration = '1h'; VACUUM (MAX_DURATION 20) timed") } ])
{
	my ($name, $run) = @$case;

	subtest "max_duration $name" => sub {
		my $slices = 0;
		my $pages = 160;

		make_table($node, 'timed', pages => $pages, dead => 'k % 3 = 0');
		for (1 .. 20)
		{
			my $before = record($node, 'timed');
			my $text = $run->();
			my $record = record($node, 'timed') or last;

			$slices++;
			is($text =~ s/^psql:\S+ //r,
				qq{NOTICE:  vacuum of table "public.timed" stopped after its maximum duration\n}
				  . "DETAIL:  $record->{next_block} of $pages blocks are scanned, "
				  . "$record->{pending_dead_tuples} dead row pointers are pending.\n"
				  . 'HINT:  The next VACUUM of the table goes on from there.',
				'a slice ends with success, says how far it came, and what is next');
			is($record->{last_stop}, 'max_duration', '  and is recorded as such');
			is("$record->{runs} $record->{interruptions}", "$slices $slices", '  and counted');
			cmp_ok($record->{next_block}, '>', $before ? $before->{next_block} : 0, '  it has got farther');
			last if $record->{next_block} == $pages;
		}
		cmp_ok($slices, '>', 3, 'there were many slices');
		my $rest = careful_vacuum($node, 'timed', options => 'MAX_DURATION 0');
		is("$rest->{run} $rest->{cycle_scanned} $rest->{cycle_indexes}",
			join(' ', $slices + 1, $pages, 3), 'together they do the work of one vacuum');
		cmp_ok($rest->{cycle_again}, '<=', 1, '  but for the last page');
		has_no_dead_rows($node, 'timed');
		Oracle::table_ok($node, 'postgres', 'timed');
		query('DROP TABLE timed');
	};
}

# In all of its phases
subtest 'slices to the end' => sub {
	my (%phases, $text);

	make_table($node, 'timed', %small);
	slice($node, 'timed') for 1 .. 2;
	for (1 .. 20)
	{
		$text = late_slice($node, 'timed')->{text};
		my $record = record($node, 'timed') or last;
		$phases{"$record->{phase} $record->{indexes_done}"} = 1;
	}
	unlike($text, qr/NOTICE/, 'the last slice says no more than that it is done');
	is_deeply([ grep { exists $phases{$_} } 'vacuuming indexes 1', 'vacuuming indexes 2', 'vacuuming heap 3' ],
		[ 'vacuuming indexes 1', 'vacuuming indexes 2', 'vacuuming heap 3' ],
		'before it one has ended in each index and in the table');
	has_no_dead_rows($node, 'timed');
	Oracle::table_ok($node, 'postgres', 'timed');
};

# With ANALYZE, and for a temporary table, of which nothing can be kept
query('UPDATE timed SET v = v + 1');
like(slowly('VACUUM (ANALYZE, MAX_DURATION 1) timed'), qr/NOTICE:  vacuum of table "public\.timed" stopped/,
	'ANALYZE comes after a vacuum that was stopped');
ok(query(q{SELECT last_analyze IS NOT NULL FROM pg_stat_user_tables WHERE relname = 'timed'}) eq 't',
	'  all the same');
query(q{SELECT vacuum_resume.forget('timed')});
like(
	slowly('CREATE TEMP TABLE passing AS SELECT * FROM timed; VACUUM (MAX_DURATION 1) passing'),
	qr/NOTICE:  vacuum of table "pg_temp_\d+\.passing" stopped after its maximum duration\nDETAIL:  Progress is not kept for temporary tables; the next VACUUM starts over\./,
	'a temporary table starts over');
is(progress_rows(), '', '  and has no record');

###############################################################################
# Several tables in one command, and tables of all kinds
###############################################################################

query(
	q{
	CREATE TABLE parent (k int, filler text) PARTITION BY RANGE (k);
	CREATE TABLE part_1 PARTITION OF parent FOR VALUES FROM (0) TO (1000);
	CREATE TABLE part_2 PARTITION OF parent FOR VALUES FROM (1000) TO (2000);
	CREATE INDEX ON parent (k);
	INSERT INTO parent SELECT i, repeat('x', 364) FROM generate_series(0, 1999) AS i;
	CREATE MATERIALIZED VIEW view_of AS SELECT * FROM parent;
	CREATE TABLE wide (k int PRIMARY KEY, big text);
	ALTER TABLE wide ALTER big SET STORAGE EXTERNAL;
	INSERT INTO wide SELECT i, repeat('x', 6000) FROM generate_series(1, 100) AS i;
	CREATE UNLOGGED TABLE unlogged AS SELECT * FROM parent;
	DELETE FROM parent WHERE k % 3 = 0;
	DELETE FROM wide WHERE k % 2 = 0;});
my $toast = query(q{SELECT reltoastrelid::regclass FROM pg_class WHERE relname = 'wide'});
my $text = slowly('VACUUM (MAX_DURATION 1) parent, view_of, wide, unlogged');

is(progress_rows(), "part_1 31, part_2 31, $toast 31, unlogged 31, view_of 31",
	'partitions, a materialized view, a TOAST table and an unlogged one are interrupted in one command');
is(scalar(() = $text =~ /NOTICE:  vacuum of table/g), 5, '  and each is reported');
(undef, undef, $text) = $node->psql('postgres', 'VACUUM VERBOSE parent, view_of, wide, unlogged');
is(scalar(() = $text =~ /cycle: run 2, continued at block 31/g), 5, '  and each goes on');
is(progress_rows(), '', '  to its end');
Oracle::table_ok($node, 'postgres', $_) foreach qw(part_1 part_2 wide view_of);

# One of them alone is none of the others' business
query('UPDATE parent SET filler = upper(filler) WHERE k % 3 = 1');
slowly('VACUUM (MAX_DURATION 1) parent');
query('VACUUM part_1');
is(progress_rows(), 'part_2 31', 'a partition can be vacuumed by itself');
(undef, undef, $text) = $node->psql('postgres', 'VACUUM (VERBOSE, RESUME off) parent, wide');
unlike($text, qr/cycle: run/, 'RESUME off is for all tables of the command');

# Shared catalogs go on in whatever database
query(
	q{
	CREATE DATABASE other;
	DO $$ BEGIN
		FOR i IN 1 .. 1500 LOOP
			EXECUTE format('COMMENT ON DATABASE other IS %L', i || repeat('x', 400));
		END LOOP;
	END $$;});
query('CREATE EXTENSION pg_vacuum_resume', db => 'other');
slowly('VACUUM (MAX_DURATION 1) pg_shdescription');
is(progress_rows(), 'pg_shdescription 31', 'a shared catalog is interrupted');
is(progress_rows(db => 'other'), 'pg_shdescription 31', '  which all databases see');
is(query(q{SELECT database IS NULL, pages_ahead > 0 FROM vacuum_resume.progress}, db => 'other'),
	't|t', '  as of no database');
(undef, undef, $text) = $node->psql('other', 'VACUUM VERBOSE pg_shdescription');
like($text, qr/cycle: run 2, continued at block 31/, '  and its vacuum goes on in another one');
is(progress_rows(), '', '  to its end');
Oracle::table_ok($node, 'postgres', 'pg_shdescription');

###############################################################################
# Names, databases, and what is dropped
###############################################################################

query(
	q{
	CREATE SCHEMA "A schema";
	CREATE SCHEMA hidden;
	CREATE TABLE "A schema"."select" AS SELECT * FROM timed;
	CREATE TABLE hidden."Say ""so""" AS SELECT * FROM timed;
	CREATE TABLE hidden.timed AS SELECT * FROM timed;});
slowly('VACUUM (MAX_DURATION 1) "A schema"."select", hidden."Say ""so""", hidden.timed, timed');
is(progress_rows(), '"A schema"."select" 31, hidden."Say ""so""" 31, hidden.timed 31, timed 31',
	'names are quoted and qualified where they have to be');
is(query(q{SET search_path = hidden; SELECT string_agg(relation, ', ' ORDER BY relation COLLATE "C") FROM vacuum_resume.progress}),
	'"A schema"."select", "Say ""so""", public.timed, timed', '  for whoever asks');
is(query(q{SELECT string_agg(concat_ws(' ', database, relation), ', ' ORDER BY relation COLLATE "C") FROM vacuum_resume.progress}, db => 'other'),
	'postgres "A schema"."select", postgres hidden."Say ""so""", postgres hidden.timed, postgres public.timed',
	'  also in another database');
is(query('SELECT count(*) FROM vacuum_resume.progress WHERE pages_ahead IS NOT NULL', db => 'other'),
	0, '  where nobody can look at their pages');
is(query('SELECT count(*) FROM vacuum_resume.progress WHERE pages_ahead >= rel_blocks - next_block'),
	4, '  but here one can');
query(
	q{
	ALTER TABLE "A schema"."select" RENAME TO renamed;
	ALTER SCHEMA "A schema" RENAME TO plain;});
is(progress_rows(), 'hidden."Say ""so""" 31, hidden.timed 31, plain.renamed 31, timed 31',
	'new names are shown');
(undef, undef, $text) = $node->psql('postgres', 'VACUUM VERBOSE plain.renamed');
like($text, qr/cycle: run 2, continued at block 31/, '  and under a new name it goes on');

# DROP removes records, unless it is rolled back
query('BEGIN; DROP TABLE hidden.timed; ROLLBACK');
is(progress_rows(), 'hidden."Say ""so""" 31, hidden.timed 31, timed 31',
	'a DROP TABLE that is rolled back removes no record');
query('DROP TABLE hidden.timed');
is(progress_rows(), 'hidden."Say ""so""" 31, timed 31', 'one that is committed does');
query('BEGIN; SAVEPOINT s; DROP TABLE hidden."Say ""so"""; ROLLBACK TO s; COMMIT');
is(progress_rows(), 'hidden."Say ""so""" 31, timed 31', 'one that is rolled back to a savepoint does not');
query('DROP SCHEMA hidden CASCADE');
is(progress_rows(), 'timed 31', 'DROP SCHEMA removes what was in it');
query('UPDATE parent SET filler = lower(filler); REFRESH MATERIALIZED VIEW view_of; UPDATE wide SET big = big || k');
slowly('VACUUM (MAX_DURATION 1) parent, view_of, wide');
is(progress_rows(), "part_1 31, part_2 31, $toast 31, timed 31, view_of 31",
	'records of all kinds of tables');
query('DROP MATERIALIZED VIEW view_of; DROP TABLE parent, wide');
is(progress_rows(), 'timed 31', '  are removed with them');

query('CREATE TABLE there (k int); INSERT INTO there SELECT generate_series(1, 20000)', db => 'other');
slowly('VACUUM (MAX_DURATION 1) there, pg_proc', db => 'other');
slowly('VACUUM (RESUME off, MAX_DURATION 1) pg_proc');
is(progress_rows(), 'pg_catalog.pg_proc 31, pg_proc 31, public.there 31, timed 31',
	'there are records of two databases');
is(query(q{SELECT string_agg(relation, ' ' ORDER BY relation) FROM vacuum_resume.progress WHERE database = 'other'}),
	'pg_catalog.pg_proc public.there', '  with the same catalog in both');
query('DROP DATABASE other');
is(progress_rows(), 'pg_proc 31, timed 31', 'DROP DATABASE removes those of that database');
query('VACUUM pg_proc');

###############################################################################
# The extension comes and goes
###############################################################################

query('DROP EXTENSION pg_vacuum_resume');
is(query(q{SELECT count(*) FROM pg_namespace WHERE nspname = 'vacuum_resume'}), 0,
	'DROP EXTENSION leaves nothing in the database');
like(slowly('VACUUM (VERBOSE, MAX_DURATION 1) timed'), qr/cycle: run \d, continued at block/,
	'vacuums go on without it');
query('CREATE EXTENSION pg_vacuum_resume');
ok(record($node, 'timed'), 'CREATE EXTENSION finds what was there');

###############################################################################
# Who may do what
###############################################################################

query(
	q{
	CREATE ROLE monitor LOGIN IN ROLE pg_monitor;
	CREATE ROLE owner LOGIN;
	CREATE ROLE member LOGIN IN ROLE owner;
	CREATE ROLE pgvr_stranger LOGIN;
	CREATE TABLE owned AS SELECT * FROM timed;
	ALTER TABLE owned OWNER TO owner;});
slowly('VACUUM (MAX_DURATION 1) owned');
my $forget = "SELECT vacuum_resume.forget('owned')";

is(query('SET ROLE monitor; SELECT count(*) FROM vacuum_resume.progress'), 2, 'pg_monitor sees progress');
foreach my $role (qw(owner pgvr_stranger))
{
	fails("SET ROLE $role; SELECT * FROM vacuum_resume.progress", 'permission denied for view progress',
		"$role does not");
	fails("SET ROLE $role; SELECT * FROM vacuum_resume.cycles()", 'permission denied for function cycles',
		'  by no way');
}
fails("SET ROLE $_; $forget", 'must be owner of table owned', "$_ cannot forget") foreach qw(pgvr_stranger monitor);
ok(record($node, 'owned'), '  and nothing is forgotten');
is(query("SET ROLE owner; $forget"), 't', 'the owner can');
is(record($node, 'owned'), undef, '  then it is');
is(query("SET ROLE owner; $forget"), 'f', '  and there is nothing more to forget');
is(vacuum($node, 'owned')->{from}, 0, '  and the next vacuum starts over');
foreach my $role (qw(member postgres))
{
	query('UPDATE owned SET v = v + 1');
	slowly('VACUUM (MAX_DURATION 1) owned');
	is(query("SET ROLE $role; $forget"), 't', "$role can");
}
is(query('SELECT vacuum_resume.forget(NULL) IS NULL'), 't', 'nothing is forgotten of no table');
is(query(q{SELECT vacuum_resume.forget('pg_views')}), 'f', '  or of a view');
fails(q{SELECT vacuum_resume.forget('no_table')}, 'relation "no_table" does not exist', '  or of nobody');
fails(q{SELECT vacuum_resume.forget(4294967295)}, 'relation with OID 4294967295 does not exist',
	'  or of a table that is gone');

# Settings
foreach my $setting ('enabled = off', 'min_table_size = 0', "save_interval = '1s'")
{
	my ($name) = $setting =~ /^(\w+)/;
	fails("SET ROLE pgvr_stranger; SET vacuum_resume.$setting",
		qq{permission denied to set parameter "vacuum_resume.$name"}, "a stranger sets $name");
}
fails(q{SET vacuum_resume.store_size = '1GB'}, 'parameter "vacuum_resume.store_size" cannot be changed without restarting the server',
	'store_size is the server\'s');
is(query(q{SET ROLE pgvr_stranger; SET vacuum_resume.mode = restart; SET vacuum_resume.max_duration = '1min';
	SELECT current_setting('vacuum_resume.mode'), current_setting('vacuum_resume.max_duration')}),
	'restart|1min', 'mode and max_duration are everybody\'s');
fails(q{SET vacuum_resume.mode = 'wrap'}, 'invalid value for parameter "vacuum_resume.mode": "wrap"',
	'  within what there is');

###############################################################################
# forget, and a vacuum that is under way
###############################################################################

make_table($node, 'busy', pages => 300, dead => 'k % 3 = 0');
my $holder = hold_block($node, 'busy', 250);
my $vacuum = start_vacuum($node, 'busy', options => 'FREEZE', set => [$Resume::saving]);
wait_for_pin_wait($node, 'busy', 'scanning heap');

# who may not, is told so at once, and does not come to the lock
fails(q{SET lock_timeout = '1ms'; SET ROLE pgvr_stranger; SELECT vacuum_resume.forget('busy')},
	'must be owner of table busy', 'who may not forget does not wait');
my $job = start_sql($node, q{SELECT vacuum_resume.forget('busy')});
ok($node->poll_query_until('postgres',
		q{SELECT count(*) FROM pg_locks WHERE relation = 'busy'::regclass AND NOT granted AND mode = 'ShareUpdateExclusiveLock'}, 1),
	'who may, waits for the vacuum');
stop_vacuum($node, 'busy', vacuum => $vacuum, way => 'cancel', phase => 'scanning heap', holder => $holder);
my ($status, $stderr) = finish_sql($job);
is("$status$stderr$job->{stdout}", "0t\n", '  and then there is something to forget');
is(record($node, 'busy'), undef, '  and it is forgotten');
is(vacuum($node, 'busy')->{from}, 0, '  so that the next one starts over');
Oracle::table_ok($node, 'postgres', 'busy');

only_asked_for_crashes($node);
$node->stop;

done_testing();
