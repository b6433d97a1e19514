# What a run leaves in the head is told from what pg_stat has counted, and it is left only
# where it is sure that it is little. Pages between vacuumable ones are part of the price.

use strict;
use warnings;

use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

use Between;
use Oracle;
use Pass;
use Resume;

my $node = between_node('counted', conf => "autovacuum = off\n");
my $pages = 240;
my $block = "k / $rows_per_page";

sub query
{
	return $node->safe_psql('postgres', @_);
}

sub last_run
{
	my ($table) = @_;

	return decode_json(query(qq{
		SELECT json_agg(h) FROM (SELECT * FROM vacuum_resume.history
			WHERE relid = '$table'::regclass ORDER BY run DESC LIMIT 1) AS h}))->[0];
}

# Cancel a vacuum while it waits for a page of an index.
sub stop_in_index
{
	my ($table, $index, %opt) = @_;

	return stop_vacuum($node, $table, way => 'cancel', phase => 'vacuuming indexes',
		holder => hold_index($node, $table, $index), %opt,
		when => q{EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = p.pid AND wait_event = 'BufferPin')});
}

# pg_stat's count of dead rows is as far from the truth as this share of it.
sub counted
{
	my ($table, $share) = @_;
	my $facts = facts($node, $table);

	cmp_ok(abs($facts->{n_dead} - $facts->{dead_rows}), '<=', 5 + $share * $facts->{dead_rows},
		"of $facts->{dead_rows} dead rows that are left pg_stat knows $facts->{n_dead}");
	return $facts;
}

###############################################################################
# What is left is what was counted and not removed
###############################################################################

# The rows of an INSERT that was rolled back, too wide for any page of the head, are dead
# rows of the tail, which the run removes; its old pages are all dirty, and so do not tell
# where rows died.
make_table($node, 'rolled_back', pages => $pages, dead => "k % $rows_per_page > 2");
subtest 'rows were added and rolled back' => sub {
	vacuum_part($node, 'rolled_back', to => 120);
	let_die($node, 'rolled_back', "k % $rows_per_page = 1 AND k < 10 * $rows_per_page");
	query(q{
		ALTER TABLE rolled_back ALTER filler SET STORAGE PLAIN;
		BEGIN; INSERT INTO rolled_back SELECT i, i, repeat('x', 7500) FROM generate_series(1, 1000) AS i; ROLLBACK;
		SELECT pg_stat_force_next_flush()});
	query('ALTER TABLE rolled_back SET (autovacuum_vacuum_threshold = 100000)');
	is(vacuum($node, 'rolled_back', options => 'RESUME')->{plan}, 'resume', 'the head is left alone');
	counted('rolled_back', 0.1);
};

# A save in between does not forget what was counted before it.
make_table($node, 'saved', pages => $pages, dead => 'k % 4 = 0');
subtest 'a slice between the deletes and the end' => sub {
	vacuum_part($node, 'saved', to => 160);
	let_die($node, 'saved', "k % 4 = 1 AND $block < 120");
	query('ALTER TABLE saved SET (autovacuum_vacuum_threshold = 100000)');
	vacuum_part($node, 'saved', to => 180, options => 'RESUME');
	is(vacuum($node, 'saved', options => 'RESUME')->{plan}, 'resume', 'the head is left alone');
	counted('saved', 0.1);
};

# A crash loses the count; what dies after it is known all the same.
make_table($node, 'lost', pages => $pages, dead => 'k % 4 = 0');
subtest 'a crash between the start of the cycle and a save' => sub {
	vacuum_part($node, 'lost', to => 160);
	$node->stop('immediate');
	$node->start;
	let_die($node, 'lost', "k % 4 = 1 AND $block < 120");
	query('ALTER TABLE lost SET (autovacuum_vacuum_threshold = 100, autovacuum_vacuum_scale_factor = 0)');
	vacuum_part($node, 'lost', to => 180, options => 'RESUME');
	my $plan = query("SELECT plan FROM vacuum_resume.decide('lost', 'VACUUM (RESUME)') WHERE chosen");

	is($plan, 'resume and wrap', 'the head needs a vacuum');
	vacuum($node, 'lost', options => 'RESUME');
	counted('lost', 0.1);
};

