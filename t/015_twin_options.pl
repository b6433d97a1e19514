
# Twins (see Twin.pm): the options of VACUUM, the settings and storage parameters
# that steer it, and commands that vacuum nothing.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use Twin;

my $twin = Twin->new('options');

# Wide rows, an index, dead rows everywhere and an empty tail, so that every
# option has something to decide.
sub table_of
{
	my ($name, $with, $columns) = @_;

	$with = $with ? "WITH ($with)" : '';
	$columns ||= 'a int PRIMARY KEY, b int, c text';
	$twin->build(qq{
		CREATE TABLE $name ($columns) $with;
		ALTER TABLE $name ALTER c SET STORAGE external;
		INSERT INTO $name SELECT i, i % 10, repeat('x', CASE WHEN i % 20 = 0 THEN 5000 ELSE 100 END)
		FROM generate_series(1, 3000) AS i;
		UPDATE $name SET b = b + 1 WHERE a % 7 = 0;
		INSERT INTO $name SELECT i, 0, repeat('y', 100) FROM generate_series(3001, 3600) AS i;
		DELETE FROM $name WHERE a % 9 = 0 OR a > 3000;
	});
	return;
}

my @options = (
	[ 'default', '' ],
	[ 'freeze', 'FREEZE', qr/aggressively vacuuming/ ],
	[ 'freeze_off', 'FREEZE off' ],
	[ 'all_pages', 'DISABLE_PAGE_SKIPPING', qr/aggressively vacuuming/ ],
	[ 'cleanup_off', 'INDEX_CLEANUP off', qr/index scan bypassed/ ],
	[ 'cleanup_on', 'INDEX_CLEANUP on', qr/index scan needed/ ],
	[ 'cleanup_auto', 'INDEX_CLEANUP auto' ],
	[ 'truncate_off', 'TRUNCATE off', qr/options_truncate_off": index scans: 1\npages: 0 removed/ ],
	[ 'truncate_on', 'TRUNCATE on', qr/table "options_truncate_on": truncated/ ],
	[ 'toast_off', 'PROCESS_TOAST off', qr/\A(?!.*pg_toast)/s ],
	[ 'toast_on', 'PROCESS_TOAST on', qr/pg_toast/ ],
	[ 'skip_locked', 'SKIP_LOCKED' ],
	[ 'analyze', 'ANALYZE', qr/analyzing "public.options_analyze"/ ],
	[ 'parallel_0', 'PARALLEL 0' ],
	[ 'everything', 'FREEZE, DISABLE_PAGE_SKIPPING, INDEX_CLEANUP off, TRUNCATE off, PROCESS_TOAST off, SKIP_LOCKED, ANALYZE, PARALLEL 1',
		qr/aggressively vacuuming/ ],
	[ 'freeze_cleanup_off', 'FREEZE, INDEX_CLEANUP off', qr/index scan bypassed/ ]);
table_of("options_$_->[0]") foreach @options;

# Storage parameters that say the same, and the option against the parameter
my @parameters = (
	[ 'cleanup_off', 'vacuum_index_cleanup = off', qr/index scan bypassed/ ],
	[ 'cleanup_auto', 'vacuum_index_cleanup = auto' ],
	[ 'truncate_off', 'vacuum_truncate = off', qr/parameter_truncate_off": index scans: 1\npages: 0 removed/ ],
	[ 'toast_off', 'toast.vacuum_truncate = off, toast.vacuum_index_cleanup = off', qr/pg_toast.*index scan bypassed/s ],
	[ 'freeze', 'autovacuum_freeze_min_age = 0, autovacuum_freeze_table_age = 0', qr/INFO:  vacuuming/ ]);
table_of("parameter_$_->[0]", $_->[1]) foreach @parameters;

# Settings
my @settings = (
	[ 'freeze_min_age', [ 'vacuum_freeze_min_age = 0' ] ],
	[ 'freeze_table_age', [ 'vacuum_freeze_table_age = 0' ], qr/aggressively vacuuming/ ],
	[ 'multi_table_age', [ 'vacuum_multixact_freeze_table_age = 0' ] ],
	[ 'work_mem', [ "maintenance_work_mem = '64MB'" ] ],
	[ 'io_timing', ['track_io_timing = on'], qr/I\/O timings/ ],
	[ 'cost_delay', [ 'vacuum_cost_delay = 1', 'vacuum_cost_limit = 500' ] ],
	[ 'wal_compression', ["wal_compression = 'pglz'"] ],
	[ 'read_only', ['default_transaction_read_only = on'] ],
	[ 'no_counts', ['track_counts = off'] ]);
table_of("setting_$_->[0]") foreach @settings;

# Other ways to say it
table_of($_)
  foreach
  qw(old_syntax old_freeze several_1 several_2 silent rewritten locked unlocked in_block others again columns dead_again talkative);
$twin->build(q{
	CREATE VIEW a_view AS SELECT 1;
	CREATE SEQUENCE a_sequence;
	CREATE ROLE pgvr_stranger;
	CREATE SCHEMA "Odd ""schema""";
	CREATE TABLE "Odd ""schema"""."odd 'table'" (a int PRIMARY KEY);
	INSERT INTO "Odd ""schema"""."odd 'table'" SELECT generate_series(1, 1000);
	DELETE FROM "Odd ""schema"""."odd 'table'" WHERE a % 3 = 0;
});

$twin->separate;

foreach my $option (@options)
{
	my ($name, $options, $premise) = @$option;
	$twin->vacuum($options || 'no option', table => "options_$name", options => $options, premise => $premise);
}
foreach my $parameter (@parameters)
{
	my ($name, $with, $premise) = @$parameter;
	$twin->vacuum("storage parameters: $with", table => "parameter_$name", premise => $premise);
}
$twin->vacuum('an option overrides vacuum_truncate', table => 'parameter_truncate_off',
	options => 'TRUNCATE on', premise => qr/truncated/);
foreach my $setting (@settings)
{
	my ($name, $set, $premise) = @$setting;
	$twin->vacuum("SET @$set", table => "setting_$name", set => $set, premise => $premise);
}

$twin->vacuum('VACUUM VERBOSE', table => 'old_syntax', command => 'VACUUM VERBOSE old_syntax');
$twin->vacuum('VACUUM FREEZE VERBOSE ANALYZE', table => 'old_freeze', command => 'VACUUM FREEZE VERBOSE ANALYZE old_freeze');
$twin->vacuum('several tables', table => [ 'several_1', 'several_2' ], premise => qr/several_1.*several_2/s);
$twin->vacuum('the same table twice in one command', table => 'dead_again',
	command => 'VACUUM (VERBOSE) dead_again, dead_again', premise => qr/(finished vacuuming "postgres.public.dead_again".*){2}/s);
$twin->vacuum('with columns to analyze', table => 'columns', command => 'VACUUM (VERBOSE, ANALYZE) columns (a, b)');
$twin->vacuum('a name that needs quotes', table => q{"Odd ""schema"""."odd 'table'"},
	command => q{VACUUM (VERBOSE) "Odd ""schema"""."odd 'table'"});
foreach my $time ('first', 'second', 'third')
{
	$twin->vacuum("one after the other: the $time", table => 'again',
		premise => $time eq 'first' ? qr/index scans: 1/ : qr/\A(?!.*index scans: 1)/s);
	$twin->sql('INSERT INTO again VALUES (9999)') if $time eq 'second';
}

# Debug messages are the server's, too.
$twin->vacuum('debug messages', table => 'talkative', set => ['client_min_messages = debug2'],
	premise => [ qr/DEBUG:  scanned index "talkative_pkey" to remove \d+ row versions/, qr/DEBUG:  table "talkative": removed \d+ dead/ ]);
$twin->vacuum('debug messages of nothing to do', table => 'talkative', set => ['client_min_messages = debug2']);

# Without VERBOSE it says nothing, and does the same.
$twin->same_answers('not VERBOSE', 'VACUUM silent');
$twin->vacuum('nothing is left to do afterwards', table => 'silent', premise => qr/index scans: 0/);

# VACUUM FULL does not come our way, and what it leaves does.
$twin->vacuum('FULL', table => 'rewritten', options => 'FULL', skipped => 1, premise => qr/found \d+ removable/);
$twin->vacuum('after FULL', table => 'rewritten', premise => qr/index scans: 0/);

# Locks, permissions, and what cannot be vacuumed
$twin->session('holder', 'BEGIN; LOCK TABLE locked IN SHARE MODE');
$twin->vacuum('SKIP_LOCKED, and it is locked', table => [ 'locked', 'unlocked' ], options => 'SKIP_LOCKED',
	premise => [ qr/WARNING:  skipping vacuum of "locked" --- lock not available/, qr/finished vacuuming "postgres.public.unlocked"/ ]);
$twin->end_session('holder');
$twin->vacuum('SKIP_LOCKED, and it is not', table => 'locked', options => 'SKIP_LOCKED',
	premise => qr/finished vacuuming "postgres.public.locked"/);

$twin->vacuum('another owner', command => 'VACUUM (VERBOSE) others', set => ['ROLE pgvr_stranger'], skipped => 1,
	premise => qr/WARNING:  skipping "others" --- only table or database owner can vacuum it/);
$twin->vacuum('a view', command => 'VACUUM (VERBOSE) a_view', skipped => 1,
	premise => qr/WARNING:  skipping "a_view" --- cannot vacuum non-tables/);
$twin->vacuum('a sequence', command => 'VACUUM (VERBOSE) a_sequence', skipped => 1,
	premise => qr/WARNING:  skipping "a_sequence"/);
foreach my $wrong (
	[ 'no such table', 'VACUUM no_such_table', qr/relation "no_such_table" does not exist/ ],
	[ 'in a transaction block', 'BEGIN; VACUUM in_block; ROLLBACK', qr/VACUUM cannot run inside a transaction block/ ],
	[ 'in a function', "DO 'BEGIN VACUUM in_block; END'", qr/VACUUM cannot be executed from a function/ ],
	[ 'an unknown option', 'VACUUM (VERBOSE, FAST) in_block', qr/unrecognized VACUUM option "fast".*\^/s ],
	[ 'a wrong value', 'VACUUM (PARALLEL 2000) in_block', qr/parallel workers for vacuum must be between 0 and 1024/ ],
	[ 'options that exclude each other', 'VACUUM (FULL, PARALLEL 2) in_block', qr/VACUUM FULL cannot be performed in parallel/ ])
{
	my ($name, $command, $message) = @$wrong;
	$twin->vacuum("error: $name", command => $command, skipped => 1, fails => $message);
}
$twin->vacuum('the errors left no trace', table => 'in_block', premise => qr/index scans: 1/);

$twin->finish;
done_testing();
