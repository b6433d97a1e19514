# A vacuum is stopped while it sets dead line pointers unused, in every way there
# is. After an orderly end the next one goes on at the very page, and scans neither
# table nor indexes. After a crash it must not believe in what it was about to
# reap, and finds that once more.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use Oracle;
use Pass;
use Resume;

my $pages = 260;
my $dead_pages = 195;
my $dead = 390;
my $node = resume_node('reaping');
my $in_pin_wait =
  q{EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = p.pid AND wait_event = 'BufferPin')};

# Each story: a way to stop, and what else is needed for it.
#
#   indexes   those of the table, if not k v h
#   hold      a session pins a page of the index on this column until the
#             vacuum's time is over, or the table is garbled
#   garble    this block of the table cannot be read
#   found     the dead line pointers are there before; then only reaping is slow
#   save      it saves all the time, not only when it is stopped
#   worker    it is an autovacuum worker, and so is the next one, without any help
my @stories = (
	{ name => 'cancelled', way => 'cancel' },
	{ name => 'saved_and_cancelled', way => 'cancel', save => 1 },
	{ name => 'timed_out', way => 'timeout', indexes => 'k', found => 1,
		set => ['statement_timeout = 2000'] },
	{ name => 'gave_way', way => 'lock', worker => 1 },
	{ name => 'terminated', way => 'terminate' },
	{ name => 'out_of_time', way => 'max_duration', indexes => 'k v', hold => 'v',
		options => "MAX_DURATION '1s'" },
	{ name => 'out_of_time_by_setting', way => 'max_duration', indexes => 'k', hold => 'k',
		set => ['vacuum_resume.max_duration = 1000'] },
	{ name => 'shut_down', way => 'fast' },
	{ name => 'worker_shut_down', way => 'fast', worker => 1 },
	{ name => 'unreadable', way => 'error', hold => 'v', garble => 101 },
	{ name => 'orphaned', way => 'kill_postmaster' },
	{ name => 'stopped_immediately', way => 'immediate', save => 1 },
	{ name => 'killed', way => 'kill_backend', save => 1 },
	{ name => 'all_killed', way => 'kill_all', save => 1 },
	{ name => 'all_killed_after_a_checkpoint', way => 'kill_all', save => 1, checkpoint => 1 });

my %facts;

