# What is lost or left on the way is known: dead row pointers that the store had no room
# for, and rows that died where an interrupted wrap had been already. pg_stat is told of
# them, so that autovacuum comes back.

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

# Rows die below the place where it was. A plain VACUUM begins its wrap anew; one that may
# take a certain time only goes on with it, and leaves them.
foreach my $story ([ 'anew', '', 0 ], [ 'gone_on', "MAX_DURATION '1h'", 1 ])
{
	my ($table, $options, $leaves) = @$story;

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
		if ($leaves)
		{
			cmp_ok($left, '>', 0, '  rows are left');
			cmp_ok(abs(known_dead($table) - $left), '<=', 0.6 * $left,
				"  and pg_stat knows of about so many: " . known_dead($table) . " of $left");
		}
		else
		{
			is($left, 0, '  and nothing is left');
			is(known_dead($table), 0, '  nor believed to be');
		}
		cmp_ok(abs(facts($node, $table)->{reltuples} - query("SELECT count(*) FROM $table")), '<=', 0.03 * $pages * $rows_per_page,
			'  reltuples is right');
		Oracle::table_ok($node, 'postgres', $table);
	};
}

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
