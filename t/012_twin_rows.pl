
# Twins (see Twin.pm): rows in all states that a transaction can leave them in,
# with settings that freeze none, some or all of them.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use Twin;

my $twin = Twin->new('rows');
my @tables;

# Each state once without and once with an index, which is one pass over the heap
# and two.  $rows rows of about 100 bytes, 70 to a page.
sub table_of
{
	my ($name, $rows, $with, $sql) = @_;

	foreach my $kind (qw(plain indexed))
	{
		my $table = "${kind}_$name";
		$twin->build("CREATE TABLE $table (a int, b int, c text)$with");
		$twin->build("CREATE INDEX ON $table (a)") if $kind eq 'indexed';
		$twin->build("INSERT INTO $table SELECT i, i % 10, repeat('x', 70) FROM generate_series(1, $rows) AS i");
		$twin->build($sql =~ s/\bTABLE\b/$table/gr);
		push @tables, $table;
	}
	return;
}

# Spend transaction ids, so that rows differ in age.
sub spend
{
	my ($count) = @_;
	$twin->build("DO \$\$ BEGIN FOR i IN 1..$count LOOP PERFORM txid_current(); COMMIT; END LOOP; END \$\$");
	return;
}

table_of('deletes', 3000, '', 'DELETE FROM TABLE WHERE a % 13 = 0');
table_of('deleted_pages', 3000, '', 'DELETE FROM TABLE WHERE a BETWEEN 500 AND 1500');
table_of('nothing_dead', 2000, '', 'SELECT 1');

# Chains of row versions on one page, and the redirects that pruning makes of them
table_of('hot_chains', 1500, ' WITH (fillfactor = 50)', q{
	UPDATE TABLE SET b = b + 1 WHERE a % 3 = 0;
	UPDATE TABLE SET b = b + 1 WHERE a % 6 = 0;
	UPDATE TABLE SET b = b + 1 WHERE a % 12 = 0;
	DELETE FROM TABLE WHERE a % 24 = 0;
});
table_of('redirects', 1500, ' WITH (fillfactor = 50)', q{
	UPDATE TABLE SET b = b + 1;
	UPDATE TABLE SET b = b + 1 WHERE a % 2 = 0;
	VACUUM TABLE;
	UPDATE TABLE SET b = b + 1 WHERE a % 3 = 0;
	DELETE FROM TABLE WHERE a % 5 = 0;
});
table_of('broken_chains', 1500, ' WITH (fillfactor = 50)', q{
	UPDATE TABLE SET b = b + 1 WHERE a % 3 = 0;
	BEGIN; UPDATE TABLE SET b = b + 1 WHERE a % 2 = 0; ROLLBACK;
	BEGIN; UPDATE TABLE SET a = a + 1 WHERE a % 5 = 0; ROLLBACK;
	UPDATE TABLE SET a = -a WHERE a % 7 = 0;
});
table_of('moved', 1500, '', 'UPDATE TABLE SET a = a + 1, c = repeat(\'y\', 90) WHERE a % 4 = 0');

# Transactions that did not commit, whole and in part
table_of('aborted_inserts', 1000, '', q{
	BEGIN; INSERT INTO TABLE SELECT i, i % 10, repeat('x', 70) FROM generate_series(1001, 2000) AS i; ROLLBACK;
	INSERT INTO TABLE SELECT i, i % 10, repeat('x', 70) FROM generate_series(2001, 2100) AS i;
});
table_of('aborted_deletes', 1000, '', 'BEGIN; DELETE FROM TABLE WHERE a % 2 = 0; ROLLBACK');
table_of('savepoints', 1000, '', q{
	BEGIN;
	INSERT INTO TABLE SELECT i, 0, 'first' FROM generate_series(2000, 2300) AS i;
	SAVEPOINT a; DELETE FROM TABLE WHERE a % 9 = 0; ROLLBACK TO a;
	SAVEPOINT b; DELETE FROM TABLE WHERE a % 7 = 0; RELEASE b;
	DELETE FROM TABLE WHERE a BETWEEN 2100 AND 2150;
	UPDATE TABLE SET b = 99 WHERE a BETWEEN 2151 AND 2200;
	COMMIT;
});
table_of('born_dead', 500, '', q{
	BEGIN;
	INSERT INTO TABLE SELECT i, 0, 'short life' FROM generate_series(1000, 1500) AS i;
	DELETE FROM TABLE WHERE a >= 1000;
	COMMIT;
});
table_of('row_locks', 500, '', q{
	BEGIN; SELECT count(*) FROM (SELECT FROM TABLE WHERE a % 2 = 0 FOR UPDATE) AS l; COMMIT;
	BEGIN; SELECT count(*) FROM (SELECT FROM TABLE WHERE a % 3 = 0 FOR KEY SHARE) AS l; COMMIT;
	BEGIN; SELECT count(*) FROM (SELECT FROM TABLE WHERE a % 5 = 0 FOR SHARE) AS l; ROLLBACK;
});

