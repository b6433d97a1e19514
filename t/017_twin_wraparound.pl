
# Twins (see Twin.pm): old and wrapped transaction ids.  The failsafe, for XIDs and
# for multixacts, and tables whose rows are older and newer than XID 2^32.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use Twin;

# A table that gives the failsafe something to leave out: dead rows, indexes, an
# empty tail.
sub table_of
{
	my ($twin, $name, @indexes) = @_;

	$twin->build(qq{
		CREATE TABLE $name (a int, b int, c text);
		ALTER TABLE $name ALTER c SET STORAGE external;
		INSERT INTO $name SELECT i, i % 10, repeat('x', CASE WHEN i % 50 = 0 THEN 5000 ELSE 50 END)
		FROM generate_series(1, 3000) AS i;
	});
	$twin->build("CREATE INDEX ON $name ($_)") foreach @indexes;
	$twin->build("DELETE FROM $name WHERE a % 7 = 0 OR a > 2500");
	return;
}

###
# The failsafe.  Making a table really old takes 105 % of
# autovacuum_freeze_max_age, and then the server starts an autovacuum worker to
# meet the danger, even with autovacuum = off, in the middle of the comparison.
# It looks at the database's age for that; VACUUM's failsafe looks at the table's.
# So only the tables are made to look old, in pg_class.
###
my $twin = Twin->new('failsafe');

sub age
{
	my ($name, $xids, $multis) = @_;

	my @set;

	push @set, "relfrozenxid = ((txid_current() + (1::bigint << 32) - $xids) % (1::bigint << 32))::text::xid" if $xids;
	push @set, "relminmxid = ((next_multixact_id::text::bigint + (1::bigint << 32) - $multis) % (1::bigint << 32))::text::xid" if $multis;
	$twin->build('UPDATE pg_class SET ' . join(', ', @set) . qq{
		FROM pg_control_checkpoint()
		WHERE oid = '$name'::regclass OR oid = (SELECT reltoastrelid FROM pg_class WHERE oid = '$name'::regclass)
	});
	return;
}

# Of each: age in XIDs and in multixacts (in millions), indexes, options, settings,
# and whether the failsafe is to trigger.  The limits are 1,600 million of either
# by default; they cannot be set below 105 % of autovacuum's limits, which are 200
# million XIDs and 400 million multixacts.
my $no_xid_limit = 'vacuum_failsafe_age = 0';
my $no_multi_limit = 'vacuum_multixact_failsafe_age = 0';
my @stories = (
	[ 'default_old', 1700, 0, 1, '', [], 1 ],
	[ 'default_young', 1500, 0, 1, '', [], 0 ],
	[ 'default_multi_old', 0, 1700, 1, '', [], 1 ],
	[ 'default_multi_young', 0, 1500, 1, '', [], 0 ],
	[ 'zero_old', 215, 0, 1, '', [$no_xid_limit], 1 ],
	[ 'zero_young', 205, 0, 1, '', [$no_xid_limit], 0 ],
	[ 'zero_multi_old', 0, 425, 1, '', [$no_multi_limit], 1 ],
	[ 'zero_multi_young', 0, 415, 1, '', [$no_multi_limit], 0 ],
	[ 'no_index', 215, 0, 0, '', [$no_xid_limit], 1 ],
	[ 'three_indexes', 215, 0, 3, '', [$no_xid_limit], 1 ],
	[ 'parallel', 215, 0, 3, 'PARALLEL 2',
		[ $no_xid_limit, 'max_parallel_maintenance_workers = 2', 'min_parallel_index_scan_size = 0' ], 1 ],
	[ 'cleanup_on', 215, 0, 1, 'INDEX_CLEANUP on', [$no_xid_limit], 1 ],
	[ 'cleanup_off', 215, 0, 1, 'INDEX_CLEANUP off', [$no_xid_limit], 1 ],
	[ 'truncate_on', 215, 0, 1, 'TRUNCATE on', [$no_xid_limit], 1 ],
	[ 'all_frozen', 215, 0, 1, 'FREEZE', [$no_xid_limit], 1 ],
	[ 'all_pages', 215, 0, 1, 'DISABLE_PAGE_SKIPPING', [$no_xid_limit], 1 ],
	[ 'cost_delay', 215, 0, 1, '', [ $no_xid_limit, 'vacuum_cost_delay = 2', 'vacuum_cost_limit = 100' ], 1 ],
	[ 'xid_and_multi', 215, 425, 1, '', [ $no_xid_limit, $no_multi_limit ], 1 ]);

