# What our pass writes to WAL is the server's own: a standby without our library
# replays all of it, compares every page with the primary's as it does, takes
# part in recovery conflicts as ever, and a primary that crashes in the middle of
# a vacuum recovers.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Oracle;
use Pass;

my $primary = new_node(
	'primary',
	init => { allows_streaming => 1 },
	conf => <<'EOC');
wal_consistency_checking = 'all'
max_parallel_maintenance_workers = 2
min_parallel_index_scan_size = 0
max_wal_size = 2GB
wal_keep_size = 2GB
checkpoint_timeout = 1h
EOC
Oracle::prepare($primary, 'postgres');
$primary->backup('base');

my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', <<'EOC');
shared_preload_libraries = ''
max_standby_streaming_delay = -1
wal_receiver_status_interval = 1
EOC
$standby->start;

sub catch_up
{
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
	return;
}

# The rows of the table, and what the visibility map and the pages' own flags say,
# as a hash of it all
sub contents
{
	my ($node, $table) = @_;
	return $node->safe_psql(
		'postgres', qq{
		SELECT count(*), sum(hashtextextended(t::text, 0)) FROM $table t;
		SELECT count(*), sum(hashtextextended(m::text, 0)),
			count(*) FILTER (WHERE all_visible), count(*) FILTER (WHERE all_frozen)
		FROM pg_visibility('$table') m;});
}

###############################################################################
# A mix of vacuums
###############################################################################

my @tables;
my $begin = $primary->lsn('insert');

# Makes a table, and does things to it. With pages in WAL for comparison that
# would be much of it, and it is not what is tested.
sub make
{
	my ($sql) = @_;

	$primary->safe_psql('postgres', "SET wal_consistency_checking = ''; $sql");
	return;
}

# Makes a table and vacuums it, which the standby replays.
sub replay
{
	my ($table, $sql, @vacuums) = @_;

	make($sql);
	my $position = log_end($primary);
	$primary->safe_psql('postgres', $_) for @vacuums;
	is((grep { $_ eq "public.$table" } our_passes($primary, $position)),
		scalar(grep { /VACUUM/ } @vacuums),
		"$table: our pass ran");
	push @tables, $table;
	return;
}

replay(
	'all_indexes', q{
	CREATE TABLE all_indexes (id int, a int[], p point, t text);
	INSERT INTO all_indexes
	SELECT i, ARRAY[i % 100, i % 77], point(i, i % 50), 'text ' || i
	FROM generate_series(1, 3000) i;
	CREATE INDEX ON all_indexes (id);
	CREATE INDEX ON all_indexes USING hash (id);
	CREATE INDEX ON all_indexes USING gin (a);
	CREATE INDEX ON all_indexes USING gist (p);
	CREATE INDEX ON all_indexes USING spgist (t);
	CREATE INDEX ON all_indexes USING brin (id);
	INSERT INTO all_indexes SELECT i, ARRAY[i], point(i, i), 'more ' || i FROM generate_series(1, 300) i;
	DELETE FROM all_indexes WHERE id % 3 = 0;
}, 'VACUUM all_indexes', 'DELETE FROM all_indexes WHERE id % 3 = 1',
	'VACUUM (PARALLEL 2) all_indexes');

replay(
	'cycles', q{
	CREATE TABLE cycles (id int);
	INSERT INTO cycles SELECT generate_series(1, 200000);
	CREATE INDEX ON cycles (id);
	DELETE FROM cycles WHERE id % 100 <> 0;
}, "SET maintenance_work_mem = '1MB'; VACUUM cycles");

replay(
	'no_index', q{
	CREATE TABLE no_index (id int, t text);
	INSERT INTO no_index SELECT i, repeat('x', 200) FROM generate_series(1, 2000) i;
	DELETE FROM no_index WHERE id % 5 = 0;
	SELECT count(*) FROM no_index;
	DELETE FROM no_index WHERE id BETWEEN 500 AND 600;
}, 'VACUUM no_index', 'VACUUM (FREEZE) no_index');

