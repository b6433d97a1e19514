
# Twins (see Twin.pm) with data checksums: hint bits are WAL-logged then, and a
# page has to be dirty before its visibility map bit is set.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use Twin;

my $twin = Twin->new('checksums', checksums => 1);
is($twin->build('SHOW data_checksums'), 'on', 'pages have checksums');

my @tables;

sub table_of
{
	my ($name, $with, $sql) = @_;

	foreach my $kind (qw(plain indexed unlogged))
	{
		my $table = "${kind}_$name";
		my $unlogged = $kind eq 'unlogged' ? 'UNLOGGED' : '';

		$twin->build("CREATE $unlogged TABLE $table (a int, b int, c text) $with");
		$twin->build("CREATE INDEX ON $table (a); CREATE INDEX ON $table USING hash (b)") if $kind ne 'plain';
		$twin->build("ALTER TABLE $table ALTER c SET STORAGE external");
		$twin->build(qq{
			INSERT INTO $table SELECT i, i % 100, repeat('x', CASE WHEN i % 40 = 0 THEN 5000 ELSE 50 END)
			FROM generate_series(1, 4000) AS i});
		$twin->build($sql =~ s/\bTABLE\b/$table/gr);
		push @tables, $table;
	}
	return;
}

# No hint bit is set by anybody yet: VACUUM sets them all.
table_of('fresh', '', 'SELECT 1');
table_of('deletes', '', 'DELETE FROM TABLE WHERE a % 9 = 0');
table_of('tail', '', 'DELETE FROM TABLE WHERE a > 3000');
table_of('aborted', '', q{
	BEGIN; INSERT INTO TABLE SELECT i, 0, 'aborted' FROM generate_series(1, 1000) AS i; ROLLBACK;
	BEGIN; DELETE FROM TABLE WHERE a % 2 = 0; ROLLBACK;
	DELETE FROM TABLE WHERE a % 30 = 0;
});
table_of('chains', 'WITH (fillfactor = 50)', q{
	UPDATE TABLE SET b = b + 1 WHERE a % 3 = 0;
	UPDATE TABLE SET b = b + 1 WHERE a % 6 = 0;
	DELETE FROM TABLE WHERE a % 12 = 0;
});
table_of('locked', '', q{
	BEGIN; SELECT count(*) FROM (SELECT FROM TABLE WHERE a % 3 = 0 FOR UPDATE) AS l; COMMIT;
	BEGIN;
	SELECT count(*) FROM (SELECT FROM TABLE WHERE a % 2 = 0 FOR KEY SHARE) AS l;
	SAVEPOINT s;
	UPDATE TABLE SET b = b + 1 WHERE a % 8 = 0;
	COMMIT;
});
# Hints set by readers, LP_DEAD items by their pruning
table_of('read', '', 'DELETE FROM TABLE WHERE a % 3 = 0; SELECT count(*) FROM TABLE; SELECT count(*) FROM TABLE');
# All visible, with holes, and a map that lost its bits
table_of('visible', '', 'VACUUM TABLE; DELETE FROM TABLE WHERE a BETWEEN 1700 AND 1800');
table_of('no_map', '', 'VACUUM TABLE; DELETE FROM TABLE WHERE a % 500 = 0');
$twin->edit_file("${_}_no_map", 'vm', sub { '' }) foreach qw(plain indexed unlogged);
# New pages in the middle and at the end
table_of('new_pages', '', 'SELECT 1');
foreach my $kind (qw(plain indexed unlogged))
{
	$twin->edit_file("${kind}_new_pages", 'main', sub { $_[0] . "\0" x (8192 * 5) });
	$twin->build("INSERT INTO ${kind}_new_pages SELECT i, 0, 'new' FROM generate_series(1, 500) AS i");
	$twin->edit_file("${kind}_new_pages", 'main', sub { $_[0] . "\0" x (8192 * 5) });
}

$twin->separate;

$twin->vacuum('all tables, no freezing', table => \@tables, premise => [
	qr/plain_fresh": index scans: 0/, qr/table "indexed_tail": truncated/, qr/WAL usage: \d+ records, [1-9]\d* full page images/]);
$twin->vacuum('all tables, once more', table => \@tables);
$twin->sql("UPDATE $_ SET b = b - 1 WHERE a % 50 = 0; DELETE FROM $_ WHERE a % 51 = 0") foreach @tables;
$twin->vacuum('all tables, aggressive, some are frozen', table => \@tables,
	set => [ 'vacuum_freeze_min_age = 60', 'vacuum_freeze_table_age = 0' ], premise => qr/aggressively/);
$twin->sql("DELETE FROM $_ WHERE a % 52 = 0") foreach @tables;
$twin->vacuum('all tables, frozen', table => \@tables, options => 'FREEZE', premise => qr/aggressively/);
$twin->sql('INSERT INTO indexed_deletes SELECT 1, 1, \'x\'');
$twin->vacuum('the whole database', table => \@tables, command => 'VACUUM (VERBOSE, DISABLE_PAGE_SKIPPING)',
	premise => qr/postgres.pg_catalog.pg_class"/);

$twin->finish;
foreach my $node ($twin->nodes)
{
	command_ok([ 'pg_checksums', '--check', '-D', $node->data_dir ], 'all checksums of ' . $node->name . ' are right');
}
done_testing();
