# Autovacuum workers go through our pass, report as ever, give way to others as
# ever, and do not where wraparound is near.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use Oracle;
use Pass;

# Nothing is vacuumed at first: each table is let go when its turn comes.
my $node = new_node('autovacuum', conf => <<'EOC');
autovacuum = on
autovacuum_naptime = 1
autovacuum_vacuum_threshold = 1000000
autovacuum_vacuum_insert_threshold = -1
autovacuum_analyze_threshold = 1000000
autovacuum_freeze_max_age = 100000
autovacuum_vacuum_cost_delay = 0
log_autovacuum_min_duration = 0
deadlock_timeout = 100ms
EOC
my $now = 'autovacuum_vacuum_threshold = 1, autovacuum_vacuum_scale_factor = 0';
my $slowly = 'autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1';
my $started = $node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()');

Oracle::prepare($node, 'postgres');

# What autovacuum reports of a table since position, from the words "automatic
# ..." to the end, less what depends on time, transactions and the cache
sub report
{
	my ($table, $position) = @_;
	my $log = log_since($node, $position);
	my ($text) = $log =~ /LOG:  (automatic [^\n]* of table "postgres\.\Q$table\E".*?system usage: )/s;

	return '' unless defined $text;
	$text =~ s/\Q$table\E/TABLE/g;
	$text =~ s/\w+_(k|gin|hash)"/INDEX_$1"/g;
	$text =~ s/^\t(avg read rate|buffer usage|WAL usage):.*\n/\t$1\n/mg;
	$text =~ s/(cutoff|relfrozenxid): \d+,(.*) -?\d+ XIDs/$1: N,$2 N XIDs/g;
	return $text;
}

###############################################################################
# A vacuum and its report
###############################################################################

# The same table twice: for the server, and for us
my %report;

for my $enabled ('off', 'on')
{
	my $table = "rows_$enabled";

	$node->safe_psql('postgres', "ALTER SYSTEM SET vacuum_resume.enabled = $enabled");
	$node->reload;
	$node->poll_query_until('postgres', 'SHOW vacuum_resume.enabled', $enabled)
	  or die 'reload had no effect';
	$node->safe_psql(
		'postgres', qq{
		CREATE TABLE $table (k int, a int[]) WITH (autovacuum_enabled = off, $now);
		INSERT INTO $table SELECT i, ARRAY[i % 10, i % 7] FROM generate_series(1, 2000) i;
		CREATE INDEX ${table}_k ON $table (k);
		CREATE INDEX ${table}_gin ON $table USING gin (a);
		CREATE INDEX ${table}_hash ON $table USING hash (k);
		DELETE FROM $table WHERE k % 3 = 0;});

	my $position = log_end($node);
	$node->safe_psql('postgres', "ALTER TABLE $table SET (autovacuum_enabled = on)");
	$node->wait_for_log(
		qr/automatic vacuum of table "postgres\.public\.$table".*?system usage/s, $position);
	$report{$enabled} = report("public.$table", $position);
	is(scalar(grep { $_ eq "public.$table" } our_passes($node, $position)),
		($enabled eq 'on' ? 1 : 0), "enabled = $enabled: who vacuumed");
	is($node->poll_query_until('postgres',
			"SELECT autovacuum_count, n_dead_tup FROM pg_stat_user_tables WHERE relname = '$table'", '1|0'),
		1, '  statistics say that it was autovacuum');
	Oracle::table_ok($node, 'postgres', $table);
}
like(
	$report{on},
	qr/^automatic vacuum of table "postgres\.TABLE": index scans: 1\n\tpages: 0 removed, 17 remain, 17 scanned \(100\.00% of total\)\n\ttuples: 666 removed, 1334 remain/,
	'autovacuum reports what it did');
is($report{on}, $report{off}, '  as the server does, line by line');

# A TOAST table is autovacuum's own job
$node->safe_psql(
	'postgres', q{
	CREATE TABLE wide (k int, t text) WITH (autovacuum_enabled = off, toast.autovacuum_enabled = off,
		toast.autovacuum_vacuum_threshold = 1, toast.autovacuum_vacuum_scale_factor = 0);
	ALTER TABLE wide ALTER t SET STORAGE EXTERNAL;
	INSERT INTO wide SELECT i, repeat('x', 10000) FROM generate_series(1, 50) i;
	DELETE FROM wide WHERE k % 2 = 0;});
my $toast = $node->safe_psql('postgres',
	"SELECT reltoastrelid::regclass FROM pg_class WHERE relname = 'wide'");
