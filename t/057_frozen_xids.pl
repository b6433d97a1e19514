# What a vacuum of many runs may say of the XIDs that are left in a table. First
# ordinary ones: the oldest XID may lie in a part that only the first run has seen.
# Then aggressive ones, which have to advance relfrozenxid, and do so after ten
# stops; as long as the work of the earlier runs is good enough for that, no page is
# scanned twice.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use Oracle;
use Pass;
use Resume;

my $node = resume_node('aggressive');

###############################################################################
# The oldest XID
###############################################################################

# 400 pages; the rows of the first half are older than those of the second
sub make_halves
{
	my ($table, $dead) = @_;

	make_table($node, $table, pages => 200, dead => 'false');
	$node->safe_psql('postgres', 'SELECT pg_current_xact_id()') foreach 1 .. 20;
	$node->safe_psql(
		'postgres', qq{
		INSERT INTO $table SELECT i, i, repeat('x', 364) FROM generate_series(4000, 7999) AS i;
		SET vacuum_resume.enabled = off;
		VACUUM $table;
		DELETE FROM $table WHERE $dead;});
	return;
}

# A row in each half is locked by a transaction and updated by another one, which
# aborts: so it has an MXID that stays. The one in the first half is older.
sub leave_mxids
{
	my ($table) = @_;
	my @sessions = map { $node->background_psql('postgres') } 1, 2;

	foreach my $k (101, 7001)
	{
		$sessions[0]->query_safe("BEGIN; SELECT 1 FROM $table WHERE k = $k FOR KEY SHARE");
		$sessions[1]->query_safe("BEGIN; UPDATE $table SET filler = '' WHERE k = $k");
		$sessions[1]->query_safe('ROLLBACK');
		$sessions[0]->query_safe('COMMIT');
	}
	$_->quit foreach @sessions;
	return;
}

sub oldest_mxid
{
	my ($table) = @_;

	return $node->safe_psql(
		'postgres', qq{
		SELECT min(t_xmax::text::bigint)
		FROM generate_series(0, 399) AS block, heap_page_items(get_raw_page('$table', block))
		WHERE lp_flags = 1 AND t_infomask & 4096 <> 0});
}

sub xids_of
{
	my ($table) = @_;

	return $node->safe_psql('postgres',
		"SELECT relfrozenxid, relminmxid FROM pg_class WHERE oid = '$table'::regclass");
}

# First where each page is scanned, then where the first half is skipped: its rows
# are not known to be frozen
foreach my $story (
	[ 'halves_scanned', 'k % 10 = 2', 400 ],
	[ 'halves_skipped', 'k >= 4000 AND k % 10 = 2', 205 ])
{
	my ($name, $dead, $least) = @$story;

	make_halves($_, $dead) foreach "${name}_whole", $name;
	my $whole = vacuum_by_server($node, "${name}_whole");
	my $facts = facts($node, "${name}_whole");
	cmp_ok($whole->{scanned}, $least == 400 ? '>=' : '<=', $least, "$name: an uninterrupted vacuum");

	subtest "the oldest XID is where the second run has not been: $name" => sub {
		my $before = xids_of($name);
		leave_mxids($name) if $least == 400;
		stop_vacuum($node, $name, way => 'cancel', set => [$Resume::slowly],
			phase => 'scanning heap', when => 'heap_blks_scanned >= 250');
		my $rest = vacuum($node, $name);

		is($rest->{run}, 2, 'the second run goes on');
		finished_alike($node, $name, whole => $facts, but => ['relminmxid']);
		is(xids_of($name), $before, '  what was not scanned keeps relfrozenxid back') if $least < 400;
		is(facts($node, $name)->{relminmxid}, oldest_mxid($name), '  relminmxid is the oldest MXID left')
		  if $least == 400;
	};
}

###############################################################################
# Aggressive vacuums
###############################################################################

