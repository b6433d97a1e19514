# Between a vacuum that is stopped and the one that goes on, rows die all over the
# table. VACUUM's promise holds: what was dead when it began is gone when it
# returns, in the part of the table that was scanned before as well. (Indexes are
# not bypassed here, however little there is to do in them.)

use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

use Oracle;
use Pass;
use Resume;

my $pages = 400;
my $node = resume_node('wrap');

# Rows die: in pages that have been scanned by now but have no pending TIDs (of four
# pages one), and in pages that are not scanned yet; all of a page's rows, too. New
# pages at the end have rows, dead and alive.
sub let_rows_die_elsewhere
{
	my ($table) = @_;
	my $block = "k / $rows_per_page";

	$node->safe_psql(
		'postgres', qq{
		DELETE FROM $table WHERE k % 10 = 6 AND $block BETWEEN 40 AND 80 AND $block % 4 = 0;
		DELETE FROM $table WHERE $block IN (88, 350);
		DELETE FROM $table WHERE k % 10 = 5 AND $block BETWEEN 300 AND 390;
		INSERT INTO $table SELECT -i, i, repeat('z', 364) FROM generate_series(1, 600) AS i;
		DELETE FROM $table WHERE k BETWEEN -600 AND -100 AND k % 2 = 0;});
	return;
}

# Rows die there, and also in pages that have pending TIDs. Some are pruned at once
# by others who read the page, as its free space runs out: dead line pointers that
# the vacuum has not seen.
sub let_rows_die
{
	my ($table) = @_;
	my $block = "k / $rows_per_page";

	let_rows_die_elsewhere($table);
	$node->safe_psql(
		'postgres', qq{
		DELETE FROM $table WHERE k % 10 = 5 AND $block BETWEEN 10 AND 50 AND $block % 4 <> 0;
		DELETE FROM $table WHERE $block = 85;
		UPDATE $table SET filler = repeat('y', 364) WHERE k % 10 = 7 AND $block BETWEEN 100 AND 120;
		DELETE FROM $table WHERE k % 10 = 8 AND $block BETWEEN 100 AND 120;
		UPDATE $table SET v = -v WHERE k % 10 = 9 AND $block BETWEEN 110 AND 130;
		SELECT count(*), sum(hashtext(filler)) FROM $table;});
	return;
}

# Tests that a finished vacuum has kept its promise
sub all_gone
{
	my ($table, $rest) = @_;
	my $facts = facts($node, $table);

	is($facts->{dead_rows}, 0, 'no dead row is left');
	is($facts->{dead_items}, 0, '  nor dead line pointer');
	is($facts->{n_dead}, 0, '  nor does pg_stat believe so');
	is($facts->{relallvisible}, $facts->{relpages}, '  all pages are all-visible');
	my $rows = $node->safe_psql('postgres', "SELECT count(*) FROM $table");
	cmp_ok(abs($facts->{reltuples} - $rows), '<=', 0.05 * $rows, '  reltuples is about right');
	is(record($node, $table), undef, '  nothing is left to go on with');
	Oracle::table_ok($node, 'postgres', $table, '  and the table is sound');
	is_deeply([ Oracle::same_rows($node, 'postgres', $table, 'v = 7') ], [], '  the hash index too')
	  if $node->safe_psql('postgres', "SELECT to_regclass('${table}_h') IS NOT NULL") eq 't';
	return;
}

###############################################################################
# Rows die while no vacuum runs
###############################################################################

