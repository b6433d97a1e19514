
# Twins (see Twin.pm): index vacuuming.  Every access method, the bypass, options
# that force or forbid it, many index cycles, parallel workers.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use Twin;

my $twin = Twin->new('indexes');

my @parallel = ('min_parallel_index_scan_size = 0', 'max_parallel_maintenance_workers = 4');

# One row on each page, so that dead rows are dead pages: row a is on page a - 1.
sub row_per_page
{
	my ($name, $pages, $with) = @_;

	$with = $with ? ", $with" : '';
	$twin->build(qq{
		CREATE TABLE $name (a int, b text) WITH (fillfactor = 10$with);
		INSERT INTO $name SELECT i, repeat('x', 400) FROM generate_series(1, $pages) AS i;
		CREATE INDEX ${name}_a ON $name (a);
	});
	return;
}

# All access methods, and all that an index can be besides
$twin->build(q{
	CREATE TABLE methods (a int, b text, c int[], p point, r int4range, d int, PRIMARY KEY (a));
	INSERT INTO methods
	SELECT i, md5(i::text), ARRAY[i % 100, i % 7, i], point(i % 317, i % 211), int4range(i, i + i % 50), i % 20
	FROM generate_series(1, 6000) AS i;
	CREATE INDEX methods_hash ON methods USING hash (b);
	CREATE INDEX methods_gin ON methods USING gin (c);
	CREATE INDEX methods_gin_slow ON methods USING gin (c) WITH (fastupdate = off);
	CREATE INDEX methods_gist ON methods USING gist (p);
	CREATE INDEX methods_gist_range ON methods USING gist (r);
	CREATE INDEX methods_spgist ON methods USING spgist (p);
	CREATE INDEX methods_spgist_text ON methods USING spgist (b);
	CREATE INDEX methods_brin ON methods USING brin (a) WITH (pages_per_range = 4);
	CREATE INDEX methods_partial ON methods (d) WHERE d < 5;
	CREATE INDEX methods_expression ON methods ((a % 10) DESC NULLS LAST, lower(b) COLLATE "C");
	CREATE UNIQUE INDEX methods_covering ON methods (a) INCLUDE (d);
	CREATE INDEX methods_pattern ON methods (b text_pattern_ops);
	CREATE INDEX methods_duplicates ON methods (d) WITH (deduplicate_items = on);
	CREATE TABLE methods_copy (LIKE methods INCLUDING ALL);
	INSERT INTO methods_copy SELECT * FROM methods;

	DELETE FROM methods WHERE a % 7 = 0 OR a BETWEEN 1000 AND 2000;
	UPDATE methods SET c = c || 5 WHERE a % 11 = 0;
	INSERT INTO methods
	SELECT i, md5(i::text), ARRAY[i % 100, i % 7, i], point(i % 317, i % 211), int4range(i, i + i % 50), i % 20
	FROM generate_series(7000, 8000) AS i;
	DELETE FROM methods_copy;
});

# An index that its builder gave up is not vacuumed, and so a table with no other
# is vacuumed in one pass; one that only waits to be valid is vacuumed.
foreach my $table (qw(given_up waiting))
{
	$twin->build(qq{
		CREATE TABLE $table (a int, b int);
		INSERT INTO $table SELECT i % 900, i FROM generate_series(1, 1000) AS i;
	});
}
my (undef, undef, $stderr) = $twin->{stock}->psql('postgres',
	'CREATE UNIQUE INDEX CONCURRENTLY given_up_a ON given_up (a)');
like($stderr, qr/could not create unique index "given_up_a"/, 'an index is given up');
$twin->build(q{
	CREATE INDEX waiting_a ON waiting (a);
	UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'waiting_a'::regclass;
	DELETE FROM given_up WHERE b > 500;
	DELETE FROM waiting WHERE b > 500;
});

