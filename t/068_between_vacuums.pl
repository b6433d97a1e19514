# Between two runs of a vacuum there is another one that has no regard for what was
# saved, the server's own or ours. Then that is forgotten, before it does anything.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use Between;
use Oracle;
use Pass;
use Resume;

my $node = between_node('vacuums');

my $not_ours = q{the table is vacuumed by the server's own code};
my $asked = 'it was asked to start over';

# Each story: a vacuum between two runs that does not continue, as its options, its
# settings, and why. Line pointers are reused after it.
my @vacuums = (
	{ name => 'not_ours', set => 'vacuum_resume.enabled = off', why => $not_ours },
	{ name => 'too_small', set => q{vacuum_resume.min_table_size = '1GB'}, why => $not_ours },
	{ name => 'started_over', options => '(RESUME off)', why => $asked },
	{ name => 'started_over_by_setting', set => 'vacuum_resume.mode = restart', why => $asked });

foreach my $vacuum (@vacuums)
{
	foreach my $where (qw(scan indexes reaping))
	{
		subtest "$where, then $vacuum->{name}" => sub {
			my $table = "$vacuum->{name}_$where";
			my $set = $vacuum->{set} ? "SET $vacuum->{set};" : '';
			my $options = $vacuum->{options} // '';

			interrupted($node, $table, $where);
			my $log = log_end($node);
			$node->safe_psql('postgres', "$set VACUUM $options $table");
			like(log_since($node, $log),
				qr/LOG:  discarding the saved progress of the vacuum of table "(?:[^".]+\.)?$table": $vacuum->{why}\n/,
				'the log says why it is discarded');
			is(record($node, $table), undef, '  and it is gone');

			fill_holes($node, $table, 1_000_000);
			$log = log_end($node);
			begun_anew($node, vacuum($node, $table), $log, $table, undef);
			settled($node, $table);
		};
	}
}

# Such a vacuum has forgotten before it does anything, even if it does not get far.
foreach my $where (qw(scan indexes reaping))
{
	subtest "$where, then a vacuum of the server's own that fails" => sub {
		my $table = "cut_off_$where";

		interrupted($node, $table, $where);
		my ($rc, undef, $stderr) = $node->psql('postgres', qq{
			SET vacuum_resume.enabled = off; SET vacuum_cost_delay = 10; SET statement_timeout = 100;
			VACUUM $table});
		like($stderr, qr/canceling statement due to statement timeout/, 'it fails');
		is(record($node, $table), undef, '  and the record is gone');
		fill_holes($node, $table, 1_000_000);
		my $log = log_end($node);
		begun_anew($node, vacuum($node, $table), $log, $table, undef);
		settled($node, $table);
	};
}

# One that starts over and is interrupted itself leaves its own record.
subtest 'indexes, then started over and interrupted' => sub {
	interrupted($node, 'anew', 'indexes');
	my $record = interrupted($node, 'anew', 'scan', made => 1, set => ['vacuum_resume.mode = restart']);
	is("$record->{runs}, $record->{indexes_done}, $record->{index_scans}", '1, 0, 0', 'the record is of a new cycle');
	continued(vacuum($node, 'anew'), verified => 0);
	settled($node, 'anew');
};

only_asked_for_crashes($node);
$node->stop;

done_testing();
