# The library gets in front of every heap vacuum, as far as its settings say,
# shows what a vacuum shows, and leaves nothing behind when it is taken out.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use Pass;

my $node = new_node('attach', conf => 'vacuum_resume.min_table_size = 64MB');

# Vacuums with the settings, and says which tables our pass vacuumed.
sub vacuumed
{
	my ($set, $tables) = @_;
	my $position = log_end($node);

	$node->safe_psql('postgres', "$set; VACUUM $tables");
	return join ' ', our_passes($node, $position);
}

# 100 wide rows of one page each: a table of 100 pages, 800kB. Its TOAST table
# is empty.
$node->safe_psql(
	'postgres', q{
	CREATE TABLE pages (id int, filler text) WITH (fillfactor = 10);
	ALTER TABLE pages ALTER filler SET STORAGE PLAIN;
	INSERT INTO pages SELECT i, repeat('x', 7000) FROM generate_series(1, 100) i;
	CREATE TABLE empty (id int);
	CREATE TABLE parted (id int) PARTITION BY LIST (id);
	CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1);
	INSERT INTO parted VALUES (1);
	CREATE EXTENSION pageinspect;
});
is($node->safe_psql('postgres', "SELECT pg_relation_size('pages')"),
	'819200', 'the table is as large as the tests below take it to be');

# Which tables: by size, by switch
is($node->safe_psql('postgres', 'SHOW vacuum_resume.min_table_size'),
	'64MB', 'setting comes from the configuration file');
is(vacuumed('', 'pages'), '', 'a table below min_table_size is left to the server');
is(vacuumed("SET vacuum_resume.min_table_size = '800kB'", 'pages'),
	'public.pages', 'a table of min_table_size goes through our pass');
is(vacuumed("SET vacuum_resume.min_table_size = '808kB'", 'pages'),
	'', 'a table one page smaller does not');
is( vacuumed(
		"SET vacuum_resume.min_table_size = '800kB'; RESET vacuum_resume.min_table_size",
		'pages'),
	'',
	'RESET brings the configured size back');
is( vacuumed(
		'SET vacuum_resume.min_table_size = 0; SET vacuum_resume.enabled = off',
		'pages'),
	'',
	'enabled = off leaves everything to the server');

# 0 means every table: an empty one, one that is never large, a partition, a
# catalog, a shared catalog, a temporary table
my $all = 'SET vacuum_resume.min_table_size = 0';

is(vacuumed($all, '(PROCESS_TOAST off) pages'), 'public.pages',
	'min_table_size = 0 takes any table');
is(vacuumed($all, 'empty'), 'public.empty', 'also one without a page');
is(vacuumed($all, 'parted'), 'public.parted_1', 'a partitioned table by its partitions');
like(vacuumed($all, 'pg_class'), qr/^pg_catalog\.pg_class\b/, 'a catalog');
like(vacuumed($all, 'pg_database'), qr/^pg_catalog\.pg_database\b/, 'a shared catalog');
like(vacuumed("$all; CREATE TEMP TABLE temp (id int)", 'temp'),
	qr/^pg_temp_\d+\.temp$/, 'a temporary table');
like(
	vacuumed($all, 'pages'),
	qr/^public\.pages pg_toast\.pg_toast_\d+$/,
	'a TOAST table after its table');
is(vacuumed($all, '(FULL) empty'), '', 'VACUUM FULL is not a heap vacuum');

# Changes of the configuration reach sessions that are open
my $session = $node->background_psql('postgres');
my $position = log_end($node);

$session->query_safe('VACUUM empty');
is(join(' ', our_passes($node, $position)), '', 'open session begins with 64MB');
$node->safe_psql('postgres', 'ALTER SYSTEM SET vacuum_resume.min_table_size = 0');
$node->reload;
$node->poll_query_until('postgres', 'SHOW vacuum_resume.min_table_size', '0')
  or die 'reload had no effect';
