# A vacuum is stopped while it vacuums indexes, in every way there is. The next
# one leaves the table alone until all indexes are done, and of these it takes
# those that were not done.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use Oracle;
use Pass;
use Resume;

my $pages = 400;
my $dead = 600;
my $node = resume_node('indexes');

# What the server's own vacuum makes of such a table, if nobody stops it
make_table($node, 'whole', pages => $pages);
my (undef, $before) = page_accesses($node, 'whole');
my $whole = vacuum_by_server($node, 'whole');
my (undef, $after) = page_accesses($node, 'whole');
my $index_accesses = $after - $before;
my $facts = facts($node, 'whole');
my $index_pages = $node->safe_psql('postgres',
	"SELECT max(relpages) FROM pg_class JOIN pg_index ON indexrelid = oid WHERE indrelid = 'whole'::regclass"
);

is($whole->{removed}, $dead, 'an uninterrupted vacuum removes each dead row');
is("@{ $whole->{indexes} }", 'whole_k whole_v whole_h', '  and scans each index once');

# Each story: a way to stop, and what else is needed for it.
#
#   hold      a session pins a page of the index on this column, where the vacuum
#             waits; usually it is the second one of three
#   garble    this index has a page that cannot be read
#   zero      this index has a page of zeros, which its access method rejects; it
#             is rebuilt before the next vacuum
#   save      it saves all the time, not only when it is stopped
#   worker    it is an autovacuum worker, and so is the next one, without any help
#   done      indexes that are done when it stops
my @stories = (
	{ name => 'cancelled', way => 'cancel', hold => 'v', done => 'k' },
	{ name => 'cancelled_in_first', way => 'cancel', hold => 'k', done => '' },
	{ name => 'saved_and_cancelled', way => 'cancel', hold => 'v', save => 1, done => 'k' },
	{ name => 'timed_out', way => 'timeout', hold => 'v', set => ['statement_timeout = 1000'],
		done => 'k' },
	{ name => 'gave_way', way => 'lock', hold => 'v', worker => 1, done => 'k' },
	{ name => 'terminated', way => 'terminate', hold => 'v', done => 'k' },
	{ name => 'out_of_time', way => 'max_duration', hold => 'k', options => "MAX_DURATION '1s'",
		done => 'k' },
	{ name => 'out_of_time_by_setting', way => 'max_duration', hold => 'v',
		set => ['vacuum_resume.max_duration = 1000'], done => 'k v' },
	{ name => 'shut_down', way => 'fast', hold => 'v', done => 'k' },
	{ name => 'worker_shut_down', way => 'fast', hold => 'v', worker => 1, done => 'k' },
	{ name => 'unreadable', way => 'error', garble => 'h', done => 'k v' },
	{ name => 'unreadable_first', way => 'error', garble => 'k', done => '' },
	{ name => 'rejected_and_rebuilt', way => 'error', zero => 'h', done => 'k v' },
	{ name => 'stopped_immediately', way => 'immediate', hold => 'v', save => 1, done => 'k' },
	{ name => 'killed', way => 'kill_backend', hold => 'v', save => 1, done => 'k' },
	{ name => 'orphaned', way => 'kill_postmaster', hold => 'v', done => 'k' },
	{ name => 'all_killed', way => 'kill_all', hold => 'v', save => 1, done => 'k' });

make_table($node, $_->{name}, pages => $pages) foreach @stories;

# The names of a table's indexes on these columns
sub indexes_on
{
	my ($table, $columns) = @_;
	return join ' ', map { "${table}_$_" } split / /, $columns;
}

sub run_story
{
	my ($story) = @_;
	my ($table, $way, $hold, $done) = @{$story}{qw(name way hold done)};
	my $traits = $Resume::ways{$way};
	my %vacuum = (
		worker => $story->{worker},
		options => $story->{options},
		set => [ $story->{save} ? ($Resume::slowly, $Resume::saving) : (), @{ $story->{set} // [] } ]);

	# where to stop it, unless that comes about by itself
	my %place = $way =~ /timeout|error|max_duration/ ? () : (
		phase => 'vacuuming indexes',
		when => q{EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = p.pid AND wait_event = 'BufferPin')});

	my $repair;
	if ($story->{garble})
	{
		$repair = garble($node, "${table}_$story->{garble}", 1);
	}
	if ($story->{zero})
	{
		Resume::swap_header(
			$node->data_dir . '/' . $node->safe_psql('postgres',
				"SELECT pg_relation_filepath('${table}_$story->{zero}')"),
			1, "\0" x 8192);
		$repair = sub { $node->safe_psql('postgres', "REINDEX INDEX ${table}_$story->{zero}") };
	}
	my $holder = $hold ? hold_index($node, $table, $hold) : undef;
	my (undef, $before) = page_accesses($node, $table);
	my $vacuum = start_vacuum($node, $table, %vacuum);
	if ($way eq 'max_duration')
	{
		wait_for_phase($node, $table, 'vacuuming indexes', q{
			EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = pg_stat_progress_vacuum.pid
				AND wait_event = 'BufferPin' AND clock_timestamp() - query_start > '1.1 s')});
		$holder->quit;
		$holder = undef;
	}
	my $stop = stop_vacuum($node, $table, %place, way => $way, vacuum => $vacuum, holder => $holder);
	$repair->() if $repair;

	is("@{ $stop->{indexes} }", indexes_on($table, $done), 'what it was done with');

	# an autovacuum worker is back before one can look
	my $record = $way eq 'fast' && $story->{worker} ? undef : record($node, $table);
	if ($record)
	{
		is($record->{phase}, 'vacuuming indexes', 'the record says where it was');
		is("$record->{next_block} of $record->{rel_blocks}", "$pages of $pages", '  all pages are behind it');
		is($record->{pages_scanned}, $pages, '  all are scanned');
		is($record->{pending_dead_tuples}, $dead, '  all dead TIDs are pending');
		is($record->{indexes_done}, split(/ /, $done) + 0, '  so many indexes are done')
		  if !$story->{zero};
		is($record->{last_stop}, $traits->{last_stop}, '  and why it ended');
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
		$rest = vacuum($node, $table);
	}
	my (undef, $after) = page_accesses($node, $table);
	my $left = join ' ', grep { " $done " !~ / $_ / } qw(k v h);

	is($rest->{run}, 2, 'the next vacuum goes on');
	is("$rest->{from}, $rest->{pending}", "$pages, $dead", '  with all pages behind it, all dead TIDs pending');
	is($rest->{verified}, 0, '  and no page re-read for them');
	cmp_ok($rest->{scanned}, '<=', 1, '  scans no page again');
	is($rest->{cycle_scanned}, $pages, 'together they scan each page');
	is($rest->{cycle_dead}, $dead, '  find each dead TID');
	is($rest->{cycle_removed}, $dead, '  remove each dead row');
	is("@{ $rest->{indexes} }", indexes_on($table, $left), '  and scan each index that was not done');
	cmp_ok($after - $before, '<=', $index_accesses + 2 * $index_pages,
		'pg_statio has seen no more accesses to indexes than of one vacuum, and one index again')
	  if $traits->{clean} && $way ne 'kill_postmaster' && !$story->{zero};

	finished_alike($node, $table, whole => $facts);
	is_deeply([ Oracle::same_rows($node, 'postgres', $table, 'v = 7') ], [], '  the hash index too')
	  if !$story->{zero};
	return;
}

foreach my $story (@stories)
{
	subtest "$story->{name} while vacuuming indexes" => sub { run_story($story) };
}

only_asked_for_crashes($node);
$node->stop;

done_testing();
