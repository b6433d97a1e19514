# Autovacuum is cancelled by one lock request after the other, or cut off by
# restarts: its next worker goes on by itself, and no page is asked for twice.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use Oracle;
use Pass;
use Resume;

my $node = resume_node('autovacuum');

# What the last autovacuum of a table since a position reports
sub last_report
{
	my ($table, $position) = @_;
	my $log = log_since($node, $position);

	# the report is one message; its last line is the system usage
	my @reports = $log =~ /LOG:  (automatic [a-z ]*vacuum [a-z ]*of table "postgres\.public\.$table": .*?system usage: [^\n]*)/gs;
	my %report = (text => $reports[-1] // '', number => scalar @reports);

	($report{scanned}) = $report{text} =~ /pages: \d+ removed, \d+ remain, (\d+) scanned/;
	@report{qw(run from pending verified)} =
	  $report{text} =~ /cycle: run (\d+), continued at block (\d+) of \d+ with (\d+) dead item identifiers pending, (\d+) pages re-read to verify them/;
	@report{qw(cycle_scanned cycle_again cycle_removed cycle_dead cycle_indexes)} =
	  $report{text} =~ /cycle so far: (\d+) pages scanned, (\d+) scanned again, (\d+) tuples removed, (\d+) dead item identifiers found, (\d+) indexes scanned/;
	return \%report;
}

sub wait_for_end
{
	my ($table, $position) = @_;

	$node->wait_for_log(
		qr/automatic [a-z ]*vacuum [a-z ]*of table "postgres\.public\.$table".*?system usage/s, $position);
	return last_report($table, $position);
}

###############################################################################
# One lock request after the other
###############################################################################

# The server's own vacuum would begin at the first page each time, and never come to
# the end of the table as long as this goes on. Here each attempt gets a third of a
# second of the several that are needed.
my $pages = 600;
my $slice = 0.35;

make_table($node, $_, pages => $pages, dead => 'k % 4 = 0') foreach qw(whole busy);
my ($heap_before, $index_before) = page_accesses($node, 'whole');
my $whole = vacuum_by_server($node, 'whole');
my ($heap, $index) = page_accesses($node, 'whole');
$heap -= $heap_before;
$index -= $index_before;
my $whole_facts = facts($node, 'whole');
my @before = page_accesses($node, 'busy');

$node->safe_psql(
	'postgres', qq{
	CREATE TABLE attempts (n serial, pid int, phase text, scanned bigint, vacuumed bigint);
	CREATE PROCEDURE disturb(tab regclass, most int) LANGUAGE plpgsql AS \$\$
	DECLARE
		attempt record;
		until timestamptz := clock_timestamp() + '60 s';
	BEGIN
		FOR i IN 1 .. most LOOP
			LOOP
				PERFORM pg_stat_clear_snapshot();
				SELECT p.pid INTO attempt FROM pg_stat_progress_vacuum p WHERE relid = tab;
				EXIT WHEN attempt.pid IS NOT NULL;
				IF pg_stat_get_autovacuum_count(tab) > 0 THEN
					RETURN; -- the table is done with
				END IF;
				IF clock_timestamp() > until THEN
					RAISE EXCEPTION 'no vacuum of %', tab;
				END IF;
				COMMIT;
				PERFORM pg_sleep(0.001);
			END LOOP;
			COMMIT;
			PERFORM pg_sleep($slice);
			PERFORM pg_stat_clear_snapshot();
			INSERT INTO attempts (pid, phase, scanned, vacuumed)
				SELECT p.pid, p.phase, heap_blks_scanned, heap_blks_vacuumed
				FROM pg_stat_progress_vacuum p WHERE relid = tab;
			-- the request that cancels it
			EXECUTE format('LOCK TABLE %s IN SHARE UPDATE EXCLUSIVE MODE', tab);
			COMMIT;
		END LOOP;
	END \$\$;});

my $position = log_end($node);
my $vacuum = start_vacuum($node, 'busy', worker => 1, set => [$Resume::slowly]);
$node->safe_psql('postgres', q{CALL disturb('busy', 60)});
my $log = log_since($node, $position);
my $cancelled = () = $log =~ /ERROR:  canceling autovacuum task/g;
my $rest = wait_for_end('busy', $position);
my @after = page_accesses($node, 'busy');
my $attempts = $node->safe_psql('postgres', q{SELECT string_agg(phase || ' ' || scanned || ' ' || vacuumed, ', ' ORDER BY n) FROM attempts});

note("attempts: $attempts");
note($rest->{text});
cmp_ok($cancelled, '>=', 4, 'lock requests have cancelled autovacuum many times');
cmp_ok($cancelled, '<', 30, '  but it came to its end, while they went on');
like($attempts, qr/scanning heap .*vacuuming heap/, '  after it had been cancelled in several places');
is($rest->{run}, $cancelled + 1, 'each attempt went on where the last one was');
is($rest->{cycle_scanned}, $pages, 'each page was scanned');
cmp_ok($rest->{cycle_again}, '<=', 1, '  and none twice');
is($rest->{verified}, 0, '  or read to verify what was known');
is($rest->{cycle_removed}, $whole->{removed}, 'each dead row was removed');
my $in_index = () = $attempts =~ /vacuuming indexes/g;
cmp_ok($rest->{cycle_indexes}, '<=', 3 + $in_index, 'an index was scanned again only if it had to be');
# of the visibility map each run counts a page or two when it starts and when it stops
cmp_ok($after[0] - $before[0], '<=', $heap * 1.02 + 20 + 6 * $cancelled,
	'pg_statio has seen no more accesses to the table than of one vacuum');
cmp_ok($after[1] - $before[1], '<=', $index * (1 + $in_index) + 200, '  nor to its indexes');
$node->safe_psql('postgres', 'ALTER TABLE busy SET (autovacuum_enabled = off)');
finished_alike($node, 'busy', whole => $whole_facts);

###############################################################################
# Restarts
###############################################################################

# A table that takes a worker two seconds to scan: a server that is restarted once a
# second would never come to its end.
sub make_slow_table
{
	my ($table) = @_;

	make_table($node, $table, pages => 400, dead => 'k % 4 = 0');
	$node->safe_psql('postgres',
		"ALTER TABLE $table SET (autovacuum_vacuum_cost_delay = 5, autovacuum_vacuum_cost_limit = 1)");
	return;
}

make_slow_table($_) foreach qw(restarted crashed);

foreach my $story ([ 'restarted', 'fast' ], [ 'crashed', 'immediate' ])
{
	my ($table, $way) = @$story;

	subtest $table => sub {
		my $stops = 3;
		my @from;

		$node->safe_psql('postgres', q{ALTER SYSTEM SET vacuum_resume.save_interval = '10ms'});
		$node->reload;
		my $position = log_end($node);
		my $vacuum = start_vacuum($node, $table, worker => 1);
		for my $stop (1 .. $stops)
		{
			# the next worker comes by itself
			my $goal = 80 * $stop;
			wait_for_phase($node, $table, 'scanning heap', "heap_blks_scanned >= $goal");
			$node->stop($way);
			$node->start;

			# a crash makes the server forget that there are dead rows: a few more of
			# them bring autovacuum about
			my $rows = join ', ', map { $stop * $rows_per_page + $_ } 1, 2, 3;
			$node->safe_psql('postgres', "DELETE FROM $table WHERE k IN ($rows)")
			  if $way eq 'immediate';
		}
		my $rest = wait_for_end($table, $position);

		is($rest->{run}, $stops + 1, "after $stops restarts autovacuum comes to the end by itself");
		cmp_ok($rest->{from}, '>=', $way eq 'fast' ? 240 : 240 - 64, '  and has not begun anew');
		cmp_ok($rest->{scanned}, '<=', 400 - $rest->{from} + 1 + $stops, '  but scanned only the rest');
		is($rest->{cycle_scanned}, 400, '  of all pages');
		cmp_ok($rest->{cycle_again}, '<=', $way eq 'fast' ? 1 : 1 + $stops, '  none twice, unless it was changed');
		is($rest->{verified}, 0, '  and read none to verify what was known');
		$node->safe_psql('postgres', "ALTER TABLE $table SET (autovacuum_enabled = off)");
		is(record($node, $table), undef, 'nothing is left to go on with');
		# what died in the head meanwhile may be left, as long as it is little
		cmp_ok($node->safe_psql('postgres', "SELECT dead_tuple_count FROM pgstattuple('$table')"), '<=',
			$way eq 'immediate' ? 3 * $stops : 0, '  and no dead row but what died meanwhile');
		Oracle::table_ok($node, 'postgres', $table);
	};
}

###############################################################################
# A limit on the time of each worker
###############################################################################

subtest 'limited' => sub {
	make_table($node, 'limited', pages => 250, dead => 'k % 4 = 0');
	$node->safe_psql('postgres', q{ALTER SYSTEM SET vacuum_resume.max_duration = '60ms'});
	$node->reload;
	my $position = log_end($node);
	start_vacuum($node, 'limited', worker => 1, set => [$Resume::slowly]);
	$node->poll_query_until('postgres',
		q{SELECT count(*) > 0 FROM vacuum_resume.progress WHERE relation = 'limited' AND runs >= 3})
	  or die 'no worker has come back';
	$node->safe_psql('postgres', 'ALTER SYSTEM RESET vacuum_resume.max_duration');
	$node->reload;

	# a worker that is stopped reports as well; the last one does all that is left
	$node->poll_query_until('postgres',
		q{SELECT count(*) = 0 FROM vacuum_resume.progress WHERE relation = 'limited'})
	  or die 'the table is not done';
	my $rest = wait_for_end('limited', $position);
	like(log_since($node, $position),
		qr/LOG:  vacuum of table "public\.limited" stopped after its maximum duration\n.*DETAIL:  \d+ of 250 blocks are scanned/,
		'the log says that a worker has stopped');
	unlike(log_since($node, $position), qr/canceling autovacuum task/, '  though nobody has cancelled it');
	cmp_ok($rest->{run}, '>=', 4, '  and others have gone on by themselves');
	is($rest->{cycle_scanned}, 250, '  so that each page was scanned');
	cmp_ok($rest->{cycle_again}, '<=', 1, '  and none twice');
	$node->safe_psql('postgres', 'ALTER TABLE limited SET (autovacuum_enabled = off)');
	Oracle::table_ok($node, 'postgres', 'limited');
};

###############################################################################
# Against wraparound
###############################################################################

# Autovacuum has to freeze the table, though it is not enabled for it
subtest 'to prevent wraparound' => sub {
	make_slow_table('old');
	$node->safe_psql('postgres', 'ALTER SYSTEM SET autovacuum_freeze_max_age = 100000');
	$node->safe_psql('postgres', 'ALTER SYSTEM SET autovacuum = off');
	$node->restart;
	burn_xids($node, 101_000);
	my $xid = $node->safe_psql('postgres', q{SELECT relfrozenxid FROM pg_class WHERE relname = 'old'});
	my $position = log_end($node);
	$node->safe_psql('postgres', 'ALTER SYSTEM SET autovacuum = on');
	$node->reload;

	foreach my $story ([ 80, 'fast' ], [ 160, 'immediate' ], [ 240, 'fast' ])
	{
		my ($goal, $way) = @$story;

		wait_for_phase($node, 'old', 'scanning heap', "heap_blks_scanned >= $goal");
		is($node->safe_psql('postgres',
				q{SELECT query FROM pg_stat_activity JOIN pg_stat_progress_vacuum USING (pid) WHERE relid = 'old'::regclass}),
			'autovacuum: VACUUM public.old (to prevent wraparound)', 'a worker is at it');
		$node->stop($way);
		$node->start;
	}
	my $rest = wait_for_end('old', $position);

	like($rest->{text}, qr/^automatic aggressive vacuum to prevent wraparound of table/, 'it comes to an end');
	is($rest->{run}, 4, '  after three restarts');
	cmp_ok($rest->{from}, '>=', 240, '  and has not begun anew');
	is($rest->{cycle_scanned}, 400, '  so that each page was scanned');
	cmp_ok($rest->{cycle_again}, '<=', 1, '  and none twice');
	like($rest->{text}, qr/new relfrozenxid: \d+, which is \d+ XIDs ahead of previous value/, '  relfrozenxid has advanced');
	cmp_ok($node->safe_psql('postgres', q{SELECT age(relfrozenxid) FROM pg_class WHERE relname = 'old'}),
		'<', 100_000, '  far enough');
	is($node->safe_psql('postgres', q{SELECT dead_tuple_count FROM pgstattuple('old')}), 0, '  and no dead row is left');
	Oracle::table_ok($node, 'postgres', 'old');
};

only_asked_for_crashes($node);
$node->stop;

done_testing();
