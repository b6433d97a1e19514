
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
  between_node interrupted continued begun_anew settled
  prepare_entries entries_ok fill_holes
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

	prepare_entries($node, 'postgres');
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
	  /LOG:  discarding the saved progress of the vacuum of table "(?:[^".]+\.)?$table": (.*)/;

	is("$report->{run}, $report->{from}", '1, 0', 'the next vacuum starts over');
	is($reason, $why, defined $why ? '  and the log says why' : '  and there was nothing to be discarded');
	return;
}

=pod

=item settled($node, $table, dead => 0)

Test that a table's vacuum is finished: no record, no dead row and no dead line
pointer (unless C<dead> is their number, or -1 for any but 0), that its indexes have
exactly the entries they should have, and the oracle.

=cut

sub settled
{
	my ($node, $table, %opt) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $dead = $opt{dead} // 0;

	my ($records, $dead_rows, @complaints) = split /\n/, $node->safe_psql(
		'postgres', qq{
		SELECT count(*) FROM vacuum_resume.progress WHERE relid = '$table'::regclass;
		SELECT dead_rows('$table');
		SELECT wrong_entries('$table');});

	is($records, 0, 'nothing is left to go on with');
	if ($dead < 0)
	{
		cmp_ok($dead_rows, '>', 0, '  dead rows are left');
	}
	else
	{
		is($dead_rows, $dead, "  $dead dead rows are left");
	}
	no_complaints(@complaints);
	return Oracle::table_ok($node, 'postgres', $table, '  and the table is sound');
}

=pod

=item entries_ok($node, $table, any_time => 0)

Test that each b-tree and each hash index of a table has one entry for each line
pointer that a live row's chain begins at; none for one that is unused or not
there; and not two for any.  Line pointers that are dead may have one.  The table
must be quiet.  C<any_time>: not only after a vacuum, so that there may be rows
without entries, of inserts that did not get that far.  C<prepare_entries> makes what
all of this needs.

=cut

sub entries_ok
{
	my ($node, $table, %opt) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $any_time = $opt{any_time} ? 'true' : 'false';

	return no_complaints(split /\n/,
		$node->safe_psql('postgres', "SELECT wrong_entries('$table', $any_time)"));
}

sub no_complaints
{
	my (@complaints) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return ok(@complaints == 0, '  indexes have an entry for each row, and no other')
	  || diag(join "\n", @complaints);
}

sub prepare_entries
{
	my ($node, $db) = @_;

	# A b-tree's leaf page begins with its upper bound, unless it is the rightmost. A
	# bucket of a hash index that was split keeps the entries that were copied from it
	# until it is cleaned up.
	$node->safe_psql($db, <<'EOQ');
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pageinspect;
CREATE EXTENSION IF NOT EXISTS pgstattuple;
CREATE OR REPLACE FUNCTION dead_rows(tab regclass) RETURNS bigint
LANGUAGE sql AS $$
	SELECT dead_tuple_count +
		(SELECT count(*) FROM generate_series(0, pg_relation_size(tab) / 8192 - 1) AS block,
			heap_page_items(get_raw_page(tab::text, block::int)) WHERE lp_flags = 3)
	FROM pgstattuple(tab)
$$;
CREATE OR REPLACE FUNCTION wrong_entries(tab regclass, any_time boolean DEFAULT false) RETURNS SETOF text
LANGUAGE plpgsql SET client_min_messages = warning AS $$
DECLARE
	index record;
BEGIN
	DROP TABLE IF EXISTS pg_temp.items;
	CREATE TEMP TABLE items AS
	SELECT format('(%s,%s)', block, lp)::tid AS tid, lp_flags,
		lp_flags = 2 OR lp_flags = 1 AND t_infomask2 & 32768 = 0 AS root
	FROM generate_series(0, pg_relation_size(tab) / 8192 - 1) AS block,
		heap_page_items(get_raw_page(tab::text, block::int));
	CREATE INDEX ON pg_temp.items (tid);
	ANALYZE pg_temp.items;
	FOR index IN
		SELECT c.oid::regclass::text AS name, amname, pg_relation_size(c.oid) / 8192 AS pages
		FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam
		WHERE indrelid = tab AND indisvalid AND amname IN ('btree', 'hash')
	LOOP
		DROP TABLE IF EXISTS pg_temp.entries;
		IF index.amname = 'btree' THEN
			CREATE TEMP TABLE entries AS
			SELECT unnest(coalesce(i.tids, ARRAY[i.htid])) AS tid
			FROM (SELECT block FROM generate_series(1, index.pages - 1) AS block
					-- not what a crash has left as zeros
					WHERE (page_header(get_raw_page(index.name, block::int))).upper <> 0 OFFSET 0) AS pages,
				bt_page_stats(index.name, block::int) AS s, bt_page_items(index.name, block::int) AS i
			WHERE s.type = 'l' AND i.itemoffset > (s.btpo_next <> 0)::int;
		ELSE
			CREATE TEMP TABLE entries AS
			SELECT tid FROM (
				SELECT DISTINCT i.ctid AS tid, i.data
				FROM generate_series(1, index.pages - 1) AS block,
					get_raw_page(index.name, block::int) AS page, hash_page_items(page) AS i
				WHERE hash_page_type(page) IN ('bucket', 'overflow')) AS x;
		END IF;
		ANALYZE pg_temp.entries;
		RETURN QUERY
			WITH complaints AS (
				SELECT CASE WHEN n > 1 THEN n || ' entries for ' || e.tid
					WHEN e.tid IS NULL AND root AND NOT any_time THEN 'no entry for ' || i.tid
					WHEN i.tid IS NULL THEN 'an entry for ' || e.tid || ', which is not there'
					WHEN n IS NOT NULL AND lp_flags = 0 THEN 'an entry for ' || e.tid || ', which is unused'
					END AS what
				FROM pg_temp.items AS i
					FULL JOIN (SELECT tid, count(*) AS n FROM pg_temp.entries GROUP BY tid) AS e ON e.tid = i.tid)
			SELECT index.name || ': ' || what FROM complaints WHERE what IS NOT NULL LIMIT 5;
	END LOOP;
END $$;
EOQ
	return;
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
