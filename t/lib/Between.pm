
=pod

=head1 NAME

Between - what must not go wrong between two runs of a vacuum

=head1 SYNOPSIS

  use Between;

  my $node = between_node('between');
  interrupted($node, 't', 'indexes');
  $node->safe_psql('postgres', 'UPDATE t SET v = v');
  my $rest = vacuum($node, 't');
  continued($rest);
  settled($node, 't');

=head1 DESCRIPTION

Vacuums are stopped here by their own MAX_DURATION, while each page costs them more
time than they have: what matters is not how one was stopped but what happens until
the next one.

=cut

package Between;

use strict;
use warnings;

use Exporter 'import';
use Oracle;
use Pass;
use PostgreSQL::Test::Utils;
use Resume;
use Test::More;

our @EXPORT = qw(
  between_node interrupted continued begun_anew settled entries_ok fill_holes
  instance_id
);

=pod

=head1 FUNCTIONS

=over

=item between_node($name, conf => $lines)

As C<resume_node> of Resume.pm, with what is needed to look into pages.

=cut

sub between_node
{
	my ($name, %opt) = @_;
	my $node = resume_node($name, %opt);

	$node->safe_psql('postgres',
		'SET client_min_messages = warning; CREATE EXTENSION IF NOT EXISTS pageinspect');
	return $node;
}

=pod

=item interrupted($node, $table, $where, made => 0, ...)

Make a table of 80 pages with six dead rows on each, with the arguments of
C<make_table> of Resume.pm, unless C<made> says that it is there; and have its
vacuum interrupted

  scan      in the first heap pass, at block 32 or 64
  indexes   in index vacuuming, with one of three indexes done
  reaping   while it sets line pointers unused

C<options> and C<set> are those of the vacuum.  Returns the record.

=cut

my %small = (pages => 80, dead => 'k % 3 = 0');
my %places = (
	scan => ['scanning heap'],
	indexes => [ 'vacuuming indexes', 1 ],
	reaping => ['vacuuming heap']);

sub interrupted
{
	my ($node, $table, $where, %opt) = @_;
	my ($phase, $done) = @{ $places{$where} };
	my @how = map { exists $opt{$_} ? ($_ => $opt{$_}) : () } qw(options set);
	my $record;

	make_table($node, $table, %small, map { exists $opt{$_} ? ($_ => $opt{$_}) : () } qw(pages dead indexes))
	  unless $opt{made};
	for (1 .. 40)
	{
		my $scanning = !$record || $record->{next_block} < $record->{rel_blocks};

		slice($node, $table, $scanning, @how);
		$record = record($node, $table) or last;
		next if $record->{phase} ne $phase;
		next if defined $done && $record->{indexes_done} != $done;
		next if $where eq 'reaping' && !reaped_some($node, $table);
		return $record;
	}
	die "vacuum of $table was not interrupted at: $where";
}