replay(
	'hot', q{
	CREATE TABLE hot (id int PRIMARY KEY, n int) WITH (fillfactor = 50);
	INSERT INTO hot SELECT i, 0 FROM generate_series(1, 2000) i;
	UPDATE hot SET n = n + 1;
	UPDATE hot SET n = n + 1 WHERE id % 2 = 0;
	UPDATE hot SET n = n + 1 WHERE id % 4 = 0;
	DELETE FROM hot WHERE id % 7 = 0;
}, 'VACUUM hot', 'UPDATE hot SET n = n + 1 WHERE id % 5 = 0', 'VACUUM (FREEZE) hot');

replay(
	'tail', q{
	CREATE TABLE tail (id int PRIMARY KEY);
	INSERT INTO tail SELECT generate_series(1, 20000);
	DELETE FROM tail WHERE id > 3000;
}, 'VACUUM tail');
cmp_ok($primary->safe_psql('postgres', "SELECT pg_relation_size('tail')"),
	'<', 200_000, 'tail: is truncated');

replay(
	'toasted', q{
	CREATE TABLE toasted (id int PRIMARY KEY, t text);
	ALTER TABLE toasted ALTER t SET STORAGE EXTERNAL;
	INSERT INTO toasted SELECT i, repeat(i::text, 3000) FROM generate_series(1, 100) i;
	DELETE FROM toasted WHERE id % 2 = 0;
	UPDATE toasted SET t = 'short' WHERE id % 3 = 0;
}, 'VACUUM toasted', 'VACUUM (FREEZE) toasted');

replay(
	'aborted', q{
	CREATE TABLE aborted (id int PRIMARY KEY);
	INSERT INTO aborted SELECT generate_series(1, 1000);
	BEGIN;
	INSERT INTO aborted SELECT generate_series(1001, 3000);
	UPDATE aborted SET id = -id WHERE id < 100;
	ROLLBACK;
}, 'VACUUM aborted');

replay(
	'visible', q{
	CREATE TABLE visible (id int PRIMARY KEY, t text);
	INSERT INTO visible SELECT i, repeat('x', 200) FROM generate_series(1, 3000) i;
}, 'VACUUM visible', 'DELETE FROM visible WHERE id % 1000 = 0', 'VACUUM visible',
	'VACUUM (INDEX_CLEANUP on) visible', 'DELETE FROM visible WHERE id % 500 = 0',
	'VACUUM (INDEX_CLEANUP off) visible', 'VACUUM (DISABLE_PAGE_SKIPPING) visible');

# Two sessions lock rows, one updates some of them: multixacts, some of which
# have an update in them
$primary->safe_psql(
	'postgres', q{
	CREATE TABLE multi (id int PRIMARY KEY, n int);
	INSERT INTO multi SELECT i, 0 FROM generate_series(1, 500) i;});
my @lockers = map { $primary->background_psql('postgres') } 1 .. 2;
$_->query_safe('BEGIN; SELECT count(*) FROM (SELECT id FROM multi FOR KEY SHARE) m') for @lockers;
$lockers[0]->query_safe('UPDATE multi SET n = n + 1 WHERE id % 2 = 0');
$_->query_safe('COMMIT') for @lockers;
$_->quit for @lockers;
replay('multi', 'DELETE FROM multi WHERE id % 5 = 0', 'VACUUM multi',
	'SET vacuum_multixact_freeze_min_age = 0; VACUUM (FREEZE) multi');

$primary->safe_psql('postgres', 'VACUUM (FREEZE)');
$primary->safe_psql(
	'postgres', q{
	CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY);
	INSERT INTO unlogged SELECT generate_series(1, 1000);
	DELETE FROM unlogged WHERE id % 2 = 0;
	VACUUM unlogged;});
Oracle::table_ok($primary, 'postgres', 'unlogged', 'unlogged: sound on the primary');

catch_up();

# Every kind of record that a vacuum writes was among it.
$primary->safe_psql('postgres', 'CREATE EXTENSION pg_walinspect');
my %written = map { $_ => 1 } split /\n/, $primary->safe_psql(
	'postgres', qq{
	SELECT "resource_manager/record_type"
	FROM pg_get_wal_stats_till_end_of_wal('$begin', true) WHERE count > 0});
