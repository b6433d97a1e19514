# A vacuum of a table with more than one page of visibility map, which are for 32,672
# pages each, is stopped again and again, on either page.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use Oracle;
use Pass;
use Resume;

my $node = resume_node('large');

foreach my $table (qw(large large_sliced))
{
	$node->safe_psql(
		'postgres', qq{
		CREATE TABLE $table (k int, filler text) WITH (autovacuum_enabled = off, fillfactor = 10);
		INSERT INTO $table SELECT i, repeat('x', 200) FROM generate_series(0, 3 * 33000 - 1) AS i;
		CREATE INDEX ${table}_k ON $table (k);
		DELETE FROM $table WHERE k % 3 = 1;});
}
my $large = vacuum_by_server($node, 'large');
my $large_facts = facts($node, 'large');
is($large->{scanned}, 33_000, 'a table of 33,000 pages');

subtest 'slices, with two pages of visibility map' => sub {
	my $stop = stop_vacuum($node, 'large_sliced',
		way => 'cancel', phase => 'scanning heap', when => 'heap_blks_scanned >= 32672',
		set => [ 'vacuum_cost_delay = 1', 'vacuum_cost_limit = 20' ]);
	my $report = vacuum_in_slices($node, 'large_sliced', slice => '150ms',
		set => [ 'vacuum_cost_delay = 1', 'vacuum_cost_limit = 40' ]);

	cmp_ok($stop->{block}, '>=', 32_672, 'the first run ends on the second page of the map');
	cmp_ok($report->{runs}, '>=', 5, '  the rest takes some slices');
	cmp_ok($report->{cycle_scanned} + $report->{cycle_again}, '<=', 33_001, '  no page is scanned twice');
	is("@{ $report->{indexes} }", 'large_sliced_k', '  and no index');
	is($report->{cycle_removed}, $large->{removed}, '  and all dead rows are removed');
	finished_alike($node, 'large_sliced', whole => $large_facts);
};

only_asked_for_crashes($node);
$node->stop;

done_testing();
