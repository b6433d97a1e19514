# Fifty vacuums of all sorts over a table that others change all the time. Money
# moves between its rows and is never made or lost; a row that vacuum takes by
# mistake, or brings back, would show in the sum, as well as in what amcheck and
# pg_visibility find.

use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

use Oracle;
use Pass;

use constant {
	ACCOUNTS => 5_000,
	CLIENTS => 5,
	ROUNDS => 5,

	# More than vacuum has memory for at 1MB
	CROWD => 180_000,
};

my $node = new_node('concurrent', conf => <<'EOC');
max_parallel_maintenance_workers = 2
min_parallel_index_scan_size = 0
max_wal_size = 2GB
shared_buffers = 32MB
fsync = off
EOC

Oracle::prepare($node, 'postgres');
$node->safe_psql(
	'postgres', qq{
	CREATE TABLE accounts (id int PRIMARY KEY, money int NOT NULL, note text);
	ALTER TABLE accounts ALTER note SET STORAGE EXTERNAL;
	INSERT INTO accounts SELECT i, 100, 'note ' || i FROM generate_series(1, @{[ ACCOUNTS ]}) i;
	CREATE INDEX accounts_money ON accounts (money, id);
	CREATE INDEX accounts_hash ON accounts USING hash (id);
	CREATE INDEX accounts_brin ON accounts USING brin (money);
	CREATE SEQUENCE strangers START 1000000;
});
my $sum = 100 * ACCOUNTS;

# What the others do
my $dir = PostgreSQL::Test::Utils::tempdir();
my %scripts = (

	# rows change, an indexed column with them
	move => [ 20, qq{
		\\set a random(1, @{[ ACCOUNTS - 1 ]})
		\\set b random(:a + 1, @{[ ACCOUNTS ]})
		\\set amount random(1, 10)
		BEGIN;
		UPDATE accounts SET money = money - :amount WHERE id = :a;
		UPDATE accounts SET money = money + :amount WHERE id = :b;
		COMMIT;
	} ],

	# only a column without an index: HOT chains, and TOAST now and then
	annotate => [ 20, qq{
		\\set a random(1, @{[ ACCOUNTS ]})
		\\set length random(1, 3000)
		UPDATE accounts SET note = repeat('n', :length) WHERE id = :a;
	} ],

	# locked and changed at the same time: multixacts
	lock => [ 10, qq{
		\\set a random(1, 50)
		BEGIN;
		SELECT id FROM accounts WHERE id = :a FOR KEY SHARE;
		UPDATE accounts SET note = 'locked' WHERE id = :a;
		COMMIT;
	} ],

	# rows come and go
	come_and_go => [ 10, q{
		BEGIN;
		INSERT INTO accounts SELECT nextval('strangers'), 0, 'stranger' FROM generate_series(1, 20);
		COMMIT;
		DELETE FROM accounts WHERE id IN
			(SELECT id FROM accounts WHERE id BETWEEN 1000000 AND 9999999 ORDER BY id LIMIT 20
				FOR UPDATE SKIP LOCKED);
	} ],

	# rows that never were
	abort => [ 5, qq{
		\\set a random(1, @{[ ACCOUNTS ]})
		BEGIN;
		INSERT INTO accounts SELECT nextval('strangers'), 1000, 'aborted' FROM generate_series(1, 20);
		UPDATE accounts SET money = money * 2 WHERE id = :a;
		ROLLBACK;
	} ],

	# an old snapshot, which sees the same at its end; fails if it does not
	watch => [ 2, qq{
		BEGIN ISOLATION LEVEL REPEATABLE READ;
		SELECT 1 / (sum(money) = $sum)::int FROM accounts;
		\\sleep 100 ms
		SELECT 1 / (sum(money) = $sum)::int FROM accounts;
		COMMIT;
	} ]);