is_deeply(
	[
		grep { !$written{$_} }
		  qw(Heap2/PRUNE Heap2/VACUUM Heap2/FREEZE_PAGE Heap2/VISIBLE Storage/TRUNCATE
		  Heap/INPLACE Btree/VACUUM Btree/UNLINK_PAGE Hash/DELETE Gin/VACUUM_PAGE
		  Gist/PAGE_UPDATE SPGist/VACUUM_LEAF)
	],
	[],
	'WAL has every kind of record of a vacuum') or diag(join ' ', sort keys %written);

for my $table (@tables)
{
	Oracle::table_ok($primary, 'postgres', $table, "$table: sound on the primary");
	Oracle::table_ok($standby, 'postgres', $table, "$table: sound on the standby");
	is(contents($standby, $table), contents($primary, $table), '  with the same contents');
}

###############################################################################
# Recovery conflicts
###############################################################################

$standby->safe_psql('postgres', "ALTER SYSTEM SET max_standby_streaming_delay = 0");
$standby->reload;
$standby->poll_query_until('postgres', 'SHOW max_standby_streaming_delay', '0')
  or die 'reload had no effect';

sub conflicts
{
	my ($kind) = @_;
	return $standby->safe_psql('postgres',
		"SELECT confl_$kind FROM pg_stat_database_conflicts WHERE datname = current_database()");
}

# A session on the standby takes a snapshot (or what else $hold takes); then
# $after is done on the primary and the table vacuumed. Returns what becomes of
# the session.
sub fate_of_session
{
	my ($table, %case) = @_;

	make(
		qq{
		SET vacuum_resume.enabled = $case{enabled};
		CREATE TABLE $table (id int, n int);
		INSERT INTO $table SELECT i, 0 FROM generate_series(1, 500) i;
		$case{before}});
	catch_up();

	my %counted = map { $_ => conflicts($_) } qw(snapshot lock);
	my $session = $standby->background_psql('postgres', on_error_stop => 0);
	my $position = log_end($standby);
	$session->query_safe($case{hold});
	$primary->safe_psql('postgres', $case{after});
	$primary->safe_psql('postgres', "SET vacuum_resume.enabled = $case{enabled}; $case{vacuum}");
	catch_up();

	# Nothing but an error comes from a session that was terminated
	my ($answer, $failed) = eval { $session->query('SELECT 1') };
	eval { $session->quit };
	return 'lives' if defined $answer && $answer eq '1' && !$failed;

	my ($reason) = log_since($standby, $position) =~
	  /terminating connection due to conflict with recovery\n.*DETAIL:  (.*)/;
	my $kind = !defined $reason ? ''
	  : $reason =~ /row versions that must be removed/ ? 'snapshot'
	  : $reason =~ /relation lock for too long/ ? 'lock'
	  : '';
	return 'is lost, and the log does not say why' unless $kind;
	$standby->poll_query_until('postgres',
		"SELECT confl_$kind FROM pg_stat_database_conflicts WHERE datname = current_database()",
		$counted{$kind} + 1)
	  or return "conflict ($kind) is not counted";
	return "conflict ($kind)";
}

my $snapshot = 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 0';
my $burn = 'SELECT pg_current_xact_id(); SELECT pg_current_xact_id(); SELECT pg_current_xact_id();';