# Vacuum for 32 pages, one index, or 32 pages to be reaped. Behind the scan there must
# be time to load what is pending and to look at the map, so only changing a clean
# page takes any.
sub slice
{
	my ($node, $table, $scanning, %opt) = @_;
	my ($duration, @costs) = $scanning
	  ? (1, 'vacuum_cost_delay = 1')
	  : (30, 'vacuum_cost_delay = 10', 'vacuum_cost_page_dirty = 1', 'vacuum_cost_page_hit = 0',
		'vacuum_cost_page_miss = 0');
	my $options = join ', ', "MAX_DURATION $duration", $opt{options} // ();

	$node->safe_psql('postgres', 'CHECKPOINT') if !$scanning;
	return vacuum($node, $table, options => $options, set => [ @costs, @{ $opt{set} // [] } ]);
}

# Is a line pointer of the first page unused?
sub reaped_some
{
	my ($node, $table) = @_;

	return $node->safe_psql('postgres', qq{
		SELECT EXISTS (SELECT FROM heap_page_items(get_raw_page('$table', 0)) WHERE lp_flags = 0)}) eq 't';
}

=pod

=item continued($report, verified => 0)

Test that a vacuum went on with an interrupted one; that it re-read pages to verify
pending TIDs if that is given as 1, and none if 0.

=cut

sub continued
{
	my ($report, %opt) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	cmp_ok($report->{run}, '>', 1, 'the next vacuum goes on');
	if (defined $opt{verified})
	{
		is($report->{verified} > 0 ? 1 : 0, $opt{verified},
			$opt{verified} ? '  after it has verified what was pending' : '  with what was pending as it is');
	}
	return;
}

=pod

=item begun_anew($node, $report, $log, $table, $why)

Test that a vacuum began at block 0, and that the log since $log tells why the
table's saved progress was discarded.  Without $why it must say nothing.

=cut

sub begun_anew
{
	my ($node, $report, $log, $table, $why) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($reason) = log_since($node, $log) =~
	  /LOG:  discarding the saved progress of the vacuum of table "$table": (.*)/;

	is("$report->{run}, $report->{from}", '1, 0', 'the next vacuum starts over');
	is($reason, $why, defined $why ? '  and the log says why' : '  and there was nothing to be discarded');
	return;
}

=pod

=item settled($node, $table, dead => 0, hash => 1)

Test that a table's vacuum is finished: no record, no dead row (unless C<dead> is
their number, or -1 for any), that its indexes have exactly the entries they should
have, and the oracle.

=cut

sub settled
{
	my ($node, $table, %opt) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $dead = $opt{dead} // 0;

	is(record($node, $table), undef, 'nothing is left to go on with');
	is(facts($node, $table)->{dead_rows}, $dead, "  $dead dead rows are left") if $dead >= 0;
	entries_ok($node, $table);
	return Oracle::table_ok($node, 'postgres', $table, '  and the table is sound');
}

=pod

=item entries_ok($node, $table)

Test that each b-tree and each hash index of a table has one entry for each line
pointer that a live row's chain begins at; none for one that is unused or not
there; and not two for any.  Line pointers that are dead may have one.  The table
must be quiet.

=cut

sub entries_ok
{
	my ($node, $table, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @complaints;

	foreach my $row (split /\n/, $node->safe_psql(
			'postgres', qq{
			SELECT indexrelid::regclass, amname FROM pg_index
				JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam
			WHERE indrelid = '$table'::regclass AND indisvalid AND amname IN ('btree', 'hash')
			ORDER BY indexrelid}))
	{
		my ($index, $method) = split /\|/, $row;

		# a leaf page's first item is its upper bound, unless it is the rightmost
		my $entries = $method eq 'btree' ? qq{
			SELECT unnest(coalesce(i.tids, ARRAY[i.htid])) AS tid
			FROM generate_series(1, pg_relation_size('$index') / 8192 - 1) AS block,
				bt_page_stats('$index', block::int) AS s, bt_page_items('$index', block::int) AS i
			WHERE s.type = 'l' AND i.itemoffset > (s.btpo_next <> 0)::int} : qq{
			SELECT i.ctid AS tid
			FROM generate_series(1, pg_relation_size('$index') / 8192 - 1) AS block,
				get_raw_page('$index', block::int) AS page, hash_page_items(page) AS i
			WHERE hash_page_type(page) IN ('bucket', 'overflow')};

		push @complaints, map { "$index: $_" } split /\n/, $node->safe_psql(
			'postgres', qq{
			WITH items AS MATERIALIZED (
				SELECT format('(%s,%s)', block, lp)::tid AS tid, lp_flags,
					lp_flags = 2 OR lp_flags = 1 AND t_infomask2 & 32768 = 0 AS root
				FROM generate_series(0, pg_relation_size('$table') / 8192 - 1) AS block,
					heap_page_items(get_raw_page('$table', block::int))),
			entries AS MATERIALIZED (SELECT tid, count(*) AS n FROM ($entries) AS e GROUP BY tid),
			complaints AS (
				SELECT CASE WHEN n > 1 THEN 'two entries for ' || e.tid
					WHEN e.tid IS NULL AND root THEN 'no entry for ' || i.tid
					WHEN i.lp_flags IS NULL THEN 'an entry for ' || e.tid || ', which is not there'
					WHEN n IS NOT NULL AND lp_flags = 0 THEN 'an entry for ' || e.tid || ', which is unused'
					END AS what
				FROM items AS i FULL JOIN entries AS e ON e.tid = i.tid)
			SELECT what FROM complaints WHERE what IS NOT NULL LIMIT 5});
	}
	return ok(@complaints == 0, $name // '  indexes have an entry for each row, and no other')
	  || diag(join "\n", @complaints);
}

=pod

=item fill_holes($node, $table, $key)

Insert rows into the holes that a vacuum has left, with keys from $key on; then let
each fourth of them die.  Old entries that should be gone point to living rows now,
and what an old list says of line pointers is wrong.

=cut

sub fill_holes
{
	my ($node, $table, $key) = @_;

	$node->safe_psql(
		'postgres', qq{
		INSERT INTO $table SELECT $key + i, $key + i, repeat('y', 364)
			FROM generate_series(1, (SELECT count(*) / 4 FROM $table)) AS i;
		DELETE FROM $table WHERE k >= $key AND k % 4 = 0;});
	return;
}

=pod

=item instance_id($node)

The instance id of the note; '' if there is none.

=cut

sub instance_id
{
	my ($node) = @_;
	my $path = $node->data_dir . '/pg_vacuum_resume/instance';

	return '' unless -e $path;
	my ($id) = slurp_file($path) =~ /^id: ([0-9a-f]{32})$/m;
	return $id // '';
}

=pod

=back

=cut

1;
