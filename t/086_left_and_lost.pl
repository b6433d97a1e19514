# What is lost or left on the way is known: dead row pointers that the store had no room
# for, and rows that died where an interrupted wrap had been already. pg_stat is told of
# them, so that autovacuum comes back. Those that a bypass leaves are told apart from
# those that were removed.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use Between;
use Oracle;
use Pass;
use Resume;

my $node = between_node('left', conf => "autovacuum = off\n");
my $pages = 240;
my $block = "k / $rows_per_page";

sub query
{
	return $node->safe_psql('postgres', @_);
}

# Dead rows and dead row pointers that are in the table
sub left_in
{
	my ($table) = @_;
	my $facts = facts($node, $table);

	return $facts->{dead_rows} + $facts->{dead_items};
}

sub known_dead
{
	my ($table) = @_;

	return query("SELECT pg_stat_get_dead_tuples('$table'::regclass)");
}

###############################################################################
# A wrap that was interrupted, and is continued
###############################################################################

# Rows die below the place where it was, on pages with pending row pointers. A plain VACUUM
# begins its wrap anew; one that may take a certain time only goes on with it, but looks
# again at such pages.
foreach my $story ([ 'anew', '' ], [ 'gone_on', "MAX_DURATION '1h'" ])
{
	my ($table, $options) = @$story;

	subtest "rows die where a wrap has been: $table" => sub {
		make_table($node, $table, pages => $pages);
		query("ALTER TABLE $table SET (autovacuum_vacuum_threshold = 20, autovacuum_vacuum_scale_factor = 0)");
		vacuum_part($node, $table, to => 150);
		let_die($node, $table, "k % 10 = 6 AND $block < 150 AND $block % 4 = 0");

		# into the wrap, but not to its end
		my $again = 0;
		for (1 .. 40)
		{
			vacuum($node, $table, options => "MAX_DURATION '1ms', RESUME on", set => ['vacuum_cost_delay = 0.2']);
			my $record = record($node, $table) or die "$table is vacuumed already";
			last if ($again = $record->{pages_scanned_again}) >= 25;
		}
		cmp_ok($again, '>=', 25, 'the wrap has got somewhere');
		my $died = let_die($node, $table, "k % 10 = 7 AND $block < 40");
		my $report = vacuum($node, $table, options => $options || 'RESUME auto');
		my $left = left_in($table);

		is(record($node, $table), undef, 'the cycle is finished');
		is($left, 0, '  and nothing is left');
		is(known_dead($table), 0, '  nor believed to be');
		cmp_ok(abs(facts($node, $table)->{reltuples} - query("SELECT count(*) FROM $table")), '<=', 0.03 * $pages * $rows_per_page,
			'  reltuples is right');
		Oracle::table_ok($node, 'postgres', $table);
	};
}

###############################################################################
# A bypass
###############################################################################

# What VERBOSE says of a table whose index pass was bypassed, and how that compares to
# what is there; so many pages of the head were scanned again.
sub bypassed
{
	my ($table, $report, %expected) = @_;
	my ($pages, $items) = $report->{text} =~
	  /^\s*index scan bypassed: (\d+) pages from table \(\d+\.\d\d% of total\) have (\d+) dead item identifiers$/m;
	my $facts = facts($node, $table);

	is($report->{plan}, 'resume and wrap', 'the vacuum goes on, and wraps');
	is_deeply([ $pages, $items ], [ @expected{qw(pages items)} ], '  index scan is bypassed, for so much');
	is($facts->{dead_items}, $expected{items}, '  which is left');
	is($facts->{dead_rows}, 0, '  and no dead row');
	is($report->{cycle_dead}, $expected{found}, '  no dead item is counted twice');
	is($report->{cycle_again}, $expected{again}, '  no page is scanned once more without need');
	is(known_dead($table), 0, '  autovacuum need not come for that');
	my $rows = query("SELECT count(*) FROM $table");
	cmp_ok(abs($facts->{reltuples} - $rows), '<=', 0.001 * $rows, '  reltuples is right');
	Oracle::table_ok($node, 'postgres', $table);
	return;
}

# A vacuum is stopped while it reaps. The next one does the rest of that, and finds a few
# rows that have died since on pages that were all-visible.
subtest 'what an earlier run collected is removed, what is found yet is left' => sub {
	my $table = 'removed_and_left';

	make_table($node, $table);
	my $record = stop_vacuum($node, $table, way => 'cancel', phase => 'vacuuming heap',
		when => 'heap_blks_vacuumed >= 60', set => [ $Resume::slowly, $Resume::saving ]);
	my $pending = query("SELECT pending_dead_tuples FROM vacuum_resume.progress WHERE relid = '$table'::regclass");
	let_die($node, $table, "k % 10 = 6 AND $block IN (4, 8, 12)");

	my $report = vacuum($node, $table, set => ['vacuum_resume.mode = resume']);
	my ($pages, $removed) = $report->{text} =~
	  /^\s*index scan done by an earlier run: (\d+) pages from table \(\d+\.\d\d% of total\) had (\d+) dead item identifiers removed$/m;
	is($removed, $pending, 'what was pending is removed');
	is($pages, $pending / 2, '  from its pages');
	# the last page is always read
	bypassed($table, $report, pages => 3, items => 6, found => 600 + 6, again => 3 + 1);
};

