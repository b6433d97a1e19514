
=pod

=head1 NAME

Resume - stop a vacuum at a known place in a known way, and see how the next one goes on

=head1 SYNOPSIS

  use Resume;

  my $node = resume_node('stops');
  make_table($node, $_) foreach qw(whole stopped);

  my $whole = vacuum_by_server($node, 'whole');
  my $stop = stop_vacuum($node, 'stopped',
	way => 'terminate', phase => 'scanning heap', when => 'heap_blks_scanned > 100');
  my $record = record($node, 'stopped');
  my $rest = vacuum($node, 'stopped');
  is($rest->{scanned}, $whole->{scanned} - $record->{pages_scanned}, 'no page is scanned twice');

=head1 DESCRIPTION

All tables that C<make_table> makes are alike: C<$rows_per_page> rows on each
page, numbered from 0 in column k, in no order in column v; in three of four
pages two rows are dead, and the fourth is all-visible.  Three indexes, which vacuum takes in this order: a
b-tree (NAME_k), another one (NAME_v), and a hash index (NAME_h).

A vacuum is kept at a place long enough to be met there in one of two ways: it
is made slow, by a cost delay at each page that it touches; or another session
holds a pin that it has to wait for, see Pass.pm.  A function in the server,
which looks a thousand times a second, waits for the place; where the way to stop
is an SQL command, that function gives it, too.

=cut

package Resume;

use strict;
use warnings;

use Exporter 'import';
use Oracle;
use Pass;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

our @EXPORT = qw(
  resume_node make_table hold_block hold_index garble $rows_per_page
  vacuum vacuum_by_server vacuum_in_slices vacuum_part vacuum_with_stops vacuum_report autovacuum
  let_die decisions decided located honest %because
  start_vacuum stop_vacuum crash_node only_asked_for_crashes
  record facts page_accesses
  finished_alike pages_reaped
);

our $rows_per_page = 20;

# Why a plan is taken, in the words of the log
our %because = (
	promise => 'what is dead in the head has to be removed as well',
	over_threshold => 'the head has more dead rows than the vacuum threshold',
	tail_pays => 'the tail alone is worth at least as much per page',
	only_pending => 'only pending row pointers are left to remove',
	head_pays => 'the head is worth its pages',
	out_of_reach => 'the head is worth more per page and would not be reached',
	asked => 'it was asked to start over',
	others => 'the table may have been vacuumed by others meanwhile',
	given_up => 'the cycle before has been given up already');

# Each page that a vacuum finds in the buffers or reads costs one delay.
our $slowly = 'vacuum_cost_delay = 2';

# Save as often as can be.
our $saving = 'vacuum_resume.save_interval = 10';

=pod

=head1 WAYS TO STOP

  cancel          pg_cancel_backend
  timeout         statement_timeout (the caller sets it)
  lock            an autovacuum worker gives way to a lock request
  terminate       pg_terminate_backend
  fast            pg_ctl stop -m fast
  immediate       pg_ctl stop -m immediate
  kill_backend    kill -9 of the vacuum's process; the server restarts its
                  processes by itself
  kill_postmaster kill -9 of the postmaster; the others notice, and end
  kill_all        kill -9 of all processes at once
  error           it fails by itself (the caller sees to that)
  max_duration    its time is over (the caller sets it)

Each has: what the vacuum or the log says; C<last_stop> as the record says it;
clean, if it is one after which nothing at all is lost; down, if the server is
down afterwards and has to be started.

=cut

my $shut_down =
  qr/FATAL:  terminating (?:connection|autovacuum process) due to administrator command/;

