# A table is written to all the time while its vacuum is cut short again and again. It
# gets to its end all the same, and what is known of the head stays right.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use Between;
use Oracle;
use Pass;
use Resume;

my $node = between_node('hot', conf => "autovacuum = off\n");
my $pages = 240;
my $block = "k / $rows_per_page";

sub query
{
	return $node->safe_psql('postgres', @_);
}

sub known_dead
{
	my ($table) = @_;

	return query("SELECT pg_stat_get_dead_tuples('$table'::regclass)");
}

# What is thought to be dead in the head, pending row pointers apart
sub believed
{
	my ($table) = @_;

	return query("SELECT dead_rows_behind FROM vacuum_resume.decide('$table') LIMIT 1");
}

# Rows that are dead in the head in truth, pruned or not, but for pending row pointers
sub dead_in_head
{
	my ($table) = @_;

	return query(qq{
		SELECT count(*) - max(pending_dead_tuples) FROM vacuum_resume.progress AS p,
			generate_series(0, p.next_block - 1) AS block,
			heap_page_items(get_raw_page('$table', block::int)) AS item
		WHERE p.relid = '$table'::regclass
			AND (lp_flags = 3 OR lp_flags = 1 AND t_xmax <> 0 AND t_infomask & 2048 = 0)});
}

###############################################################################
# Slices
###############################################################################

# Each slice is shorter than the head takes, and in between rows die everywhere. A slice
# that gets no further than to remove what is pending must not lose where the wrap was.
make_table($node, 'sliced', pages => $pages);
query('ALTER TABLE sliced SET (autovacuum_vacuum_threshold = 20, autovacuum_vacuum_scale_factor = 0)');
subtest 'rows die between any two slices' => sub {
	my $slices = 0;
	my ($most, $truth) = (0, 0);

	for (1 .. 80)
	{
		query("UPDATE sliced SET v = v + 1 WHERE k % 97 = $slices");
		query('SELECT pg_stat_force_next_flush()');
		vacuum($node, 'sliced', options => "MAX_DURATION '1ms', RESUME", set => ['vacuum_cost_delay = 0.2']);
		$slices++;
		my $record = record($node, 'sliced') or last;
		next if $record->{pages_scanned_again} < $pages / 2;
		($most, $truth) = (believed('sliced'), dead_in_head('sliced'));
	}
	is(record($node, 'sliced'), undef, "it is done after $slices slices");
	my ($again) = query(
		q{SELECT sum(pages_scanned_again) FROM vacuum_resume.history WHERE relid = 'sliced'::regclass});
	cmp_ok($again, '<', 2 * $pages, "  $again pages of the head were scanned again");
	cmp_ok($most, '<=', 3 * $truth + 100, "  near the end $most rows are believed to be dead there, of $truth that are");
	Oracle::table_ok($node, 'postgres', 'sliced', '  and the table is sound');
};

# A slice that is cut off in an index pass, or while it reaps, does not forget the pages
# that the wrap has left alone for their pending row pointers.
make_table($node, 'waiting', pages => $pages);
query('ALTER TABLE waiting SET (autovacuum_vacuum_threshold = 20, autovacuum_vacuum_scale_factor = 0)');
subtest 'rows have died on pages with pending row pointers' => sub {
	vacuum_part($node, 'waiting', to => 200);
	my $died = let_die($node, 'waiting', "k % $rows_per_page = 7 AND $block < 80 AND $block % 4 <> 0");
	my $report = vacuum_in_slices($node, 'waiting', slice => '1ms', options => 'RESUME',
		set => ['vacuum_cost_delay = 0.2']);
	my $facts = facts($node, 'waiting');

	cmp_ok($report->{runs}, '>', 3, "some slices remove $died rows");
	is("$facts->{dead_rows} $facts->{dead_items} $facts->{n_dead}", '0 0 0', '  and nothing is left');
};

