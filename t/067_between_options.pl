# A vacuum is interrupted, and the next one has other options. It goes on where it
# can keep their promises, and starts over where it cannot.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use Between;
use Oracle;
use Pass;
use Resume;

my $node = between_node('options', conf => 'min_parallel_index_scan_size = 0');

my $every_page = 'DISABLE_PAGE_SKIPPING asks for every page';
my $skipped = 'an aggressive vacuum has to scan pages that were skipped';
my $unfrozen = 'an aggressive vacuum has to freeze more than was frozen';

# What pg_class says of relfrozenxid as the age that it had at the time given
sub frozen
{
	my ($table) = @_;
	return $node->safe_psql('postgres', "SELECT relfrozenxid FROM pg_class WHERE oid = '$table'::regclass");
}

sub next_xid
{
	return $node->safe_psql('postgres', 'SELECT pg_snapshot_xmax(pg_current_snapshot())');
}

sub all_frozen
{
	my ($table) = @_;
	return $node->safe_psql('postgres', "SELECT all_frozen FROM pg_visibility_map_summary('$table')");
}

# Each story: the options of the vacuum that is interrupted (first) and of the next
# one (options), and why that starts over, if it does; dead => -1 if it leaves dead line
# pointers.
my @stories = (
	{ name => 'frozen', options => 'FREEZE', why => $unfrozen, frozen => 1 },
	{ name => 'frozen_both', first => 'FREEZE', options => 'FREEZE', frozen => 1 },
	{ name => 'frozen_first', first => 'FREEZE' },
	{ name => 'every_page', options => 'DISABLE_PAGE_SKIPPING', why => $every_page },
	{ name => 'every_page_both', first => 'DISABLE_PAGE_SKIPPING', options => 'DISABLE_PAGE_SKIPPING', why => $every_page },
	{ name => 'without_indexes', options => 'INDEX_CLEANUP off', dead => -1 },
	{ name => 'with_indexes', options => 'INDEX_CLEANUP on' },
	{ name => 'in_parallel', options => 'PARALLEL 2', changes => 1 },
	{ name => 'frozen_in_parallel', first => 'FREEZE', options => 'FREEZE, PARALLEL 2', frozen => 1 },
	{ name => 'resumed', options => 'RESUME' });