# Tables of rows of 100 transactions, and transactions after them
foreach my $table (qw(frozen aged))
{
	foreach my $suffix ('', '_stopped', '_stopped_busy')
	{
		my $name = "$table$suffix";

		make_table($node, $name, pages => 100, dead => 'false');
		$node->safe_psql(
			'postgres', qq{
			DO \$\$
			BEGIN
				FOR i IN 0..99 LOOP
					INSERT INTO $name SELECT 2000 + 60 * i + j, j, repeat('x', 364)
						FROM generate_series(0, 59) j;
					COMMIT;
				END LOOP;
			END \$\$;
			SET vacuum_resume.enabled = off;
			VACUUM $name;
			DELETE FROM $name WHERE k % 10 = 2 AND k / 20 % 4 <> 0;});
	}
}
burn_xids($node, 20);

foreach my $kind (
	[ 'frozen', 0, 'FREEZE' ],
	[ 'aged', 70, undef, 'vacuum_freeze_table_age = 0', 'vacuum_freeze_min_age = 70' ])
{
	my ($name, $min_age, $options, @set) = @$kind;
	my $whole = vacuum_by_server($node, $name, options => $options, set => \@set);
	my $facts = facts($node, $name);
	my @places = map { [ 'scanning heap', "heap_blks_scanned >= $_", 'cancel' ] } map { 35 * $_ } 1 .. 10;
	my %vacuum = (options => $options, set => [ @set, $Resume::slowly ]);

	subtest "aggressive, stopped ten times: $name" => sub {
		my $report = vacuum_with_stops($node, "${name}_stopped", \@places, %vacuum);

		is($report->{run}, 11, 'after ten stops it is done');
		cmp_ok($report->{cycle_scanned} + $report->{cycle_again}, '<=', 1.02 * $whole->{scanned},
			'  and has scanned no page twice');
		finished_alike($node, "${name}_stopped",
			whole => $facts, frozen_to => $whole->{cutoff} - $min_age);
	};

	# An uninterrupted vacuum promises what it had to freeze when it began, and so does
	# one of many runs
	subtest "aggressive, stopped ten times while XIDs are used up: $name" => sub {
		my $cutoff = $node->safe_psql('postgres', 'SELECT pg_snapshot_xmin(pg_current_snapshot())');
		my $report = vacuum_with_stops($node, "${name}_stopped_busy", \@places, %vacuum, busy => 1);

		is($report->{run}, 11, 'after ten stops it is done');
		cmp_ok($report->{cycle_scanned} + $report->{cycle_again}, '<=', 1.02 * $whole->{scanned},
			'  and has scanned no page twice');
		finished_alike($node, "${name}_stopped_busy",
			whole => $facts, frozen_to => $cutoff - $min_age);
	};
}

# A run that has to freeze younger rows than the cycle's first cannot go on with it
subtest 'asked to freeze more than at first' => sub {
	my $table = 'asked_for_more';

	make_table($node, $table, pages => 100, dead => 'k % 10 = 2');
	burn_xids($node, 20);
	stop_vacuum($node, $table, way => 'cancel', phase => 'scanning heap', when => 'heap_blks_scanned >= 50',
		set => [ 'vacuum_freeze_table_age = 0', 'vacuum_freeze_min_age = 1000', $Resume::slowly ]);
	my $offset = -s $node->logfile;
	my $report = vacuum($node, $table, options => 'FREEZE');

	like(
		slurp_file($node->logfile, $offset),
		qr/discarding the saved progress of the vacuum of table ".*$table": an aggressive vacuum has to freeze more/,
		'it starts over, and says why');
	is($report->{scanned}, 100, '  scans all pages');
	is($node->safe_psql('postgres', "SELECT relfrozenxid FROM pg_class WHERE relname = '$table'"),
		$report->{cutoff}, '  and freezes all rows');
};

only_asked_for_crashes($node);
$node->stop;

done_testing();