$session->query_safe("SELECT 1");
$session->query_safe('VACUUM empty');
is(join(' ', our_passes($node, $position)),
	'public.empty', 'ALTER SYSTEM and a reload reach an open session');
$session->quit;
$node->safe_psql('postgres', 'ALTER SYSTEM SET vacuum_resume.enabled = off');
$node->reload;
$node->poll_query_until('postgres', 'SHOW vacuum_resume.enabled', 'off')
  or die 'reload had no effect';
is(vacuumed('', 'empty'), '', 'enabled = off in the configuration file');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET vacuum_resume.enabled');
$node->reload;
$node->poll_query_until('postgres', 'SHOW vacuum_resume.enabled', 'on')
  or die 'reload had no effect';

# Values that no setting takes
for my $case (
	[
		"vacuum_resume.min_table_size = -1",
		qr/-1 8kB is outside the valid range for parameter "vacuum_resume\.min_table_size" \(0 \.\. \d+\)/
	],
	[
		"vacuum_resume.min_table_size = '99TB'",
		qr/invalid value for parameter "vacuum_resume\.min_table_size": "99TB"|is outside the valid range for parameter "vacuum_resume\.min_table_size"/
	],
	[
		"vacuum_resume.min_table_size = '1 page'",
		qr/invalid value for parameter "vacuum_resume\.min_table_size": "1 page"\n.*HINT:  Valid units for this parameter are/
	],
	[
		"vacuum_resume.enabled = maybe",
		qr/parameter "vacuum_resume\.enabled" requires a Boolean value/
	],
	[
		"vacuum_resume.min_tabel_size = 0",
		qr/invalid configuration parameter name "vacuum_resume\.min_tabel_size"/
	])
{
	my ($assignment, $message) = @$case;
	my ($rc, undef, $stderr) = $node->psql('postgres', "SET $assignment");

	is($rc, 3, "SET $assignment is refused");
	like($stderr, $message, '  by its name and what is wrong');
}

# Whose settings these are
$node->safe_psql('postgres', 'CREATE ROLE plain');
for my $assignment ('vacuum_resume.enabled = off', 'vacuum_resume.min_table_size = 0')
{
	my ($rc, undef, $stderr) =
	  $node->psql('postgres', "SET ROLE plain; SET $assignment");

	like($stderr, qr/permission denied to set parameter "vacuum_resume\.\w+"/,
		"only a superuser can SET $assignment");
}

# One version everywhere
$node->safe_psql('postgres', 'CREATE EXTENSION pg_vacuum_resume');
my $version = $node->safe_psql('postgres', 'SELECT vacuum_resume.version()');
like($version, qr/^\d+\.\d+/, 'version of the library');
is( $node->safe_psql('postgres', "SELECT extversion FROM pg_extension WHERE extname = 'pg_vacuum_resume'"),
	join('.', (split /\./, $version)[ 0, 1 ]),
	'version of the extension is the same');
command_like([ 'pg_vacuum_resume', '--version' ],
	qr/^pg_vacuum_resume .*\Q$version\E/, 'version of the tool is the same');
command_like([ 'pg_vacuum_resume', '--help' ], qr/^Usage:/m, 'the tool has help');

# The progress view, phase by phase. The lower half of the table is deleted;
# the rest is all-visible, which the index-only scan below needs for its pin to
# be on the index alone.
$node->safe_psql(
	'postgres', q{
	CREATE TABLE watched (k int, filler text) WITH (fillfactor = 10);
	INSERT INTO watched SELECT i, repeat('x', 700) FROM generate_series(1, 400) i;
	CREATE INDEX watched_k ON watched (k);
	CREATE INDEX watched_k2 ON watched (k, filler);
	VACUUM watched;
	DELETE FROM watched WHERE k <= 100;
});
my $blocks = $node->safe_psql('postgres',
	"SELECT pg_relation_size('watched') / current_setting('block_size')::int");
