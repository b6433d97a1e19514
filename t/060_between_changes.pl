# Between two runs of a vacuum the table changes. The next run goes on, and what
# was dead when it began is gone when it ends; or the table is another one, and it
# starts over.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use Between;
use Oracle;
use Pass;
use Resume;

my $node = between_node('changes');

# Each story: what is done between two runs, t being the table.
my %changes = (
	updated => 'UPDATE t SET v = v + 1000000 WHERE k % 4 = 1',
	updated_hot => 'UPDATE t SET filler = filler WHERE k % 4 = 1',
	updated_twice => 'UPDATE t SET filler = filler WHERE k % 40 = 1;
		UPDATE t SET v = v + 1000000 WHERE k % 40 = 1; SELECT count(*) FROM t;',
	deleted => 'DELETE FROM t WHERE k % 4 = 1; SELECT count(*) FROM t;',
	head_deleted => 'DELETE FROM t WHERE k < 400',
	tail_deleted => 'DELETE FROM t WHERE k >= 1200',
	extended => q{INSERT INTO t SELECT i, i, repeat('y', 364) FROM generate_series(100000, 100999) AS i},
	extended_and_deleted => q{INSERT INTO t SELECT i, i, repeat('y', 364) FROM generate_series(100000, 100999) AS i;
		DELETE FROM t WHERE k % 5 = 1});

foreach my $where (qw(scan indexes reaping))
{
	foreach my $change (sort keys %changes)
	{
		subtest "$where, then $change" => sub {
			my $table = "${change}_$where";
			my $record = interrupted($node, $table, $where);

			$node->safe_psql('postgres', $changes{$change} =~ s/\bt\b/$table/gr);

			my $rest = vacuum($node, $table);
			continued($rest, verified => 0);
			is("$rest->{from}, $rest->{pending}", "$record->{next_block}, $record->{pending_dead_tuples}",
				'  where it was, with all that was pending')
			  if $where ne 'reaping';
			settled($node, $table);
		};
	}
}

only_asked_for_crashes($node);
$node->stop;

done_testing();
