# A transaction is rolled back between two index passes of one vacuum. GIN has its
# entries in the pending list still, which it empties only in the first pass. They must
# be gone before their line pointers are, or they lead to other rows.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use Oracle;
use Pass;
use Resume;
use Trouble;

my $node = resume_node('pending', conf => "autovacuum = off\nmin_parallel_index_scan_size = 0\n");

sub query
{
	return $node->safe_psql('postgres', $_[0]);
}

# What a GIN index finds for a key that no row has
sub found
{
	my ($table) = @_;

	return query("SET enable_seqscan = off; SELECT count(*) FROM $table WHERE tags @> ARRAY[-1]");
}

# Half of each page is free, and all of its rows have the GIN key 1.
sub make_tagged_table
{
	my ($table) = @_;

	query(qq{
		CREATE TABLE $table (k int, tags int[], filler text) WITH (autovacuum_enabled = off, fillfactor = 50);
		INSERT INTO $table SELECT i, ARRAY[1], repeat('x', 364) FROM generate_series(0, 3999) AS i;
		CREATE INDEX ${table}_k ON $table (k);
		CREATE INDEX ${table}_tags ON $table USING gin (tags);
		SET vacuum_resume.enabled = off; VACUUM $table;
		DELETE FROM $table WHERE k % 5 = 0;});
	return;
}

foreach my $workers (0, 2)
{
	subtest "with $workers workers" => sub {
		my $table = "tagged_$workers";
		my $options = "PARALLEL $workers, INDEX_CLEANUP on";

		make_tagged_table($table);
		stop_at($node, $table, 'vacuuming indexes', 1);
		query("DELETE FROM $table WHERE k < 1600 AND k % 5 IN (1, 3)");

		# the pending TIDs are out of all indexes, and the head comes next
		my $vacuum = start_vacuum($node, $table, options => $options, set => [$Resume::slowly]);
		wait_for_phase($node, $table, 'vacuuming heap', 'heap_blks_vacuumed > 0');
		query("BEGIN; UPDATE $table SET tags = ARRAY[-1] WHERE k < 400 AND k % 5 = 2; ROLLBACK");
		my ($status, $text) = finish_sql($vacuum->{job});
		my $report = vacuum_report($text, $table);
		like($report->{text}, qr/index scans: 2$/m, 'the vacuum took two index passes');
		like($report->{text}, qr/resume and wrap/, '  as it came to the head again');

		query("INSERT INTO $table SELECT i, ARRAY[1], repeat('y', 364) FROM generate_series(1, 2000) AS i");
		is(found($table), 0, 'no row is found that is not there');
		is_deeply([ Oracle::same_rows($node, 'postgres', $table, 'tags @> ARRAY[1]') ], [],
			'  and all that are');
		Oracle::table_ok($node, 'postgres', $table);
	};
}

$node->stop;

done_testing();
