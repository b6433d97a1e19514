# Between two runs of a vacuum the table gets another file, or another table gets its
# name: none is taken for what it was.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use Between;
use Oracle;
use Pass;
use Resume;

my $node = between_node('tables', conf => 'allow_in_place_tablespaces = on');
$node->safe_psql('postgres', q{CREATE TABLESPACE elsewhere LOCATION ''});

my $rewritten = 'the table has been rewritten';

# Each story: what is done between two runs, t being the table; and why the saved
# progress is then discarded by the next run.
my @rewrites = (
	{ name => 'truncated', sql => 'TRUNCATE t' },
	{ name => 'truncated_and_filled', sql => q{TRUNCATE t;
		INSERT INTO t SELECT i, i, repeat('y', 364) FROM generate_series(1, 2000) AS i; DELETE FROM t WHERE k % 4 = 0} },
	{ name => 'clustered', sql => 'CLUSTER t USING t_v' },
	{ name => 'vacuumed_full', sql => 'VACUUM FULL t' },
	{ name => 'altered', sql => 'ALTER TABLE t ALTER v TYPE bigint' },
	{ name => 'widened', sql => 'ALTER TABLE t ADD w float8 DEFAULT random()' },
	{ name => 'moved', sql => 'ALTER TABLE t SET TABLESPACE elsewhere' },
	{ name => 'moved_and_back', sql => 'ALTER TABLE t SET TABLESPACE elsewhere; ALTER TABLE t SET TABLESPACE pg_default' },
	{ name => 'made_unlogged', sql => 'ALTER TABLE t SET UNLOGGED' },
	{ name => 'made_unlogged_and_logged', sql => 'ALTER TABLE t SET UNLOGGED; ALTER TABLE t SET LOGGED' });

foreach my $story (@rewrites)
{
	foreach my $where (qw(scan indexes reaping))
	{
		subtest "$where, then $story->{name}" => sub {
			my $table = "$story->{name}_$where";

			interrupted($node, $table, $where);
			$node->safe_psql('postgres', $story->{sql} =~ s/\bt(?=\b|_)/$table/gr);
			$node->safe_psql('postgres', "DELETE FROM $table WHERE k % 5 = 1");

			my $log = log_end($node);
			begun_anew($node, vacuum($node, $table), $log, $table, $rewritten);
			settled($node, $table);
		};
	}
}

# What does not touch the table's file does not matter.
foreach my $where (qw(scan indexes reaping))
{
	subtest "$where, then renamed" => sub {
		my $record = interrupted($node, "old_$where", $where);

		$node->safe_psql('postgres', "ALTER TABLE old_$where RENAME TO new_$where; "
			. "ALTER TABLE new_$where ADD w int, ALTER v SET STATISTICS 10, SET (fillfactor = 90)");
		is(record($node, "new_$where")->{next_block}, $record->{next_block}, 'the record is found');
		continued(vacuum($node, "new_$where"), verified => 0);
		settled($node, "new_$where");
	};
}

# A table that is dropped takes its record with it.
sub is_forgotten
{
	my ($oid) = @_;
	return is($node->safe_psql('postgres', "SELECT count(*) FROM vacuum_resume.progress WHERE relid = $oid"),
		0, 'the record is gone');
}

my %drops = (
	dropped => 'DROP TABLE t',
	dropped_with_schema => 'CREATE SCHEMA s; ALTER TABLE t SET SCHEMA s; DROP SCHEMA s CASCADE',
	dropped_with_owner => 'CREATE ROLE r; ALTER TABLE t OWNER TO r; DROP OWNED BY r; DROP ROLE r');

foreach my $drop (sort keys %drops)
{
	subtest "indexes, then $drop, and another table of the same name" => sub {
		interrupted($node, 'same_name', 'indexes');
		my $oid = $node->safe_psql('postgres', q{SELECT 'same_name'::regclass::oid});
		$node->safe_psql('postgres', $drops{$drop} =~ s/\bt\b/same_name/gr);
		is_forgotten($oid);

		make_table($node, 'same_name', pages => 80, dead => 'k % 3 = 0');
		my $log = log_end($node);
		begun_anew($node, vacuum($node, 'same_name'), $log, 'same_name', undef);
		settled($node, 'same_name');
		$node->safe_psql('postgres', 'DROP TABLE same_name');
	};
}

subtest 'indexes, then dropped, but not for good' => sub {
	interrupted($node, 'kept', 'indexes');
	$node->safe_psql('postgres', 'BEGIN; DROP TABLE kept; ROLLBACK');
	continued(vacuum($node, 'kept'), verified => 0);
	settled($node, 'kept');
};

subtest 'scan, then the database is dropped' => sub {
	my $progress = q{SELECT count(*) FROM vacuum_resume.progress};

	is($node->safe_psql('postgres', $progress), 0, 'there is no record');
	$node->safe_psql('postgres', 'CREATE DATABASE other');
	$node->safe_psql('other', q{
		CREATE TABLE t AS SELECT generate_series(1, 20000) AS k; DELETE FROM t WHERE k % 3 = 0;});
	$node->safe_psql('other', "SET vacuum_cost_limit = 1; SET vacuum_cost_delay = 1; VACUUM (MAX_DURATION 1) t");
	is($node->safe_psql('postgres', $progress), 1, 'there is one of another database');
	$node->safe_psql('postgres', 'DROP DATABASE other');
	is($node->safe_psql('postgres', $progress), 0, '  and it goes with that');
};

only_asked_for_crashes($node);
$node->stop;

done_testing();
