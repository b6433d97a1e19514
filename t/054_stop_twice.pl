# A vacuum that is stopped again and again comes to its end, with the work of one
# that is not: with several index passes, in parallel, and without indexes.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use Oracle;
use Pass;
use Resume;

my $node = resume_node('twice', conf => "min_parallel_index_scan_size = 0\n");
my $parallel = 'max_parallel_maintenance_workers = 2';

# How often each index was scanned
sub times_scanned
{
	my ($report) = @_;
	my %times;

	$times{ $_ =~ s/.*_//r }++ foreach @{ $report->{indexes} };
	return join ' ', map { "$_:$times{$_}" } sort keys %times;
}

###############################################################################
# Slices of the time it needs
###############################################################################

make_table($node, $_) foreach qw(whole sliced hurried cancelled);
my $whole = vacuum_by_server($node, 'whole');
my $facts = facts($node, 'whole');

subtest 'slices by MAX_DURATION' => sub {
	my $report = vacuum_in_slices($node, 'sliced', slice => '60ms', set => [$Resume::slowly]);

	cmp_ok($report->{runs}, '>', 15, 'it takes many slices');
	is($report->{run}, $report->{runs}, '  all of one cycle');
	cmp_ok($report->{scanned}, '<=', 1.02 * $whole->{scanned}, '  that scan no page twice');
	is(times_scanned($report), 'h:1 k:1 v:1', '  and no index');
	is($report->{cycle_removed}, $whole->{removed}, '  and remove what one vacuum does');
	finished_alike($node, 'sliced', whole => $facts);
};

# However short its time is, each run gets something done: some pages, or an index
subtest 'slices of a millisecond' => sub {
	my $report = vacuum_in_slices($node, 'hurried', slice => '1ms', most => 60);

	cmp_ok($report->{runs}, '>', 5, 'it takes some slices');
	cmp_ok($report->{scanned}, '<=', 1.02 * $whole->{scanned}, '  that scan no page twice');
	is(times_scanned($report), 'h:1 k:1 v:1', '  and no index');
	finished_alike($node, 'hurried', whole => $facts);
};

subtest 'cancelled every 25 pages' => sub {
	my @places = (
		(map { [ 'scanning heap', "heap_blks_scanned >= $_", 'cancel' ] } map { 25 * $_ } 1 .. 12),
		(map { [ 'vacuuming heap', "heap_blks_vacuumed >= $_", 'cancel' ] } map { 25 * $_ } 1 .. 12));
	my $report = vacuum_with_stops($node, 'cancelled', \@places, set => [$Resume::slowly]);

	is($report->{run}, 25, 'after 24 stops it is done');
	cmp_ok($report->{cycle_scanned} + $report->{cycle_again}, '<=', 1.02 * $whole->{scanned},
		'  and has scanned no page twice');
	is(times_scanned($report), 'h:1 k:1 v:1', '  and no index');
	is($report->{cycle_removed}, $whole->{removed}, '  and removed what one vacuum does');
	finished_alike($node, 'cancelled', whole => $facts);
};

###############################################################################
# Several index passes
###############################################################################

# 226 rows on a page, 200 of them dead: more than fit into 1 MB
foreach my $table (qw(passes passes_stopped passes_sliced))
{
	$node->safe_psql(
		'postgres', qq{
		CREATE TABLE $table (k int) WITH (autovacuum_enabled = off);
		INSERT INTO $table SELECT generate_series(0, 226 * 1000 - 1);
		CREATE INDEX ${table}_k ON $table (k);
		DELETE FROM $table WHERE k % 226 < 200;});
}
my $little_memory = 'maintenance_work_mem = 1024';
my $passes = vacuum_by_server($node, 'passes', set => [$little_memory]);
my $passes_facts = facts($node, 'passes');
is($passes->{scanned}, 1000, 'a table of 1,000 pages');
is(times_scanned($passes), 'k:2', '  with more dead rows than fit into memory at once');

subtest 'stopped in each phase of each index pass' => sub {
	my $report = vacuum_with_stops(
		$node, 'passes_stopped',
		[
			[ 'scanning heap', 'heap_blks_scanned >= 500', 'cancel' ],
			[ 'vacuuming indexes', 'heap_blks_scanned < 1000', 'cancel' ],
			[ 'vacuuming heap', 'heap_blks_vacuumed >= 300', 'terminate' ],
			[ 'scanning heap', 'heap_blks_scanned >= 900', 'cancel' ],
			[ 'vacuuming indexes', 'heap_blks_scanned = 1000', 'terminate' ],
			[ 'vacuuming heap', 'heap_blks_vacuumed >= 900', 'cancel' ],
		],
		set => [ $little_memory, 'vacuum_cost_delay = 2' ]);

	is($report->{run}, 7, 'after six stops it is done');
	cmp_ok($report->{cycle_scanned} + $report->{cycle_again}, '<=', 1001, '  and has scanned no page twice');
	is($report->{verified}, 0, '  nor read it for pending TIDs');
	is(times_scanned($report), 'k:2', '  and the index once for each pass');
	is($report->{cycle_dead}, 200_000, '  and found each dead TID once');
	is($report->{cycle_removed}, $passes->{removed}, '  and removed what one vacuum does');
	finished_alike($node, 'passes_stopped', whole => $passes_facts);
};

subtest 'slices, with several index passes' => sub {
	my $report = vacuum_in_slices($node, 'passes_sliced', slice => '150ms',
		set => [ $little_memory, 'vacuum_cost_delay = 0.5' ]);

	cmp_ok($report->{runs}, '>=', 10, 'it takes ten slices or more');
	cmp_ok($report->{scanned}, '<=', 1020, '  that scan no page twice');
	is(times_scanned($report), 'k:2', '  and the index once for each pass');
	is($report->{cycle_removed}, $passes->{removed}, '  and remove what one vacuum does');
	finished_alike($node, 'passes_sliced', whole => $passes_facts);
};

# Two sets of dead TIDs of just the same size: an index that is done with the first
# is not done with the second
my ($set_size) = $passes->{text} =~ /scanned index "passes_k" to remove (\d+) row versions/;
$node->safe_psql(
	'postgres', qq{
	CREATE TABLE passes_equal (k int) WITH (autovacuum_enabled = off);
	INSERT INTO passes_equal SELECT generate_series(0, 226 * 2 * $set_size / 200 - 1);
	CREATE INDEX passes_equal_k ON passes_equal (k);
	DELETE FROM passes_equal WHERE k % 226 < 200;});

subtest 'stopped in the second of two equal index passes' => sub {
	my $report = vacuum_with_stops(
		$node, 'passes_equal',
		[ [ 'vacuuming indexes', "heap_blks_scanned > $set_size / 200 + 10", 'cancel' ] ],
		set => [ $little_memory, 'vacuum_cost_delay = 0.2' ]);

	is($report->{run}, 2, 'after one stop it is done');
	is_deeply([ $report->{text} =~ /scanned index "\S+" to remove (\d+) row versions/g ], [$set_size],
		'  with a set as large as the first');
	is(times_scanned($report), 'k:2', '  for which it has scanned the index, too');
	is($report->{cycle_removed}, 2 * $set_size, '  and has removed all dead rows');
	Oracle::table_ok($node, 'postgres', 'passes_equal');
};

###############################################################################
# In parallel
###############################################################################

make_table($node, "parallel_$_") foreach qw(scan after_serial);

subtest 'parallel, stopped while scanning and reaping' => sub {
	my @places =
	  map { ([ 'scanning heap', "heap_blks_scanned >= $_", 'cancel' ],
			[ 'scanning heap', "heap_blks_scanned >= $_ + 50", 'terminate' ]) } (50, 150, 250);

	push @places, [ 'vacuuming heap', 'heap_blks_vacuumed >= 100', 'cancel' ],
	  [ 'vacuuming heap', 'heap_blks_vacuumed >= 200', 'terminate' ];
	my $report = vacuum_with_stops($node, 'parallel_scan', \@places,
		options => 'PARALLEL 2', set => [ $parallel, $Resume::slowly ]);

	is($report->{run}, 9, 'after eight stops it is done');
	cmp_ok($report->{cycle_scanned} + $report->{cycle_again}, '<=', 401, '  and has scanned no page twice');
	is(times_scanned($report), 'h:1 k:1 v:1', '  and no index');

	# what workers have counted in an index ends with the run
	finished_alike($node, 'parallel_scan', whole => $facts, but => ['indexes']);
};

# The leader is stopped, or a worker is killed
foreach my $story (
	[ cancelled => 'cancel' ],
	[ terminated => 'terminate' ],
	[ killed => 'kill_backend' ],
	[ worker_killed => 'kill_backend', q{
		SELECT min(pid) FROM pg_stat_activity WHERE backend_type = 'parallel worker' AND query ~ '^VACUUM'} ])
{
	my ($name, $way, $victim) = @$story;
	my $table = "parallel_$name";

	subtest "$table, while vacuuming indexes" => sub {
		make_table($node, $table);
		my $holder = hold_index($node, $table, 'v');
		my $vacuum = start_vacuum($node, $table, options => 'PARALLEL 2',
			set => [ $parallel, 'vacuum_cost_delay = 0.5', $Resume::saving ]);
		wait_for_pin_wait($node, $table, 'vacuuming indexes');
		my $stop = stop_vacuum($node, $table, way => $way, victim => $victim,
			vacuum => $vacuum, holder => $holder, phase => 'vacuuming indexes');

		my $record = record($node, $table);
		is($record->{phase}, 'vacuuming indexes', 'the record says where it was');
		is($record->{pages_scanned}, 400, '  all pages are scanned');
		is($record->{pending_dead_tuples}, 600, '  all dead TIDs are pending');

		my $rest = vacuum($node, $table, options => 'PARALLEL 2', set => [$parallel]);
		my $times = times_scanned({ indexes => [ @{ $stop->{indexes} }, @{ $rest->{indexes} } ] });
		is($rest->{verified}, 0, 'no page is read for them');
		cmp_ok($rest->{scanned}, '<=', 1, '  nor scanned again');
		like($times, qr/^h:[12] k:[12] v:1$/, '  and no index is scanned more than once again');
		is($rest->{cycle_removed}, 600, '  all dead rows are removed');
		finished_alike($node, $table, whole => $facts);
	};
}

# What one process was done with, workers know nothing of
subtest 'parallel after a serial one' => sub {
	my $holder = hold_index($node, 'parallel_after_serial', 'v');
	my $stop = stop_vacuum(
		$node, 'parallel_after_serial',
		way => 'cancel',
		options => 'PARALLEL 0',
		holder => $holder,
		phase => 'vacuuming indexes',
		when => q{EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = p.pid AND wait_event = 'BufferPin')});
	my $rest = vacuum($node, 'parallel_after_serial', options => 'PARALLEL 2', set => [$parallel]);

	is("@{ $stop->{indexes} } | @{ $rest->{indexes} }",
		'parallel_after_serial_k | parallel_after_serial_v parallel_after_serial_h',
		'each index is scanned once');
	finished_alike($node, 'parallel_after_serial', whole => $facts);
};

