
# Twins (see Twin.pm): tables of all sizes, empty stretches at their end and in
# their middle, pages that a crash left behind, more than one page of visibility
# map.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use Twin;

my $twin = Twin->new('sizes');

# Three rows on each page, numbered from 0: page p has the rows 3p, 3p+1, 3p+2.
sub table_of
{
	my ($name, $pages, @indexes) = @_;

	$twin->build(qq{
		CREATE TABLE $name (a int, b text) WITH (fillfactor = 10);
		INSERT INTO $name SELECT i, repeat('x', 200) FROM generate_series(0, $pages * 3 - 1) AS i;
	});
	$twin->build("CREATE INDEX ON $name ($_)") foreach @indexes;
	return;
}

# Delete whole pages, up to but not including the last.
sub empty
{
	my ($name, $first, $last) = @_;
	return "DELETE FROM $name WHERE a >= $first * 3 AND a < $last * 3";
}

# 0, 1 and 33 pages, without and with an index

foreach my $pages (0, 1, 33)
{
	table_of("plain_$pages", $pages);
	table_of("indexed_$pages", $pages, 'a');
	$twin->build("DELETE FROM ${_}_$pages WHERE a % 5 = 1") foreach qw(plain indexed);
}

# Empty tails: a sixteenth of the table is cut off, less is not

foreach my $kind ('plain', 'indexed')
{
	my @indexes = $kind eq 'indexed' ? ('a') : ();

	table_of("${kind}_tail_above", 150, @indexes);
	table_of("${kind}_tail_below", 150, @indexes);
	table_of("${kind}_middle", 160, @indexes);
	table_of("${kind}_all", 40, @indexes);
	table_of("${kind}_only", 1, @indexes);
	table_of("${kind}_first", 40, @indexes);
	$twin->build(empty("${kind}_tail_above", 141, 150));
	$twin->build(empty("${kind}_tail_below", 142, 150));
	$twin->build(empty("${kind}_middle", 20, 140));
	$twin->build(empty("${kind}_all", 0, 40));
	$twin->build(empty("${kind}_only", 0, 1));
	$twin->build(empty("${kind}_first", 0, 39));
}

# An inserter that did not commit leaves a tail of its own; so does a row that
# is still there under an aborted delete.

table_of('aborted_tail', 20, 'a');
$twin->build(q{
	BEGIN;
	INSERT INTO aborted_tail SELECT i, repeat('y', 200) FROM generate_series(1000, 1100) AS i;
	ROLLBACK;
});
table_of('kept_tail', 40);
$twin->build('BEGIN; ' . empty('kept_tail', 20, 40) . '; ROLLBACK');

# What crashes leave: zeroed and initialized but empty pages, at the end and,
# once later rows have extended the table, in the middle

my $zeroes = "\0" x 8192;
my $empty = Twin::empty_page();

foreach my $kind ('plain', 'indexed')
{
	foreach my $tail (qw(new empty mixed))
	{
		table_of("${kind}_${tail}_pages", 10, $kind eq 'indexed' ? ('a') : ());
		$twin->build("DELETE FROM ${kind}_${tail}_pages WHERE a % 4 = 0");
	}
	$twin->edit_file("${kind}_new_pages", 'main', sub { $_[0] . $zeroes x 3 });
	$twin->edit_file("${kind}_empty_pages", 'main', sub { $_[0] . $empty x 3 });
	$twin->edit_file("${kind}_mixed_pages", 'main', sub { $_[0] . ($empty . $zeroes) x 3 });
	$twin->build(qq{
		INSERT INTO ${kind}_mixed_pages SELECT i, repeat('z', 200) FROM generate_series(1000, 1020) AS i;
		DELETE FROM ${kind}_mixed_pages WHERE a % 11 = 0;
	});
}

# More than one page of visibility map (32,672 table pages): all visible, with
# holes on both sides of the boundary, and an empty tail of 1,000 pages, which is
# less than a sixteenth but enough.  One row is missing on the page before it, so
# that the page is scanned: skipped pages do not count as known not to be empty.

table_of('big', 34000, 'a');
$twin->build('VACUUM big');
foreach my $hole ([ 5, 6 ], [ 100, 101 ], [ 32600, 32680 ], [ 32800, 32801 ], [ 33000, 34000 ])
{
	$twin->build(empty('big', @$hole));
}
$twin->build('DELETE FROM big WHERE a = 32999 * 3');

$twin->separate;

foreach my $pages (0, 1, 33)
{
	foreach my $kind ('plain', 'indexed')
	{
		$twin->vacuum("$pages pages, $kind",
			table => "${kind}_$pages",
			premise => qr/0 removed, $pages remain, $pages scanned/);
	}
}
foreach my $kind ('plain', 'indexed')
{
	$twin->vacuum("$kind, a sixteenth of the pages at the end is empty",
		table => "${kind}_tail_above",
		premise => qr/truncated 150 to 141 pages/);
	$twin->vacuum("$kind, less than a sixteenth at the end is empty",
		table => "${kind}_tail_below",
		premise => qr/pages: 0 removed, 150 remain/);
	$twin->vacuum("$kind, the middle is empty",
		table => "${kind}_middle",
		premise => qr/360 removed.*dead item identifiers removed/s);
	$twin->vacuum("$kind, all is empty",
		table => "${kind}_all",
		premise => qr/truncated 40 to 0 pages/);
	$twin->vacuum("$kind, the only page is empty",
		table => "${kind}_only",
		premise => qr/truncated 1 to 0 pages/);
	$twin->vacuum("$kind, all but the last page is empty",
		table => "${kind}_first",
		premise => qr/pages: 0 removed, 40 remain/);
	foreach my $again ('', ', once more')
	{
		$twin->vacuum("$kind, new pages at the end$again",
			table => "${kind}_new_pages",
			premise => $again ? undef : qr/truncated 13 to 10 pages/);
		$twin->vacuum("$kind, initialized but empty pages at the end$again",
			table => "${kind}_empty_pages",
			premise => $again ? undef : qr/truncated 13 to 10 pages/);
		$twin->vacuum("$kind, new and empty pages in the middle$again",
			table => "${kind}_mixed_pages",
			premise => $again ? qr/0 removed, \d+ remain/ : qr/pages: 0 removed, 2\d remain/);
	}
}
$twin->vacuum('rows of an aborted insert at the end',
	table => 'aborted_tail',
	premise => qr/truncated 54 to 20 pages/);
$twin->vacuum('rows of an aborted delete at the end',
	table => 'kept_tail',
	premise => qr/pages: 0 removed, 40 remain, 40 scanned/);

$twin->vacuum('two pages of visibility map, 1,000 empty pages at the end',
	table => 'big',
	premise => [
		qr/truncated 34000 to 33000 pages/,
		qr/pages: 1000 removed, 33000 remain, 1089 scanned/,
		qr/index scan needed: 1084 pages/
	]);
$twin->sql(empty('big', 32001, 33000) . '; DELETE FROM big WHERE a = 32000 * 3');
$twin->vacuum('999 empty pages at the end',
	table => 'big',
	premise => qr/pages: 0 removed, 33000 remain/);
$twin->vacuum('all pages of it',
	table => 'big',
	options => 'DISABLE_PAGE_SKIPPING',
	premise => qr/33000 scanned \(100.00% of total\)/);

$twin->finish;
done_testing();
