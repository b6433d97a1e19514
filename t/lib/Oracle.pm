
=pod

=head1 NAME

Oracle - the server's own tools judge a table

=head1 SYNOPSIS

  use Oracle;

  Oracle::prepare($node, 'postgres');
  my ($ok, @complaints) = Oracle::check_table($node, 'postgres', 'public.t');
  Oracle::table_ok($node, 'postgres', 'public.t');

=head1 DESCRIPTION

A table is judged by

=over

=item *

amcheck: verify_heapam of the table and its TOAST table, and
bt_index_check(heapallindexed => true) of every b-tree of both (those that are not
valid are passed over);

=item *

pg_visibility: pg_check_frozen and pg_check_visible, of both;

=item *

pageinspect: no b-tree of either has an entry for a line pointer that is unused.
Such an entry does no harm to an index scan, and amcheck does not notice it, until
the line pointer is used again;

=item *

its own b-trees: a sequential scan, an index scan in index order and, where the
server can, an index-only scan see the same rows with the same key.  An index
entry that survived its row and points to another row, which reused the line
pointer, shows up here, and so does a visibility map that lets dead rows appear;

=item *

reading each value, if it has a TOAST table.

=back

The table must not change between the scans.  Works on a standby too, if the
extensions were made on its primary.

=cut

package Oracle;

use strict;
use warnings;

use Test::More;

# Settings for the scans that are compared
my $seq_scan = <<'EOQ';
SET enable_seqscan = on; SET enable_indexscan = off; SET enable_indexonlyscan = off;
EOQ
my $index_scan = <<'EOQ';
SET enable_seqscan = off; SET enable_indexscan = on; SET enable_indexonlyscan = off;
EOQ
my $index_only_scan = <<'EOQ';
SET enable_seqscan = off; SET enable_indexscan = on; SET enable_indexonlyscan = on;
EOQ

=pod

=head1 FUNCTIONS

=over

=item Oracle::prepare($node, $db)

Make the extensions that are needed.  (pageinspect is made by the first check, which
therefore has to be one on the primary.)

=cut

sub prepare
{
	my ($node, $db) = @_;

	$node->safe_psql($db, <<'EOQ');
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS amcheck;
CREATE EXTENSION IF NOT EXISTS pg_visibility;
EOQ
	return;
}

=pod

=item Oracle::check_table($node, $db, $table)

Returns whether all is well, and a list of complaints.

=cut

