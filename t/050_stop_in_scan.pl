# A vacuum is stopped in its first heap pass, in every way there is. The next one
# begins at the page where it was, with the dead TIDs that it knew.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use Oracle;
use Pass;
use Resume;

my $pages = 400;
my $node = resume_node('scan');

# Dead rows, two on a page, that blocks below this one have
sub dead_below
{
	my ($block) = @_;
	return 2 * grep { $_ % 4 } 0 .. $block - 1;
}

# What the server's own vacuum makes of such a table, if nobody stops it
make_table($node, $_, pages => $pages) foreach qw(whole whole_frozen);
my ($heap_before) = page_accesses($node, 'whole');
my $whole = vacuum_by_server($node, 'whole');
my ($heap_after) = page_accesses($node, 'whole');
my $heap_accesses = $heap_after - $heap_before;
vacuum_by_server($node, 'whole_frozen', options => 'FREEZE');
my %facts = map { $_ => facts($node, $_) } qw(whole whole_frozen);

is($whole->{scanned}, $pages, 'an uninterrupted vacuum scans each page');
is($whole->{removed}, dead_below($pages), '  removes each dead row');
is("@{ $whole->{indexes} }", 'whole_k whole_v whole_h', '  and scans each index once');

# Each story: a way to stop, and what else is needed for it.
#
#   hold      a session pins this block, and the vacuum, which freezes, waits there
#   garble    this block cannot be read meanwhile
#   save      it saves all the time, not only when it is stopped
#   worker    it is an autovacuum worker, and so is the next one, without any help
#   lost      so many pages at most were scanned after the last save
#   over      the next one has to start over
my @stories = (
	{ name => 'cancelled', way => 'cancel' },
	{ name => 'saved_and_cancelled', way => 'cancel', save => 1 },
	{ name => 'timed_out', way => 'timeout', hold => 250, set => ['statement_timeout = 500'] },
	{ name => 'gave_way', way => 'lock', worker => 1 },
	{ name => 'terminated', way => 'terminate' },
	{ name => 'out_of_time', way => 'max_duration', options => "MAX_DURATION '150ms'" },
	{ name => 'out_of_time_by_setting', way => 'max_duration',
		set => ['vacuum_resume.max_duration = 150'] },
	{ name => 'shut_down', way => 'fast' },
	{ name => 'worker_shut_down', way => 'fast', worker => 1 },
	{ name => 'unreadable', way => 'error', garble => 200 },
	{ name => 'stopped_immediately', way => 'immediate', save => 1, lost => 64 },
	{ name => 'killed', way => 'kill_backend', save => 1, lost => 64 },
	{ name => 'orphaned', way => 'kill_postmaster' },
	{ name => 'all_killed', way => 'kill_all', save => 1, lost => 64 },
	{ name => 'all_killed_after_a_checkpoint', way => 'kill_all', save => 1, hold => 250, lost => 64,
		checkpoint => 1, over => 1 });

make_table($node, $_->{name}, pages => $pages) foreach @stories;