our %ways = (
	cancel => {
		says => qr/ERROR:  canceling statement due to user request/,
		last_stop => 'cancelled',
		clean => 1 },
	timeout => {
		says => qr/ERROR:  canceling statement due to statement timeout/,
		last_stop => 'cancelled',
		clean => 1 },
	lock => {
		says => qr/ERROR:  canceling autovacuum task/,
		last_stop => 'cancelled',
		clean => 1 },
	terminate => { says => $shut_down, last_stop => 'terminated', clean => 1 },
	fast => { says => $shut_down, last_stop => 'terminated', clean => 1, down => 1 },
	immediate => {
		says => qr/terminating connection due to immediate shutdown command/,
		last_stop => 'killed',
		down => 1 },
	kill_backend => {
		says => qr/server closed the connection unexpectedly/,
		last_stop => 'killed' },
	# this process comes to the end of a cost delay, sees it, and exits in order
	kill_postmaster => {
		says => qr/server closed the connection unexpectedly/,
		last_stop => 'terminated',
		clean => 1,
		down => 1 },
	kill_all => {
		says => qr/server closed the connection unexpectedly/,
		last_stop => 'killed',
		down => 1 },
	error => { says => qr/ERROR:  /, last_stop => 'failed', clean => 1 },
	max_duration => {
		says => qr/NOTICE:  vacuum of table ".*" stopped after its maximum duration/,
		last_stop => 'max_duration',
		clean => 1 });

=pod

=head1 FUNCTIONS

=over

=item resume_node($name, conf => $lines)

A running server with the library, all extensions and the function that waits for
vacuums.  No background process writes pages: it would pin them, and a vacuum would
pass them by.  Autovacuum takes only tables that are let go, as fast as C<slow_worker>
lets it.

=cut