foreach my $story (@stories)
{
	my ($name, $xids, $multis, $indexes) = @$story;

	table_of($twin, $name, (qw(a b c))[ 0 .. $indexes - 1 ]) if $indexes < 3;
	table_of($twin, $name, 'a', 'b', 'md5(c)') if $indexes == 3;
	age($name, $xids * 1_000_000, $multis * 1_000_000);
}

$twin->separate;
foreach my $story (@stories)
{
	my ($name, $xids, $multis, $indexes, $options, $set, $triggers) = @$story;
	my $warning = qr/WARNING:  bypassing nonessential maintenance of table "postgres.public.$name" as a failsafe after 0 index scans/;
	my $bypassed = $indexes ? qr/index scan bypassed by failsafe/ : qr/\d+ pages from table .* dead item identifiers/;

	$twin->vacuum("$name: " . ($triggers ? 'failsafe' : 'no failsafe'),
		table => $name, options => $options, set => $set,
		premise => $triggers ? [ $warning, $bypassed ] : [ qr/\A(?!.*failsafe)/s, qr/index scan needed/ ]);
}
# The danger is over: what was left out is done now.
foreach my $name (qw(default_old no_index three_indexes parallel))
{
	$twin->vacuum("$name: afterwards", table => $name, premise => qr/truncated|index scan needed/);
}
$twin->finish;

###
# XIDs around 2^32.  Get there in three leaps; before each, everything in every
# database is frozen, so that nothing is more than 2^31 transactions old.
###
$twin = Twin->new('wraparound', conf => "autovacuum_freeze_max_age = 2000000000\n");
my $node = $twin->{stock};
$twin->build('ALTER DATABASE template0 ALLOW_CONNECTIONS on');

foreach my $xid (1_900_000_000, 3_800_000_000, 4_294_966_900)
{
	# A segment of pg_xact has a megabyte of transactions, two bits for each.
	my $segment = sprintf('%s/pg_xact/%04X', $node->data_dir, $xid >> 20);

	$node->command_ok([ 'vacuumdb', '--all', '--freeze', '-q' ], "all is frozen before XID $xid");
	$node->stop;
	if (!-e $segment)
	{
		open my $file, '>:raw', $segment or die "could not create \"$segment\": $!";
		print $file "\0" x (1 << 18);
		close $file or die "could not write \"$segment\": $!";
	}
	command_ok([ 'pg_resetwal', '-x', $xid, '-D', $node->data_dir ], "leap to XID $xid");
	$node->start;
}

foreach my $table (qw(before across frozen))
{
	table_of($twin, $table, 'a');
	table_of($twin, "${table}_plain");
}
$twin->build("VACUUM (FREEZE) $_") foreach qw(frozen frozen_plain);
my $before = $twin->build('SELECT pg_current_xact_id()::xid');
$twin->build('DO $$ BEGIN FOR i IN 1..450 LOOP PERFORM txid_current(); COMMIT; END LOOP; END $$');
my $after = $twin->build('SELECT pg_current_xact_id()::xid');
ok($before > 4_294_966_900 && $after < 1000, "XIDs wrap around: from $before to $after");
foreach my $table (map { ($_, "${_}_plain") } qw(across frozen))
{
	$twin->build(qq{
		UPDATE $table SET b = b + 1 WHERE a % 5 = 0;
		DELETE FROM $table WHERE a % 11 = 0;
		INSERT INTO $table SELECT i, i, 'new' FROM generate_series(4000, 4200) AS i;
		BEGIN; DELETE FROM $table WHERE a % 3 = 0; ROLLBACK;
		BEGIN; SELECT count(*) FROM (SELECT FROM $table WHERE a % 13 = 0 FOR SHARE) AS l; COMMIT;
	});
}

$twin->separate;
my @tables = map { ($_, "${_}_plain") } qw(before across frozen);
foreach my $table (@tables)
{
	$twin->vacuum("$table: no freezing", table => $table,
		premise => $table =~ /frozen/ ? undef : qr/new relfrozenxid: 4294966\d\d\d/);
}
$twin->sql("DELETE FROM $_ WHERE a % 17 = 0") foreach @tables;
foreach my $table (@tables)
{
	$twin->vacuum("$table: some are frozen", table => $table,
		set => [ 'vacuum_freeze_min_age = 300', 'vacuum_freeze_table_age = 0' ],
		premise => qr/aggressively vacuuming/);
}
foreach my $table (@tables)
{
	$twin->vacuum("$table: all are frozen", table => $table, options => 'FREEZE',
		premise => $table =~ /before/ ? qr/aggressively/ : qr/new relfrozenxid: \d{2,3}, which is \d+ XIDs ahead/);
}
$twin->finish;
done_testing();