###############################################################################
# Without indexes
###############################################################################

make_table($node, $_, indexes => '') foreach qw(bare bare_stopped bare_sliced);
my $bare = vacuum_by_server($node, 'bare');
my $bare_facts = facts($node, 'bare');

subtest 'without indexes' => sub {
	my $lsn = $node->lsn('insert');
	my @places = map { [ 'scanning heap', "heap_blks_scanned >= $_", $_ % 100 ? 'cancel' : 'terminate' ] }
	  map { 25 * $_ } 1 .. 10;
	push @places, [ 'scanning heap', 'heap_blks_scanned >= 280', 'kill_backend' ];
	my $report = vacuum_with_stops($node, 'bare_stopped', \@places, set => [ $Resume::slowly, $Resume::saving ]);

	is($report->{run}, 12, 'after eleven stops it is done');
	cmp_ok($report->{cycle_scanned} + $report->{cycle_again}, '<=', 401, '  and has scanned no page twice');
	is(pages_reaped($node, 'bare_stopped', $lsn), 300, '  nor reaped one twice');
	finished_alike($node, 'bare_stopped', whole => $bare_facts);

	$report = vacuum_in_slices($node, 'bare_sliced', slice => '30ms', set => [$Resume::slowly]);
	cmp_ok($report->{runs}, '>=', 10, 'in slices');
	cmp_ok($report->{scanned}, '<=', 1.02 * $bare->{scanned}, '  no page is scanned twice');
	is($report->{cycle_removed}, $bare->{removed}, '  and all dead rows are removed');
	finished_alike($node, 'bare_sliced', whole => $bare_facts);
};

only_asked_for_crashes($node);
$node->stop;

done_testing();
