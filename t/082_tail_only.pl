# A vacuum that continues an interrupted one may leave the head alone, if little has died
# there. Then pg_stat still counts what is left, so that autovacuum comes back for it when
# there is enough.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use Between;
use Oracle;
use Pass;
use Resume;

my $node = between_node('tail');

# The vacuum is interrupted a little beyond the middle: in the head 93 pages have
# pending TIDs, and every fourth is all-visible.
my $pages = 240;
my $block = "k / $rows_per_page";

# Rows of the head, one on each of 30 all-visible pages
my $one_a_page = "k % $rows_per_page = 7 AND $block % 4 = 0 AND $block < 120";

###############################################################################
# What is left is known
###############################################################################

# Each story: where rows die before the vacuum goes on, whether these are in the head,
# and what else is special.  Dead TIDs that stay are no dead rows for pg_stat.
my @deaths = (
	[ 'nowhere', 'false', 0 ],
	[ 'one_a_page', $one_a_page, 1 ],
	[ 'five_a_page', "k % 4 = 1 AND $block % 4 = 0 AND $block < 40", 1 ],
	[ 'where_pending', "k % $rows_per_page = 7 AND $block % 4 = 1 AND $block < 80", 1 ],
	[ 'in_tail', "k % $rows_per_page = 7 AND $block >= 130", 0 ],
	[ 'in_tail_where_dirty', "k % $rows_per_page = 7 AND $block >= 130 AND $block % 4 <> 0", 0 ],
	[ 'without_indexes', $one_a_page, 1, indexes => '' ],
	[ 'indexes_left', $one_a_page, 1, options => 'RESUME, INDEX_CLEANUP off', tids => 360 ]);