sub check_table
{
	my ($node, $db, $table) = @_;
	my $relation = literal($table) . '::regclass';
	my @complaints;

	# Many tests make this extension themselves, after prepare().
	$node->psql($db, 'SET client_min_messages = error; CREATE EXTENSION IF NOT EXISTS pageinspect')
	  if (lines($node, $db, 'SELECT pg_is_in_recovery()'))[0] eq 'f';

	# The table, its TOAST table, and the b-trees of each
	my (@heaps, %btrees, %readable);
	foreach my $row (lines($node, $db, <<"EOQ"))
SELECT h.oid::regclass, h.relispopulated, i.indexrelid::regclass
FROM (SELECT oid, relispopulated FROM pg_class WHERE oid = $relation
		UNION ALL
		SELECT reltoastrelid, true FROM pg_class WHERE oid = $relation AND reltoastrelid <> 0) AS h
	LEFT JOIN (pg_index i JOIN pg_class c ON c.oid = i.indexrelid
		JOIN pg_am a ON a.oid = c.relam AND a.amname = 'btree')
		ON i.indrelid = h.oid AND i.indisvalid AND i.indisready
ORDER BY h.oid <> $relation, i.indexrelid
EOQ
	{
		my ($heap, $populated, $index) = split /\|/, $row;
		push @heaps, $heap unless $btrees{$heap};
		$btrees{$heap} ||= [];
		$readable{$heap} = $populated eq 't';
		push @{ $btrees{$heap} }, $index if defined $index && $index ne '';
	}

	# Each check prints its complaints, and then one line that says that it took
	# place.
	my $script = "SET client_min_messages = warning;\n";
	my $expected = 0;

	foreach my $heap (@heaps)
	{
		my $quoted = literal($heap);

		foreach my $check (
			[ 'verify_heapam', "SELECT blkno, offnum, attnum, msg FROM verify_heapam($quoted)" ],
			[ 'pg_check_frozen', "SELECT t_ctid FROM pg_check_frozen($quoted)" ],
			[ 'pg_check_visible', "SELECT t_ctid FROM pg_check_visible($quoted)" ])
		{
			my ($name, $query) = @$check;
			$script .= "SELECT format('$name(%s): %s', $quoted, x) FROM ($query) AS x;\n"
			  . "SELECT 'checked';\n";
			$expected++;
		}
		foreach my $index (@{ $btrees{$heap} })
		{
			$script .= "SELECT CASE WHEN bt_index_check(" . literal($index) . ", heapallindexed => true) IS NULL"
			  . " THEN 'bt_index_check returned NULL' ELSE 'checked' END;\n";
			$script .= unused_but_indexed($heap, $index) . "SELECT 'checked';\n";
			$expected += 2;
		}
	}
	# A materialized view without data cannot be read.
	if ($readable{ $heaps[0] })
	{
		$script .= "SELECT 'checked' FROM (SELECT count(t::text) FROM $heaps[0] AS t) AS x;\n";
		$expected++;
	}

	my ($ret, $stdout, $stderr) = $node->psql($db, $script, on_error_stop => 0);
	my @lines = split /\n/, $stdout;
	my $checked = grep { $_ eq 'checked' } @lines;

	push @complaints, grep { $_ ne 'checked' } @lines;
	push @complaints, $stderr if $stderr ne '';
	push @complaints, "only $checked of $expected checks took place"
	  if $checked != $expected && $stderr eq '';
	push @complaints, scans_differ($node, $db, $heaps[0], @{ $btrees{ $heaps[0] } })
	  if @{ $btrees{ $heaps[0] } } && $readable{ $heaps[0] };
	return (@complaints == 0, @complaints);
}

=pod

=item Oracle::table_ok($node, $db, $table [, $name ])

The same as one test.

=cut

