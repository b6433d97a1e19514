# A vacuum that has to freeze may leave the head of an interrupted one alone as well, but
# only if what was frozen there is enough for it. relfrozenxid advances as far as it may,
# whatever is left.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use Between;
use Oracle;
use Pass;
use Resume;

my $node = between_node('aggressive');

# The vacuum is interrupted a little beyond the middle.
my $pages = 240;
my $cursor = 124;
my $block = "k / $rows_per_page";

# Rows of the head, one on each of 30 all-visible pages
my $one_a_page = "k % $rows_per_page = 7 AND $block % 4 = 0 AND $block < 120";
my $discarded = qr/LOG:  discarding the saved progress of the vacuum of table/;

sub relfrozenxid
{
	my ($table) = @_;
	return $node->safe_psql('postgres', "SELECT relfrozenxid FROM pg_class WHERE oid = '$table'::regclass");
}

# The oldest XID in a table that is not frozen, or the next one
sub oldest_xid
{
	my ($table) = @_;

	return $node->safe_psql(
		'postgres', qq{
		SELECT least(min(xid), pg_snapshot_xmax(pg_current_snapshot())::text::bigint)
		FROM generate_series(0, pg_relation_size('$table') / 8192 - 1) AS block,
			heap_page_items(get_raw_page('$table', block::int)),
			LATERAL (VALUES
				(CASE WHEN t_infomask & 768 <> 768 THEN t_xmin::text::bigint END),
				(CASE WHEN t_infomask & 2048 = 0 AND t_xmax <> 0 THEN t_xmax::text::bigint END)) AS x (xid)
		WHERE lp_flags = 1});
}

# Tests that relfrozenxid has advanced to where it had to, but not beyond an XID that
# is left.
sub frozen_right
{
	my ($table, $goal) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $xid = relfrozenxid($table);

	cmp_ok($xid, '>=', $goal, '  relfrozenxid has advanced');
	cmp_ok($xid, '<=', oldest_xid($table), '  but not beyond what is left');
	return;
}

###############################################################################
# Aggressive vacuums
###############################################################################

# What the first run has frozen in the head does for an aggressive vacuum: it goes on
# with the tail only.
make_table($node, 'frozen', pages => $pages);
burn_xids($node, 20);
subtest 'VACUUM (FREEZE, RESUME)' => sub {
	my $goal = $node->safe_psql('postgres', 'SELECT pg_snapshot_xmin(pg_current_snapshot())');

	vacuum_part($node, 'frozen', to => 120, options => 'FREEZE');
	my $died = let_die($node, 'frozen', $one_a_page);
	burn_xids($node, 20);
	my $log = log_end($node);
	my $report = vacuum($node, 'frozen', options => 'FREEZE, RESUME');

	is($report->{plan}, 'resume', 'the head is left alone');
	is($report->{scanned}, $pages - $cursor, '  only the tail is scanned');
	# every fourth page of the tail is all-visible, and scanned to be frozen only
	located($node, 'frozen', $log, $died);
	frozen_right('frozen', $goal);
	honest($node, 'frozen', $died);
	settled($node, 'frozen', dead => $died);
};

# One that fails counts no more pages: what it knows of the tail follows from the head.
make_table($node, 'failed', pages => $pages);
burn_xids($node, 20);
subtest 'VACUUM (FREEZE) fails' => sub {
	$node->restart;			# the page must not be in the buffers
	my $repair = garble($node, 'failed', $cursor);
	stop_vacuum($node, 'failed', way => 'error', options => 'FREEZE');
	$repair->();
	my $died = let_die($node, 'failed', $one_a_page);
	my $log = log_end($node);

	is(vacuum($node, 'failed', options => 'FREEZE, RESUME')->{plan}, 'resume', 'the head is left alone');
	located($node, 'failed', $log, $died);
	# in 87 pages of the tail
	my ($decision) = decisions($node, 'failed', $log);
	cmp_ok(abs($decision->{tail_dead} - 174), '<=', 18,
		"$decision->{tail_dead} rows are believed to be dead in the tail, of 174 that are");
	settled($node, 'failed', dead => $died);
};

# What a plain one has left unfrozen does not: it has to begin anew, even if it is asked
# to resume. Nor do pages that were skipped.
make_table($node, 'unfrozen', pages => $pages);
make_table($node, 'skipped', pages => $pages, dead => "k % 10 = 2 AND $block % 4 <> 0 AND $block > 50");
burn_xids($node, 20);
foreach my $story (
	[ 'unfrozen', 'an aggressive vacuum has to freeze more than was frozen' ],
	[ 'skipped', 'an aggressive vacuum has to scan pages that were skipped' ])
{
	my ($table, $because) = @$story;

	subtest "VACUUM (FREEZE, RESUME) of what is $table" => sub {
		vacuum_part($node, $table, to => 120);
		let_die($node, $table, $one_a_page);
		my $log = log_end($node);
		my $report = vacuum($node, $table, options => 'FREEZE, RESUME', set => ['vacuum_resume.mode = resume']);

		like(log_since($node, $log), qr/$discarded "public\.$table": $because\n/, 'it starts over, and says why');
		is($report->{scanned}, $pages, '  it scans all pages');
		is(relfrozenxid($table), $report->{cutoff}, '  and freezes all rows');
		settled($node, $table);
	};
}

