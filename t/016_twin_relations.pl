
# Twins (see Twin.pm): everything that is a heap.  Unlogged and temporary tables,
# system catalogs, those shared by all databases, partitions, materialized views,
# TOAST tables by themselves, whole databases.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use Twin;

my $twin = Twin->new('relations');

my $columns = 'a int, b int, c text';
my $rows = q{SELECT i, i % 10, repeat('x', CASE WHEN i % 30 = 0 THEN 5000 ELSE 50 END) FROM generate_series(1, 3000) AS i};
my $garbage = q{
	DELETE FROM TABLE WHERE a % 7 = 0;
	UPDATE TABLE SET b = b + 1 WHERE a % 5 = 0;
	DELETE FROM TABLE WHERE a > 2500;
};

sub with_garbage
{
	my ($name) = @_;
	return $garbage =~ s/\bTABLE\b/$name/gr;
}

# Unlogged
foreach my $table (qw(unlogged unlogged_indexed unlogged_empty))
{
	$twin->build("CREATE UNLOGGED TABLE $table ($columns); ALTER TABLE $table ALTER c SET STORAGE external");
	$twin->build("CREATE INDEX ON $table (a); CREATE INDEX ON $table USING gin (to_tsvector('simple', c))")
	  if $table eq 'unlogged_indexed';
	$twin->build("INSERT INTO $table $rows;" . with_garbage($table)) if $table ne 'unlogged_empty';
}

# Partitions of partitions, one unlogged, and children of a table with rows
$twin->build(qq{
	CREATE TABLE parted ($columns) PARTITION BY RANGE (a);
	CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (1000);
	CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (1000) TO (2000) PARTITION BY LIST (b);
	CREATE TABLE parted_2_odd PARTITION OF parted_2 FOR VALUES IN (1, 3, 5, 7, 9);
	CREATE UNLOGGED TABLE parted_2_even PARTITION OF parted_2 DEFAULT;
	CREATE TABLE parted_3 PARTITION OF parted DEFAULT;
	CREATE INDEX ON parted (a);
	CREATE INDEX ON parted USING hash (b);
	INSERT INTO parted $rows;
	CREATE TABLE parent ($columns);
	CREATE TABLE child () INHERITS (parent);
	INSERT INTO parent $rows;
	INSERT INTO child $rows;
});
$twin->build(with_garbage($_)) foreach qw(parted parent);

# Materialized views: refreshed row by row, which leaves dead rows
$twin->build(qq{
	CREATE TABLE base ($columns);
	INSERT INTO base $rows;
	CREATE MATERIALIZED VIEW mview AS SELECT * FROM base;
	CREATE UNIQUE INDEX mview_a ON mview (a);
	CREATE MATERIALIZED VIEW mview_unfilled AS SELECT * FROM base WITH NO DATA;
});
$twin->build(with_garbage('base'));
$twin->build('REFRESH MATERIALIZED VIEW CONCURRENTLY mview');

# A table whose TOAST table is vacuumed by its own name
$twin->build("CREATE TABLE wide ($columns); ALTER TABLE wide ALTER c SET STORAGE external; INSERT INTO wide $rows;"
	  . with_garbage('wide'));
my $toast = $twin->build(q{SELECT reltoastrelid::regclass FROM pg_class WHERE oid = 'wide'::regclass});

# System catalogs with dead rows, shared ones among them
$twin->build(q{
	DO $$
	BEGIN
		FOR i IN 1..150 LOOP
			EXECUTE format('CREATE TABLE gone_%s (a int PRIMARY KEY, b text DEFAULT %L)', i, repeat('x', i));
			EXECUTE format('CREATE ROLE gone_%s', i);
			EXECUTE format('COMMENT ON ROLE gone_%s IS %L', i, repeat('y', i));
			IF i % 3 <> 0 THEN
				EXECUTE format('DROP TABLE gone_%s', i);
				EXECUTE format('DROP ROLE gone_%s', i);
			END IF;
			COMMIT;
		END LOOP;
	END $$;
	ALTER DATABASE postgres SET work_mem = '5MB';
	ALTER DATABASE postgres CONNECTION LIMIT 100;
});
my @catalogs = qw(pg_class pg_attribute pg_attrdef pg_type pg_index pg_depend pg_constraint);
my @shared = qw(pg_authid pg_database pg_shdepend pg_shdescription pg_db_role_setting pg_tablespace);

$twin->separate;