# Rows die on a page that waits for its row pointers to be removed: it is looked at once
# they are, and what that brings is left.
subtest 'all is removed but what a second look brings' => sub {
	my $table = 'looked_at_again';

	make_table($node, $table);
	vacuum_part($node, $table, to => 200);
	let_die($node, $table, "k % 10 = 6 AND $block = 10");

	my $report = vacuum($node, $table, set => ['vacuum_resume.mode = resume']);
	like($report->{text}, qr/^\s*index scan needed: 300 pages from table \(75\.00% of total\) had 600 dead item identifiers removed$/m,
		'what both runs collected is removed');
	bypassed($table, $report, pages => 1, items => 2, found => 600 + 2, again => 1);
};

# Few rows are dead, and more die on one of their pages before the vacuum goes on: it
# looks at these pages again, although it does not remove what is pending there.
subtest 'what an earlier run collected is left' => sub {
	my $table = 'all_left';
	my $rows = 400 * $rows_per_page;

	# not vacuumed yet, so that no page is skipped
	query(qq{
		CREATE TABLE $table (k int, filler text) WITH (autovacuum_enabled = off);
		INSERT INTO $table SELECT i, repeat('x', 368) FROM generate_series(0, $rows - 1) AS i;
		CREATE INDEX ${table}_k ON $table (k);
		DELETE FROM $table WHERE k % 10 = 2 AND $block IN (10, 20, 30)});
	is(vacuum_part($node, $table, to => 150)->{pending_dead_tuples}, 6, 'a few dead rows are found');
	let_die($node, $table, "k % 10 = 6 AND $block = 20");

	my $report = vacuum($node, $table, set => ['vacuum_resume.mode = resume']);
	unlike($report->{text}, qr/dead item identifiers removed$/m, 'nothing is removed');
	bypassed($table, $report, pages => 3, items => 6 + 2, found => 6 + 2, again => 3);
};

###############################################################################
# Another table decides
###############################################################################

# A TOAST table without options of its own has those of its table.
subtest 'the threshold of a TOAST table' => sub {
	query(q{
		CREATE TABLE long (k int, v text) WITH (autovacuum_enabled = off,
			autovacuum_vacuum_threshold = 7, autovacuum_vacuum_scale_factor = 0);
		ALTER TABLE long ALTER v SET STORAGE EXTERNAL;
		INSERT INTO long SELECT i, repeat('x', 5000) FROM generate_series(1, 600) AS i;
		VACUUM long});
	my $toast = query(q{SELECT reltoastrelid::regclass FROM pg_class WHERE relname = 'long'});
	query('DELETE FROM long WHERE k % 3 = 0');
	query("SET vacuum_cost_delay = 0.2; VACUUM (MAX_DURATION '1ms') $toast") for 1 .. 6;
	ok(query("SELECT count(*) FROM vacuum_resume.progress WHERE relation = '$toast'"), 'its vacuum is interrupted');
	query('DELETE FROM long WHERE k < 60 AND k % 3 = 1; SELECT pg_stat_force_next_flush()');
	is(query("SELECT plan FROM vacuum_resume.decide('$toast') WHERE chosen"), 'resume and wrap',
		'a few dead rows in the head are too many');
	query('ALTER TABLE long SET (autovacuum_vacuum_threshold = 1000)');
	is(query("SELECT plan FROM vacuum_resume.decide('$toast') WHERE chosen"), 'resume', '  if the table says so');
};

###############################################################################
# A store that is full
###############################################################################

$node->append_conf('postgresql.conf', "vacuum_resume.store_size = '128kB'\nvacuum_resume.history_size = 0\n");
$node->restart;

# Every third row of pages full of them: a list that is larger than the store
subtest 'a list that is lost' => sub {
	query(q{
		CREATE TABLE lost (k int, v int) WITH (autovacuum_enabled = off);
		INSERT INTO lost SELECT i, i FROM generate_series(0, 226 * 900 - 1) AS i;
		CREATE INDEX lost_k ON lost (k);
		VACUUM lost;
		ALTER TABLE lost SET (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);
		DELETE FROM lost WHERE k % 3 = 0;
		SELECT pg_stat_force_next_flush();});
	my $offset = -s $node->logfile;
	my $record = vacuum_part($node, 'lost', to => 800);

	like(slurp_file($node->logfile, $offset), qr/WARNING:  the store is too small to keep the list/, 'a warning is given');
	like(slurp_file($node->logfile, $offset), qr/HINT: .*vacuum_resume\.store_size/, '  that says what to do');
	is($record->{pending_dead_tuples}, 0, 'the list is not kept');
	is(query(q{SELECT plan FROM vacuum_resume.decide('lost') WHERE chosen}), 'resume and wrap',
		'the head is not taken to be clean');
	my $report = vacuum($node, 'lost', options => 'RESUME');
	is($report->{plan}, 'resume and wrap', '  nor left alone');
	is(left_in('lost'), 0, '  and nothing is left there');
	is(known_dead('lost'), 0, '  nor believed to be');
	Oracle::table_ok($node, 'postgres', 'lost');
};

only_asked_for_crashes($node);
$node->stop;

done_testing();