my @numbers = qw(heap_blks_total heap_blks_scanned heap_blks_vacuumed
  index_vacuum_count num_dead_tuples);

# A pin on the page of row 100 stops the scan there, a pin on the index's leaf
# page stops the index vacuum.
my $heap_pin = hold_heap_page($node, "SELECT k FROM watched WHERE k >= 150");
my $index_pin =
  hold_index_page($node, 'SELECT k FROM watched WHERE k >= 300 ORDER BY k');
my $pinned = $node->safe_psql('postgres',
	"SELECT (ctid::text::point)[0]::int FROM watched WHERE k = 150");
my $vacuum = start_sql($node, 'VACUUM (FREEZE, PARALLEL 0) watched');

wait_for_pin_wait($node, 'watched', 'scanning heap');
is( progress($node, 'watched', @numbers),
	"heap_blks_total=$blocks heap_blks_scanned=$pinned heap_blks_vacuumed=0 "
	  . 'index_vacuum_count=0 num_dead_tuples=100',
	'progress view while scanning the heap');
$heap_pin->quit;

wait_for_pin_wait($node, 'watched', 'vacuuming indexes');
is( progress($node, 'watched', @numbers),
	"heap_blks_total=$blocks heap_blks_scanned=$blocks heap_blks_vacuumed=0 "
	  . 'index_vacuum_count=0 num_dead_tuples=100',
	'progress view while vacuuming the indexes');
$index_pin->quit;
is((finish_sql($vacuum))[0], 0, 'vacuum goes on when nobody is in its way');

# Reaping: LP_DEAD items from a vacuum that left the indexes alone need no
# change to a page in the scan, only in the reap, where each costs its delay.
$node->safe_psql(
	'postgres', q{
	DELETE FROM watched WHERE k BETWEEN 101 AND 300;
	VACUUM (INDEX_CLEANUP off) watched;
	CHECKPOINT;
});
$vacuum = start_sql($node,
	"$Pass::slow_changes VACUUM (INDEX_CLEANUP on, PARALLEL 0) watched");
wait_for_phase($node, 'watched', 'vacuuming heap', 'heap_blks_vacuumed > 0');
like(
	progress($node, 'watched', @numbers),
	qr/^heap_blks_total=$blocks heap_blks_scanned=$blocks heap_blks_vacuumed=\d+ index_vacuum_count=1 num_dead_tuples=200$/,
	'progress view while reaping');
$node->safe_psql('postgres',
	"SELECT pg_cancel_backend(pid) FROM pg_stat_progress_vacuum");
is((finish_sql($vacuum))[0], 3, 'vacuum stopped while reaping');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_progress_vacuum'),
	'0', 'a vacuum that failed is not shown any more');

# Index cleanup: one row with an array of many elements makes a GIN index of
# many pages over a table of one
$node->safe_psql(
	'postgres', q{
	CREATE TABLE gin (a int[]);
	CREATE INDEX gin_a ON gin USING gin (a);
	INSERT INTO gin SELECT array_agg(i) FROM generate_series(1, 20000) i;
	VACUUM gin;
});
$vacuum = start_sql($node,
	"$Pass::slow_pages VACUUM (PROCESS_TOAST off) gin");
wait_for_phase($node, 'gin', 'cleaning up indexes');
is( progress($node, 'gin', @numbers),
	'heap_blks_total=1 heap_blks_scanned=1 heap_blks_vacuumed=1 '
	  . 'index_vacuum_count=0 num_dead_tuples=0',
	'progress view while cleaning up indexes');
$node->safe_psql('postgres',
	"SELECT pg_cancel_backend(pid) FROM pg_stat_progress_vacuum");
finish_sql($vacuum);