my @files;
while (my ($name, $script) = each %scripts)
{
	append_to_file("$dir/$name.sql", $script->[1] =~ s/^\t\t//gmr);
	push @files, '-f', "$dir/$name.sql\@$script->[0]";
}

my $errors = '';
my $others = IPC::Run::start(
	[
		$node->installed_command('pgbench'), '-n', '-c', CLIENTS, '-j', 2, '-T', 600,
		@files, $node->connstr('postgres') . ' application_name=others'
	],
	'>', '/dev/null', '2>', \$errors);
my $changes = q{
	SELECT n_tup_upd + n_tup_del FROM pg_stat_user_tables WHERE relname = 'accounts'};

# Waits until the others have changed so many rows more.
sub wait_for_changes
{
	my ($more) = @_;
	my $target = $node->safe_psql('postgres', $changes) + $more;

	$node->poll_query_until('postgres', "SELECT ($changes) >= $target")
	  or die "others do not change the table: $errors";
	return;
}

# While others are at work: what amcheck and pg_visibility say of the table's
# pages, and of its TOAST table's, and the sum
sub complaints
{
	return $node->safe_psql(
		'postgres', qq{
		SELECT c.oid::regclass, v FROM pg_class c, verify_heapam(c.oid) v
		WHERE 'accounts'::regclass IN (c.oid, (SELECT oid FROM pg_class WHERE reltoastrelid = c.oid));
		SELECT c.oid::regclass, 'frozen', v FROM pg_class c, pg_check_frozen(c.oid) v
		WHERE 'accounts'::regclass IN (c.oid, (SELECT oid FROM pg_class WHERE reltoastrelid = c.oid));
		SELECT c.oid::regclass, 'visible', v FROM pg_class c, pg_check_visible(c.oid) v
		WHERE 'accounts'::regclass IN (c.oid, (SELECT oid FROM pg_class WHERE reltoastrelid = c.oid));
		DO \$\$
		DECLARE
			i oid;
		BEGIN
			FOR i IN SELECT indexrelid
				FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid JOIN pg_am ON pg_am.oid = relam
				WHERE amname = 'btree' AND 'accounts'::regclass IN
					(indrelid, (SELECT oid FROM pg_class WHERE reltoastrelid = indrelid))
			LOOP
				PERFORM bt_index_check(i, true);
			END LOOP;
		END \$\$;
		SELECT 'sum', sum(money) FROM accounts HAVING sum(money) <> $sum;});
}

# The vacuums of a round, and what each must say
my $plain = qr/finished vacuuming "postgres\.public\.accounts"/;
my @vacuums = (
	[ 'PARALLEL 0', $plain ],
	[ 'FREEZE, PARALLEL 0', qr/aggressively vacuuming "postgres\.public\.accounts"/ ],
	[ 'INDEX_CLEANUP on', qr/index scan needed: / ],
	[ 'PARALLEL 2, INDEX_CLEANUP on', qr/launched \d parallel vacuum workers? for index vacuuming/ ],
	[ 'INDEX_CLEANUP off', qr/index scan bypassed: / ],
	[ 'DISABLE_PAGE_SKIPPING', qr/scanned \(100\.00% of total\)/ ],
	[ 'TRUNCATE off', $plain ],
	[ 'crowd', qr/finished vacuuming "postgres\.public\.accounts": index scans: [2-9]/ ],
	[ 'FREEZE, PARALLEL 2, DISABLE_PAGE_SKIPPING', qr/new relfrozenxid: / ],
	[ 'ANALYZE', $plain ]);

for my $round (1 .. ROUNDS)
{
	my @missing;

	for my $vacuum (@vacuums)
	{
		my ($options, $expected) = @$vacuum;
		my $memory = '64MB';
		my ($position, $rc, $stderr);

		wait_for_changes(200);
		if ($options eq 'crowd')
		{
			# Dead rows in such number that memory for them is used up, once
			# nobody can see them any more
			my $xid = $node->safe_psql(
				'postgres', qq{
				INSERT INTO accounts
				SELECT 10000000 + i, 0, '' FROM generate_series(1, @{[ CROWD ]}) i;
				BEGIN;
				DELETE FROM accounts WHERE id > 10000000;
				SELECT pg_current_xact_id();
				COMMIT;});

			$node->poll_query_until('postgres', qq{
				SELECT count(*) = 0 FROM pg_stat_activity
				WHERE $xid >= LEAST(backend_xid::text::bigint, backend_xmin::text::bigint)
					AND pid <> pg_backend_pid()})
			  or die 'an old snapshot does not go away';
			$memory = '1MB';
			$options = 'PARALLEL 0';
		}

		$position = log_end($node);
		($rc, undef, $stderr) = $node->psql('postgres',
			"SET maintenance_work_mem = '$memory'; VACUUM (VERBOSE, $options) accounts");
		push @missing, "VACUUM ($options): $stderr"
		  if $rc != 0
		  || $stderr !~ $expected
		  || !grep { $_ eq 'public.accounts' } our_passes($node, $position);
	}
	is_deeply(\@missing, [], "round $round: ten vacuums do what they are told");
	is(complaints(), '', '  and leave a sound table');
}

is( $node->safe_psql('postgres',
		"SELECT count(*) FROM pg_stat_activity WHERE application_name = 'others'"),
	CLIENTS,
	'nobody fell over');
$others->kill_kill;
is($errors, '', 'nor saw anything wrong');
$node->poll_query_until('postgres',
	"SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'others'")
  or die 'others are still there';

# With nobody else there
$node->safe_psql('postgres',
	'VACUUM (INDEX_CLEANUP on) accounts; CREATE EXTENSION pageinspect;');
is( $node->safe_psql(
		'postgres', q{
		SELECT n_dead_tup,
			(SELECT count(*)
				FROM generate_series(0, pg_relation_size('accounts') / 8192 - 1) block,
					heap_page_items(get_raw_page('accounts', block))
				WHERE lp_flags = 3)
		FROM pg_stat_user_tables WHERE relname = 'accounts'}),
	'0|0',
	'a last vacuum leaves no dead row and no dead item behind');
is($node->safe_psql('postgres',
		"SELECT sum(money), count(*) FILTER (WHERE id < 1000000) FROM accounts"),
	"$sum|@{[ ACCOUNTS ]}", 'all money and all accounts are there');
Oracle::table_ok($node, 'postgres', 'accounts');
is_deeply([ Oracle::same_rows($node, 'postgres', 'accounts', "id = $_") ], [], "hash index, id = $_")
  for (1, 2500, 4999);
unlike(slurp_file($node->logfile), qr/WARNING|PANIC|terminated by signal/,
	'the server saw nothing wrong');
$node->stop;

done_testing();
