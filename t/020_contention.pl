# Others are in the vacuum's way, stop it, or break what it works on. Where the
# words of an error count, the same is done to the server's own vacuum first
# (enabled = off), and the two must say the same.

use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

use Oracle;
use Pass;

my $node = new_node('contention',
	conf => "max_parallel_maintenance_workers = 2\nmin_parallel_index_scan_size = 0\n");

Oracle::prepare($node, 'postgres');
$node->safe_psql('postgres', 'CREATE EXTENSION pageinspect');

# Vacuums and returns what VERBOSE says. A vacuum that waits for somebody fails.
sub vacuum_verbose
{
	my ($options, $table, $set) = @_;
	my $position = log_end($node);
	my ($rc, undef, $stderr) = $node->psql('postgres',
		"$set; SET statement_timeout = '30s'; VACUUM (VERBOSE$options) $table" =~ s/^; //r);

	is($rc, 0, "VACUUM (VERBOSE$options) $table goes through")
	  or diag($stderr);
	is((our_passes($node, $position))[0], "public.$table", '  by our pass');
	return $stderr;
}

# Line pointers of a page: normal, redirected, dead, unused
sub items
{
	my ($table, $block) = @_;
	return $node->safe_psql(
		'postgres', qq{
		SELECT string_agg(format('%s %s', n, kind), ', ' ORDER BY kind)
		FROM (SELECT count(*) AS n,
				(ARRAY['unused', 'normal', 'redirect', 'dead'])[lp_flags + 1] AS kind
			FROM heap_page_items(get_raw_page('$table', $block)) GROUP BY 2) k});
}

###############################################################################
# A pin on a page
###############################################################################

# Ten pages of ten rows, less than half full: nobody who reads such a page
# prunes it
sub make_pinned
{
	my ($table, $with_index) = @_;
	my $index = $with_index ? "CREATE INDEX ON $table (id);" : '';

	$node->safe_psql(
		'postgres', qq{
		CREATE TABLE $table (id int, filler text) WITH (fillfactor = 40);
		INSERT INTO $table SELECT i, repeat('x', 280) FROM generate_series(0, 99) i;
		ALTER TABLE $table SET (fillfactor = 100);
		$index
	});
	is($node->safe_psql('postgres',
			"SELECT count(*), max((ctid::text::point)[0]) FROM $table WHERE id / 10 = (ctid::text::point)[0]"),
		'100|9', "$table has ten rows on each of ten pages");
	return;
}

make_pinned('pinned', 1);
$node->safe_psql('postgres', 'DELETE FROM pinned WHERE id % 10 < 3');
my $holder = hold_heap_page($node, 'SELECT id FROM pinned WHERE id / 10 = 4');
my $verbose = vacuum_verbose('', 'pinned');

like($verbose, qr/tuples: 27 removed, 73 remain, 0 are dead but not yet removable/,
	'a vacuum that need not freeze passes by a pinned page');
like($verbose,
	qr/tuples missed: 3 dead from 1 pages not removed due to cleanup lock contention/,
	'and counts what it missed there');
is(items('pinned', 4), '10 normal', 'the pinned page is as it was');
is($node->safe_psql('postgres', "SELECT n_dead_tup FROM pg_stat_all_tables WHERE relname = 'pinned'"),
	'3', 'autovacuum will know of the rows that were missed');

# Freezing as far as possible, the pinned page left out: its rows decide what
# relfrozenxid becomes
my $insert_xid = $node->safe_psql('postgres', 'SELECT min(xmin::text::bigint) FROM pinned');
my $cutoff = $node->safe_psql('postgres', 'SELECT pg_snapshot_xmin(pg_current_snapshot())');
$verbose = vacuum_verbose('', 'pinned', 'SET vacuum_freeze_min_age = 0; SET vacuum_freeze_table_age = 2000000000');
is($node->safe_psql('postgres', "SELECT relfrozenxid FROM pg_class WHERE relname = 'pinned'"),
	$insert_xid, 'relfrozenxid is that of the rows on the pinned page');
cmp_ok($insert_xid, '<', $cutoff, '  and not the cutoff');

# FREEZE must freeze them: it waits, and goes on when the page is free
my $vacuum = start_sql($node, 'VACUUM (FREEZE, VERBOSE) pinned');
wait_for_pin_wait($node, 'pinned', 'scanning heap');
is(progress($node, 'pinned', 'heap_blks_scanned'),
	'heap_blks_scanned=4', 'a vacuum that has to freeze waits for the pinned page');
$node->safe_psql('postgres', 'SELECT pg_cancel_backend(pid) FROM pg_stat_progress_vacuum');
my ($rc, $stderr) = finish_sql($vacuum);
like(
	$stderr,
	qr/ERROR:  canceling statement due to user request\nCONTEXT:  while scanning block 4 of relation "public\.pinned"/,
	'can be cancelled there');
$vacuum = start_sql($node, 'VACUUM (FREEZE, VERBOSE) pinned');
wait_for_pin_wait($node, 'pinned', 'scanning heap');
$holder->quit;
($rc, $verbose) = finish_sql($vacuum);
is($rc, 0, 'goes on when the other session is done');
like($verbose, qr/tuples: 3 removed, 70 remain/, 'and misses nothing');
unlike($verbose, qr/tuples missed/, '  nor says so');

# Nothing to freeze, no need to wait
$holder = hold_heap_page($node, 'SELECT id FROM pinned WHERE id / 10 = 4');
$verbose = vacuum_verbose(', FREEZE, DISABLE_PAGE_SKIPPING', 'pinned');
like($verbose, qr/tuples: 0 removed, 70 remain/, 'a pinned page that is frozen holds nobody up');
$holder->quit;
Oracle::table_ok($node, 'postgres', 'pinned');

# Dead items of an earlier vacuum on the pinned page need no cleanup lock
$node->safe_psql('postgres',
	'DELETE FROM pinned WHERE id % 10 = 3; VACUUM (INDEX_CLEANUP off) pinned;');
$holder = hold_heap_page($node, 'SELECT id FROM pinned WHERE id / 10 = 4');
is(items('pinned', 4), '1 dead, 6 normal, 3 unused', 'a dead item is left on the pinned page');
$verbose = vacuum_verbose(', INDEX_CLEANUP on', 'pinned');
like($verbose, qr/index scan needed: 10 pages from table \(100\.00% of total\) had 10 dead item identifiers removed/,
	'it is removed with all others');
is(items('pinned', 4), '6 normal, 4 unused', '  from the page, too');
unlike($verbose, qr/tuples missed/, '  and nothing was missed');
$holder->quit;
Oracle::table_ok($node, 'postgres', 'pinned');

# Without indexes, dead items are removed page by page, under the cleanup lock:
# on a pinned page they are missed. Pages that are full are pruned when they
# are read, which is where these come from.
$node->safe_psql(
	'postgres', q{
	CREATE TABLE unindexed (id int, filler text);
	INSERT INTO unindexed SELECT i, repeat('x', 776) FROM generate_series(0, 99) i;
	DELETE FROM unindexed WHERE id % 5 = 0;
	SELECT count(*) FROM unindexed;
});
is(items('unindexed', 4), '2 dead, 8 normal', 'reading a page left dead items');
$holder = hold_heap_page($node,
	'SELECT id FROM unindexed WHERE (ctid::text::point)[0] = 4');
$verbose = vacuum_verbose('', 'unindexed');
like($verbose, qr/tuples missed: 2 dead from 1 pages not removed due to cleanup lock contention/,
	'without indexes, dead items on the pinned page are missed');
is(items('unindexed', 4), '2 dead, 8 normal', '  they stay there');
is(items('unindexed', 5), '8 normal, 2 unused', '  those of other pages do not');
$holder->quit;
$verbose = vacuum_verbose('', 'unindexed');
is(items('unindexed', 4), '8 normal, 2 unused', 'the next vacuum has them');
Oracle::table_ok($node, 'postgres', 'unindexed');

###############################################################################
# Locks while truncating
###############################################################################

$node->safe_psql(
	'postgres', q{
	CREATE TABLE tail (id int);
	INSERT INTO tail SELECT generate_series(1, 10000);
	CREATE INDEX tail_id ON tail (id);
	DELETE FROM tail WHERE id > 1000;
});
my $before = $node->safe_psql('postgres', "SELECT pg_relation_size('tail') / 8192");
$holder = $node->background_psql('postgres');
$holder->query_safe('BEGIN; LOCK TABLE tail IN ACCESS SHARE MODE');
$vacuum = start_sql($node, 'VACUUM (VERBOSE) tail');
wait_for_phase($node, 'tail', 'truncating heap',
	"(SELECT wait_event FROM pg_stat_activity a WHERE a.pid = pg_stat_progress_vacuum.pid) = 'VacuumTruncate'"
);
($rc, $verbose) = finish_sql($vacuum);
is($rc, 0, 'a lock prevents truncation, not vacuum');
like($verbose, qr/INFO:  "tail": stopping truncate due to conflicting lock request/,
	'which gives up');
like($verbose, qr/pages: 0 removed, $before remain/, '  and removes no page');
is($node->safe_psql('postgres', "SELECT pg_relation_size('tail') / 8192, reltuples FROM pg_class WHERE relname = 'tail'"),
	"$before|1000", '  but has done everything else');
$holder->quit;

# 45 full pages, of which all but the first four lose their rows
sub make_late
{
	$node->safe_psql(
		'postgres', q{
		DROP TABLE IF EXISTS late;
		CREATE TABLE late (id int);
		INSERT INTO late SELECT generate_series(1, 45 * 226);
		CREATE INDEX late_id ON late (id);
		DELETE FROM late WHERE id > 4 * 226;});
	is($node->safe_psql('postgres', "SELECT pg_relation_size('late') / 8192"), '45', 'table of 45 pages');
	return;
}

# A row that comes into the tail after the scan, while vacuum is trying for its
# lock, stays
make_late();
$holder = $node->background_psql('postgres');
$holder->query_safe('BEGIN; LOCK TABLE late IN ACCESS SHARE MODE');
$vacuum = start_sql($node, 'VACUUM (VERBOSE) late');
wait_for_phase($node, 'late', 'truncating heap');
my $block = $holder->query_safe(
	'INSERT INTO late VALUES (0) RETURNING (ctid::text::point)[0]');
cmp_ok($block, '>=', 4, 'a row comes into the empty tail');
$holder->query_safe('COMMIT');
$holder->quit;
($rc, $verbose) = finish_sql($vacuum);
$block++;
like($verbose, qr/INFO:  table "late": truncated 45 to $block pages/, '  vacuum truncates behind it');
is($node->safe_psql('postgres', 'SELECT count(*) FROM late'), 4 * 226 + 1, '  and it is there');
Oracle::table_ok($node, 'postgres', 'late');

# A table that grows while it is scanned is not truncated, though the tail that
# vacuum knows is empty: nobody knew yet that it had room
make_late();
$holder = hold_heap_page($node, 'SELECT id FROM late');
$vacuum = start_sql($node, 'VACUUM (FREEZE, VERBOSE) late');
wait_for_pin_wait($node, 'late', 'scanning heap');
$block = $node->safe_psql('postgres',
	'INSERT INTO late VALUES (0) RETURNING (ctid::text::point)[0]');
is($block, '45', 'a row comes behind the tail');
$holder->quit;
($rc, $verbose) = finish_sql($vacuum);
like($verbose, qr/pages: 0 removed, 45 remain/, '  vacuum does not truncate');
is($node->safe_psql('postgres', "SELECT count(*), pg_relation_size('late') / 8192 FROM late"),
	'905|46', '  and it is there');
Oracle::table_ok($node, 'postgres', 'late');

# A tail of 50,000 pages, as a crash in the middle of a bulk load leaves it.
# Sessions that want the table all the time: when vacuum has its lock, they
# queue up for theirs, vacuum notices, truncates as far as it has looked,
# lets them in, and goes on afterwards.
my $path = $node->data_dir . '/' . $node->safe_psql('postgres', "SELECT pg_relation_filepath('tail')");
$node->stop;
truncate($path, 8192 * 50_000) or die "cannot extend $path: $!";
$node->start;

my $script = PostgreSQL::Test::Utils::tempdir() . '/readers.sql';
append_to_file($script, "SELECT count(*) FROM tail WHERE id = 500;\n\\sleep 10 ms\n");
my $readers = IPC::Run::start(
	[
		$node->installed_command('pgbench'), '-n', '-c', '3', '-T', '300',
		'-f', $script, $node->connstr('postgres')
	],
	'>', '/dev/null', '2>', '/dev/null');
$node->poll_query_until('postgres',
	"SELECT seq_scan + idx_scan > 10 FROM pg_stat_user_tables WHERE relname = 'tail'")
  or die 'no readers';
$verbose = vacuum_verbose('', 'tail');
$readers->kill_kill;

like($verbose, qr/INFO:  table "tail": suspending truncate due to conflicting lock request/,
	'truncation makes way for others');
my @truncated = $verbose =~ /INFO:  table "tail": truncated (\d+ to \d+) pages/g;
cmp_ok(scalar @truncated, '>', 1, '  and goes on when they are through');
like($truncated[0], qr/^50000 to /, '  from the end of the table');
is($node->safe_psql('postgres', "SELECT pg_relation_size('tail') / 8192"),
	(split ' ', $truncated[-1])[2], '  to where it says');
like($verbose, qr/pages: \d+ removed, (\d+) remain.*\n.*1000 remain/, '  and no row is gone');
Oracle::table_ok($node, 'postgres', 'tail');

###############################################################################
# Stopped in each phase
###############################################################################

# A table of 200 pages with a row on each, the first half deleted and the second
# all-visible, and one more row that gives a GIN index more pages than anything
# else has
sub make_work
{
	$node->safe_psql(
		'postgres', q{
		DROP TABLE IF EXISTS work;
		CREATE TABLE work (k int, filler text, a int[]);
		ALTER TABLE work ALTER filler SET STORAGE PLAIN;
		INSERT INTO work SELECT i, repeat('x', 7000) FROM generate_series(1, 200) i;
		CREATE INDEX work_k ON work (k);
		CREATE INDEX work_gin ON work USING gin (a);
		INSERT INTO work SELECT 201, '', array_agg(i) FROM generate_series(1, 50000) i;
		VACUUM work;
		DELETE FROM work WHERE k <= 100;});
	return;
}

# For each phase: what to do to the table first, a vacuum that stays in the
# phase (with the help of a session that holds something), and the error context
# that tells where it was
my @phases = (
	{
		phase => 'scanning heap',
		vacuum => "$Pass::slow_pages VACUUM (PARALLEL 0) work",
		condition => 'heap_blks_scanned > 0',
		context => qr/while scanning block \d+ of relation "public\.work"/,
	},
	{
		phase => 'vacuuming indexes',
		vacuum => 'VACUUM (PARALLEL 0) work',
		hold => sub { hold_index_page($node, 'SELECT k FROM work WHERE k >= 150 ORDER BY k') },
		condition => "EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'BufferPin')",
		context => qr/while vacuuming index "work_k" of relation "public\.work"/,
	},
	{
		phase => 'vacuuming heap',
		prepare => 'VACUUM (INDEX_CLEANUP off) work; CHECKPOINT;',
		vacuum => "$Pass::slow_changes VACUUM (PARALLEL 0, INDEX_CLEANUP on) work",
		condition => 'heap_blks_vacuumed > 0',
		context => qr/while vacuuming block \d+ of relation "public\.work"/,
	},
	{
		phase => 'cleaning up indexes',
		prepare => 'VACUUM work;',
		vacuum => "$Pass::slow_pages VACUUM (PARALLEL 0, PROCESS_TOAST off) work",
		context => qr/while cleaning up index "work_gin" of relation "public\.work"/,
	},
	{
		phase => 'truncating heap',
		prepare => 'DELETE FROM work;',
		vacuum => 'VACUUM (PARALLEL 0) work',
		hold => sub {
			my $session = $node->background_psql('postgres');
			$session->query_safe('BEGIN; LOCK TABLE work IN ACCESS SHARE MODE');
			return $session;
		},
		context => qr/while truncating relation "public\.work" to 0 blocks/,
	});

# How to stop it, and what it says then
my %ways = (
	pg_cancel_backend => qr/ERROR:  canceling statement due to user request/,
	pg_terminate_backend => qr/FATAL:  terminating connection due to administrator command/,
	statement_timeout => qr/ERROR:  canceling statement due to statement timeout/);

# Vacuums the table, stops that in the phase, and returns what the vacuum said,
# less what depends on the moment.
sub stop_in_phase
{
	my ($phase, $way, $enabled) = @_;

	make_work();
	$node->safe_psql('postgres', $phase->{prepare}) if $phase->{prepare};

	my $session = $phase->{hold} ? $phase->{hold}->() : undef;
	my $timeout = $way eq 'statement_timeout' ? '2s' : '0';
	my $job = start_sql($node,
		"SET vacuum_resume.enabled = $enabled; SET statement_timeout = '$timeout'; $phase->{vacuum}");

	if ($way ne 'statement_timeout')
	{
		wait_for_phase($node, 'work', $phase->{phase}, $phase->{condition});
		$node->safe_psql('postgres', "SELECT $way(pid) FROM pg_stat_progress_vacuum");
	}

	my (undef, $said) = finish_sql($job);
	$session->quit if $session;
	$said =~ s/^psql:<stdin>:\d+: //mg;
	return $said;
}

for my $phase (@phases)
{
	my @ways = qw(pg_cancel_backend pg_terminate_backend);

	push @ways, 'statement_timeout' if $phase->{phase} eq 'vacuuming indexes';
	for my $way (@ways)
	{
		my $what = "$way while $phase->{phase}";
		my $servers = stop_in_phase($phase, $way, 'off');
		my $position = log_end($node);
		my $ours = stop_in_phase($phase, $way, 'on');

		is((our_passes($node, $position))[-1], 'public.work', "$what: our pass ran");
		like($ours, qr/^$ways{$way}\nCONTEXT:  $phase->{context}$/m, '  error and context');
		s/block \d+/block N/ for $ours, $servers;
		is($ours, $servers, "  are the server's");

		is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_progress_vacuum'),
			'0', '  nothing is left of it');
		($rc, undef, $stderr) = $node->psql('postgres', 'VACUUM work');
		is("$rc $stderr", '0 ', '  the next vacuum is done');
		Oracle::table_ok($node, 'postgres', 'work', '  and the table is sound');
	}
}