# What the server's own vacuum makes of such tables, if nobody stops it
foreach my $indexes ('k v h', 'k v', 'k')
{
	my $table = 'whole_' . ($indexes =~ s/ //gr);

	make_table($node, $table, pages => $pages, indexes => $indexes);
	my $lsn = $node->lsn('insert');
	vacuum_by_server($node, $table);
	is(pages_reaped($node, $table, $lsn), $dead_pages,
		'an uninterrupted vacuum reaps each page with dead rows once');
	$facts{$indexes} = facts($node, $table);
}

make_table($node, $_->{name}, pages => $pages, indexes => $_->{indexes}) foreach @stories;

sub run_story
{
	my ($story) = @_;
	my ($table, $way, $hold) = @{$story}{qw(name way hold)};
	my $traits = $Resume::ways{$way};
	my $lsn = $node->lsn('insert');
	my @pace = $hold ? () : ($Resume::slowly);

	if ($story->{found})
	{
		$node->safe_psql('postgres',
			"SET vacuum_resume.enabled = off; VACUUM (INDEX_CLEANUP off) $table; CHECKPOINT;");
		@pace = ($Pass::slow_changes =~ /SET ([^;]*);/g, 'vacuum_cost_delay = 20');
	}
	my $holder = $hold ? hold_index($node, $table, $hold) : undef;
	my $vacuum = start_vacuum(
		$node, $table,
		worker => $story->{worker},
		options => $story->{options},
		set => [ @pace, $story->{save} ? $Resume::saving : (), @{ $story->{set} // [] } ]);
	my $repair;
	if ($hold)
	{
		wait_for_phase($node, $table, 'vacuuming indexes', $in_pin_wait =~ s/p\.pid/pg_stat_progress_vacuum.pid/r
			  . ($way eq 'max_duration' ? q{
				AND clock_timestamp() - interval '1.1 s' > (SELECT query_start FROM pg_stat_activity a
					WHERE a.pid = pg_stat_progress_vacuum.pid)} : ''));
		$repair = garble($node, $table, $story->{garble}) if $story->{garble};
		$holder->quit;
	}
	if ($story->{checkpoint})
	{
		wait_for_phase($node, $table, 'vacuuming heap', 'heap_blks_vacuumed > 0');
		$node->safe_psql('postgres', 'CHECKPOINT');
	}
	my $stop = stop_vacuum(
		$node, $table,
		way => $way,
		vacuum => $vacuum,
		$way =~ /timeout|error|max_duration/
		? ()
		: (phase => 'vacuuming heap', when => 'heap_blks_vacuumed > 50'));
	$repair->() if $repair;

	# an autovacuum worker is back before one can look
	my $record = $way eq 'fast' && $story->{worker} ? undef : record($node, $table);
	my $reaped = pages_reaped($node, $table, $lsn);
	my $indexes = split / /, $story->{indexes} // 'k v h';
	if ($record)
	{
		is($record->{phase}, 'vacuuming heap', 'the record says where it was');
		is("$record->{next_block} of $record->{rel_blocks}", "$pages of $pages",
			'  all pages are behind it');
		is($record->{pages_scanned}, $pages, '  all are scanned');
		is($record->{indexes_done}, $indexes, '  all indexes are done');
		is($record->{last_stop}, $traits->{last_stop}, '  and why it ended');
		cmp_ok($reaped, '>', 0, '  some pages are reaped');
		cmp_ok($reaped, '<', $dead_pages, '  but not all');
		is($reaped, scalar(grep { $_ % 4 } 0 .. $stop->{block} - 1),
			'  exactly those before the page that the error names')
		  if defined $stop->{block};
	}

	my $rest;
	if ($story->{worker})
	{
		# it is let go again, or has been all the time
		$rest = $way eq 'lock'
		  ? autovacuum($node, $table)
		  : Resume::finish_autovacuum($node, { table => $table, log => $stop->{log} });
	}
	else
	{
		$rest = vacuum($node, $table, options => $story->{found} ? 'INDEX_CLEANUP on' : undef);
	}

	is($rest->{run}, 2, 'the next vacuum goes on');
	is($rest->{from}, $pages, '  with all pages behind it');
	is($rest->{verified}, 0, '  and no page re-read');
	is($rest->{cycle_scanned}, $pages, 'together they scan each page');
	if ($traits->{clean})
	{
		cmp_ok($rest->{scanned}, '<=', 1, '  and none again');
		is("@{ $rest->{indexes} }", '', '  and no index again');
		is($rest->{cycle_dead}, $dead, '  and find each dead TID once');
	}
	else
	{
		# what is left is found again, and nothing else
		cmp_ok($rest->{scanned}, '<=', $dead_pages - $reaped + 1,
			'  and those again that were not reaped');
		cmp_ok(scalar(@{ $rest->{indexes} }), '<=', $indexes, '  and each index once more');
	}
	is($rest->{cycle_removed}, $dead, '  and remove each dead row') if !$story->{found};
	is(pages_reaped($node, $table, $lsn), $dead_pages, '  and reap each page once');

	finished_alike($node, $table, whole => $facts{ $story->{indexes} // 'k v h' });
	return;
}

foreach my $story (@stories)
{
	subtest "$story->{name} while reaping" => sub { run_story($story) };
}

# The record announces what will be reaped until the next save, 65,536 dead TIDs at
# most: only of these nobody knows after a crash. 200 are on each page here.
$node->safe_psql(
	'postgres', q{
	CREATE TABLE many (k int) WITH (autovacuum_enabled = off);
	INSERT INTO many SELECT generate_series(0, 226 * 1000 - 1);
	CREATE INDEX many_k ON many (k);
	DELETE FROM many WHERE k % 226 < 200;});
subtest 'killed in one of several stretches' => sub {
	my $lsn = $node->lsn('insert');
	stop_vacuum($node, 'many', way => 'kill_backend',
		set => [ $Resume::slowly, $Resume::saving ],
		phase => 'vacuuming heap', when => 'heap_blks_vacuumed >= 300');
	my $reaped = pages_reaped($node, 'many', $lsn);
	my $rest = vacuum($node, 'many');

	cmp_ok($reaped, '>=', 250, 'a part is reaped');
	cmp_ok($reaped, '<', 600, '  but most is not');
	cmp_ok($rest->{scanned}, '>', 0, 'the next vacuum scans some pages again');
	cmp_ok($rest->{scanned}, '<=', 65536 / 200 + 2, '  those that were announced');
	is("@{ $rest->{indexes} }", 'many_k', '  and the index once more for them');
	is(pages_reaped($node, 'many', $lsn), 1000, 'each page is reaped once');
	is($rest->{cycle_removed}, 200_000, '  and each row removed once');
	Oracle::table_ok($node, 'postgres', 'many');
};

only_asked_for_crashes($node);
$node->stop;

done_testing();