# Without FREEZE the tail only is right for that table, but tells nothing of the pages
# that the first run has skipped.
make_table($node, 'skipped_again', pages => 64, dead => 'false');
burn_xids($node, 20);
$node->safe_psql(
	'postgres', qq{
	INSERT INTO skipped_again SELECT i, i, repeat('x', 364)
		FROM generate_series(64 * $rows_per_page, $pages * $rows_per_page - 1) AS i;
	SET vacuum_resume.enabled = off;
	VACUUM skipped_again;
	DELETE FROM skipped_again WHERE k % 10 = 2 AND $block % 4 <> 0 AND $block >= 64});
subtest 'pages that the first run has skipped' => sub {
	my $xid = relfrozenxid('skipped_again');

	is(vacuum_part($node, 'skipped_again', to => 120)->{pages_scanned}, 62, 'older rows are skipped');
	my $died = let_die($node, 'skipped_again', $one_a_page);
	is(vacuum($node, 'skipped_again', options => 'RESUME')->{plan}, 'resume', 'the head is left alone');
	is(relfrozenxid('skipped_again'), $xid, '  relfrozenxid does not advance');
	honest($node, 'skipped_again', $died);
	settled($node, 'skipped_again', dead => $died);
};

###############################################################################
# Against wraparound
###############################################################################

# Workers that have to freeze a table's rows are held at a page in the middle, and
# cancelled there. Those that come next go on with the tail only if they may.
my %old = (
	old_below => { threshold => 100, plan => 'resume' },
	old_above => { threshold => 10, plan => 'resume and wrap' },
	old_plain => { threshold => 50, plan => undef });
my @held = qw(old_above old_below);

make_table($node, $_, pages => $pages) foreach sort keys %old;
$node->safe_psql('postgres', 'ALTER SYSTEM SET autovacuum = off');
$node->reload;
$node->safe_psql(
	'postgres', qq{
	ALTER TABLE $_ SET (autovacuum_freeze_max_age = 100000, autovacuum_freeze_table_age = 0,
		autovacuum_freeze_min_age = 1000,
		autovacuum_vacuum_threshold = $old{$_}{threshold}, autovacuum_vacuum_scale_factor = 0)})
  foreach sort keys %old;
burn_xids($node, 101_000);

subtest 'workers are cancelled' => sub {
	my @holders = map { hold_block($node, $_, $cursor) } @held;
	# that one is not for them yet
	$node->safe_psql('postgres', 'ALTER TABLE old_plain SET (autovacuum_freeze_max_age = 200000)');
	$node->safe_psql('postgres', 'ALTER SYSTEM SET autovacuum = on');
	$node->reload;
	wait_for_pin_wait($node, $_, 'scanning heap') foreach @held;
	$node->safe_psql('postgres', 'ALTER SYSTEM SET autovacuum = off');
	$node->reload;
	$node->poll_query_until('postgres',
		q{SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'autovacuum launcher')})
	  or die 'the launcher does not end';
	# one that is cancelled goes on with the next table
	$node->poll_query_until('postgres',
		q{SELECT count(pg_cancel_backend(pid)) = 0 FROM pg_stat_activity WHERE backend_type = 'autovacuum worker'})
	  or die 'workers do not end';
	$_->quit foreach @holders;
	is(record($node, $_)->{next_block}, $cursor, "$_ is scanned up to where it was held") foreach @held;

	# a plain vacuum freezes none of these rows
	vacuum_part($node, 'old_plain', to => 120);
	$node->safe_psql('postgres', 'ALTER TABLE old_plain SET (autovacuum_freeze_max_age = 100000)');
};

my %died = map { $_ => let_die($node, $_, $one_a_page) } sort keys %old;
my $goal = $node->safe_psql('postgres', 'SELECT pg_snapshot_xmin(pg_current_snapshot())') - 1000;
my $old_log = log_end($node);

$node->safe_psql('postgres', 'ALTER SYSTEM SET autovacuum = on');
$node->reload;

foreach my $table (sort keys %old)
{
	my ($plan, $died) = ($old{$table}{plan}, $died{$table});

	subtest "to prevent wraparound: $table" => sub {
		$node->wait_for_log(
			qr/automatic aggressive vacuum to prevent wraparound of table "postgres\.public\.$table".*?system usage/s, $old_log);
		my @decisions = decisions($node, $table, $old_log);

		if ($plan)
		{
			is(join(' ', map { $_->{plan} } @decisions), $plan, $plan);
		}
		else
		{
			is(scalar @decisions, 0, 'nothing is to be decided');
			like(log_since($node, $old_log),
				qr/$discarded "public\.$table": an aggressive vacuum has to freeze more than was frozen\n/,
				'  it starts over, and says why');
		}
		frozen_right($table, $goal);
		honest($node, $table, ($plan // '') eq 'resume' ? $died : 0);
		settled($node, $table, dead => ($plan // '') eq 'resume' ? $died : 0);
	};
}

only_asked_for_crashes($node);
$node->stop;

done_testing();