# Temporary tables live and die in one session; their pages are printed, and
# compared, before it ends.
foreach my $temporary (
	[ 'temporary', '', '', qr/finished vacuuming "postgres.pg_temp_N.t"/ ],
	[ 'temporary with an index', 'CREATE INDEX ON t (a); CREATE INDEX ON t USING gist (point(a, b));', '', qr/index scans: 1/ ],
	[ 'temporary, aggressive', 'CREATE INDEX ON t (a);', ', FREEZE', qr/aggressively vacuuming/ ],
	[ 'temporary in parallel', 'CREATE INDEX ON t (a); CREATE INDEX ON t (b);', ', PARALLEL 2',
		qr/WARNING:  disabling parallel option of vacuum on "t" --- cannot vacuum temporary tables in parallel/ ])
{
	my ($story, $indexes, $options, $premise) = @$temporary;
	my $pages = join("\n", map { qq{
		SELECT '$_', count(*), md5(string_agg(overlay(get_raw_page('t', '$_', i::int) PLACING '\\x00000000000000000000' FROM 1 FOR 10), ''))
		FROM generate_series(0, pg_relation_size('t', '$_') / 8192 - 1) AS i;} } qw(main vm fsm));

	# A session's number is part of its schema's name: let the one before end.
	$twin->wait_for_sessions;
	$twin->vacuum($story, premise => [ $premise, qr/^main\|[1-9].*^vm\|1\|.*^fsm\|[1-9]/ms ],
		command => "CREATE TEMPORARY TABLE t ($columns); ALTER TABLE t ALTER c SET STORAGE external; $indexes INSERT INTO t $rows;"
		  . with_garbage('t')
		  . "VACUUM (VERBOSE$options) t; $pages
			SELECT relpages, reltuples, relallvisible, relfrozenxid, relminmxid FROM pg_class WHERE oid = 't'::regclass;
			SELECT 'heap', heap_blks_read, heap_blks_hit FROM pg_statio_all_tables WHERE relid = 't'::regclass;
			VACUUM (VERBOSE$options) t; $pages");
}

foreach my $table (qw(unlogged unlogged_indexed unlogged_empty))
{
	$twin->vacuum("$table table", table => $table,
		premise => $table eq 'unlogged_empty' ? qr/0 remain/ : qr/index scans: [01]\n/);
	$twin->vacuum("$table table, all frozen", table => $table, options => 'FREEZE');
}
$twin->vacuum('a partitioned table', table => [qw(parted_1 parted_2_odd parted_2_even parted_3)],
	command => 'VACUUM (VERBOSE) parted',
	premise => [ map { qr/finished vacuuming "postgres.public.parted_$_": index scans: 1/ } qw(1 2_odd 2_even 3) ]);
$twin->sql('DELETE FROM parted WHERE a % 11 = 0');
$twin->vacuum('a partition, and a table with partitions, analyzed', table => [qw(parted_1 parted_2_odd parted_2_even)],
	command => 'VACUUM (VERBOSE, ANALYZE) parted_1, parted_2', premise => qr/analyzing "public.parted_2" inheritance tree/);
$twin->vacuum('a parent', table => 'parent', premise => qr/\A(?!.*public.child")/s);
$twin->vacuum('its child', table => 'child');
$twin->vacuum('a materialized view', table => 'mview', premise => qr/index scans: 1/);
$twin->vacuum('one without data', table => 'mview_unfilled', premise => qr/0 remain/);
$twin->vacuum('a TOAST table', table => 'wide', command => "VACUUM (VERBOSE) $toast",
	premise => qr/\AINFO:  vacuuming "postgres.pg_toast.*index scans: 1/s);

foreach my $run ([ 'normal', '' ], [ 'all frozen', 'FREEZE' ])
{
	my ($name, $options) = @$run;
	$twin->vacuum("catalogs, $name", table => \@catalogs, options => $options,
		premise => $options ? qr/aggressively/ : qr/postgres.pg_catalog.pg_class": index scans: 1/);
	$twin->vacuum("shared catalogs, $name", table => \@shared, options => $options,
		premise => $options ? qr/aggressively/ : qr/postgres.pg_catalog.pg_authid"/);
}

# Whole databases: every table's turn in the order of pg_class, and datfrozenxid
$twin->sql(with_garbage($_) . "INSERT INTO $_ $rows;") foreach qw(unlogged_indexed base);
$twin->vacuum('the whole database', table => [qw(unlogged_indexed base wide mview pg_class)],
	command => 'VACUUM (VERBOSE)',
	premise => [ map { qr/finished vacuuming "postgres.$_"/ } qw(public.base pg_catalog.pg_class pg_catalog.pg_database public.mview) ]);
$twin->vacuum('the whole database, analyzed', table => [qw(unlogged_indexed base)], command => 'VACUUM (VERBOSE, ANALYZE)');
my $before = $twin->sql(q{SELECT datfrozenxid FROM pg_database WHERE datname = 'postgres'});
$twin->vacuum('the whole database, all frozen', table => [qw(unlogged_indexed base)], command => 'VACUUM (VERBOSE, FREEZE)');
my $after = $twin->sql(q{SELECT datfrozenxid FROM pg_database WHERE datname = 'postgres'});
cmp_ok($after, '>', $before, 'datfrozenxid moved');

$twin->finish;
done_testing();