# Truncation waits for a session that uses the table
$node->safe_psql('postgres', 'VACUUM watched; DELETE FROM watched WHERE k > 50');
$session = hold_heap_page($node, 'SELECT k FROM watched');
$vacuum = start_sql($node, 'VACUUM (PARALLEL 0) watched');
wait_for_phase($node, 'watched', 'truncating heap');
is( progress($node, 'watched', @numbers),
	"heap_blks_total=$blocks heap_blks_scanned=$blocks heap_blks_vacuumed=$blocks "
	  . 'index_vacuum_count=1 num_dead_tuples=100',
	'progress view while truncating');
$session->quit;
finish_sql($vacuum);
is($node->safe_psql('postgres', "SELECT pg_relation_size('watched')"),
	'0', 'and does it when the session is gone');

# Memory for few dead rows: more than one cycle of indexes, and the scan has
# not seen the end when the first begins
$node->safe_psql(
	'postgres', q{
	CREATE TABLE crowded (k int);
	INSERT INTO crowded SELECT generate_series(1, 220000);
	CREATE INDEX crowded_k ON crowded (k);
	VACUUM crowded;
	DELETE FROM crowded WHERE k <= 219500;
});
$index_pin =
  hold_index_page($node, 'SELECT k FROM crowded WHERE k >= 219990 ORDER BY k');
$vacuum = start_sql($node,
	"SET maintenance_work_mem = '1MB'; VACUUM (VERBOSE, TRUNCATE off) crowded");
wait_for_pin_wait($node, 'crowded', 'vacuuming indexes');
is( $node->safe_psql(
		'postgres', q{
		SELECT heap_blks_scanned < heap_blks_total, index_vacuum_count,
			num_dead_tuples BETWEEN max_dead_tuples - 291 AND max_dead_tuples,
			max_dead_tuples
		FROM pg_stat_progress_vacuum}),
	't|0|t|174761',
	'index vacuum begins in the middle of the scan when memory is used up');
$index_pin->quit;
my ($rc, $stderr) = finish_sql($vacuum);
like($stderr, qr/finished vacuuming "postgres\.public\.crowded": index scans: 2/,
	'and a second one follows');

is($node->safe_psql('postgres', 'VACUUM watched; SELECT count(*) FROM pg_stat_progress_vacuum'),
	'0', 'a vacuum that is done is not shown any more, also to its own session');

# To everybody else the table is a heap table
$node->safe_psql('postgres', 'CREATE EXTENSION amcheck; CREATE EXTENSION pgstattuple;');
is( $node->safe_psql(
		'postgres', q{
		SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam
		WHERE c.oid = 'crowded'::regclass}),
	'heap',
	'access method is heap');
is($node->safe_psql('postgres', "SELECT count(*) FROM verify_heapam('crowded')"),
	'0', 'amcheck takes the table, and finds nothing');
is( $node->safe_psql('postgres',
		"SELECT tuple_count, dead_tuple_count FROM pgstattuple('crowded')"),
	'500|0',
	'pgstattuple takes the table');

# Out again
$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "''");
unlink $node->data_dir . '/postgresql.auto.conf'
  or die 'cannot remove postgresql.auto.conf';
$position = log_end($node);
$node->restart;
$node->safe_psql('postgres', 'DELETE FROM crowded WHERE k <= 219800; VACUUM crowded;');
is(join(' ', our_passes($node, $position)), '', 'without the library, the server vacuums');
is($node->safe_psql('postgres', "SELECT tuple_count, dead_tuple_count FROM pgstattuple('crowded')"),
	'200|0', '  a table that we vacuumed before');
is($node->safe_psql('postgres', "SELECT count(*) FROM verify_heapam('crowded')"),
	'0', '  and leaves it sound');
$node->safe_psql('postgres', 'DROP EXTENSION pg_vacuum_resume');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_namespace WHERE nspname = 'vacuum_resume'"),
	'0', 'the extension can be dropped without the library, and its schema goes with it');
unlike(log_since($node, $position), qr/WARNING|PANIC|FATAL/,
	'the server has nothing to complain about');
$node->stop;

done_testing();
