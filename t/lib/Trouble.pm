=pod

=head1 NAME

Trouble - interrupted vacuums whose store is about to have a bad day

=head1 SYNOPSIS

  use Trouble;

  my $node = resume_node('trouble');
  make_table($node, 't', %small);
  stop_at($node, 't', 'vacuuming indexes', 1);
  unlink store($node, 'lock.mdb');
  my $rest = careful_vacuum($node, 't');
  is($rest->{warnings}, 0, 'no warning');
  reuse_rows($node, 't');

=head1 DESCRIPTION

A vacuum is interrupted here by its own MAX_DURATION, while each page costs it more
time than it has: so it ends where it looks at the clock, after 32 pages or one
index.  A few such slices bring it to any place, always the same.

=cut

package Trouble;

use strict;
use warnings;

use Exporter 'import';
use Oracle;
use Pass;
use PostgreSQL::Test::Utils;
use Resume;
use Test::More;

our @EXPORT = qw(
  %small @everywhere store slice late_slice stop_at careful_vacuum count_warnings
  has_no_dead_rows reuse_rows works_again live_through lose_store_while
);

# A table that takes two slices to scan; each page has six or seven dead rows.
our %small = (pages => 48, dead => 'k % 3 = 0');

# Where stop_at can leave a vacuum
our @everywhere = (
	[ 'scanning heap' ],
	[ 'vacuuming indexes', 1 ],
	[ 'vacuuming heap' ]);

=pod

=head1 FUNCTIONS

=over

=item store($node, $file)

Path of the store's directory, or of a file in it.

=cut

sub store
{
	my ($node, $file) = @_;
	return join '/', $node->data_dir, 'pg_vacuum_resume', $file // ();
}

=pod

=item slice($node, $table, options => $list, set => [ ... ])

Vacuum until the clock is looked at for the first time.  Returns the report as
C<vacuum> of Resume.pm does.

=cut

