# What is saved must not know more than the WAL on disk does: after a crash there is
# what WAL says, and a list of dead rows that are not dead any more would cost living
# rows their index entries. Here nothing but a save has WAL written to disk.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use Between;
use Oracle;
use Pass;
use Resume;

my $node = between_node('wal_first', conf => <<'EOC');
vacuum_resume.mode = resume
synchronous_commit = off
wal_writer_delay = 10s
wal_buffers = 64MB
wal_level = minimal
max_wal_senders = 0
bgwriter_lru_maxpages = 0
autovacuum = off
EOC

# From now on until the server is started again, the WAL writer writes nothing.
sub stop_wal_writer
{
	kill 'STOP', $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'});
	return;
}

# Is some WAL in memory only? Then the server is as this test wants it.
sub wal_waits
{
	return $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn() > pg_current_wal_flush_lsn()') eq 't';
}

# While vacuum waits in an index, another session finds entries there whose rows are
# dead, marks and replaces them by its own. That vacuum is done with the index then
# rests on the other session's WAL.
subtest 'an index is done, thanks to another session' => sub {
	$node->safe_psql('postgres', q{
		CREATE TABLE t (k int, v int, filler text) WITH (autovacuum_enabled = off);
		INSERT INTO t SELECT i, i, repeat('x', 200) FROM generate_series(1, 20000) AS i;
		CREATE INDEX t_k ON t (k) WITH (deduplicate_items = off);
		CREATE INDEX t_v ON t (v);
		VACUUM (FREEZE) t;
		DELETE FROM t WHERE k BETWEEN 10000 AND 10100;
		CHECKPOINT;});
	stop_wal_writer();

	my $in_k = hold_index_page($node, 'SELECT k FROM t WHERE k > 0 ORDER BY k');
	my $in_v = hold_index_page($node, 'SELECT v FROM t WHERE v > 0 ORDER BY v');
	my $vacuum = start_vacuum($node, 't',
		options => 'INDEX_CLEANUP on, DISABLE_PAGE_SKIPPING',
		set => [ $Resume::saving, $Resume::slowly ]);
	wait_for_pin_wait($node, 't', 'vacuuming indexes');

	# its transaction does not end, so that no commit flushes anything
	my $session = $node->background_psql('postgres');
	$session->query_safe(q{
		SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off;
		BEGIN;
		SELECT count(*) FROM t WHERE k BETWEEN 9900 AND 10200;
		INSERT INTO t SELECT 10050, 30000, 'new' FROM generate_series(1, 400);});
	ok(wal_waits(), 'the other session has written WAL that is not on disk');

	$in_k->quit;
	$node->poll_query_until('postgres', 'SELECT indexes_done = 1 FROM vacuum_resume.progress')
	  or die 'vacuum is not done with the index';
	crash_node($node, 'kill_all');
	finish_sql($vacuum->{job});
	foreach my $gone ($in_v, $session)
	{
		local $@;
		eval { $gone->quit; };
	}
	$node->start;
	is(record($node, 't')->{indexes_done}, 1, 'vacuum was done with one index');

	my $rest = vacuum($node, 't', options => 'INDEX_CLEANUP on');
	continued($rest, verified => 0);
	is($rest->{indexes}[0], 't_v', '  and scans the other one before anything else');
	settled($node, 't');
};

# Vacuum prunes, and so does another session, which deletes and updates; all are
# killed as soon as something new has been saved.
my $rounds = 15;

make_table($node, 'busy', pages => 200, dead => 'false');
srand(63);

foreach my $round (1 .. $rounds)
{
	subtest "killed after a save, round $round" => sub {
		my $saves = 1 + int rand 4;

		# as many rows as ever, on disk; a third of them dead, which is not
		$node->safe_psql('postgres', q{
			INSERT INTO busy SELECT k, k * 7919 % 4000, repeat('x', 364)
				FROM generate_series(0, 3999) AS k WHERE NOT EXISTS (SELECT FROM busy b WHERE b.k = k);
			CHECKPOINT;});
		stop_wal_writer();
		$node->safe_psql('postgres', "DELETE FROM busy WHERE (k + $round) % 3 = 0");
		ok(wal_waits(), 'rows are dead, of which nothing is on disk');

		my $others = start_sql($node, q{
			DO $$
			BEGIN
				FOR i IN 1 .. 1000000 LOOP
					UPDATE busy SET v = v + 4000 WHERE k = (random() * 4000)::int;
					UPDATE busy SET filler = 'updated' WHERE k = (random() * 4000)::int;
					COMMIT;
					PERFORM pg_sleep(0.0005);
				END LOOP;
			END $$});
		my $vacuum = start_vacuum($node, 'busy', set => [ $Resume::slowly, $Resume::saving ]);
		my $seen = '';
		my $last = $node->background_psql('postgres');

		# within one session, to be there in time
		$last->query_safe(qq{
			DO \$\$
			DECLARE
				seen timestamptz; now_seen timestamptz; saves int := 0;
				give_up timestamptz := clock_timestamp() + '60 s';
			BEGIN
				WHILE saves < $saves AND clock_timestamp() < give_up LOOP
					SELECT last_saved INTO now_seen FROM vacuum_resume.progress WHERE relid = 'busy'::regclass;
					IF now_seen IS DISTINCT FROM seen THEN
						saves := saves + 1;
						seen := now_seen;
					END IF;
					IF saves < $saves THEN PERFORM pg_sleep(0.001); END IF;
				END LOOP;
			END \$\$});
		crash_node($node, 'kill_all');
		finish_sql($_) foreach $vacuum->{job}, $others;
		{
			local $@;
			eval { $last->quit; };
		}
		$node->start;

		my $record = record($node, 'busy');
		ok($record, 'there is a record');
		note("$record->{phase}, block $record->{next_block}, $record->{pending_dead_tuples} pending");
		my $rest = vacuum($node, 'busy', options => 'INDEX_CLEANUP on');
		continued($rest, verified => 0);
		settled($node, 'busy');
	};
}

only_asked_for_crashes($node);
$node->stop;

done_testing();