# Line pointers that somebody else's pruning made LP_DEAD: full pages, deleted
# rows, and a scan that comes by.
table_of('pruned_by_readers', 3000, '', q{
	DELETE FROM TABLE WHERE a % 3 = 0;
	SELECT count(*) FROM TABLE;
	DELETE FROM TABLE WHERE a % 10 = 0;
});
foreach my $kind (qw(plain indexed))
{
	my $dead = $twin->build(qq{
		SELECT count(*) FROM generate_series(0, 9) AS block,
			heap_page_items(get_raw_page('${kind}_pruned_by_readers', block::int)) WHERE lp_flags = 3});
	cmp_ok($dead, '>', 100, "$kind: a reader left LP_DEAD items behind");
}

# Fill factors
foreach my $fillfactor (10, 70, 100)
{
	table_of("fillfactor_$fillfactor", 1000, " WITH (fillfactor = $fillfactor)", q{
		DELETE FROM TABLE WHERE a % 7 = 0;
		UPDATE TABLE SET b = b + 1 WHERE a % 5 = 0;
	});
}

# Old all-visible rows, some frozen, and newer ones beside them
table_of('ages', 2000, '', q{
	UPDATE TABLE SET b = -1 WHERE a % 100 = 1;
	VACUUM TABLE;
	VACUUM (FREEZE) TABLE;
	DELETE FROM TABLE WHERE a BETWEEN 400 AND 600;
});
spend(100);
foreach my $kind (qw(plain indexed))
{
	$twin->build("UPDATE ${kind}_$_ SET b = 1000 WHERE a % 17 = 0")
	  foreach qw(ages deletes hot_chains);
	$twin->build("INSERT INTO ${kind}_ages SELECT i, 0, 'new' FROM generate_series(5000, 5500) AS i");
}
spend(50);

# Multixacts: two sessions lock the same rows, then rows are locked and updated,
# locked and deleted, and once more the updater does not commit.
sub with_locks
{
	my ($name, $sql, $end) = @_;

	table_of("multi_$name", 400, ' WITH (fillfactor = 50)', 'SELECT 1');
	foreach my $kind (qw(plain indexed))
	{
		my $table = "${kind}_multi_$name";
		my @sessions = map { $twin->{stock}->background_psql('postgres') } 0 .. 1;

		foreach my $session (@sessions)
		{
			$session->query_safe(
				"BEGIN; SELECT count(*) FROM (SELECT FROM $table WHERE a % 2 = 0 FOR KEY SHARE) AS l");
		}
		$sessions[1]->query_safe($sql =~ s/\bTABLE\b/$table/gr);
		$sessions[1]->query_safe($end);
		$sessions[0]->query_safe('COMMIT');
		$_->quit foreach @sessions;
	}
	return;
}
with_locks('lockers', 'SELECT 1', 'COMMIT');
with_locks('updated', 'UPDATE TABLE SET b = b + 1 WHERE a % 4 = 0', 'COMMIT');
with_locks('update_aborted', 'UPDATE TABLE SET b = b + 1 WHERE a % 4 = 0', 'ROLLBACK');
with_locks('updated_twice', 'UPDATE TABLE SET b = b + 1 WHERE a % 4 = 0; UPDATE TABLE SET b = b + 1 WHERE a % 8 = 0', 'COMMIT');
with_locks('savepoint',
	'SAVEPOINT s; UPDATE TABLE SET b = b + 1 WHERE a % 4 = 0; ROLLBACK TO s; UPDATE TABLE SET b = b + 2 WHERE a % 6 = 0',
	'COMMIT');
{
	# A locker and a deleter can only meet when the locker has ended, or is the
	# deleter's own transaction.
	table_of('multi_deleted', 400, '', q{
		BEGIN;
		SELECT count(*) FROM (SELECT FROM TABLE WHERE a % 2 = 0 FOR KEY SHARE) AS l;
		SAVEPOINT s;
		DELETE FROM TABLE WHERE a % 4 = 0;
		COMMIT;
	});
}
cmp_ok(
	$twin->build(q{
		SELECT count(*) FROM heap_page_items(get_raw_page('indexed_multi_updated', 0))
		WHERE t_infomask & 4096 <> 0}),
	'>', 10, 'there are multixacts');