# The kinds of record that a vacuum writes with a horizon, each on the side
# where it conflicts and on the one where it does not
my @cases = (
	{
		what => 'rows deleted after the snapshot are removed',
		after => 'DELETE FROM TABLE WHERE id % 2 = 0',
		expected => 'conflict (snapshot)',
	},
	{
		what => 'rows deleted before the snapshot are removed',
		before => 'DELETE FROM TABLE WHERE id % 2 = 0;',
		expected => 'lives',
	},
	{
		what => 'rows with index entries deleted before the snapshot are removed',
		before => 'CREATE INDEX ON TABLE (id); DELETE FROM TABLE WHERE id % 2 = 0;',
		expected => 'lives',
	},
	{
		what => 'rows that never were are removed',
		before => 'CREATE INDEX ON TABLE (id);',
		after => 'BEGIN; INSERT INTO TABLE SELECT 0, 0 FROM generate_series(1, 100); ROLLBACK;',
		expected => 'lives',
	},
	{
		what => 'a page with rows newer than the snapshot becomes all-visible',
		after => 'INSERT INTO TABLE VALUES (0, 0)',
		expected => 'conflict (snapshot)',
	},
	{
		what => 'pages with rows older than the snapshot become all-visible',
		after => $burn,
		expected => 'lives',
	},
	{
		what => 'rows are frozen by a cutoff later than the snapshot',
		after => $burn,
		vacuum => 'VACUUM (FREEZE) TABLE',
		expected => 'conflict (snapshot)',
	},
	{
		what => 'rows are frozen by a cutoff before the snapshot',
		before => 'SELECT pg_current_xact_id();',
		vacuum => 'VACUUM (FREEZE) TABLE',
		expected => 'lives',
	},
	{
		what => 'nothing is left to be frozen',
		before => 'VACUUM (FREEZE) TABLE;',
		after => $burn,
		vacuum => 'VACUUM (FREEZE, DISABLE_PAGE_SKIPPING) TABLE',
		expected => 'lives',
	},
	{
		what => 'pages are truncated that the session does not use',
		before => 'DELETE FROM TABLE WHERE id > 10;',
		expected => 'lives',
	},
	{
		what => 'pages are truncated of a table that the session uses',
		before => 'DELETE FROM TABLE WHERE id > 10;',
		hold => 'BEGIN; LOCK TABLE TABLE IN ACCESS SHARE MODE;',
		expected => 'conflict (lock)',
	});
my $number = 0;