# It does not know of rows that died before the crash, and of which more are removed than
# it has counted: that is no reason to believe that nothing is left.
make_table($node, 'unknown', pages => $pages, dead => 'k % 4 = 0');
$node->stop('immediate');
$node->start;
subtest 'a crash before the cycle' => sub {
	let_die($node, 'unknown', 'k = 1');
	vacuum_part($node, 'unknown', to => 60, options => 'INDEX_CLEANUP off');
	my $died = let_die($node, 'unknown', "k % $rows_per_page = 1 AND k < 10 * $rows_per_page");
	is(vacuum($node, 'unknown', options => 'RESUME, INDEX_CLEANUP off')->{plan}, 'resume', 'the head is left alone');
	my $known = facts($node, 'unknown')->{n_dead};

	cmp_ok($known, '>=', 1, "  and of $died dead rows there pg_stat knows $known");
	cmp_ok($known, '<=', $died, '  and no more');
	cmp_ok(query("SELECT n_live_tup FROM pg_stat_user_tables WHERE relname = 'unknown'"), '<=', 3600,
		'  and of no more live ones than there were');
};

###############################################################################
# R10 rests on what is sure
###############################################################################

# All that dies is in the head, but as the tail has no clean page, nothing tells.
make_table($node, 'hot', pages => $pages, dead => "k % $rows_per_page = 3");
subtest 'a dirty tail does not tell' => sub {
	vacuum_part($node, 'hot', to => 60);
	my $died = let_die($node, 'hot', "k % 2 = 0 AND $block < 60");
	query(sprintf 'ALTER TABLE hot SET (autovacuum_vacuum_threshold = %d, autovacuum_vacuum_scale_factor = 0)',
		$died - 1);
	my $report = vacuum($node, 'hot', options => 'RESUME');

	is($report->{plan}, 'resume and wrap', 'a head that may be over the threshold is vacuumed');
	is(last_run('hot')->{reason}, 'the head may have more dead rows than the vacuum threshold', '  for that reason');
	counted('hot', 0);
};

###############################################################################
# Live rows
###############################################################################

# A wrap has been where rows die then. They are left to the next vacuum, which does not
# take them for live rows of the pages that it skips, nor out of these once more.
make_table($node, 'density', pages => $pages);
subtest 'rows that are left are taken out once' => sub {
	vacuum_part($node, 'density', to => 200);
	let_die($node, 'density', "k % 10 = 6 AND $block < 200");
	stop_in_index('density', 'v');
	let_die($node, 'density', "$block >= 100");
	vacuum($node, 'density', options => "MAX_DURATION '1h'");
	vacuum($node, 'density', options => 'TRUNCATE off');
	my $live = query('SELECT count(*) FROM density');
	my $facts = facts($node, 'density');

	cmp_ok(abs($facts->{reltuples} - $live), '<=', 0.1 * $live, "of $live live rows pg_class knows $facts->{reltuples}");
};

###############################################################################
# Pages that wait
###############################################################################

# A run that leaves the head alone does not forget which pages an earlier one's wrap has
# left alone for their pending row pointers.
make_table($node, 'waits', pages => $pages);
subtest 'a run in between leaves the head alone' => sub {
	vacuum_part($node, 'waits', to => 200);
	let_die($node, 'waits', "k % $rows_per_page = 7 AND $block IN (1, 41, 81, 121)");
	stop_in_index('waits', 'v');
	stop_in_index('waits', 'v', options => 'RESUME');
	is(last_run('waits')->{plan}, 'resume', 'one run leaves the head alone');
	vacuum($node, 'waits', options => "MAX_DURATION '1h'");
	is(facts($node, 'waits')->{dead_rows}, 0, '  and the next does what waits there');
	is(record($node, 'waits'), undef, '  which is the end of it');
};

###############################################################################
# Pages between vacuumable ones
###############################################################################

# A dead row on every 25th page: a first pass reads nearly all of them.
make_table($node, 'sparse', pages => 800, dead => "k % $rows_per_page = 3 AND $block % 25 = 0");
subtest 'dead rows are far between' => sub {
	vacuum_part($node, 'sparse', to => 200);
	my ($plan, $priced, $rows) = split /\|/, query(
		q{SELECT plan, heap_pages, dead_rows_ahead FROM vacuum_resume.decide('sparse', 'VACUUM (RESUME)') WHERE chosen});
	my $report = vacuum($node, 'sparse', options => 'RESUME, PARALLEL 0');
	my $run = last_run('sparse');

	cmp_ok($run->{pages_scanned}, '>=', 500, 'the tail is read');
	cmp_ok(abs($run->{pages_scanned} - $priced), '<=', 40, "  of which $priced pages were expected to be");
	cmp_ok(abs($rows - 24), '<=', 3, "  with $rows dead rows");
	Oracle::table_ok($node, 'postgres', 'sparse');
};

only_asked_for_crashes($node);
$node->stop;

done_testing();