# What dies in pages with pending TIDs is found when these are reaped, or, if there is
# much of it, in the wrap.
foreach my $story (
	{ name => 'in_scan_elsewhere', phase => 'scanning heap', when => 'heap_blks_scanned >= 200',
		elsewhere => 1, indexes => 'k v h' },
	{ name => 'in_scan', phase => 'scanning heap', when => 'heap_blks_scanned >= 200',
		indexes => 'k v h' },
	{ name => 'in_scan_killed', phase => 'scanning heap', when => 'heap_blks_scanned >= 200',
		way => 'kill_all', indexes => 'k v h' },
	{ name => 'in_indexes', phase => 'vacuuming indexes', hold => 'v', indexes => 'v h k v h' },
	{ name => 'in_reaping', phase => 'vacuuming heap', when => 'heap_blks_vacuumed >= 60',
		indexes => 'k v h' },
	{ name => 'in_reaping_killed', phase => 'vacuuming heap', when => 'heap_blks_vacuumed >= 60',
		way => 'kill_all', indexes => 'k v h' })
{
	my $table = $story->{name};

	make_table($node, $table, pages => $pages);
	subtest "stopped $table, then rows die" => sub {
		my $holder = $story->{hold} ? hold_index($node, $table, $story->{hold}) : undef;
		stop_vacuum(
			$node, $table,
			way => $story->{way} // 'cancel',
			phase => $story->{phase},
			when => $story->{when}
			  // q{EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = p.pid AND wait_event = 'BufferPin')},
			set => $holder ? [] : [ $Resume::slowly, $Resume::saving ],
			holder => $holder);
		$story->{elsewhere} ? let_rows_die_elsewhere($table) : let_rows_die($table);
		my $rest = vacuum($node, $table, options => 'INDEX_CLEANUP on');

		is($rest->{run}, 2, 'the next vacuum goes on');
		is(join(' ', map { s/.*_//r } @{ $rest->{indexes} }), $story->{indexes},
			'  with as few index passes as can be');
		cmp_ok($rest->{cycle_scanned} + $rest->{cycle_again}, '<=', 2 * $rest->{cycle_scanned},
			'  and scans no page three times');
		all_gone($table, $rest);
	};
}

make_table($node, 'bare', pages => $pages, indexes => '');
subtest 'without indexes, then rows die' => sub {
	stop_vacuum($node, 'bare', way => 'cancel', set => [$Resume::slowly],
		phase => 'scanning heap', when => 'heap_blks_scanned >= 200');
	let_rows_die('bare');
	is(vacuum($node, 'bare')->{run}, 2, 'the next vacuum goes on');
	all_gone('bare');
};

# Rows die in the scanned part for each of several runs
make_table($node, 'thrice', pages => $pages);
subtest 'rows die after each of three stops' => sub {
	foreach my $block (100, 200, 300)
	{
		stop_vacuum($node, 'thrice', way => 'cancel', set => [$Resume::slowly],
			phase => 'scanning heap', when => "heap_blks_scanned >= $block");
		$node->safe_psql('postgres',
			"DELETE FROM thrice WHERE k % 20 = $block / 100 + 3 AND k / $rows_per_page < $block");
	}
	is(vacuum($node, 'thrice', options => 'INDEX_CLEANUP on')->{run}, 4, 'the next vacuum goes on');
	all_gone('thrice');
};

###############################################################################
# Rows that the first run could not remove
###############################################################################

make_table($node, 'seen', pages => $pages);
subtest 'somebody still saw the rows, then no longer' => sub {
	my $session = $node->background_psql('postgres');

	$session->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1;');
	$node->safe_psql('postgres', 'DELETE FROM seen WHERE k % 10 = 5');
	stop_vacuum($node, 'seen', way => 'cancel', set => [$Resume::slowly],
		phase => 'scanning heap', when => 'heap_blks_scanned >= 200');
	$session->query_safe('COMMIT');
	$session->quit;
	my $rest = vacuum($node, 'seen', options => 'INDEX_CLEANUP on');

	is($rest->{run}, 2, 'the next vacuum goes on');
	is($rest->{cycle_dead}, 600 + 800, '  and removes them');
	all_gone('seen');
};

###############################################################################
# A table whose pages do not become all-visible
###############################################################################

# A worker that has to look at each page of the scanned part again is stopped before
# it is through. The next one need not begin there anew: it goes on, and so all of
# them together get to the table's end.
make_table($node, 'never_visible', pages => 160);
subtest 'autovacuum gets through a table that others keep busy' => sub {
	my $session = $node->background_psql('postgres');

	$session->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1;');
	$node->safe_psql('postgres', 'DELETE FROM never_visible WHERE k % 10 = 5');
	$node->safe_psql('postgres', "ALTER SYSTEM SET vacuum_resume.max_duration = '250ms'");
	$node->reload;
	my $vacuum = start_vacuum($node, 'never_visible', worker => 1, set => [$Resume::slowly]);
	ok( $node->poll_query_until('postgres',
			"SELECT pg_stat_get_autovacuum_count('never_visible'::regclass) > 0"),
		'it is done at last');
	$node->safe_psql('postgres', 'ALTER TABLE never_visible SET (autovacuum_enabled = off)');
	$node->safe_psql('postgres', 'ALTER SYSTEM RESET vacuum_resume.max_duration');
	$node->reload;
	my $stops = () = log_since($node, $vacuum->{log}) =~
	  /LOG:  vacuum of table "public\.never_visible" stopped after its maximum duration/g;

	cmp_ok($stops, '>=', 3, "  after $stops stops");
	is(record($node, 'never_visible'), undef, '  nothing is left to go on with');
	is(facts($node, 'never_visible')->{dead_items}, 0, '  no dead line pointer is left');
	cmp_ok(facts($node, 'never_visible')->{n_dead}, '>', 0, '  and pg_stat knows of rows that had to stay');
	Oracle::table_ok($node, 'postgres', 'never_visible');
	$session->quit;
	vacuum($node, 'never_visible', options => 'INDEX_CLEANUP on');
	all_gone('never_visible');
};

###############################################################################
# Rows die while the vacuum that goes on runs
###############################################################################

# A dead row by its place and transactions
my $dead_rows = q{
	SELECT block, lp, t_xmin, t_xmax
	FROM generate_series(0, pg_relation_size('busy') / 8192 - 1) AS block,
		heap_page_items(get_raw_page('busy', block::int))
	WHERE lp_flags = 3 OR t_xmax <> 0 AND t_infomask & 2048 = 0};

make_table($node, 'busy', pages => $pages);
subtest 'rows die all the time' => sub {
	my $script = PostgreSQL::Test::Utils::tempdir() . '/delete.sql';

	append_to_file($script, "\\set k random(0, 7999)\nDELETE FROM busy WHERE k = :k;\n"
		  . "UPDATE busy SET v = v + 1 WHERE k = :k + 1;\n");
	my $others = IPC::Run::start(
		[
			$node->installed_command('pgbench'), '-n', '-T', '60', '-R', '300',
			'-f', $script, $node->connstr('postgres')
		],
		'>', '/dev/null', '2>', '/dev/null');
	stop_vacuum($node, 'busy', way => 'cancel', set => [$Resume::slowly],
		phase => 'scanning heap', when => 'heap_blks_scanned >= 200');
	$node->safe_psql('postgres', "CREATE TABLE dead_before AS $dead_rows");
	my $rest = vacuum($node, 'busy', options => 'INDEX_CLEANUP on', set => [$Resume::slowly]);
	my $left = $node->safe_psql('postgres',
		"SELECT count(*) FROM dead_before JOIN ($dead_rows) AS d USING (block, lp, t_xmin, t_xmax)");
	my $before = $node->safe_psql('postgres', 'SELECT count(*) FROM dead_before');
	$others->kill_kill;

	is($rest->{run}, 2, 'the next vacuum goes on');
	cmp_ok($before, '>', 600, 'of the rows that were dead when it began');
	is($left, 0, '  none is left');
	$node->poll_query_until('postgres',
		"SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'pgbench'")
	  or die 'pgbench did not end';
	vacuum($node, 'busy', options => 'INDEX_CLEANUP on');
	all_gone('busy');
};

# A wrap that reads the pages with pending TIDs, as many rows have died there, need not
# read them once more when these are reaped, although rows that somebody still sees
# keep them from being all-visible.
subtest 'rows that somebody still sees' => sub {
	my $table = 'still_seen';

	make_table($node, $table, pages => $pages);
	stop_vacuum($node, $table, way => 'cancel', set => [$Resume::slowly],
		phase => 'scanning heap', when => 'heap_blks_scanned >= 200');
	$node->safe_psql('postgres', "DELETE FROM $table WHERE k % 10 = 5");
	my $reader = $node->background_psql('postgres');
	$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	$node->safe_psql('postgres', "DELETE FROM $table WHERE k % 10 = 6; SELECT pg_stat_force_next_flush()");

	my $rest = vacuum($node, $table);
	is(join(' ', map { s/.*_//r } @{ $rest->{indexes} }), 'k v h', 'one index pass does');
	cmp_ok($rest->{cycle_again}, '<=', $rest->{from} + 1, '  and no page of the head is scanned a third time');
	$reader->query_safe('COMMIT');
	$reader->quit;
	vacuum($node, $table);
	all_gone($table);
};

###############################################################################
# A wrap of several slices
###############################################################################

# Each page has a dead row that somebody can still see, so that a wrap comes to all
# pages, and takes longer than a slice. The cycle ends all the same, and pg_stat is
# told of the dead rows in the parts that earlier runs have been to.
subtest 'a wrap that takes many slices' => sub {
	my $table = 'long_wrap';

	make_table($node, $table, pages => $pages, dead => 'false');
	my $reader = $node->background_psql('postgres');
	$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	$node->safe_psql('postgres', "DELETE FROM $table WHERE k % $rows_per_page = 3");

	my $report = vacuum_in_slices($node, $table, slice => '100ms', set => [$Resume::slowly]);
	my $facts = facts($node, $table);

	cmp_ok($report->{runs}, '>=', 8, 'it takes many slices');
	cmp_ok($report->{scanned}, '<=', 2 * $pages + $report->{runs}, '  that scan no page three times');
	cmp_ok(abs($facts->{n_dead} - $pages), '<=', 0.02 * $pages, '  pg_stat knows of all dead rows');
	cmp_ok(abs($facts->{reltuples} - $pages * ($rows_per_page - 1)), '<=', 0.01 * $pages * $rows_per_page,
		'  and pg_class of the live ones');
	$reader->query_safe('COMMIT');
	$reader->quit;
	vacuum($node, $table);
	all_gone($table);
};

only_asked_for_crashes($node);
$node->stop;

done_testing();