sub resume_node
{
	my ($name, %opt) = @_;

	my $node = new_node($name, conf => <<'EOC' . ($opt{conf} // ''));
restart_after_crash = on
log_min_messages = debug2
checkpoint_timeout = 1h
bgwriter_lru_maxpages = 0
max_wal_size = 4GB
wal_keep_size = 4GB
max_parallel_maintenance_workers = 0
max_prepared_transactions = 2
deadlock_timeout = 10ms
vacuum_cost_limit = 1
vacuum_cost_page_hit = 1
vacuum_cost_page_miss = 1
vacuum_cost_page_dirty = 0
autovacuum = on
autovacuum_naptime = 1
autovacuum_vacuum_threshold = 1000000000
autovacuum_vacuum_insert_threshold = -1
autovacuum_analyze_threshold = 1000000000
autovacuum_vacuum_cost_delay = 0
log_autovacuum_min_duration = 0
EOC
	Oracle::prepare($node, 'postgres');
	$node->safe_psql(
		'postgres', q{
		CREATE EXTENSION pg_vacuum_resume;
		CREATE EXTENSION pageinspect;
		CREATE EXTENSION pgstattuple;
		CREATE EXTENSION pg_walinspect;
		CREATE FUNCTION meet_vacuum(tab regclass, stage text, place text, way text,
			OUT pid int, OUT scanned bigint, OUT vacuumed bigint)
		LANGUAGE plpgsql AS $$
		DECLARE
			give_up timestamptz := clock_timestamp() + '60 s';
		BEGIN
			LOOP
				PERFORM pg_stat_clear_snapshot();
				EXECUTE format('SELECT p.pid, heap_blks_scanned, heap_blks_vacuumed
					FROM pg_stat_progress_vacuum p
					WHERE relid = $1 AND phase = $2 AND (%s)', place)
					INTO pid, scanned, vacuumed USING tab, stage;
				EXIT WHEN pid IS NOT NULL;
				IF clock_timestamp() > give_up THEN
					RAISE EXCEPTION 'no vacuum of % at: %, %', tab, stage, place;
				END IF;
				PERFORM pg_sleep(0.001);
			END LOOP;
			CASE way
				WHEN 'cancel' THEN PERFORM pg_cancel_backend(pid);
				WHEN 'terminate' THEN PERFORM pg_terminate_backend(pid);
				WHEN 'lock' THEN EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = off)', tab);
				ELSE NULL;
			END CASE;
		END $$;
	});
	return $node;
}

=pod

=item make_table($node, $name, pages => 400, indexes => 'k v h', dead => $condition)

Make a table, vacuum it, and let rows of it die: those with C<dead>, an SQL
condition, or else the third and the thirteenth of each page whose number is not a
multiple of 4.  C<indexes>: those that it is to have; g and b are also to be had, a
GIN index of both columns and a BRIN index.

=cut

sub make_table
{
	my ($node, $name, %opt) = @_;
	my $pages = $opt{pages} // 400;
	my $rows = $pages * $rows_per_page;
	my $dead = $opt{dead} // "k % 10 = 2 AND k / $rows_per_page % 4 <> 0";

	my %definitions = (
		k => "CREATE INDEX ${name}_k ON $name (k);",
		v => "CREATE INDEX ${name}_v ON $name (v);",
		h => "CREATE INDEX ${name}_h ON $name USING hash (v);",
		g => "CREATE INDEX ${name}_g ON $name USING gin ((ARRAY[k, -k, v, -v])) WITH (fastupdate = off);",
		b => "CREATE INDEX ${name}_b ON $name USING brin (k);");
	my $indexes = join ' ', map { $definitions{$_} } split / /, $opt{indexes} // 'k v h';

	# 7,919 is a prime that no number of rows here is a multiple of
	$node->safe_psql(
		'postgres', qq{
		CREATE TABLE $name (k int, v int, filler text) WITH (autovacuum_enabled = off);
		INSERT INTO $name SELECT i, i * 7919 % $rows, repeat('x', 364)
			FROM generate_series(0::bigint, $rows - 1) AS i;
		$indexes});
	$node->safe_psql('postgres',
		"SET vacuum_resume.enabled = off; VACUUM $name; DELETE FROM $name WHERE $dead;");
	is($node->safe_psql('postgres', "SELECT pg_relation_size('$name') / 8192"),
		$pages, "$name has $pages pages");
	return;
}

=pod

=item hold_block($node, $table, $block)

A session that pins a block of a table of C<make_table>: a vacuum that has to
freeze waits there.

=cut

sub hold_block
{
	my ($node, $table, $block) = @_;

	# by its ctid: a sequential scan would prune the page
	return hold_heap_page($node, "SELECT k FROM $table WHERE ctid = '($block,1)'");
}

=pod

=item hold_index($node, $table, $column)

A session that pins a leaf page of the b-tree on a column, k or v: a vacuum of
that index waits there.  The heap is not touched, as the row lies on an
all-visible page.

=cut

sub hold_index
{
	my ($node, $table, $column) = @_;
	my ($key) = $node->safe_psql('postgres',
		"SELECT $column FROM $table WHERE ctid = '(4,1)'");

	# a range, so that the hash index is of no use
	return hold_index_page($node,
		"SELECT $column FROM $table WHERE $column >= $key AND $column < $key + 1");
}

=pod

=item garble($node, $relation, $block)

Make a block of a file unreadable; the page must not be in the buffers.  Returns a
function that puts it right again.

=cut

sub garble
{
	my ($node, $relation, $block) = @_;
	my $path = $node->data_dir . '/'
	  . $node->safe_psql('postgres', "SELECT pg_relation_filepath('$relation')");
	my $header = swap_header($path, $block, "\xff" x 24);

	return sub { swap_header($path, $block, $header) };
}

# Puts new bytes in the place of a page's first ones, and returns these.
sub swap_header
{
	my ($path, $block, $new) = @_;
	my $old;

	open my $file, '+<:raw', $path or die "cannot open $path: $!";
	sysseek $file, $block * 8192, 0 or die "cannot seek in $path: $!";
	sysread $file, $old, length $new or die "cannot read $path: $!";
	sysseek $file, $block * 8192, 0 or die "cannot seek in $path: $!";
	syswrite $file, $new or die "cannot write to $path: $!";
	close $file or die "cannot close $path: $!";
	return $old;
}

=pod

=item vacuum($node, $table, options => $list, set => [ $setting, ... ])

Vacuum a table and return what VERBOSE says of it, see C<vacuum_report>.  It has
to succeed.

=cut

sub vacuum
{
	my ($node, $table, %opt) = @_;
	my $sql = vacuum_sql($table, %opt);
	my ($rc, undef, $stderr) = $node->psql('postgres', $sql);

	die "$sql failed: $stderr" if $rc != 0;
	return vacuum_report($stderr, $table);
}

=pod

=item vacuum_by_server($node, $table, options => $list, set => [ $setting, ... ])

The same by the server's own code.

=cut

sub vacuum_by_server
{
	my ($node, $table, %opt) = @_;

	return vacuum($node, $table, %opt, set => [ @{ $opt{set} // [] }, 'vacuum_resume.enabled = off' ]);
}

sub vacuum_sql
{
	my ($table, %opt) = @_;
	my $options = join ', ', 'VERBOSE', $opt{options} // ();

	# at this level it says when it is done with an index
	my $set = join '', map { "SET $_; " } 'client_min_messages = debug2', @{ $opt{set} // [] };

	return "${set}VACUUM ($options) $table";
}

=pod

=item vacuum_in_slices($node, $table, slice => '60ms', most => 100, options => ..., set => ...)

Vacuum a table with this MAX_DURATION again and again, until it is done; dies if
that takes more than so many runs.  Returns the last run's report, with these of
all runs together: runs, scanned (pages), indexes.

=cut

sub vacuum_in_slices
{
	my ($node, $table, %opt) = @_;
	my $options = join ', ', "MAX_DURATION '$opt{slice}'", $opt{options} // ();
	my ($scanned, @indexes) = (0);

	for my $runs (1 .. $opt{most} // 100)
	{
		my $report = vacuum($node, $table, %opt, options => $options);

		$scanned += $report->{scanned};
		push @indexes, @{ $report->{indexes} };
		return { %$report, runs => $runs, scanned => $scanned, indexes => \@indexes }
		  if !defined record($node, $table);
	}
	die "$table is not vacuumed after $opt{most} runs";
}

=pod

=item vacuum_part($node, $table, to => $block, options => ..., set => ...)

Vacuum a table in slices of 31 pages, after which a vacuum looks at the clock, until
it is scanned up to a block or a little beyond.  These take longer than it may on any
machine, so the place is always the same.  Returns the record.

=cut

sub vacuum_part
{
	my ($node, $table, %opt) = @_;
	my $options = join ', ', "MAX_DURATION '1ms'", $opt{options} // ();

	for (0 .. $opt{to} / 31)
	{
		vacuum($node, $table, options => $options, set => [ 'vacuum_cost_delay = 0.2', @{ $opt{set} // [] } ]);
		my $record = record($node, $table) or die "$table is vacuumed already";
		return $record if $record->{next_block} >= $opt{to};
	}
	die "vacuum of $table has not got to block $opt{to}";
}

=pod

=item let_die($node, $table, $condition)

Delete the rows with this SQL condition, and wait until pg_stat knows of it.  Returns
their number.

=cut

sub let_die
{
	my ($node, $table, $condition) = @_;
	my ($before, $died) = split /\n/, $node->safe_psql(
		'postgres', qq{
		SELECT pg_stat_get_dead_tuples('$table'::regclass);
		WITH gone AS (DELETE FROM $table WHERE $condition RETURNING 1) SELECT count(*) FROM gone;});

	$node->poll_query_until('postgres',
		"SELECT pg_stat_get_dead_tuples('$table'::regclass) >= $before + $died")
	  or die "pg_stat does not count the dead rows of $table";
	return $died;
}

=pod

=item vacuum_with_stops($node, $table, [ [ $phase, $when, $way ], ... ], options => ..., set => ..., busy => 0)

Start a vacuum and stop it at the first of these places, see C<stop_vacuum>, then
another one at the second, and so on; at last let one finish.  C<busy>: between any
two of them a transaction uses up an XID.  Returns the last one's report, with
indexes those that any run was done with.

=cut

sub vacuum_with_stops
{
	my ($node, $table, $places, %opt) = @_;
	my @indexes;

	foreach my $place (@$places)
	{
		my ($phase, $when, $way) = @$place;
		my $stop = stop_vacuum($node, $table, %opt, phase => $phase, when => $when, way => $way);

		push @indexes, @{ $stop->{indexes} };
		$node->safe_psql('postgres', 'SELECT pg_current_xact_id()') if $opt{busy};
	}
	my $report = vacuum($node, $table, %opt);
	return { %$report, indexes => [ @indexes, @{ $report->{indexes} } ] };
}

=pod

=item autovacuum($node, $table, ...)

Let autovacuum do it, with the arguments of C<start_vacuum>: returns what the log
says of it, see C<vacuum_report>.  Afterwards it has no right to the table any
more.

=cut

sub autovacuum
{
	my ($node, $table, %opt) = @_;
	my $vacuum = start_vacuum($node, $table, %opt, worker => 1);

	return finish_autovacuum($node, $vacuum);
}

sub finish_autovacuum
{
	my ($node, $vacuum) = @_;
	my $table = $vacuum->{table};

	$node->wait_for_log(qr/automatic [a-z ]*vacuum of table "postgres\.public\.$table".*?system usage/s,
		$vacuum->{log});
	$node->safe_psql('postgres', "ALTER TABLE $table SET (autovacuum_enabled = off)");
	return vacuum_report(log_since($node, $vacuum->{log}), $table);
}

=pod

=item vacuum_report($text, $table)

What VERBOSE or the log says of a table, as a hash:

  text        what was said of this table
  scanned     pages scanned by this run
  removed     tuples removed by this run
  cutoff      OldestXmin of this run
  indexes     indexes vacuumed, by name, in the order they were done with
  run         number of this run in its cycle
  from        block at which it began
  pending     dead TIDs that were pending then
  verified    pages re-read to verify them
  plan, because
              what was decided about an interrupted vacuum, and why
  cycle_scanned, cycle_again, cycle_removed, cycle_dead, cycle_indexes
              pages scanned, pages scanned again, tuples removed, dead TIDs found
              and indexes scanned by all runs of the cycle

A run that continues no cycle is run 1 from block 0, and all of its cycle.  What
was not said is undef.

=cut

sub vacuum_report
{
	my ($text, $table) = @_;
	my %report;

	# what is between this table's first line and the next table's
	my ($own) = $text =~ /(vacuuming "postgres\.public\.\Q$table\E".*?)(?=INFO:  (?:aggressively )?vacuuming "|\z)/s;
	($own) = $text =~ /(vacuuming table "postgres\.public\.\Q$table\E" with.*?)(?=DEBUG:  vacuuming table "|\z)/s
	  unless defined $own;
	$report{text} = $own // '';

	($report{scanned}) = $report{text} =~ /^\s*pages: \d+ removed, \d+ remain, (\d+) scanned/m;
	($report{removed}) = $report{text} =~ /^\s*tuples: (\d+) removed/m;
	($report{cutoff}) = $report{text} =~ /^\s*removable cutoff: (\d+)/m;
	@report{qw(plan because)} = $report{text} =~ /^\s*decision: ([a-z ]+) from block \d+ .*, because (.*)$/m;
	$report{indexes} = [ $report{text} =~ /scanned index "(\S+)" to remove/g ];

	@report{qw(run from pending verified)} =
	  $report{text} =~ /^\s*cycle: run (\d+), continued at block (\d+) of \d+ with (\d+) dead item identifiers pending, (\d+) pages re-read to verify them$/m;
	@report{qw(cycle_scanned cycle_again cycle_removed cycle_dead cycle_indexes)} =
	  $report{text} =~ /^\s*cycle so far: (\d+) pages scanned, (\d+) scanned again, (\d+) tuples removed, (\d+) dead item identifiers found, (\d+) indexes scanned$/m;

	if (!defined $report{run})
	{
		my ($dead) = $report{text} =~ /(\d+) dead item identifiers(?: removed)?$/m;
		@report{qw(run from pending verified)} = (1, 0, 0, 0);
		@report{qw(cycle_scanned cycle_again cycle_removed cycle_dead cycle_indexes)} =
		  ($report{scanned}, 0, $report{removed}, $dead, scalar @{ $report{indexes} });
	}
	return \%report;
}

=pod

=item honest($node, $table, $left)

Test that pg_stat's count of a table's dead rows is about as many as are left there.

=cut

sub honest
{
	my ($node, $table, $left) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $known = $node->safe_psql('postgres', "SELECT pg_stat_get_dead_tuples('$table'::regclass)");

	cmp_ok(abs($known - $left), '<=', $left / 2, "pg_stat believes $known rows dead, of $left that are");
	return;
}

=pod

=item decisions($node, $table, $log)

What the server's log says since a position of decisions about a table's interrupted
vacuum: a list of hashes with plan, because, block, ahead, tail_dead, behind,
head_dead, pending.

=cut

sub decisions
{
	my ($node, $table, $log) = @_;
	my $log_text = log_since($node, $log);
	my @decisions;

	while ($log_text =~ /LOG:  interrupted vacuum of table "public\.\Q$table\E" (.*)\n.*DETAIL:  (.*)\n/g)
	{
		my ($message, $detail) = ($1, $2);
		my %decision;

		@decision{qw(block plan because)} =
		  $message =~ /^at block (\d+) of \d+: ([a-z ]+), because (.*)$/;
		@decision{qw(ahead tail_dead behind head_dead pending)} = $detail =~
		  /^Vacuumable pages: (\d+) ahead, with about (\d+) dead rows, and (\d+) behind, with about (\d+); (\d+) dead row pointers are pending\.$/;
		push @decisions, \%decision;
	}
	return @decisions;
}

=pod

=item located($node, $table, $log, $died)

Test that the one decision about a table since a position in the log took about so many
rows to have died in the head.

=cut

sub located
{
	my ($node, $table, $log, $died) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @decisions = decisions($node, $table, $log);
	my $known = @decisions == 1 ? $decisions[0]{head_dead} : -1;

	cmp_ok(abs($known - $died), '<=', $died / 5,
		"$known rows are believed to have died in the head, of $died that did");
	return;
}

=pod

=item decided($node, $table, $log, $report, $plan, $because)

Test that since a position in the log one decision was taken about a table, that it was
this one for that reason, and that the log and the vacuum's own report tell it alike.
Returns it, see C<decisions>.

=cut

sub decided
{
	my ($node, $table, $log, $report, $plan, $because) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @decisions = decisions($node, $table, $log);

	is(scalar @decisions, 1, 'one decision is logged');
	is("$decisions[0]{plan}, because $decisions[0]{because}", "$plan, because $because", "  $plan");
	is("$report->{plan}, because $report->{because}", "$plan, because $because", '  and so says the report');
	return $decisions[0];
}

=pod

=item start_vacuum($node, $table, options => $list, set => [ ... ], worker => 0, threshold => 1, scale => 0)

Start a vacuum, and return at once; C<stop_vacuum> takes what is returned as
C<vacuum>.  C<worker>: an autovacuum worker is to do it, which comes for more dead rows
than C<threshold> and C<scale> say.  Of options only "FREEZE" is possible then, and of
settings only C<$slowly>.

=cut

sub start_vacuum
{
	my ($node, $table, %opt) = @_;
	my %vacuum = (table => $table, log => log_end($node));

	if ($opt{worker})
	{
		my ($threshold, $scale) = ($opt{threshold} // 1, $opt{scale} // 0);
		my @set = ('autovacuum_enabled = on', "autovacuum_vacuum_threshold = $threshold",
			"autovacuum_vacuum_scale_factor = $scale");

		push @set, 'autovacuum_freeze_min_age = 0', 'autovacuum_freeze_table_age = 0'
		  if ($opt{options} // '') =~ /FREEZE/;
		push @set, "autovacuum_$slowly", 'autovacuum_vacuum_cost_limit = 1'
		  if grep { $_ eq $slowly } @{ $opt{set} // [] };
		$node->safe_psql('postgres', "ALTER TABLE $table SET (" . join(', ', @set) . ')');
	}
	else
	{
		$vacuum{job} = start_sql($node, vacuum_sql($table, %opt));
	}
	return \%vacuum;
}

=pod

=item stop_vacuum($node, $table, way => ..., phase => ..., when => ..., ...)

Start a vacuum (see C<start_vacuum>; or take the one that C<vacuum> is), wait until
it is in a phase of pg_stat_progress_vacuum and a condition on its row there (the
row's name is p) holds, and stop it.  The ways "timeout", "error" and
"max_duration" only wait for its end.  "lock" stops a worker.  C<victim>: a query
for the process that "kill_backend" kills, if it is another one.  C<holder>: a session that held it, and
goes.  If the server went down, it is started.  Tests that the vacuum ended in
the way's own words.  Returns a hash:

  text            what it said (in the log, if it was a worker)
  block           block of the table that its error's context names
  index           index, likewise
  indexes         indexes that it was done with, by name
  log             where in the server's log that was
  scanned, vacuumed
                  of its progress row, when the phase and condition were met

=cut

sub stop_vacuum
{
	my ($node, $table, %opt) = @_;
	my ($way, $holder) = @opt{qw(way holder)};
	my $vacuum = $opt{vacuum} // start_vacuum($node, $table, worker => $way eq 'lock', %opt);
	my %stop;

	if (defined $opt{phase})
	{
		my $place = $opt{when} // 'true';

		$place =~ s/'/''/g;
		@stop{qw(pid scanned vacuumed)} = split /\|/, $node->safe_psql('postgres',
			"SELECT * FROM meet_vacuum('$table', '$opt{phase}', '$place', '$way')");
		if ($opt{victim})
		{
			# a worker may have to start yet
			for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
			{
				$stop{pid} = $node->safe_psql('postgres', $opt{victim});
				last if $stop{pid} ne '';
				usleep(100_000);
			}
		}
	}
	crash_node($node, $way, $stop{pid}) if $way =~ /^(fast|immediate|kill_.*)$/;

	if ($vacuum->{job})
	{
		(undef, $stop{text}) = finish_sql($vacuum->{job});
	}
	else
	{
		$stop{text} = log_since($node, $vacuum->{log});
	}
	if ($holder)
	{
		# it may be gone with the server
		local $@;
		eval { $holder->quit; };
	}
	$stop{log} = log_end($node);
	$node->start if $ways{$way}{down};

	like($stop{text}, $ways{$way}{says}, "the vacuum is stopped: $way");
	$stop{indexes} = vacuum_report($stop{text}, $table)->{indexes};
	($stop{block}) = $stop{text} =~ /CONTEXT:  while (?:scanning|vacuuming) block (\d+) (?:offset \d+ )?of relation "public\.\Q$table\E"/;
	($stop{index}) = $stop{text} =~ /CONTEXT:  while (?:vacuuming|cleaning up) index "(\S+)" of relation "public\.\Q$table\E"/;
	return \%stop;
}

=pod

=item crash_node($node, $way, $pid)

Do to the server what the ways "fast", "immediate" and "kill_..." stand for; $pid is
the vacuum's process.  After "kill_backend" it is up again when this returns,
after the others it is down.

=cut

# A client that is turned away may be gone before it has read the query, of which
# PostgreSQL::Test dies.
sub wait_for_server
{
	my ($node) = @_;

	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		my $answer = eval { $node->psql('postgres', 'SELECT true') };

		return if defined $answer && $answer == 0;
		usleep(100_000);
	}
	die 'the server did not recover';
}

sub crash_node
{
	my ($node, $way, $pid) = @_;

	if ($way eq 'fast' || $way eq 'immediate')
	{
		$node->stop($way);
	}
	elsif ($way eq 'kill_backend')
	{
		my $log = log_end($node);

		kill 9, $pid;
		$node->wait_for_log(qr/all server processes terminated; reinitializing/, $log);
		wait_for_server($node);
	}
	else
	{
		my ($postmaster) = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
		my @children = split ' ', slurp_file("/proc/$postmaster/task/$postmaster/children");

		if ($way eq 'kill_all')
		{
			# none must see another one die
			kill 'STOP', $postmaster;
			kill 'KILL', @children;
		}
		$node->kill9;
		foreach my $process ($postmaster, @children)
		{
			my $waits = 0;

			while (kill 0, $process)
			{
				die "process $process did not end" if $waits++ > 60_000;
				usleep(1_000);
			}
		}
	}
	return;
}

=pod

=item only_asked_for_crashes($node)

Test that no process of the server came to grief but those that were killed.

=cut

sub only_asked_for_crashes
{
	my ($node) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return unlike(slurp_file($node->logfile), qr/PANIC: |TRAP: |terminated by signal (?!9:)/,
		'there was no crash but those that were asked for');
}

=pod

=item record($node, $table)

The table's row of vacuum_resume.progress as a hash; undef if there is none.

=cut

sub record
{
	my ($node, $table) = @_;
	my $row = $node->safe_psql(
		'postgres', qq{
		SELECT key || '=' || coalesce(value, '')
		FROM vacuum_resume.progress AS p, json_each_text(row_to_json(p))
		WHERE p.relid = '$table'::regclass});

	return undef if $row eq '';
	return { map { split /=/, $_, 2 } split /\n/, $row };
}

=pod

=item facts($node, $table)

What the server's catalogs and statistics say of a table after a vacuum, as a
hash: relpages, reltuples, relallvisible, relfrozenxid, relminmxid, n_dead (rows
that pg_stat believes dead), dead_rows (those that are), dead_items (dead line
pointers, in 2,000 pages at most), and indexes: relpages and reltuples of each.

=cut

sub facts
{
	my ($node, $table) = @_;
	my %facts;

	@facts{qw(relpages reltuples relallvisible relfrozenxid relminmxid n_dead dead_rows dead_items)} =
	  split /\|/, $node->safe_psql(
		'postgres', qq{
		SELECT relpages, reltuples, relallvisible, relfrozenxid, relminmxid,
			pg_stat_get_dead_tuples(oid), (pgstattuple(oid)).dead_tuple_count,
			(SELECT count(*) FROM generate_series(0, least(pg_relation_size(oid) / 8192, 2000) - 1) AS block,
				heap_page_items(get_raw_page('$table', block)) WHERE lp_flags = 3)
		FROM pg_class WHERE oid = '$table'::regclass});
	$facts{indexes} = $node->safe_psql(
		'postgres', qq{
		SELECT string_agg(format('%s: %s pages, %s tuples',
			right(relname, -length('$table')), relpages, reltuples), '; ' ORDER BY oid)
		FROM pg_class JOIN pg_index ON indexrelid = oid
		WHERE indrelid = '$table'::regclass});
	return \%facts;
}

=pod

=item page_accesses($node, $table)

Pages of the table and of its indexes that were read or found in the buffers so
far, as pg_statio counts them: (heap, indexes).

=cut

sub page_accesses
{
	my ($node, $table) = @_;

	return split /\|/, $node->safe_psql(
		'postgres', qq{
		SELECT heap_blks_read + heap_blks_hit, coalesce(idx_blks_read + idx_blks_hit, 0)
		FROM pg_statio_user_tables WHERE relid = '$table'::regclass});
}

=pod

=item pages_reaped($node, $table, $lsn)

Pages of a table that were reaped since a WAL position, counted in WAL, so that
one which is reaped twice counts twice.

=cut

sub pages_reaped
{
	my ($node, $table, $lsn) = @_;

	# a commit flushes all WAL, which a vacuum need not
	$node->safe_psql('postgres', q{SELECT pg_logical_emit_message(true, '', '')});
	return $node->safe_psql(
		'postgres', qq{
		SELECT count(*) FROM pg_get_wal_records_info_till_end_of_wal('$lsn')
		WHERE resource_manager = 'Heap2' AND record_type = 'VACUUM'
			AND block_ref LIKE '%/' || pg_relation_filenode('$table') || ' %'});
}

=pod

=item finished_alike($node, $table, whole => $facts, frozen_to => $xid, but => [ $fact, ... ])

Test that a table's vacuum is finished, and that catalogs and statistics say the
same of it as of the table whose C<facts> are given, an uninterrupted one's.
relfrozenxid has to be C<frozen_to> or later; without that, it has to be the oldest
XID that is left in the table, as its rows are younger than what has to be frozen.
C<but>: facts that need not be the same.  Last, the oracle, see Oracle.pm.

=cut

sub finished_alike
{
	my ($node, $table, %opt) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($whole, $own) = ($opt{whole}, facts($node, $table));
	my $oldest = $node->safe_psql('postgres', "SELECT min(xmin::text::bigint) FROM $table");
	my %differs = map { $_ => 1 } @{ $opt{but} // [] };
	my @alike = grep { !$differs{$_} } qw(relpages relallvisible relminmxid n_dead dead_rows dead_items indexes);

	is(record($node, $table), undef, 'nothing is left to go on with');
	is_deeply({ map { $_ => $own->{$_} } @alike }, { map { $_ => $whole->{$_} } @alike },
		'catalogs and statistics are those of an uninterrupted vacuum');
	cmp_ok(abs($own->{reltuples} - $whole->{reltuples}), '<=', 0.01 * $whole->{reltuples},
		'  reltuples within 1 %');
	if (defined $opt{frozen_to})
	{
		cmp_ok($own->{relfrozenxid}, '>=', $opt{frozen_to}, '  relfrozenxid has advanced as far');
	}
	else
	{
		is($own->{relfrozenxid}, $oldest, '  relfrozenxid is the oldest XID left');
	}
	Oracle::table_ok($node, 'postgres', $table, '  and the table is sound');
	return;
}

=pod

=back

=cut

1;