# What a slice leaves where the wrap has been is known, also after a crash has lost the
# statistics.
make_table($node, 'wrapped', pages => $pages);
subtest 'rows die where a wrap has been, and the server crashes' => sub {
	vacuum_part($node, 'wrapped', to => 200);
	let_die($node, 'wrapped', "k % 10 = 6 AND $block < 200");
	my $holder = hold_index($node, 'wrapped', 'v');
	stop_vacuum($node, 'wrapped', way => 'kill_all', phase => 'vacuuming indexes', holder => $holder,
		when => q{EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = p.pid AND wait_event = 'BufferPin')},
		set => [$Resume::saving]);
	query("DELETE FROM wrapped WHERE k % $rows_per_page = 9 AND $block < 150; SELECT pg_stat_force_next_flush()");
	vacuum($node, 'wrapped', options => "MAX_DURATION '1h'");
	my $facts = facts($node, 'wrapped');

	is(record($node, 'wrapped'), undef, 'the cycle is over');
	cmp_ok($facts->{dead_rows}, '>', 50, "  $facts->{dead_rows} rows are left");
	cmp_ok(abs($facts->{n_dead} - $facts->{dead_rows}), '<=', 0.5 * $facts->{dead_rows},
		"  and $facts->{n_dead} are believed to be");
};

# Rows that a query has pruned before they are collected are gone as well.
make_table($node, 'collected', pages => $pages);
subtest 'row pointers that were dead before' => sub {
	vacuum_part($node, 'collected', to => 31);
	let_die($node, 'collected', "k % 10 IN (4, 6) AND $block >= 70");
	query('SELECT count(*) FROM collected');
	vacuum_part($node, 'collected', to => $pages);
	my $died = let_die($node, 'collected', "k % $rows_per_page = 7 AND $block < 60 AND $block % 4 = 0");
	my $believed = believed('collected');

	cmp_ok($believed, '>=', $died, "$believed rows are believed to have died in the head, of $died that did");
	cmp_ok($believed, '<=', 4 * $died, '  which is not far off');
};

###############################################################################
# Live rows
###############################################################################

# The wrap reads pages that the cycle has skipped before, as they were all-visible.
make_table($node, 'skipped', pages => $pages, dead => "k % 10 = 2 AND $block >= 180");
subtest 'a wrap reads what was skipped' => sub {
	vacuum_part($node, 'skipped', to => 200);
	let_die($node, 'skipped', "k % 10 = 6 AND $block < 180");
	vacuum($node, 'skipped');
	my ($believed, $rows) = split /\|/, query(
		q{SELECT reltuples, (SELECT count(*) FROM skipped) FROM pg_class WHERE relname = 'skipped'});

	cmp_ok(abs($believed - $rows), '<=', 0.02 * $rows, "$believed rows are believed to be there, of $rows that are");
	is(query(q{SELECT n_live_tup = reltuples FROM pg_stat_user_tables
			JOIN pg_class ON pg_class.oid = relid WHERE pg_class.relname = 'skipped'}), 't', '  by pg_stat as well');
};

###############################################################################
# A count that goes down
###############################################################################

# Queries prune the tail's dead rows, which are HOT, so that the count of dead rows hardly
# grows when many others die in the head.
query(q{
	CREATE TABLE pruned (k int, v text) WITH (fillfactor = 50, autovacuum_enabled = off,
		autovacuum_vacuum_threshold = 400, autovacuum_vacuum_scale_factor = 0);
	INSERT INTO pruned SELECT i, repeat('x', 96) FROM generate_series(1, 20000) AS i;
	CREATE INDEX ON pruned (k)});
query('VACUUM (FREEZE, ANALYZE) pruned');
query('UPDATE pruned SET v = v WHERE k % 3 = 0');
subtest 'pruning hides what has died' => sub {
	vacuum_part($node, 'pruned', to => 240);
	my $before = known_dead('pruned');
	query('DELETE FROM pruned WHERE k % 4 = 1; SELECT pg_stat_force_next_flush()');
	my $after = known_dead('pruned');
	my ($believed, $truth) = (believed('pruned'), dead_in_head('pruned'));

	cmp_ok($after - $before, '<', 0.3 * 5000, 'the count has not grown by the 5000 rows that have died');
	cmp_ok($truth, '>', 400, '  of which more than the threshold are in the head');
	cmp_ok(abs($believed - $truth), '<=', 0.3 * $truth, "  $believed, as is believed, of $truth");
	is(vacuum($node, 'pruned', options => 'RESUME')->{plan}, 'resume and wrap', '  so it is not left alone');
	is(facts($node, 'pruned')->{dead_rows}, 0, '  and none is left');
};

$node->stop;

done_testing();