foreach my $story (@deaths)
{
	my ($table, $condition, $in_head, %opt) = @$story;

	make_table($node, $table, pages => $pages, exists $opt{indexes} ? (indexes => $opt{indexes}) : ());
	subtest "rows have died: $table" => sub {
		vacuum_part($node, $table, to => 120);
		my $died = let_die($node, $table, $condition);
		my $report = vacuum($node, $table, options => $opt{options} // 'RESUME');

		is($report->{plan}, 'resume', 'the head is left alone');
		honest($node, $table, $in_head ? $died : 0);
		settled($node, $table, dead => ($in_head ? $died : 0) + ($opt{tids} // 0));
	};
}

# Rows die each time it is stopped.
make_table($node, 'often', pages => $pages);
subtest 'rows die after each of three stops' => sub {
	my $died = 0;

	foreach my $part (1 .. 3)
	{
		vacuum_part($node, 'often', to => 60 * $part, options => 'RESUME');
		$died += let_die($node, 'often',
			"k % $rows_per_page = 7 AND $block % 4 = 0 AND $block / 20 = $part - 1");
	}
	is(vacuum($node, 'often', options => 'RESUME')->{plan}, 'resume', 'the head is left alone');
	honest($node, 'often', $died);
	settled($node, 'often', dead => $died);
};

# Pages that the table grows by have to be scanned, but do not tell that rows of the tail
# have died.
make_table($node, 'grown', pages => $pages);
subtest 'the table grows by half' => sub {
	vacuum_part($node, 'grown', to => 120);
	$node->safe_psql(
		'postgres', qq{
		INSERT INTO grown SELECT i, i, repeat('x', 364)
			FROM generate_series($pages * $rows_per_page, $pages * $rows_per_page * 3 / 2 - 1) AS i});
	my $died = let_die($node, 'grown', $one_a_page);
	my $log = log_end($node);
	my $report = vacuum($node, 'grown', options => 'RESUME');

	is($report->{plan}, 'resume', 'the head is left alone');
	is($report->{scanned}, $pages * 3 / 2 - 124, '  all of the tail is scanned');
	located($node, 'grown', $log, $died);
	honest($node, 'grown', $died);
	settled($node, 'grown', dead => $died);
};

# Pending TIDs of indexes that are gone are dead rows of the head like any others.
make_table($node, 'unindexed', pages => $pages);
subtest 'its indexes are dropped' => sub {
	vacuum_part($node, 'unindexed', to => 120);
	$node->safe_psql('postgres', q{
		DROP INDEX unindexed_k, unindexed_v, unindexed_h;
		ALTER TABLE unindexed SET (autovacuum_vacuum_threshold = 100, autovacuum_vacuum_scale_factor = 0)});
	is(vacuum($node, 'unindexed', options => 'RESUME')->{plan}, 'resume and wrap', 'the head is vacuumed');
	honest($node, 'unindexed', 0);
	settled($node, 'unindexed');
};

# A wrap is stopped, and the next vacuum leaves the rest of it to a later one.
make_table($node, 'wrap', pages => $pages);
subtest 'a wrap is stopped' => sub {
	vacuum_part($node, 'wrap', to => 120);
	my $died = let_die($node, 'wrap', $one_a_page);
	vacuum_part($node, 'wrap', to => $pages);
	is(vacuum($node, 'wrap', options => 'RESUME')->{plan}, 'resume', 'the head is left alone');
	my $left = $node->safe_psql('postgres', q{SELECT dead_rows('wrap')});
	cmp_ok($left, '>', 0, '  what the wrap has not come to');
	cmp_ok($left, '<', $died, '  but what it has come to is gone');
	honest($node, 'wrap', $left);
	settled($node, 'wrap', dead => $left);
};

# Rows die in the head while the vacuum that leaves it alone is held in an index.
make_table($node, 'meanwhile', pages => $pages);
subtest 'rows die while it runs' => sub {
	vacuum_part($node, 'meanwhile', to => 120);
	my $died = let_die($node, 'meanwhile', "$one_a_page AND $block >= 8 AND $block < 48");
	my $holder = hold_index($node, 'meanwhile', 'v');
	my $vacuum = start_vacuum($node, 'meanwhile', options => 'RESUME');

	wait_for_pin_wait($node, 'meanwhile', 'vacuuming indexes');
	$died += let_die($node, 'meanwhile', "$one_a_page AND $block >= 48");
	$holder->quit;
	my (undef, $text) = finish_sql($vacuum->{job});

	is(vacuum_report($text, 'meanwhile')->{plan}, 'resume', 'the head is left alone');
	honest($node, 'meanwhile', $died);
	settled($node, 'meanwhile', dead => $died);
};

# Rows had died before the first run, but somebody still saw them, so that they are left
# in the head. They count as any others there.
foreach my $story ([ 'seen_few', 1000, 'resume' ], [ 'seen_many', 20, 'resume and wrap' ])
{
	my ($table, $threshold, $plan) = @$story;

	make_table($node, $table, pages => $pages);
	subtest "the first run could not remove them: $table" => sub {
		my $session = $node->background_psql('postgres');

		$session->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
		my $died = let_die($node, $table, $one_a_page);
		vacuum_part($node, $table, to => 120);
		$session->query_safe('COMMIT');
		$session->quit;
		$node->safe_psql('postgres',
			"ALTER TABLE $table SET (autovacuum_vacuum_threshold = $threshold, autovacuum_vacuum_scale_factor = 0)");

		is(vacuum($node, $table, options => 'RESUME')->{plan}, $plan, $plan);
		honest($node, $table, $plan eq 'resume' ? $died : 0);
		settled($node, $table, dead => $plan eq 'resume' ? $died : 0);
	};
}

###############################################################################
# Autovacuum comes back
###############################################################################

$node->safe_psql('postgres', q{
	CREATE TABLE clock (i int) WITH (autovacuum_vacuum_threshold = 1, autovacuum_vacuum_scale_factor = 0)});

sub autovacuum_count
{
	my ($table) = @_;
	return $node->safe_psql('postgres', "SELECT pg_stat_get_autovacuum_count('$table'::regclass)");
}

# Waits until autovacuum has had two more opportunities to vacuum any table: it has
# vacuumed this one twice.
sub two_ticks
{
	for (1 .. 2)
	{
		my $count = autovacuum_count('clock');

		$node->safe_psql('postgres', 'INSERT INTO clock VALUES (1), (2), (3); DELETE FROM clock');
		$node->poll_query_until('postgres', "SELECT pg_stat_get_autovacuum_count('clock'::regclass) > $count")
		  or die 'autovacuum does not come';
	}
	return;
}

make_table($node, 'visited', pages => $pages);
subtest 'autovacuum comes back, neither at once nor never' => sub {
	vacuum_part($node, 'visited', to => 120);
	my $died = let_die($node, 'visited', $one_a_page);
	my $log = log_end($node);

	start_vacuum($node, 'visited', worker => 1, threshold => 100);
	$node->wait_for_log(qr/automatic vacuum of table "postgres\.public\.visited".*?system usage/s, $log);
	is(join(' ', map { $_->{plan} } decisions($node, 'visited', $log)), 'resume', 'the head is left alone');
	honest($node, 'visited', $died);

	two_ticks();
	is(autovacuum_count('visited'), 1, 'it does not come back at once');

	# 90 rows are dead
	$died += let_die($node, 'visited', "k % $rows_per_page IN (8, 9) AND $block % 4 = 0 AND $block < 120");
	two_ticks();
	is(autovacuum_count('visited'), 1, '  nor when there are fewer than its threshold');

	# 150 are
	let_die($node, 'visited', "k % $rows_per_page IN (10, 11) AND $block % 4 = 0 AND $block < 120");
	ok($node->poll_query_until('postgres', q{SELECT pg_stat_get_autovacuum_count('visited'::regclass) = 2}),
		'  but when there are more');
	is(scalar decisions($node, 'visited', $log), 1, '  and begins a new cycle');
	$node->safe_psql('postgres', 'ALTER TABLE visited SET (autovacuum_enabled = off)');
	honest($node, 'visited', 0);
	settled($node, 'visited');
};

only_asked_for_crashes($node);
$node->stop;

done_testing();
