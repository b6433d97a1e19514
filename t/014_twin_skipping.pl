
# Twins (see Twin.pm): what the visibility map lets a vacuum skip.  Stretches of
# 31, 32 and 33 pages, all visible or all frozen, for normal and aggressive runs;
# and maps that do not agree with the table.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use Twin;

my $twin = Twin->new('skipping');

# One row on each page: row a is on page a.  No TOAST table.
sub row_per_page
{
	my ($name, $pages, $indexed) = @_;

	$twin->build(qq{
		CREATE TABLE $name (a int, b int, c name, d name, e name, f name, g name, h name) WITH (fillfactor = 10);
		INSERT INTO $name SELECT i, 0, 'c', 'd', 'e', 'f', 'g', 'h' FROM generate_series(0, $pages - 1) AS i;
	});
	$twin->build("CREATE INDEX ON $name (a)") if $indexed;
	return;
}

# Of each table: its pages, which of them are dirty, and how many a normal run has
# to scan.  Stretches of less than 32 are not skipped, the last page never is.
my %maps = (
	inside => [ 134, [ 0, 32, 65, 99 ], 1 + 31 + 1 + 1 + 1 + 1 ],
	head_31 => [ 80, [31], 31 + 1 + 1 ],
	head_32 => [ 80, [32], 1 + 1 ],
	head_33 => [ 80, [33], 1 + 1 ],
	tail_31 => [ 73, [40], 1 + 31 + 1 ],
	tail_32 => [ 74, [40], 1 + 1 ],
	tail_33 => [ 75, [40], 1 + 1 ],
	last_dirty => [ 100, [99], 1 ],
	none_dirty => [ 100, [], 1 ],
	short => [ 33, [], 1 ],
	shorter => [ 32, [], 32 ],
	every => [ 20, [ 0 .. 19 ], 20 ],
	alternating => [ 200, [ map { $_ * 40 } 0 .. 4 ], 6 ],
);

# How the clean pages are known: all visible, all frozen, or one stretch of each;
# and whether the dirty ones have something dead or just something changed.
my @kinds = qw(visible frozen mixed);
my @runs = (
	[ 'normal', '', [] ],
	[ 'aggressive', '', ['vacuum_freeze_table_age = 0'] ],
	[ 'freeze', 'FREEZE', [] ],
	[ 'all pages', 'DISABLE_PAGE_SKIPPING', [] ]);

foreach my $map (sort keys %maps)
{
	my ($pages, $dirty) = @{ $maps{$map} };

	foreach my $kind (@kinds)
	{
		my $table = "${map}_$kind";
		my $where = 'a IN (' . join(', ', @$dirty, -1) . ')';

		# Those with a b-tree need a second pass over the dirty pages.
		row_per_page($table, $pages, $map =~ /inside|head|last|every/);
		$twin->build('VACUUM ' . ($kind eq 'visible' ? '' : '(FREEZE) ') . $table);
		$twin->build("UPDATE $table SET b = 1 WHERE a % 70 < 35; VACUUM $table") if $kind eq 'mixed';
		$twin->build('SELECT txid_current()');
		$twin->build("UPDATE $table SET b = b + 1 WHERE $where; DELETE FROM $table WHERE $where AND a % 2 = 1");
	}
}

# A map that does not agree with the table.  What is possible after a crash: the
# page says that it is all visible, the map does not; no map; no free space map.
# What should never be: the map says that a page is all visible, the page does not;
# a page with dead rows says that it is.  And pages that are said to be full.
foreach my $kind (qw(plain indexed))
{
	foreach my $damage (qw(no_bits no_map no_fsm no_flag dead_flag full_flag beyond))
	{
		my $table = "${damage}_$kind";

		row_per_page($table, 60, $kind eq 'indexed');
		$twin->build(qq{
			VACUUM $table;
			DELETE FROM $table WHERE a % 10 = 3;
		});
	}
	# Two bits for each page, after the page header
	$twin->edit_file("no_bits_$kind", 'vm', sub { substr($_[0], 24, 5) = "\0" x 5; $_[0] });
	$twin->edit_file("no_map_$kind", 'vm', sub { '' });
	$twin->edit_file("no_fsm_$kind", 'fsm', sub { '' });
	# PD_ALL_VISIBLE (4) in pd_flags (at byte 10 of the page)
	$twin->edit_file(
		"no_flag_$kind", 'main',
		sub {
			foreach my $page (5, 21, 22) { substr($_[0], $page * 8192 + 10, 1) &= chr(~4 & 0xff); }
			return $_[0];
		});
	$twin->edit_file(
		"dead_flag_$kind", 'main',
		sub {
			foreach my $page (3, 33) { substr($_[0], $page * 8192 + 10, 1) |= chr(4); }
			return $_[0];
		});
	# Bits of pages that the table does not have; four pages are a byte.
	$twin->edit_file("beyond_$kind", 'vm', sub { substr($_[0], 24 + 15, 50) = "\xff" x 50; $_[0] });
	# PD_PAGE_FULL (2), a hint that pruning clears, where there is nothing to prune
	$twin->edit_file(
		"full_flag_$kind", 'main',
		sub {
			foreach my $page (5, 21, 22) { substr($_[0], $page * 8192 + 10, 1) |= chr(2); }
			return $_[0];
		});
}