# The bypass: fewer than 2 % of 500 pages have dead items
foreach my $count (9, 10)
{
	foreach my $cleanup (qw(default auto on off))
	{
		row_per_page("bypass_${count}_$cleanup", 500);
	}
	row_per_page("bypass_${count}_reloption_$_", 500, "vacuum_index_cleanup = $_") foreach qw(off auto on);
	# The same as often as it takes to see that bypassed items add up
	row_per_page("bypass_${count}_twice", 500);
}
foreach my $count (9, 10)
{
	$twin->build("DELETE FROM bypass_${count}_$_ WHERE a % 50 = 7 AND a < $count * 50")
	  foreach qw(default auto on off reloption_off reloption_auto reloption_on twice);
}
# 2 % of fewer than 50 pages is no page: never bypassed.
row_per_page('bypass_small', 49);
$twin->build('DELETE FROM bypass_small WHERE a = 20');
# Bypassed, but the empty tail is still cut off
row_per_page('bypass_tail', 500);
$twin->build('DELETE FROM bypass_tail WHERE a IN (7, 8)');
$twin->build('BEGIN; INSERT INTO bypass_tail SELECT i, repeat(\'y\', 400) FROM generate_series(501, 600) AS i; ROLLBACK');

# More dead rows than 1 MB holds: three times over, and one more
$twin->build(q{
	CREATE TABLE cycles (a int, b int);
	INSERT INTO cycles SELECT i, i % 1000 FROM generate_series(1, 600000) AS i;
	CREATE INDEX cycles_a ON cycles (a);
	CREATE INDEX cycles_b ON cycles USING hash (a);
	DELETE FROM cycles WHERE a % 20 <> 0;
});

# Parallel workers: as many as there are indexes, fewer, and none allowed
foreach my $name (qw(parallel parallel_cycles parallel_two parallel_one parallel_bypass parallel_auto parallel_off))
{
	my $rows = $name =~ /cycles/ ? 400000 : 20000;
	$twin->build(qq{
		CREATE TABLE $name (a int, b int, c int);
		INSERT INTO $name SELECT i, i % 100, i % 17 FROM generate_series(1, $rows) AS i;
		CREATE INDEX ${name}_a ON $name (a);
		DELETE FROM $name WHERE a % 2 = 0;
	});
	next if $name eq 'parallel_one';
	$twin->build("CREATE INDEX ${name}_b ON $name (b); CREATE INDEX ${name}_c ON $name USING hash (c)");
}
$twin->build('INSERT INTO parallel_bypass SELECT i, 1, 1 FROM generate_series(100001, 120000) AS i; VACUUM parallel_bypass; DELETE FROM parallel_bypass WHERE a = 5');

$twin->separate;

$twin->vacuum('every access method', table => 'methods',
	premise => [ qr/index scans: 1/, map { qr/index "methods_$_": pages/ } qw(hash gin gist spgist brin partial) ]);
$twin->vacuum('every access method, again', table => 'methods', premise => qr/index scans: 0/);
$twin->vacuum('every access method, nothing is left', table => 'methods_copy',
	premise => qr/truncated \d+ to 0 pages/);
$twin->sql(q{
	INSERT INTO methods SELECT i, md5(i::text), ARRAY[i], point(i, i), int4range(1, i), 3 FROM generate_series(9000, 9500) AS i;
	DELETE FROM methods WHERE a % 3 = 0});
$twin->vacuum('every access method, with pages to recycle', table => 'methods', premise => qr/index scans: 1/);
$twin->sql('DELETE FROM methods WHERE a % 5 = 0');
$twin->vacuum('every access method, in parallel', table => 'methods', options => 'PARALLEL 3', parallel => 1, set => \@parallel,
	premise => qr/launched 3 parallel vacuum workers for index vacuuming/);
$twin->vacuum('an index that was given up', table => 'given_up', premise => qr/index scans: 0.*\d+ dead item identifiers removed/s);
$twin->vacuum('an index that is not valid yet', table => 'waiting', premise => qr/index "waiting_a"/);

