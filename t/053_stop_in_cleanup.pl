# A vacuum is stopped when all dead rows are gone, but indexes have to clean up
# after themselves yet, or the table's empty end is to be cut off. That is done
# again; nothing else is, and what the first run has found out is not lost.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use Oracle;
use Pass;
use Resume;

my $pages = 200;
my $node = resume_node('cleanup');

# Where it is stopped. Cleaning up the BRIN index b has to add the summary of a range
# that has none, and so evaluates its expression: it stays there while the gate is closed.
# To truncate a table, vacuum wants a lock that another session denies it.
$node->safe_psql('postgres', q{
	CREATE TABLE gate AS SELECT false AS closed;
	CREATE FUNCTION through_gate(k int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
	BEGIN
		IF (SELECT closed FROM public.gate) THEN
			PERFORM pg_sleep(3600);
		END IF;
		RETURN k;
	END $$});

my %points = (
	cleanup => {
		phase => 'cleaning up indexes',
		when => q{(SELECT wait_event FROM pg_stat_activity a WHERE a.pid = p.pid) = 'PgSleep'},
		indexes => 'k g',
		dead => 'k % 10 = 2 AND k / 20 % 4 <> 0',
		context => sub { qr/while cleaning up index "$_[0]_b" of relation "public\.$_[0]"/ } },
	truncation => {
		phase => 'truncating heap',
		indexes => 'k v h',
		dead => 'k >= 20 * 180 OR k % 10 = 2 AND k / 20 % 4 <> 0',
		context => sub { qr/while truncating relation "public\.$_[0]" to \d+ blocks/ } });

sub make_table_for
{
	my ($point, $table) = @_;

	make_table($node, $table, pages => $pages, map { $_ => $points{$point}{$_} } qw(indexes dead));
	$node->safe_psql('postgres', "CREATE INDEX ${table}_b ON $table USING brin (through_gate(k));
		SELECT brin_desummarize_range('${table}_b', 0)") if $point eq 'cleanup';
	return;
}

# Each story: a point, a way to stop, and what else is needed for it.
#
#   garble    this index has a page that cannot be read
#   save      it saves all the time, not only when it is stopped
#   worker    it is an autovacuum worker, and so is the next one, without any help
#
# Workers come first: a crash makes the server forget that rows have died.
my @stories = (
	{ point => 'cleanup', name => 'cancelled', way => 'cancel' },
	{ point => 'cleanup', name => 'saved_and_cancelled', way => 'cancel', save => 1 },
	{ point => 'cleanup', name => 'gave_way', way => 'lock', worker => 1 },
	{ point => 'cleanup', name => 'terminated', way => 'terminate' },
	{ point => 'cleanup', name => 'shut_down', way => 'fast' },
	{ point => 'cleanup', name => 'unreadable', way => 'error', garble => 'b' },
	{ point => 'truncation', name => 't_cancelled', way => 'cancel' },
	{ point => 'truncation', name => 't_saved_and_cancelled', way => 'cancel', save => 1 },
	{ point => 'truncation', name => 't_timed_out', way => 'timeout', set => ['statement_timeout = 2000'] },
	{ point => 'truncation', name => 't_gave_way', way => 'lock', worker => 1 },
	{ point => 'truncation', name => 't_terminated', way => 'terminate' },
	{ point => 'truncation', name => 't_shut_down', way => 'fast', worker => 1 },
	{ point => 'cleanup', name => 'orphaned', way => 'kill_postmaster' },
	{ point => 'cleanup', name => 'stopped_immediately', way => 'immediate', save => 1 },
	{ point => 'cleanup', name => 'killed', way => 'kill_backend', save => 1 },
	{ point => 'cleanup', name => 'all_killed', way => 'kill_all', save => 1 },
	{ point => 'truncation', name => 't_orphaned', way => 'kill_postmaster' },
	{ point => 'truncation', name => 't_stopped_immediately', way => 'immediate', save => 1 },
	{ point => 'truncation', name => 't_killed', way => 'kill_backend', save => 1 },
	{ point => 'truncation', name => 't_all_killed', way => 'kill_all', save => 1 });

# What the server's own vacuum makes of such tables, if nobody stops it
foreach my $name (sort keys %points)
{
	my $point = $points{$name};

	make_table_for($name, "whole_$name");
	$point->{whole} = vacuum_by_server($node, "whole_$name");
	$point->{facts} = facts($node, "whole_$name");
}
is($points{cleanup}{whole}{scanned}, $pages, 'an uninterrupted vacuum scans each page');
is($points{truncation}{facts}{relpages}, 180, '  and truncates the table');

make_table_for($_->{point}, $_->{name}) foreach @stories;

sub run_story
{
	my ($story) = @_;
	my ($table, $way) = @{$story}{qw(name way)};
	my $traits = $Resume::ways{$way};
	my $point = $points{ $story->{point} };
	my $whole = $point->{whole};
	my $holder;

	if ($story->{point} eq 'truncation')
	{
		$holder = $node->background_psql('postgres');
		$holder->query_safe("BEGIN; LOCK TABLE $table IN ACCESS SHARE MODE");
	}
	elsif (!$story->{garble})
	{
		$node->safe_psql('postgres', 'UPDATE gate SET closed = true');
	}
	my $repair = $story->{garble} ? garble($node, "${table}_$story->{garble}", 1) : undef;
	my $stop = stop_vacuum(
		$node, $table,
		way => $way,
		worker => $story->{worker},
		set => [
			$story->{save} ? ($Resume::slowly, $Resume::saving) : (),
			@{ $story->{set} // [] }
		],
		holder => $holder,
		$way =~ /timeout|error/ ? () : (map { $_ => $point->{$_} } qw(phase when)));
	$repair->() if $repair;
	$node->poll_query_until('postgres', 'SELECT true') or die 'the server does not come back';
	$node->safe_psql('postgres', 'UPDATE gate SET closed = false');

	like($stop->{text}, $point->{context}->($table), 'the error says where it was')
	  if $stop->{text} =~ /CONTEXT/;
	is(scalar @{ $stop->{indexes} }, 3, 'it is done with all indexes') if !$story->{worker} || $way eq 'lock';

	# an autovacuum worker is back before one can look
	if (!($way eq 'fast' && $story->{worker}))
	{
		my $record = record($node, $table);

		ok($record, 'there is a record');
		is($record->{phase}, 'finishing', '  it says where it was');
		is("$record->{next_block} of $record->{rel_blocks}", "$pages of $pages", '  all pages are behind it');
		is($record->{pages_scanned}, $pages, '  all are scanned');
		is($record->{pending_dead_tuples}, 0, '  no dead TID is pending');
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

	is($rest->{run}, 2, 'the next vacuum goes on');
	cmp_ok($rest->{scanned}, '<=', 1, '  scans no page again');
	is("@{ $rest->{indexes} }", '', '  and no index again');
	is($rest->{cycle_scanned}, $pages, 'together they scan each page');
	is($rest->{cycle_removed}, $whole->{removed}, '  and remove each dead row');
	finished_alike($node, $table, whole => $point->{facts});
	is_deeply([ Oracle::same_rows($node, 'postgres', $table, 'ARRAY[k, -k, v, -v] @> ARRAY[7]') ], [],
		'  the GIN index too')
	  if $point->{indexes} =~ /g/;
	return;
}

foreach my $story (@stories)
{
	subtest "$story->{name} in $story->{point}" => sub { run_story($story) };
}

# The last page in use may be one that only the first run has seen, or neither has
# scanned; that is no reason to ask for a lock on the table.
make_table($node, 'filled', pages => $pages);
subtest 'no attempt to truncate a table without an empty end' => sub {
	stop_vacuum($node, 'filled', way => 'cancel', set => [$Resume::slowly], phase => 'vacuuming indexes');
	my $holder = $node->background_psql('postgres');
	$holder->query_safe('BEGIN; LOCK TABLE filled IN ACCESS SHARE MODE');
	my $rest = vacuum($node, 'filled');
	$holder->quit;

	is($rest->{run}, 2, 'the next vacuum goes on');
	unlike($rest->{text}, qr/truncate/, '  and does not even try');
};

only_asked_for_crashes($node);
$node->stop;

done_testing();