foreach my $story (@stories)
{
	foreach my $where (qw(scan indexes reaping))
	{
		subtest "$where, then $story->{name}" => sub {
			my $table = "$story->{name}_$where";
			my @first = $story->{first} ? (options => $story->{first}) : ();

			# what this vacuum starts over with each time gets no farther than that
			my $record = interrupted($node, $table,
				($story->{first} // '') =~ /PAGE_SKIPPING/ ? 'scan' : $where, @first);

			$node->safe_psql('postgres', "UPDATE $table SET v = v + 1000000 WHERE k % 4 = 1") if $story->{changes};
			my $log = log_end($node);
			my $next = next_xid();
			my $rest = vacuum($node, $table, options => $story->{options},
				set => ['max_parallel_maintenance_workers = 2']);

			if ($story->{why})
			{
				begun_anew($node, $rest, $log, $table, $story->{why});
				is($rest->{scanned}, $record->{rel_blocks}, '  and scans all pages');
			}
			else
			{
				continued($rest, verified => 0);
			}
			if ($story->{frozen})
			{
				is(frozen($table), $next, '  nothing in the table is older than the vacuum');
				is(all_frozen($table), 80, '  and all of it is frozen');
			}
			settled($node, $table, dead => $story->{dead} // 0);

			if ($story->{dead})
			{
				$node->safe_psql('postgres', "DELETE FROM $table WHERE k % 10 = 1");
				vacuum($node, $table, options => 'INDEX_CLEANUP on');
				settled($node, $table);
			}
		};
	}
}

# An aggressive vacuum must not rely on one that has skipped pages.
subtest 'scan with pages skipped, then frozen' => sub {
	interrupted($node, 'skipped', 'scan', pages => 160, dead => 'k % 3 = 0 AND (k < 100 OR k >= 1200)');
	my $log = log_end($node);
	my $next = next_xid();
	begun_anew($node, vacuum($node, 'skipped', options => 'FREEZE'), $log, 'skipped', $skipped);
	is(frozen('skipped'), $next, '  nothing in the table is older than the vacuum');
	is(all_frozen('skipped'), 160, '  and all of it is frozen');
	settled($node, 'skipped');
};

# What was skipped in any run keeps relfrozenxid from advancing in the last.
subtest 'scan with pages skipped, then continued' => sub {
	interrupted($node, 'skipped_too', 'scan', pages => 160, dead => 'k % 3 = 0 AND (k < 100 OR k >= 1200)');
	my $before = frozen('skipped_too');
	burn_xids($node, 10);
	continued(vacuum($node, 'skipped_too'), verified => 0);
	is(frozen('skipped_too'), $before, '  relfrozenxid stays where it was');
	settled($node, 'skipped_too');
};

# An aggressive vacuum goes on if what was left unfrozen is young enough for it.
subtest 'scan by an aggressive vacuum, then by another one' => sub {
	interrupted($node, 'aggressive', 'scan', set => [ 'vacuum_freeze_table_age = 0', 'vacuum_freeze_min_age = 1000' ]);
	burn_xids($node, 200);
	my $log = log_end($node);
	my $rest = vacuum($node, 'aggressive', set => [ 'vacuum_freeze_table_age = 0', 'vacuum_freeze_min_age = 1000' ]);
	like(log_since($node, $log), qr/aggressively vacuuming "postgres.public.aggressive"/, 'an aggressive vacuum');
	continued($rest, verified => 0);
	is(frozen('aggressive'), $node->safe_psql('postgres', 'SELECT min(xmin::text::bigint) FROM aggressive'),
		'  relfrozenxid is the oldest XID left');
	settled($node, 'aggressive');

	interrupted($node, 'aggressive', 'scan', made => 1,
		set => [ 'vacuum_freeze_table_age = 0', 'vacuum_freeze_min_age = 1000' ]);
	burn_xids($node, 1200);
	$rest = vacuum($node, 'aggressive', set => [ 'vacuum_freeze_table_age = 0', 'vacuum_freeze_min_age = 1000' ]);
	continued($rest, verified => 0);
	settled($node, 'aggressive');

	# but not if it is asked to freeze younger rows than the first one was
	interrupted($node, 'aggressive', 'scan', made => 1,
		set => [ 'vacuum_freeze_table_age = 0', 'vacuum_freeze_min_age = 1000' ]);
	burn_xids($node, 1200);
	$log = log_end($node);
	$rest = vacuum($node, 'aggressive', set => [ 'vacuum_freeze_table_age = 0', 'vacuum_freeze_min_age = 900' ]);
	begun_anew($node, $rest, $log, 'aggressive', $unfrozen);
	settled($node, 'aggressive');
};

# Multixacts that the first run has left keep relminmxid back, although nobody needs
# them any more by the second one.
subtest 'scan with multixacts, then continued' => sub {
	make_table($node, 'multi', pages => 80, dead => 'k % 3 = 0');
	my $locker = $node->background_psql('postgres');
	$locker->query_safe(q{
		BEGIN; SELECT FROM multi WHERE k IN (1, 40, 1300) FOR KEY SHARE;
		SAVEPOINT s; SELECT FROM multi WHERE k IN (1, 40, 1300) FOR SHARE;});
	my $oldest = $node->safe_psql('postgres',
		q{SELECT min(xmax::text::int) FROM multi WHERE k IN (1, 40, 1300)});
	interrupted($node, 'multi', 'scan', made => 1);
	$locker->query_safe('COMMIT');
	$locker->quit;
	continued(vacuum($node, 'multi'), verified => 0);
	is($node->safe_psql('postgres', q{SELECT relminmxid FROM pg_class WHERE relname = 'multi'}), $oldest,
		'  relminmxid is the oldest one left');
	settled($node, 'multi');
};

# The empty end of the table, seen by several runs, is truncated or not.
foreach my $where (qw(scan indexes reaping))
{
	subtest "$where, then truncated or not" => sub {
		foreach my $truncate (qw(off on))
		{
			my $table = "truncate_${truncate}_$where";

			interrupted($node, $table, $where, dead => 'k % 3 = 0 OR k >= 800');
			my $rest = vacuum($node, $table, options => "TRUNCATE $truncate");
			continued($rest, verified => 0);
			is($node->safe_psql('postgres', "SELECT pg_relation_size('$table') / 8192"),
				$truncate eq 'on' ? 40 : 80, "  TRUNCATE $truncate");
			settled($node, $table);
		}
	};
}

only_asked_for_crashes($node);
$node->stop;

done_testing();