foreach my $count (9, 10)
{
	my $decided = $count == 9
	  ? qr/index scan bypassed: 9 pages from table \(1.80% of total\) have 9 dead/
	  : qr/index scan needed: 10 pages from table \(2.00% of total\) had 10 dead/;
	my $forced = qr/index scan needed: $count pages from table/;
	my $forbidden = qr/index scan bypassed: $count pages from table/;
	my $name = "$count of 500 pages with dead rows";

	$twin->vacuum($name, table => "bypass_${count}_default", premise => $decided);
	$twin->vacuum("$name, INDEX_CLEANUP auto", table => "bypass_${count}_auto",
		options => 'INDEX_CLEANUP auto', premise => $decided);
	$twin->vacuum("$name, INDEX_CLEANUP on", table => "bypass_${count}_on",
		options => 'INDEX_CLEANUP on', premise => $forced);
	$twin->vacuum("$name, INDEX_CLEANUP off", table => "bypass_${count}_off",
		options => 'INDEX_CLEANUP off', premise => $forbidden);
	$twin->vacuum("$name, vacuum_index_cleanup = auto", table => "bypass_${count}_reloption_auto", premise => $decided);
	$twin->vacuum("$name, vacuum_index_cleanup = on", table => "bypass_${count}_reloption_on", premise => $forced);
	$twin->vacuum("$name, vacuum_index_cleanup = off", table => "bypass_${count}_reloption_off", premise => $forbidden);
	$twin->vacuum("$name, the option overrides the table's", table => "bypass_${count}_reloption_off",
		options => 'INDEX_CLEANUP on', premise => $forced);
	$twin->vacuum($name, table => "bypass_${count}_twice", premise => $decided);
	$twin->sql("DELETE FROM bypass_${count}_twice WHERE a IN (11, 12)");
	$twin->vacuum("$name, then two more", table => "bypass_${count}_twice",
		premise => $count == 9 ? qr/index scan needed: 11 pages/ : qr/index scan bypassed: 2 pages/);
}
$twin->vacuum('one dead row on 49 pages', table => 'bypass_small', premise => qr/index scan needed: 1 pages/);
$twin->vacuum('bypass and an empty tail', table => 'bypass_tail',
	options => 'INDEX_CLEANUP auto',
	premise => qr/index scan (needed|bypassed)/);

$twin->vacuum('many index cycles', table => 'cycles', set => ['maintenance_work_mem = \'1MB\''],
	premise => qr/index scans: 4/);
$twin->sql('DELETE FROM cycles WHERE a % 40 = 0');
$twin->vacuum('one index cycle in the same memory', table => 'cycles', set => ['maintenance_work_mem = \'1MB\''],
	premise => qr/index scans: 1/);

my $launched = qr/launched 2 parallel vacuum workers for index vacuuming \(planned: 2\)/;
$twin->vacuum('parallel', table => 'parallel', options => 'PARALLEL 2', parallel => 1, set => \@parallel, premise => $launched);
$twin->vacuum('parallel, many index cycles', table => 'parallel_cycles', options => 'PARALLEL 2', parallel => 1,
	set => [ @parallel, 'maintenance_work_mem = \'1MB\'' ], premise => [ $launched, qr/index scans: 2/ ]);
$twin->vacuum('parallel, one worker for three indexes', table => 'parallel_two', options => 'PARALLEL 1', parallel => 1, set => \@parallel,
	premise => qr/launched 1 parallel vacuum worker /);
$twin->vacuum('parallel, but one index', table => 'parallel_one', options => 'PARALLEL 2', parallel => 1, set => \@parallel,
	premise => qr/index scans: 1/);
$twin->vacuum('parallel, bypass and cleanup', table => 'parallel_bypass', options => 'PARALLEL 2', parallel => 1, set => \@parallel,
	premise => [ qr/index scan bypassed: 1 pages/, qr/launched 1 parallel vacuum worker for index cleanup/ ]);
$twin->vacuum('parallel by itself', table => 'parallel_auto', parallel => 1, set => \@parallel, premise => $launched);
$twin->vacuum('parallel off', table => 'parallel_off', options => 'PARALLEL 0', premise => qr/index scans: 1/);
$twin->sql('DELETE FROM parallel WHERE a % 3 = 0');
$twin->vacuum('parallel, INDEX_CLEANUP off', table => 'parallel', options => 'PARALLEL 2, INDEX_CLEANUP off', parallel => 1, set => \@parallel,
	premise => qr/index scan bypassed: \d+ pages/);
$twin->vacuum('parallel, with a cost delay', table => 'parallel', options => 'PARALLEL 2', parallel => 1,
	set => [ @parallel, 'vacuum_cost_delay = 0.1', 'vacuum_cost_limit = 5000' ], premise => $launched);

$twin->finish;

# Indexes that bt_index_check does not know
$twin->{ours}->start;
foreach my $condition (
	"b = md5('4001')", 'c @> ARRAY[3]', 'c && ARRAY[4003, 6001, 7777]',
	"p <@ box '((0,0),(150,150))'", "r && int4range(3000, 4000)", "b LIKE 'a%'", 'a BETWEEN 3000 AND 3500')
{
	is(join("\n", Oracle::same_rows($twin->{ours}, 'postgres', 'methods', $condition)),
		'', "sequential scan and index agree on $condition");
}
done_testing();