# The same with parallel workers: the one that has the held index waits, so does
# the leader, and all of them stop
make_work();
$holder = hold_index_page($node, 'SELECT k FROM work WHERE k >= 150 ORDER BY k');
$vacuum = start_sql($node, 'VACUUM (PARALLEL 2) work');
wait_for_pin_wait($node, 'work', 'vacuuming indexes');
$node->safe_psql('postgres', 'SELECT pg_cancel_backend(pid) FROM pg_stat_progress_vacuum');
($rc, $stderr) = finish_sql($vacuum);
like($stderr, qr/ERROR:  canceling statement due to user request/, 'parallel vacuum is cancelled');
$node->poll_query_until('postgres',
	"SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'parallel worker'")
  or die 'a parallel worker is still there';
$holder->quit;
$node->safe_psql('postgres', 'VACUUM (PARALLEL 2) work');
Oracle::table_ok($node, 'postgres', 'work', 'the next one leaves a sound table');

###############################################################################
# A broken index
###############################################################################

# Three indexes; the first bucket's page of the second is overwritten with zeros
# while the server is down
$node->safe_psql(
	'postgres', q{
	CREATE TABLE broken (k int, v int);
	INSERT INTO broken SELECT i, i FROM generate_series(1, 2000) i;
	CREATE INDEX broken_k ON broken (k);
	CREATE INDEX broken_hash ON broken USING hash (v);
	CREATE INDEX broken_v ON broken (v);
	DELETE FROM broken WHERE k % 3 = 0;
});
$path = $node->data_dir . '/'
  . $node->safe_psql('postgres', "SELECT pg_relation_filepath('broken_hash')");