sub run_story
{
	my ($story) = @_;
	my ($table, $way, $hold) = @{$story}{qw(name way hold)};
	my $traits = $Resume::ways{$way};
	my $options = join ', ', grep { defined } $story->{options}, $hold ? 'FREEZE' : undef;
	my %vacuum = (
		worker => $story->{worker},
		options => $options eq '' ? undef : $options,
		set => [ $Resume::slowly, $story->{save} ? $Resume::saving : (), @{ $story->{set} // [] } ]);

	# where to stop it, unless that comes about by itself
	my %place = $way =~ /timeout|error|max_duration/ ? () : (phase => 'scanning heap');
	$place{when} = $hold
	  ? q{EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = p.pid AND wait_event = 'BufferPin')}
	  : 'heap_blks_scanned > 80';

	my $repair = $story->{garble} ? garble($node, $table, $story->{garble}) : undef;
	my $holder = $hold ? hold_block($node, $table, $hold) : undef;
	my ($before) = page_accesses($node, $table);
	my $vacuum = start_vacuum($node, $table, %vacuum);
	if ($story->{checkpoint})
	{
		wait_for_pin_wait($node, $table, 'scanning heap');
		$node->safe_psql('postgres', 'CHECKPOINT');
	}
	my $stop = stop_vacuum($node, $table, %place, way => $way, vacuum => $vacuum, holder => $holder);
	$repair->() if $repair;

	# an autovacuum worker is back before one can look
	my $record = $way eq 'fast' && $story->{worker} ? undef : record($node, $table);
	if ($record)
	{
		my $cursor = $record->{next_block};

		is($record->{phase}, 'scanning heap', 'the record says where it was');
		if (defined $stop->{block})
		{
			is($cursor, $stop->{block}, '  exactly at the page that the error names');
		}
		cmp_ok($cursor, '>', 0, '  somewhere in the table');
		cmp_ok($cursor, '<', $pages, '  not at its end');
		cmp_ok($cursor, '>=', $stop->{scanned} - ($story->{lost} // 0), '  no farther back than it has to be')
		  if defined $stop->{scanned};
		is($record->{rel_blocks}, $pages, '  of how many pages');
		cmp_ok($record->{pages_scanned} - $cursor, '<=', 1, '  how many it has scanned');
		is($record->{pending_dead_tuples}, dead_below($cursor), '  how many dead TIDs are pending');
		is($record->{indexes_done}, 0, '  no index is done');
		is($record->{last_stop}, $traits->{last_stop}, '  and why it ended');
		is("$record->{runs}, $record->{interruptions}",
			$traits->{last_stop} eq 'killed' ? '1, 0' : '1, 1', '  after one run');
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
		$rest = vacuum($node, $table, options => $hold ? 'FREEZE' : undef);
	}
	my ($after) = page_accesses($node, $table);

	# nobody can tell who was here since the last save: what was frozen proves nothing
	if ($story->{over})
	{
		is("$rest->{run}, $rest->{scanned}", "1, $pages", 'the next vacuum starts over');
		like(slurp_file($node->logfile, $stop->{log}),
			qr/discarding .*$table": an aggressive vacuum cannot rely on what was frozen before/, '  and says why');
		finished_alike($node, $table, whole => $facts{whole_frozen}, frozen_to => $facts{whole_frozen}{relfrozenxid});
		return;
	}

	is($rest->{run}, 2, 'the next vacuum goes on');
	is($rest->{from}, $record->{next_block}, '  from there') if $record;
	is($rest->{pending}, dead_below($rest->{from}), '  with all dead TIDs pending');
	is($rest->{verified}, 0, '  and no page re-read for them');
	cmp_ok($rest->{cycle_scanned} + $rest->{cycle_again}, '<=', $pages + 1,
		'together they scan each page, and but for one none twice');
	is($rest->{scanned}, $pages - $rest->{from} + $rest->{cycle_again}, '  the rest in the second run');
	is($rest->{cycle_dead}, dead_below($pages), '  they find each dead TID');
	is($rest->{cycle_removed}, dead_below($pages), '  remove each dead row') if !$story->{lost};
	is("@{ $stop->{indexes} }|@{ $rest->{indexes} }", "|${table}_k ${table}_v ${table}_h",
		'  and scan each index once');
	cmp_ok($after - $before, '<=', $heap_accesses * 1.02 + 50,
		'pg_statio has seen no more accesses to the table than of one vacuum')
	  if $traits->{clean} && $way ne 'kill_postmaster';

	finished_alike($node, $table,
		whole => $facts{ $hold ? 'whole_frozen' : 'whole' },
		frozen_to => $hold ? $facts{whole_frozen}{relfrozenxid} : undef);
	return;
}

foreach my $story (@stories)
{
	subtest "$story->{name} while scanning" => sub { run_story($story) };
}

only_asked_for_crashes($node);
$node->stop;

done_testing();