my $position = log_end($node);
$node->safe_psql('postgres', 'ALTER TABLE wide SET (toast.autovacuum_enabled = on)');
$node->wait_for_log(qr/automatic vacuum of table "postgres\.\Q$toast\E".*?system usage/s, $position);
is(join(' ', grep { /wide|\Q$toast\E/ } our_passes($node, $position)), $toast,
	'a TOAST table is vacuumed without its table, by us');
like(report($toast, $position), qr/tuples: 150 removed, 150 remain/, '  and reported');
Oracle::table_ok($node, 'postgres', 'wide');

###############################################################################
# Cancelled by others
###############################################################################

# A table that takes a worker 100 ms per page
$node->safe_psql(
	'postgres', qq{
	CREATE TABLE slow (k int, filler text) WITH (autovacuum_enabled = off, $now, $slowly);
	ALTER TABLE slow ALTER filler SET STORAGE PLAIN;
	INSERT INTO slow SELECT i, repeat('x', 7000) FROM generate_series(1, 300) i;
	CREATE INDEX slow_k ON slow (k);
	VACUUM slow;
	DELETE FROM slow WHERE k <= 150;});
$position = log_end($node);
$node->safe_psql('postgres', 'ALTER TABLE slow SET (autovacuum_enabled = on)');
wait_for_phase($node, 'slow', 'scanning heap', 'heap_blks_scanned > 0');
is($node->safe_psql('postgres',
		'SELECT backend_type FROM pg_stat_activity JOIN pg_stat_progress_vacuum USING (pid)'),
	'autovacuum worker', 'a worker is at the table');

my $session = $node->background_psql('postgres');
$session->query_safe("BEGIN; SET LOCAL lock_timeout = '30s'; LOCK TABLE slow");
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_locks
		WHERE relation = 'slow'::regclass AND mode = 'AccessExclusiveLock' AND granted}),
	1, 'a lock request gets the table from it');
my $cancelled = qr/ERROR:  canceling autovacuum task\n.*?CONTEXT:  (.*?)\n\t(.*?)\n/s;
$node->wait_for_log($cancelled, $position);
my ($where, $what) = log_since($node, $position) =~ $cancelled;
like($where, qr/^while scanning block \d+ of relation "public\.slow"$/, 'it says where it was');
is($what, 'automatic vacuum of table "postgres.public.slow"', '  and what it was');
is((grep { /slow/ } our_passes($node, $position))[0], 'public.slow', '  and it was our pass');

# Again in the index, where another session's pin holds the worker. The lock
# request that cancels it now does not conflict with the other session.
$session->query_safe(
	'ALTER TABLE slow SET (autovacuum_enabled = off, autovacuum_vacuum_cost_delay = 0); COMMIT;');
my $holder = hold_index_page($node, 'SELECT k FROM slow WHERE k >= 200 ORDER BY k');
$position = log_end($node);
$node->safe_psql('postgres', 'ALTER TABLE slow SET (autovacuum_enabled = on)');
wait_for_pin_wait($node, 'slow', 'vacuuming indexes');
$session->query_safe(
	"BEGIN; SET LOCAL lock_timeout = '30s'; LOCK TABLE slow IN SHARE UPDATE EXCLUSIVE MODE");
$node->wait_for_log($cancelled, $position);
($where, $what) = log_since($node, $position) =~ $cancelled;
is($where, 'while vacuuming index "slow_k" of relation "public.slow"',
	'in the index it says so');
is($what, 'automatic vacuum of table "postgres.public.slow"', '  and what it was');
$holder->quit;

# When nobody is in its way, it is done
$position = log_end($node);
$session->query_safe('COMMIT');
$node->wait_for_log(qr/automatic vacuum of table "postgres\.public\.slow".*?system usage/s, $position);
like(report('public.slow', $position),
	qr/tuples: \d+ removed, 150 remain.*\n.*\n(.*\n)*\tindex scan needed: 150 pages/,
	'a later worker finishes the table');
is((grep { /slow/ } our_passes($node, $position))[0], 'public.slow', '  with our pass');
Oracle::table_ok($node, 'postgres', 'slow');

###############################################################################
# Wraparound
###############################################################################

# Now everything is in need of an aggressive vacuum: our tables are let go when
# the XIDs are used up, whether or not autovacuum is enabled for them.
$node->safe_psql(
	'postgres', qq{
	CREATE TABLE old (k int) WITH (autovacuum_enabled = off);
	INSERT INTO old SELECT generate_series(1, 1000);
	CREATE INDEX old_k ON old (k);
	DELETE FROM old WHERE k % 2 = 0;
	CREATE TABLE held (k int, filler text) WITH (autovacuum_enabled = off, $slowly);
	ALTER TABLE held ALTER filler SET STORAGE PLAIN;
	INSERT INTO held SELECT i, repeat('x', 7000) FROM generate_series(1, 300) i;});