for my $case (@cases)
{
	$number++;
	for my $enabled ('off', 'on')
	{
		my $table = "conflict_${number}_$enabled";
		my %case = (
			before => '',
			after => '',
			hold => $snapshot,
			vacuum => 'VACUUM TABLE',
			enabled => $enabled,
			%$case);
		my $position = log_end($primary);

		s/\bTABLE (?=\(|SELECT|VALUES|WHERE|IN )|\bTABLE(?=;|$)/$table /g for values %case;
		is(fate_of_session($table, %case), $case->{expected},
			"enabled = $enabled, $case->{what}: $case->{expected}");
		is( scalar(grep { $_ eq "public.$table" } our_passes($primary, $position)) > 0,
			$enabled eq 'on', '  who vacuumed');
	}
}

# Feedback from the standby keeps the rows that its session may need
$standby->safe_psql('postgres', 'ALTER SYSTEM SET hot_standby_feedback = on');
$standby->reload;
$primary->safe_psql('postgres',
	'CREATE TABLE fed_back (id int); INSERT INTO fed_back SELECT generate_series(1, 500);');
catch_up();
my $before = conflicts('snapshot');
my $session = $standby->background_psql('postgres');
$session->query_safe("$snapshot FROM fed_back LIMIT 1");
my $xmin = $standby->safe_psql('postgres',
	"SELECT backend_xmin FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid() AND backend_type = 'client backend'");
$primary->poll_query_until('postgres',
	"SELECT backend_xmin = '$xmin' FROM pg_stat_replication")
  or die 'no feedback';
$primary->safe_psql('postgres', 'DELETE FROM fed_back WHERE id % 2 = 0');
my (undef, undef, $verbose) = $primary->psql('postgres', 'VACUUM (VERBOSE) fed_back');
like($verbose, qr/tuples: 0 removed, 500 remain, 250 are dead but not yet removable/,
	'feedback: rows that the standby may need stay');
catch_up();
is($session->query_safe('SELECT count(*) FROM fed_back'), '500', '  and it sees them');
$session->query_safe('COMMIT');
$session->quit;
is(conflicts('snapshot'), $before, '  no conflict');
$primary->poll_query_until('postgres',
	"SELECT backend_xmin IS NULL OR backend_xmin::text::bigint > $xmin FROM pg_stat_replication")
  or die 'feedback does not end';
(undef, undef, $verbose) = $primary->psql('postgres', 'VACUUM (VERBOSE) fed_back');
like($verbose, qr/tuples: 250 removed, 250 remain, 0 are dead/, '  until nobody does');
$standby->safe_psql('postgres', 'ALTER SYSTEM RESET hot_standby_feedback');
$standby->reload;
$primary->poll_query_until('postgres', 'SELECT backend_xmin IS NULL FROM pg_stat_replication')
  or die 'feedback does not end';

###############################################################################
# The primary crashes in the middle of a vacuum
###############################################################################

for my $phase ('scanning heap', 'vacuuming indexes', 'vacuuming heap')
{
	my $table = 'crash_' . $phase =~ s/\W/_/gr;
	my ($vacuum, $condition, $holder) = ("VACUUM $table", 'true');

	make(
		qq{
		CREATE TABLE $table (k int, filler text);
		ALTER TABLE $table ALTER filler SET STORAGE PLAIN;
		INSERT INTO $table SELECT i, repeat('x', 3000) FROM generate_series(1, 400) i;
		CREATE INDEX ${table}_k ON $table (k);
		CREATE INDEX ON $table USING hash (k);
		VACUUM $table;
		DELETE FROM $table WHERE k <= 300 AND k % 2 = 0;});
	if ($phase eq 'scanning heap')
	{
		($vacuum, $condition) = ("$Pass::slow_pages $vacuum", 'heap_blks_scanned > 2');
	}
	elsif ($phase eq 'vacuuming indexes')
	{
		$holder = hold_index_page($primary, "SELECT k FROM $table WHERE k >= 350 ORDER BY k");
		$condition = "EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'BufferPin')";
	}
	else
	{
		$primary->safe_psql('postgres', "VACUUM (INDEX_CLEANUP off) $table; CHECKPOINT;");
		($vacuum, $condition) =
		  ("$Pass::slow_changes VACUUM (INDEX_CLEANUP on) $table", 'heap_blks_vacuumed > 2');
	}

	my $job = start_sql($primary, $vacuum);
	wait_for_phase($primary, $table, $phase, $condition);

	# A commit takes the vacuum's WAL with it to disk.
	$primary->safe_psql('postgres', 'CREATE TABLE flush (); DROP TABLE flush;');
	$primary->stop('immediate');
	isnt((finish_sql($job))[0], 0, "crash while $phase");
	eval { $holder->quit } if $holder;
	$primary->start;

	Oracle::table_ok($primary, 'postgres', $table, '  recovery leaves a sound table');
	is($primary->safe_psql('postgres', "SELECT count(*) FROM $table"), '250', '  with all its rows');
	my $position = log_end($primary);
	$primary->safe_psql('postgres', "VACUUM $table");
	is((our_passes($primary, $position))[0], "public.$table", '  which is vacuumed again');
	Oracle::table_ok($primary, 'postgres', $table, '  and still sound');
	catch_up();
	Oracle::table_ok($standby, 'postgres', $table, '  as on the standby');
	is(contents($standby, $table), contents($primary, $table), '  with the same contents');
}
is($primary->safe_psql('postgres', 'SELECT count(*) FROM unlogged; VACUUM unlogged;'),
	'0', 'an unlogged table is empty after a crash, and can be vacuumed');

# The standby takes over, without our library
$primary->stop;
$standby->promote;
$standby->safe_psql('postgres', "DELETE FROM $_ WHERE id % 11 = 0; VACUUM $_;") for @tables;
Oracle::table_ok($standby, 'postgres', $_, "$_: sound after the standby took over") for @tables;
$standby->stop;

for my $node ($primary, $standby)
{
	unlike(slurp_file($node->logfile), qr/inconsistent page|PANIC|terminated by signal/,
		$node->name . ' found nothing wrong in WAL');
}

done_testing();