sub slice
{
	my ($node, $table, %opt) = @_;
	my $options = join ', ', 'MAX_DURATION 1', $opt{options} // ();

	return vacuum($node, $table, options => $options,
		set => [ $Resume::slowly, @{ $opt{set} // [] } ]);
}

=pod

=item late_slice($node, $table)

A slice behind the scan: there is enough time to load what is pending, as reading is
free, but not to change more than a few pages.

=cut

sub late_slice
{
	my ($node, $table) = @_;

	# only a change of a clean page counts
	$node->safe_psql('postgres', 'CHECKPOINT');
	return vacuum($node, $table, options => 'MAX_DURATION 30',
		set => [ 'vacuum_cost_page_hit = 0', 'vacuum_cost_page_miss = 0',
			'vacuum_cost_page_dirty = 1', 'vacuum_cost_delay = 10' ]);
}

=pod

=item stop_at($node, $table, $phase, $indexes_done)

Slices, until the table's record is in this phase, with so many finished indexes if
that is given.  Returns the record.

=cut

sub stop_at
{
	my ($node, $table, $phase, $indexes_done) = @_;
	my $record;

	for (1 .. 20)
	{
		$record && $record->{next_block} == $record->{rel_blocks}
		  ? late_slice($node, $table) : slice($node, $table);
		$record = record($node, $table) or last;
		return $record
		  if $record->{phase} eq $phase
		  && (!defined $indexes_done || $record->{indexes_done} == $indexes_done);
	}
	die "vacuum of $table did not stop at $phase";
}

=pod

=item careful_vacuum($node, $table, options => $list, set => [ ... ])

A vacuum as C<vacuum> of Resume.pm, but of the table without its TOAST table.  The
report has besides: warnings, the number of WARNINGs that it gave; and hints, those
with a hint.

=cut

sub careful_vacuum
{
	my ($node, $table, %opt) = @_;
	my $options = join ', ', 'PROCESS_TOAST off', $opt{options} // ();
	my $log = log_end($node);
	my $report = vacuum($node, $table, %opt, options => $options);

	@{$report}{qw(warnings hints)} = count_warnings(log_since($node, $log));
	return $report;
}

=pod

=item count_warnings($text)

Number of WARNINGs in a log, and of those with a hint.

=cut

sub count_warnings
{
	my ($log) = @_;
	my @warnings = $log =~ /WARNING:  (.*(?:\n\t.*|\n(?:.* )?(?:DETAIL|HINT):  .*)*)/g;

	note("WARNING: $_") foreach @warnings;
	return (scalar @warnings, scalar grep { /HINT:  / } @warnings);
}

=pod

=item has_no_dead_rows($node, $table)

Test that the last vacuum left no dead row.

=cut

sub has_no_dead_rows
{
	my ($node, $table) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is(
		$node->safe_psql('postgres', "SELECT dead_tuple_count FROM pgstattuple('$table')"),
		0, "  and no dead row is left in $table");
}

=pod

=item reuse_rows($node, $table)

Put new rows where dead ones were removed, and let some of them die in turn: what
an old record knows of the table has become dangerous.

=cut

sub reuse_rows
{
	my ($node, $table) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $reused = $node->safe_psql(
		'postgres', qq{
		INSERT INTO $table SELECT 1000000 + i, 1000000 + i, repeat('y', 364)
			FROM generate_series(1, $small{pages} * 5) AS i;
		DELETE FROM $table WHERE k >= 1000000 AND k % 4 = 0;
		SELECT count(*) FROM $table WHERE k >= 1000000
			AND ctid < '($small{pages},0)' AND (ctid::text::point)[1] < $rows_per_page});

	cmp_ok($reused, '>', $small{pages} * 3, 'new rows have taken the place of removed ones');
	return;
}

=pod

=item works_again($node, $table)

Test that the store is in order again: a vacuum that is interrupted now goes on
where it was, and leaves the table sound.

=cut

sub works_again
{
	my ($node, $table) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	$node->safe_psql('postgres', "UPDATE $table SET v = v + 1 WHERE k % 5 = 1");
	my $first = slice($node, $table);
	my $record = record($node, $table);
	my $rest = careful_vacuum($node, $table);

	is(join(' ', map { $_ // 'none' } @{$rest}{qw(run from verified warnings)}),
		join(' ', 2, $record->{next_block} // 'nowhere', 0, 0),
		'the next vacuum is saved, and goes on without any warning');
	is(record($node, $table), undef, '  to its end');
	has_no_dead_rows($node, $table);
	Oracle::table_ok($node, 'postgres', $table);
	return;
}

=pod

=item live_through($node, $trouble)

Vacuums are interrupted, a trouble comes, other vacuums run and their rows' places are
used again, the trouble ends: test that each vacuum does what it can, and that no
row is lost.  A trouble is a hash:

  name      for the tables
  start     a function: what happens to the store ...
  down      ... while the server is down: 1 or how it is stopped ('immediate'); else
            it runs
  goes_on   the next vacuum goes on, as the record is there and believed; else it
            starts over
  warnings  how many it gives (0)
  by        'server': the next vacuum is the server's own
  end       a function: how the trouble ends; a record of former times may be back
  end_down  how the server is stopped for that ('fast' or 'immediate'); else it runs
  says      a pattern: what the log says

One after which a record is there that must not be believed is tried with vacuums
that were stopped in three places, any other one with one.

=cut

sub live_through
{
	my ($node, $trouble) = @_;
	my @places = $trouble->{end} ? @everywhere : $everywhere[0];
	my @tables = map { "$trouble->{name}_$_" } 1 .. @places;
	my %record;

	for my $i (0 .. $#places)
	{
		make_table($node, $tables[$i], %small);
		$record{ $tables[$i] } = stop_at($node, $tables[$i], @{ $places[$i] });
	}
	my $log = log_end($node);
	happens($node, $trouble->{start}, $trouble->{down});

	foreach my $table (@tables)
	{
		my $record = $record{$table};
		my $from = $trouble->{goes_on} ? $record->{next_block} : 0;
		my $vacuum = careful_vacuum($node, $table,
			set => [ $trouble->{by} ? 'vacuum_resume.enabled = off' : () ]);

		is($vacuum->{from}, $from, "the next vacuum begins at block $from");
		is($vacuum->{verified}, 0, '  and verifies nothing');
		is($vacuum->{warnings}, $trouble->{warnings} // 0, '  with so many warnings');
		is($vacuum->{hints}, $vacuum->{warnings}, '  each with a hint');
		has_no_dead_rows($node, $table);
		reuse_rows($node, $table);
	}

	if ($trouble->{end})
	{
		happens($node, $trouble->{end}, $trouble->{end_down});
		foreach my $table (@tables)
		{
			my $vacuum = careful_vacuum($node, $table);

			is($vacuum->{warnings}, 0, 'when it is over, a vacuum has nothing to warn of');
			has_no_dead_rows($node, $table);
			Oracle::table_ok($node, 'postgres', $table);
		}
	}
	like(log_since($node, $log), $trouble->{says}, 'the log says what happened')
	  if $trouble->{says};
	works_again($node, $tables[0]);
	$node->safe_psql('postgres', "DROP TABLE $_") foreach @tables;
	return;
}

=pod

=item lose_store_while($node, $table, $phase, $lose)

A vacuum of a new table, which saves all the time, loses its store in a phase of
pg_stat_progress_vacuum, by what the function $lose does, and some time later is
cancelled.

=cut

sub lose_store_while
{
	my ($node, $table, $phase, $lose) = @_;
	my $counter = $phase eq 'scanning heap' ? 'heap_blks_scanned' : 'heap_blks_vacuumed';

	make_table($node, $table, pages => 300, dead => 'k % 3 = 0');
	my $vacuum = start_vacuum($node, $table, set => [ $Resume::slowly, $Resume::saving ]);
	wait_for_phase($node, $table, $phase, "$counter > 50");
	$lose->();
	stop_vacuum($node, $table, vacuum => $vacuum, way => 'cancel', phase => $phase,
		when => "$counter > 150");
	return;
}

# Do something now, or while the server is down.
sub happens
{
	my ($node, $what, $down) = @_;

	$node->stop($down eq 'immediate' ? $down : 'fast') if $down;
	$what->();
	$node->start if $down;
	return;
}

=pod

=back

=cut

1;