$position = log_end($node);
burn_xids($node, 101_000);

my $against_wraparound =
  qr/automatic aggressive vacuum to prevent wraparound of table "postgres\.public\.old"/;
$node->wait_for_log(qr/$against_wraparound.*?system usage/s, $position);
like(report('public.old', $position),
	qr/tuples: 500 removed, 500 remain.*\n\tremovable cutoff.*\n\tnew relfrozenxid: N, which is N XIDs ahead of previous value\n/,
	'a vacuum to prevent wraparound is aggressive and says why');
is((grep { $_ eq 'public.old' } our_passes($node, $position))[0], 'public.old', '  it is ours');
cmp_ok($node->safe_psql('postgres', "SELECT age(relfrozenxid) FROM pg_class WHERE relname = 'old'"),
	'<', 100_000, '  and advances relfrozenxid');
Oracle::table_ok($node, 'postgres', 'old');

# This one is not given up for a lock request
wait_for_phase($node, 'held', 'scanning heap', 'heap_blks_scanned > 0');
$position = log_end($node);
my ($rc, undef, $stderr) =
  $node->psql('postgres', "BEGIN; SET lock_timeout = '1s'; LOCK TABLE held");
like($stderr, qr/ERROR:  canceling statement due to lock timeout/,
	'a vacuum to prevent wraparound keeps its lock');
unlike(log_since($node, $position), qr/canceling autovacuum task/, '  and is not cancelled');

# Queued behind it: the table gets its speed back as soon as the vacuum is gone
my $faster = start_sql($node, 'ALTER TABLE held RESET (autovacuum_vacuum_cost_delay)');
$node->poll_query_until('postgres',
	"SELECT count(*) = 1 FROM pg_locks WHERE relation = 'held'::regclass AND NOT granted")
  or die 'ALTER TABLE does not wait';
$node->safe_psql('postgres', 'SELECT pg_cancel_backend(pid) FROM pg_stat_progress_vacuum');
is((finish_sql($faster))[0], 0, '  but somebody who may can cancel it');
$node->wait_for_log(
	qr/automatic aggressive vacuum to prevent wraparound of table "postgres\.public\.held".*?system usage/s,
	$position);
is($node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()'),
	$started, 'the server has been up all the time');

# Failsafe: very far behind, a worker does not care for indexes any more.
# Autovacuum must not come before that, so the limit is low only afterwards.
$node->adjust_conf('postgresql.conf', 'autovacuum_freeze_max_age', '1000000');
$node->restart;
$node->safe_psql('postgres', 'DELETE FROM old WHERE k % 3 = 0');
burn_xids($node, 106_000);
$node->adjust_conf('postgresql.conf', 'autovacuum_freeze_max_age', '100000');
$node->append_conf('postgresql.conf', 'vacuum_failsafe_age = 0');
$position = log_end($node);
$node->restart;
$node->wait_for_log(qr/$against_wraparound.*?system usage/s, $position);
like(
	log_since($node, $position),
	qr/WARNING:  bypassing nonessential maintenance of table "postgres\.public\.old" as a failsafe after 0 index scans/,
	'failsafe is declared');
like(report('public.old', $position),
	qr/index scan bypassed by failsafe: \d+ pages from table \(100\.00% of total\) have 167 dead item identifiers\n/,
	'  and the report says what is left');
is((grep { $_ eq 'public.old' } our_passes($node, $position))[0], 'public.old', '  it is ours');
Oracle::table_ok($node, 'postgres', 'old');

# Whatever autovacuum has reported since our pass was switched on, in any
# database: it went through our pass
my $log = log_since($node, 0) =~ s/.*?vacuuming table "postgres\.public\.rows_on"//sr;
my %ours = map { $_ => 1 } $log =~ /vacuuming table "([^"]+)" with pg_vacuum_resume/g;
my @reported = $log =~ /LOG:  automatic (?:aggressive )?vacuum (?:to prevent wraparound )?of table "([^"]+)"/g;
my @stray = grep { !$ours{$_} && $_ ne 'postgres.public.rows_on' } @reported;
cmp_ok(scalar @reported, '>', 100, 'autovacuum has vacuumed catalogs and more');
is("@stray", '', '  and every table with our pass');
unlike($log, qr/PANIC|terminated by signal/, 'there was no crash');
$node->stop;

done_testing();
