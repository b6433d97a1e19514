# Between two runs of a vacuum the table gets other indexes. One that is new, or has
# been built anew, is not done; one that is gone is not missed; and what an earlier
# run knew of an index does not mislead this one.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use Between;
use Oracle;
use Pass;
use Resume;

my $node = between_node('indexes');

# Each story: what is done between two runs, t being the table; and the indexes that
# the next run has to scan, if the first one was interrupted when it had done t_k.
my @stories = (
	{ name => 'reindexed', sql => 'REINDEX TABLE t', left => 'k v h' },
	{ name => 'reindexed_one', sql => 'REINDEX INDEX t_v', left => 'v h' },
	{ name => 'reindexed_concurrently', sql => 'REINDEX INDEX CONCURRENTLY t_k', left => 'v h k' },
	{ name => 'created', sql => 'CREATE INDEX t_n ON t (v, k)', left => 'v h n' },
	{ name => 'created_concurrently', sql => 'CREATE INDEX CONCURRENTLY t_n ON t (v, k)', left => 'v h n' },
	{ name => 'dropped', sql => 'DROP INDEX t_v', left => 'h' },
	{ name => 'dropped_when_done', sql => 'DROP INDEX t_k', left => 'v h' },
	{ name => 'dropped_and_created', sql => 'DROP INDEX t_k, t_v, t_h; CREATE INDEX t_k ON t (k)', left => 'k' },
	{ name => 'all_dropped', sql => 'DROP INDEX t_k, t_v, t_h', left => '', found_again => 1 });

foreach my $story (@stories)
{
	foreach my $where (qw(scan indexes reaping))
	{
		subtest "$where, then $story->{name}" => sub {
			my $table = "$story->{name}_$where";
			my $record = interrupted($node, $table, $where);

			$node->safe_psql('postgres', $story->{sql} =~ s/\bt(?=\b|_)/$table/gr);

			my $rest = vacuum($node, $table);
			my $left = $where eq 'indexes' ? $story->{left} : $where eq 'reaping' ? '' : undef;

			continued($rest, verified => 0);
			is("@{ $rest->{indexes} }", join(' ', map { "${table}_$_" } split / /, $left),
				'  and scans the indexes that are not done')
			  if defined $left;
			cmp_ok($rest->{scanned}, '<=', $story->{found_again} ? 80 : 1 + 80 - $record->{next_block},
				'  and no page twice')
			  if $where ne 'scan';
			settled($node, $table);
		};
	}
}

# Reaped at once while there was no index: nothing of that must be known to it.
subtest 'scan without indexes, then a first index' => sub {
	my $record = interrupted($node, 'first_created', 'scan', indexes => '');

	is($record->{pending_dead_tuples}, 0, 'without indexes nothing is pending');
	$node->safe_psql('postgres',
		'CREATE INDEX first_created_k ON first_created (k); DELETE FROM first_created WHERE k % 3 = 1');
	my $rest = vacuum($node, 'first_created');
	continued($rest, verified => 0);
	is("@{ $rest->{indexes} }", 'first_created_k', '  and scans the index');
	settled($node, 'first_created');
};

# An index whose building was cancelled at the very end is there for vacuum, although
# not for queries.
subtest 'indexes, then one that is not quite built' => sub {
	interrupted($node, 'unready', 'indexes');

	my $reader = $node->background_psql('postgres');
	$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	my $builder = start_sql($node, 'CREATE INDEX CONCURRENTLY unready_n ON unready (v, k)');
	$node->poll_query_until('postgres', q{
		SELECT count(*) = 1 FROM pg_stat_progress_create_index WHERE phase = 'waiting for old snapshots'})
	  or die 'the index is not being built';
	$node->safe_psql('postgres', 'SELECT pg_cancel_backend(pid) FROM pg_stat_progress_create_index');
	my ($rc) = finish_sql($builder);
	$reader->quit;
	isnt($rc, 0, 'an index is not quite built');

	my $rest = vacuum($node, 'unready');
	continued($rest, verified => 0);
	is("@{ $rest->{indexes} }", 'unready_v unready_h unready_n', '  and scans it as well');
	settled($node, 'unready');
};

# A GIN index keeps new entries in a list, which the first scan of each vacuum has to
# move; what an earlier run knew of the index must not make it think it has.
subtest 'reaping, then entries in a GIN index' => sub {
	make_table($node, 'gin', pages => 80, dead => 'k % 3 = 0', indexes => 'k');
	$node->safe_psql('postgres', 'CREATE INDEX gin_a ON gin USING gin ((ARRAY[k % 7])) WITH (fastupdate = on)');
	interrupted($node, 'gin', 'reaping', made => 1);
	$node->safe_psql('postgres', q{
		INSERT INTO gin SELECT 7 * i + 3, i, '' FROM generate_series(100001, 101000) AS i;
		DELETE FROM gin WHERE k > 500000;});
	my $rest = vacuum($node, 'gin', options => 'TRUNCATE off');
	continued($rest, verified => 0);
	settled($node, 'gin');
	$node->safe_psql('postgres', q{
		INSERT INTO gin SELECT 7 * i + 5, i, '' FROM generate_series(200001, 203000) AS i});
	is_deeply([ Oracle::same_rows($node, 'postgres', 'gin', "ARRAY[k % 7] \@> ARRAY[$_]") ], [],
		"  its entries for $_ are right")
	  foreach 3, 5;
};

# Killed while it reaps, a vacuum has lost its list. The dead rows that the next one
# finds are as many, but they are not the same: no index is done with them.
subtest 'killed while reaping, then as many other dead rows' => sub {
	make_table($node, 'as_many', pages => 80, dead => 'k % 3 = 0');
	stop_vacuum($node, 'as_many',
		way => 'kill_backend',
		phase => 'vacuuming heap',
		when => 'heap_blks_vacuumed > 40',
		set => [ $Resume::slowly, $Resume::saving ]);

	my $dead = q{SELECT count(*) FROM generate_series(0, 79) AS block,
		heap_page_items(get_raw_page('as_many', block)) WHERE lp_flags = 3};
	my $all = $node->safe_psql('postgres', q{SELECT count(*) FROM generate_series(0, 1599) AS k WHERE k % 3 = 0});
	my $reaped = $all - $node->safe_psql('postgres', $dead);
	cmp_ok($reaped, '>', 0, 'some line pointers are reaped');
	$node->safe_psql('postgres', qq{
		INSERT INTO as_many SELECT 1000000 + i, 1000000 + i, repeat('y', 364) FROM generate_series(1, $reaped) AS i;
		DELETE FROM as_many WHERE k > 1000000;});

	my $record = record($node, 'as_many');
	is($record->{indexes_done}, 3, 'all indexes were done');
	my $rest = vacuum($node, 'as_many', options => 'INDEX_CLEANUP on');
	continued($rest, verified => 0);
	is("@{ $rest->{indexes} }", 'as_many_k as_many_v as_many_h', '  and scans them again');
	is($rest->{removed}, $reaped, '  for as many dead rows as before');
	settled($node, 'as_many');
};

only_asked_for_crashes($node);
$node->stop;

done_testing();
