# An aggressive vacuum, one that has to advance relfrozenxid, is stopped ten times.
# It does advance it, and as long as its work is good enough for that, no page is
# scanned twice.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use Oracle;
use Pass;
use Resume;

my $node = resume_node('aggressive');

# Tables of rows of 100 transactions, and transactions after them
foreach my $table (qw(frozen aged))
{
	foreach my $suffix ('', '_stopped', '_stopped_busy')
	{
		my $name = "$table$suffix";

		make_table($node, $name, pages => 100, dead => 'false');
		$node->safe_psql(
			'postgres', qq{
			DO \$\$
			BEGIN
				FOR i IN 0..99 LOOP
					INSERT INTO $name SELECT 2000 + 60 * i + j, j, repeat('x', 364)
						FROM generate_series(0, 59) j;
					COMMIT;
				END LOOP;
			END \$\$;
			SET vacuum_resume.enabled = off;
			VACUUM $name;
			DELETE FROM $name WHERE k % 10 = 2 AND k / 20 % 4 <> 0;});
	}
}
burn_xids($node, 20);

foreach my $kind (
	[ 'frozen', 0, 'FREEZE' ],
	[ 'aged', 70, undef, 'vacuum_freeze_table_age = 0', 'vacuum_freeze_min_age = 70' ])
{
	my ($name, $min_age, $options, @set) = @$kind;
	my $whole = vacuum_by_server($node, $name, options => $options, set => \@set);
	my $facts = facts($node, $name);
	my @places = map { [ 'scanning heap', "heap_blks_scanned >= $_", 'cancel' ] } map { 35 * $_ } 1 .. 10;
	my %vacuum = (options => $options, set => [ @set, $Resume::slowly ]);

	subtest "aggressive, stopped ten times: $name" => sub {
		my $report = vacuum_with_stops($node, "${name}_stopped", \@places, %vacuum);

		is($report->{run}, 11, 'after ten stops it is done');
		cmp_ok($report->{cycle_scanned} + $report->{cycle_again}, '<=', 1.02 * $whole->{scanned},
			'  and has scanned no page twice');
		finished_alike($node, "${name}_stopped",
			whole => $facts, frozen_to => $whole->{cutoff} - $min_age);
	};

	# Whatever was kept of the runs before, the last one's promise counts
	subtest "aggressive, stopped ten times while XIDs are used up: $name" => sub {
		my $report = vacuum_with_stops($node, "${name}_stopped_busy", \@places, %vacuum, busy => 1);

		finished_alike($node, "${name}_stopped_busy",
			whole => $facts, frozen_to => $report->{cutoff} - $min_age);
	};
}

only_asked_for_crashes($node);
$node->stop;

done_testing();