$node->stop;
open my $file, '+<:raw', $path or die "cannot open $path: $!";
seek $file, 8192, 0 or die "cannot seek in $path: $!";
print $file "\0" x 8192 or die "cannot write to $path: $!";
close $file or die "cannot close $path: $!";
$node->start;

my $zero_page =
  qr/ERROR:  index "broken_hash" contains unexpected zero page at block 1\nHINT:  Please REINDEX it\.$/m;
my %failure;

for my $enabled ('off', 'on')
{
	(undef, undef, $failure{$enabled}) = $node->psql('postgres',
		"SET vacuum_resume.enabled = $enabled; VACUUM (PARALLEL 0) broken");
}
like(
	$failure{on},
	qr/${zero_page}\nCONTEXT:  while vacuuming index "broken_hash" of relation "public\.broken"$/m,
	'an index that fails its vacuum is named');
is($failure{on}, $failure{off}, "  with the server's words");
(undef, undef, $stderr) = $node->psql('postgres', 'VACUUM (PARALLEL 2) broken');
like($stderr, $zero_page, 'so it is in a parallel vacuum');
is(items('broken', 0) =~ s/\d+/n/gr, 'n dead, n normal', 'no dead item was removed');
$node->safe_psql('postgres', 'REINDEX INDEX broken_hash');
$verbose = vacuum_verbose('', 'broken');
like($verbose, qr/had 666 dead item identifiers removed/, 'they are, when the index is whole again');
Oracle::table_ok($node, 'postgres', 'broken');
is_deeply([ Oracle::same_rows($node, 'postgres', 'broken', 'v = 7') ], [], 'hash index finds what is there');

unlike(slurp_file($node->logfile), qr/PANIC|terminated by signal/, 'there was no crash');
$node->stop;

done_testing();