sub table_ok
{
	my ($node, $db, $table, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($ok, @complaints) = check_table($node, $db, $table);

	ok($ok, $name // "$table: amcheck, pg_visibility and all scans agree")
	  or diag(join("\n", @complaints > 20 ? (@complaints[ 0 .. 19 ], '...') : @complaints));
	return $ok;
}

=pod

=item Oracle::same_rows($node, $db, $table, $condition)

For indexes other than b-trees: complaints if a sequential scan and whatever the
planner uses without one find different rows for a condition, or if it cannot do
without.

=cut

sub same_rows
{
	my ($node, $db, $table, $condition) = @_;
	my $query = "SELECT count(*), sum(hashtextextended(ctid::text, 0)) FROM $table WHERE $condition;\n";
	my $no_seq_scan = "SET enable_seqscan = off; SET enable_bitmapscan = on; SET enable_indexscan = on;\n";

	my ($by_seq_scan) = lines($node, $db, "${seq_scan}SET enable_bitmapscan = off;\n$query");
	my ($by_index) = lines($node, $db, "$no_seq_scan$query");
	my @plan = lines($node, $db, "${no_seq_scan}EXPLAIN (COSTS OFF) $query");

	return "$table cannot be searched for $condition without a sequential scan: @plan"
	  if grep { /Seq Scan/ } @plan;
	return "sequential scan of $table for $condition finds (rows, hash) $by_seq_scan, another scan $by_index"
	  if $by_seq_scan ne $by_index;
	return;
}

# SQL that complains about the b-tree's entries for line pointers that are unused
# or not there.  (The first item of a leaf page is no entry, but its upper bound,
# unless it is the rightmost one.  A crash can leave pages of zeros.)
sub unused_but_indexed
{
	my ($heap, $index) = map { literal($_) } @_;

	return <<"EOQ";
WITH used AS (
	SELECT format('(%s,%s)', block, lp)::tid AS tid
	FROM generate_series(0, pg_relation_size($heap) / current_setting('block_size')::int - 1) AS block,
		heap_page_items(get_raw_page($heap, block::int))
	WHERE lp_flags <> 0),
pages AS MATERIALIZED (
	SELECT block
	FROM generate_series(1, pg_relation_size($index) / current_setting('block_size')::int - 1) AS block
	WHERE (page_header(get_raw_page($index, block::int))).upper <> 0),
entries AS (
	SELECT unnest(coalesce(i.tids, ARRAY[i.htid])) AS tid
	FROM pages,
		bt_page_stats($index, block::int) AS s,
		bt_page_items($index, block::int) AS i
	WHERE s.type = 'l' AND i.itemoffset > (s.btpo_next <> 0)::int)
SELECT format('index %s has an entry for %s, which is unused', $index, tid)
FROM entries WHERE NOT EXISTS (SELECT FROM used WHERE used.tid = entries.tid);
EOQ
}

# Complaints if a sequential scan of a table and scans of these b-trees disagree.
sub scans_differ
{
	my ($node, $db, $table, @indexes) = @_;
	my $list = join(', ', map { literal($_) . '::regclass' } @indexes);
	my (%keys, %orders, %predicates, $only);

	# Key columns as expressions, and what ORDER BY must say to get the index's
	# own order: a collation only where it is not the column's, an operator only
	# where the operator class is not the type's default.
	foreach my $row (lines($node, $db, <<"EOQ"))
SELECT i.indexrelid::regclass, pg_get_indexdef(i.indexrelid, k.n, false),
	CASE WHEN a.attcollation <> coalesce(h.attcollation, a.attcollation)
		THEN (SELECT format(' COLLATE %s', c.oid::regcollation) FROM pg_collation c WHERE c.oid = a.attcollation)
	END,
	CASE WHEN NOT o.opcdefault
		THEN (SELECT format(' USING OPERATOR(%I.%s)', n.nspname, p.oprname)
			FROM pg_amop m JOIN pg_operator p ON p.oid = m.amopopr JOIN pg_namespace n ON n.oid = p.oprnamespace
			WHERE m.amopfamily = o.opcfamily AND m.amoplefttype = o.opcintype AND m.amoprighttype = o.opcintype
				AND m.amopstrategy = CASE WHEN i.indoption[k.n - 1] & 1 = 1 THEN 5 ELSE 1 END)
		WHEN i.indoption[k.n - 1] & 1 = 1 THEN ' DESC'
		ELSE ''
	END,
	CASE WHEN i.indoption[k.n - 1] & 2 = 2 THEN ' NULLS FIRST' ELSE ' NULLS LAST' END,
	CASE WHEN t.relkind IN ('r', 'p') THEN 'ONLY ' ELSE '' END || t.oid::regclass,
	' WHERE ' || pg_get_expr(i.indpred, i.indrelid)
FROM pg_index i
	JOIN pg_class t ON t.oid = i.indrelid
	CROSS JOIN generate_series(1, i.indnkeyatts) AS k (n)
	JOIN pg_attribute a ON a.attrelid = i.indexrelid AND a.attnum = k.n
	LEFT JOIN pg_attribute h ON h.attrelid = i.indrelid AND h.attnum = i.indkey[k.n - 1] AND h.attnum > 0
	JOIN pg_opclass o ON o.oid = i.indclass[k.n - 1]
WHERE i.indexrelid IN ($list)
ORDER BY i.indexrelid, k.n
EOQ
	{
		my ($index, $key, $collation, $order, $nulls, $from, $predicate) = split /\|/, $row, 7;

		push @{ $keys{$index} }, "($key)";
		push @{ $orders{$index} }, "($key)$collation$order$nulls";
		$predicates{$index} = $predicate;
		$only = $from;
	}

	# Asking for the order of its keys leaves the planner no other way than this
	# index, or another one whose keys begin alike: hide the others for a moment.
	# Where that is not possible, on a standby, the planner chooses, and so it does
	# for the catalog in which they are hidden.
	my ($in_recovery) = lines($node, $db, 'SELECT pg_is_in_recovery()');
	my $hide = $in_recovery eq 'f' && $table ne 'pg_index';
	my $script = <<'EOQ';
SET enable_bitmapscan = off; SET enable_sort = off; SET enable_incremental_sort = off;
SET max_parallel_workers_per_gather = 0;
EOQ
	foreach my $index (@indexes)
	{
		my $keys = join(', ', @{ $keys{$index} });
		my $order = join(', ', @{ $orders{$index} });
		my $from = "FROM $only$predicates{$index}";
		my $hash = "count(*), sum(hashtextextended(ROW(k.*)::text, 0))";

		# The index-only scan comes first: the other one marks entries whose rows it
		# found dead, so that no later scan follows them.
		foreach my $scan (
			[ 'index-only scan', $index_only_scan, $keys ],
			[ 'index scan', $index_scan, "ctid, $keys" ])
		{
			my ($name, $settings, $columns) = @$scan;
			my $unsorted = "SELECT $hash FROM (SELECT $columns $from) AS k";
			my $sorted = "SELECT $hash FROM (SELECT $columns $from ORDER BY $order) AS k";

			$script .= "SELECT '# $name of ' || " . literal($index) . ";\n";
			$script .= "$seq_scan $unsorted;\n$settings";
			$script .= "BEGIN;\nUPDATE pg_index SET indisvalid = false"
			  . ' WHERE indrelid = ' . literal($table) . '::regclass'
			  . ' AND indexrelid <> ' . literal($index) . "::regclass;\n"
			  if $hide;
			$script .= "$sorted;\nEXPLAIN (COSTS OFF) $sorted;\n";
			$script .= "ROLLBACK;\n" if $hide;
		}
	}

	# Of each scan: its name, the sequential scan's result, its own, its plan.
	my ($ret, $stdout, $stderr) = $node->psql($db, $script, on_error_stop => 0);
	my @complaints = $stderr ne '' ? ($stderr) : ();
	my $compared = 0;

	foreach my $scan (split /^# /m, $stdout)
	{
		my ($name, $expected, $seen, @plan) = split /\n/, $scan;
		next unless defined $name;
		my ($index) = $name =~ / of (.*)$/;

		if (!defined $seen || !uses(\@plan, $index))
		{
			push @complaints, "$name: cannot be had (plan: @plan)";
		}
		elsif ($seen ne $expected)
		{
			push @complaints,
			  "$name sees (rows|hash) $seen, a sequential scan of $table $expected";
		}
		$compared++;
	}
	push @complaints, "only $compared of " . 2 * @indexes . ' scans took place'
	  if $compared != 2 * @indexes;
	return @complaints;
}

# Does a plan scan this index?
sub uses
{
	my ($plan, $index) = @_;

	# The plan does not name the schema.
	my ($name) = $index =~ /(?:.*\.)?(.+)$/;
	return scalar grep { /Index (?:Only )?Scan (?:Backward )?using \Q$name\E on/ } @$plan;
}

=pod

=item Oracle::literal($string)

The string as an SQL literal.

=cut

sub literal
{
	my ($string) = @_;
	return "'" . $string =~ s/'/''/gr . "'";
}

# Output of a query as a list of lines
sub lines
{
	my ($node, $db, $query) = @_;

	return split /\n/, $node->safe_psql($db, $query);
}

=pod

=back

=cut

1;