# Wide rows: stored out of line, compressed, both, updated and deleted
foreach my $storage (qw(external extended plain))
{
	foreach my $kind (qw(plain indexed))
	{
		my $table = "${kind}_wide_$storage";
		my $repeat = $storage eq 'plain' ? 50 : $storage eq 'external' ? 150 : 400;
		$twin->build(qq{
			CREATE TABLE $table (a int, b int, c text);
			ALTER TABLE $table ALTER c SET STORAGE $storage;
			INSERT INTO $table SELECT i, i, (SELECT string_agg(md5(i::text || j), '') FROM generate_series(1, $repeat) AS j)
			FROM generate_series(1, 150) AS i;
		});
		$twin->build("CREATE INDEX ON $table (a)") if $kind eq 'indexed';
		$twin->build(qq{
			DELETE FROM $table WHERE a % 5 = 0;
			UPDATE $table SET b = b + 1 WHERE a % 3 = 0;
			UPDATE $table SET c = c || 'x' WHERE a % 7 = 0;
			BEGIN; UPDATE $table SET c = c || 'x' WHERE a % 11 = 0; ROLLBACK;
		});
		push @tables, $table;
	}
}
# Nothing but the TOAST table's tail is empty.
$twin->build(q{
	CREATE TABLE toast_tail (a int, c text);
	ALTER TABLE toast_tail ALTER c SET STORAGE external;
	INSERT INTO toast_tail SELECT i, repeat('x', 20000) FROM generate_series(1, 100) AS i;
	UPDATE toast_tail SET c = 'none' WHERE a > 50;
});

$twin->separate;

# All of them at once with the default ages: nothing is old enough to be frozen.
$twin->vacuum('all tables, no freezing', table => \@tables, premise => [
	qr/indexed_hot_chains": index scans: 1/,
	qr/plain_aborted_inserts": index scans: 0\npages: 0 removed.*\ntuples: 1000 removed/]);
$twin->vacuum('TOAST table truncated', table => 'toast_tail',
	premise => qr/table "pg_toast_\d+": truncated \d+ to \d+ pages/);
$twin->vacuum('all tables, once more', table => \@tables, premise => qr/index scans: 0/);

# A minimum age in the middle: on the same page some are frozen, some are not.
$twin->sql("DELETE FROM $_ WHERE a % 19 = 0") foreach @tables;
$twin->vacuum('all tables, some are frozen',
	table => \@tables,
	set => [ 'vacuum_freeze_min_age = 120', 'vacuum_multixact_freeze_min_age = 3' ],
	premise => qr/new relfrozenxid: \d+/);
# The same, and waiting for none: aggressive because of the table's age.
$twin->sql("UPDATE $_ SET b = b - 1 WHERE a % 23 = 0") foreach @tables;
foreach my $table (qw(plain_multi_lockers indexed_multi_lockers))
{
	$twin->session($_, "BEGIN; SELECT count(*) FROM (SELECT FROM $table WHERE a % 3 = 0 FOR SHARE) AS l") foreach 1, 2;
	$twin->session(1, 'COMMIT');
	$twin->session(2, "UPDATE $table SET b = b + 1 WHERE a % 9 = 0; COMMIT");
	$twin->end_session($_) foreach 1, 2;
}
$twin->vacuum('all tables, aggressive because of their age',
	table => \@tables,
	set => [
		'vacuum_freeze_min_age = 60', 'vacuum_freeze_table_age = 0',
		'vacuum_multixact_freeze_min_age = 0', 'vacuum_multixact_freeze_table_age = 0' ],
	premise => [ qr/aggressively vacuuming "postgres.public.plain_ages"/, qr/new relminmxid: \d+/ ]);
$twin->sql("DELETE FROM $_ WHERE a % 29 = 0") foreach @tables;
$twin->vacuum('all tables, all frozen',
	table => \@tables,
	options => 'FREEZE',
	premise => qr/aggressively vacuuming "postgres.public.indexed_multi_updated"/);

$twin->finish;
done_testing();