$twin->separate;

# relfrozenxid moves up to the dirty pages where the rest was frozen; where it was
# only visible and was skipped, relfrozenxid has to stay.
foreach my $map (sort keys %maps)
{
	my ($pages, $dirty, $scanned) = @{ $maps{$map} };
	my $reads = qr/\d+ removed, \d+ remain, $scanned scanned/;
	my $moves = qr/new relfrozenxid/;
	my $stays = qr/\A(?!.*new relfrozenxid)/s;

	$twin->vacuum("$map, all visible", table => "${map}_visible",
		premise => [ $reads, $scanned == $pages ? () : $stays ]);
	$twin->vacuum("$map, all frozen", table => "${map}_frozen",
		premise => [ $reads, @$dirty ? $moves : () ]);
	$twin->vacuum("$map, visible and frozen stretches", table => "${map}_mixed", premise => $reads);
}

# Aggressive runs skip what is frozen, and no more; FREEZE leaves nothing unfrozen
# behind; DISABLE_PAGE_SKIPPING reads every page.
foreach my $kind (@kinds)
{
	my @tables = map { "${_}_$kind" } sort keys %maps;

	foreach my $run (@runs)
	{
		my ($name, $options, $set) = @$run;

		$twin->sql("UPDATE $_ SET b = b + 1 WHERE a IN (0, 65); DELETE FROM $_ WHERE a = 32")
		  foreach @tables;
		$twin->vacuum("$kind, $name", table => \@tables, options => $options, set => $set,
			premise => $name eq 'normal'
			? qr/INFO:  vacuuming/
			: [ qr/aggressively vacuuming/, $name eq 'all pages' ? qr/\(100.00% of total\)/ : () ]);
	}
}

# All of a table, then nothing of it
$twin->vacuum('all pages are frozen now', table => 'none_dirty_mixed', options => 'FREEZE');
$twin->vacuum('all pages are frozen', table => 'none_dirty_mixed', premise => qr/100 remain, 1 scanned/);
$twin->vacuum('all pages are frozen, aggressive', table => 'none_dirty_mixed',
	set => ['vacuum_freeze_table_age = 0'], premise => qr/aggressively vacuuming.*100 remain, 1 scanned/s);

foreach my $kind (qw(plain indexed))
{
	$twin->vacuum("$kind: pages all visible, map not", table => "no_bits_$kind",
		premise => qr/pages: 0 removed, 60 remain/);
	$twin->vacuum("$kind: no visibility map", table => "no_map_$kind",
		premise => qr/60 remain, 60 scanned/);
	$twin->vacuum("$kind: no free space map", table => "no_fsm_$kind",
		premise => qr/60 remain, 60 scanned/);
	$twin->vacuum("$kind: map all visible, pages not", table => "no_flag_$kind",
		premise => qr/WARNING:  page is not marked all-visible but visibility map bit is set in relation "no_flag_$kind" page 21/);
	$twin->vacuum("$kind: pages said to be full", table => "full_flag_$kind", premise => qr/60 remain, 60 scanned/);
	$twin->vacuum("$kind: map longer than the table", table => "beyond_$kind", premise => qr/60 remain, 60 scanned/);
	is( $twin->sql("SELECT relallvisible FROM pg_class WHERE relname = 'beyond_$kind'"),
		60, "$kind: relallvisible is not more than relpages");
	# Whoever removes the dead rows in one pass warns as well.
	$twin->vacuum("$kind: page all visible with dead rows", table => "dead_flag_$kind",
		premise => $kind eq 'indexed'
		? qr/WARNING:  page containing LP_DEAD items is marked as all-visible in relation "dead_flag_indexed" page 33/
		: qr/60 remain/);
}

$twin->finish;
done_testing();
