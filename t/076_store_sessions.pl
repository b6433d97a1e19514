# Many use the store at once: sessions that have it open while its files change under
# them, vacuums side by side, readers that are killed, many tables.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

use Oracle;
use Pass;
use Resume;
use Trouble;

my $node = resume_node('sessions', conf => "autovacuum = off\n");
my $dir = store($node);
my $away = $node->basedir . '/away';
my $missed = qr/LOG:  pg_vacuum_resume's store was removed or replaced while the server was running/;

# A session that has the store open
sub store_session
{
	my $session = $node->background_psql('postgres');

	cmp_ok($session->query_safe('SELECT count(*) FROM vacuum_resume.progress'), '>', 0,
		'a session finds records in the store');
	return $session;
}

###############################################################################
# Sessions that have opened the files that were there
###############################################################################

# Two sessions have two lock files, and must not go on so: one vacuum's end would be
# lost by the other's next save.
subtest 'lock file removed' => sub {
	my $log = log_end($node);

	foreach my $table ('locked_1', 'locked_2')
	{
		make_table($node, $table, %small);
		stop_at($node, $table, 'scanning heap');
	}
	my ($one, $two) = (store_session(), store_session());
	unlink "$dir/lock.mdb" or die "cannot remove lock.mdb: $!";

	# the second session comes to the new lock file first, and saves
	my $slowly = "SET $Resume::slowly; VACUUM (MAX_DURATION 1)";
	my $normally = 'RESET vacuum_cost_delay; VACUUM';
	$two->query("$slowly locked_2") for 1 .. 3;
	like(log_since($node, $log), $missed, 'that it is gone is noticed');
	$one->query("$normally locked_1");
	has_no_dead_rows($node, 'locked_1');
	is(record($node, 'locked_1'), undef, '  and nothing left to go on with');
	$two->query("$slowly locked_2");
	is(record($node, 'locked_1'), undef, '  also after the other one has saved again');
	ok(record($node, 'locked_2'), '  which still is what is known of its table');
	reuse_rows($node, 'locked_1');
	foreach my $table ('locked_1', 'locked_2')
	{
		$_->query("$normally $table") foreach $one, $two;
		has_no_dead_rows($node, $table);
		works_again($node, $table);
	}
	$_->quit foreach $one, $two;
};

# The files of a session's own are set aside or removed, and others make new ones
foreach my $story (
	[ 'directory_removed', sub { system_or_bail('rm', '-r', $dir); } ],
	[ 'data_removed', sub { unlink "$dir/data.mdb" or die $!; } ],
	[ 'directory_moved', sub { rename $dir, $away or die $!; },
		sub { system_or_bail('rm', '-rf', $dir); rename $away, $dir or die $!; } ],
	[ 'data_moved', sub { rename "$dir/data.mdb", $away or die $!; },
		sub { rename $away, "$dir/data.mdb" or die $!; } ])
{
	my ($name, $remove, $bring_back) = @$story;

	subtest $name => sub {
		my @tables = map { "${name}_$_" } 1 .. 2;
		my $log = log_end($node);

		foreach my $table (@tables)
		{
			make_table($node, $table, %small);
			stop_at($node, $table, 'vacuuming indexes', 1);
		}
		my $session = store_session();
		$remove->();

		# others do what that session's store does not know of
		careful_vacuum($node, $tables[0], set => ['vacuum_resume.enabled = off']);
		reuse_rows($node, $tables[0]);
		slice($node, $tables[1]);
		is($session->query_safe('SELECT string_agg(relation, $$ $$) FROM vacuum_resume.progress'),
			$tables[1], 'the session looks into the new store');
		if ($bring_back)
		{
			$bring_back->();
			$session->query_safe('SELECT count(*) FROM vacuum_resume.progress');
		}
		$session->query_safe("VACUUM $_") foreach @tables;
		$session->quit;
		like(log_since($node, $log), $missed, 'the log says what happened');
		foreach my $table (@tables)
		{
			has_no_dead_rows($node, $table);
			Oracle::table_ok($node, 'postgres', $table);
		}
		works_again($node, $tables[0]);
	};
}

# The store disappears while a vacuum goes on, which saves all the time and then is
# cancelled; in the end, it comes back.
foreach my $phase ('scanning heap', 'vacuuming heap')
{
	subtest "gone while $phase" => sub {
		my $table = $phase =~ s/ /_/r;
		my $log = log_end($node);

		lose_store_while($node, $table, $phase,
			sub { rename $dir, $away or die "cannot move $dir: $!" });
		like(log_since($node, $log), $missed, 'the vacuum has noticed');
		ok(-e "$dir/data.mdb", '  and made a new store');

		# goes on as far as it can be known
		my $rest = careful_vacuum($node, $table, set => ['vacuum_resume.enabled = off']);
		has_no_dead_rows($node, $table);
		reuse_rows($node, $table);
		system_or_bail('rm', '-r', $dir);
		rename $away, $dir or die "cannot move $away: $!";
		$rest = careful_vacuum($node, $table);
		is($rest->{warnings}, 0, 'the store is back, and harmless');
		has_no_dead_rows($node, $table);
		Oracle::table_ok($node, 'postgres', $table);
		works_again($node, $table);
		$node->safe_psql('postgres', "DROP TABLE $table");
	};
}

###############################################################################
# Vacuums side by side
###############################################################################

subtest 'two vacuums' => sub {
	my @tables = ('left_one', 'right_one');
	my (%vacuum, %record);

	make_table($node, $_, pages => 300, dead => 'k % 3 = 0') foreach @tables;
	$vacuum{$_} = start_vacuum($node, $_, set => [ $Resume::slowly, $Resume::saving ])
	  foreach @tables;
	foreach my $table (@tables)
	{
		wait_for_phase($node, $table, 'scanning heap', 'heap_blks_scanned > 100');
	}
	is($node->safe_psql('postgres', q{SELECT string_agg(relation || ' ' || last_stop, ', ' ORDER BY relation)
		FROM vacuum_resume.progress WHERE next_block > 0}),
		'left_one running, right_one running', 'both have been saved while they run');
	foreach my $table (@tables)
	{
		stop_vacuum($node, $table, vacuum => $vacuum{$table}, way => 'cancel',
			phase => 'scanning heap');
		$record{$table} = record($node, $table);
	}
	$vacuum{$_} = start_vacuum($node, $_, set => [ $Resume::saving, $Resume::slowly ]) foreach @tables;
	foreach my $table (@tables)
	{
		my ($status, $text) = finish_sql($vacuum{$table}{job});
		my $rest = vacuum_report($text, $table);

		is("$status $rest->{run} $rest->{from} $rest->{verified}",
			"0 2 $record{$table}{next_block} 0", 'each goes on where it was');
		is("$rest->{cycle_scanned} $rest->{cycle_again} $rest->{cycle_indexes}", '300 0 3',
			'  and nothing is done twice');
		has_no_dead_rows($node, $table);
		Oracle::table_ok($node, 'postgres', $table);
	}
};

###############################################################################
# 64 tables, and readers that are killed
###############################################################################

my @tables = map { "t$_" } 1 .. 64;

$node->safe_psql('postgres', join '', map {
		"CREATE TABLE $_ (k int, filler text);
		INSERT INTO $_ SELECT i, repeat('x', 364) FROM generate_series(1, 800) AS i;
		CREATE INDEX ON $_ (k);
		DELETE FROM $_ WHERE k % 3 = 0;" } @tables);
my $slices = "SET $Resume::slowly; "
  . join '', map { "VACUUM (PROCESS_TOAST off, MAX_DURATION 1) $_; " } @tables;
$node->safe_psql('postgres', $slices);
my $all = q{SELECT count(*), min(next_block), min(pending_dead_tuples) > 0 FROM vacuum_resume.progress
	WHERE relation ~ '^t[0-9]'};
is($node->safe_psql('postgres', $all), '64|31|t', '64 vacuums are interrupted');

subtest 'killed readers' => sub {
	my $tool = $node->installed_command('pg_vacuum_resume');
	my $size = -s "$dir/data.mdb";
	my $read = 0;

	# the tool, at any moment of its short life
	my @list = ($tool, 'list', '-D', $node->data_dir);
	my $begin = time;
	IPC::Run::run(\@list, '>', \my $whole);
	my $lifetime = time - $begin;
	like($whole, qr/^postgres\s+public\s+t64\s/m, 'the tool shows all tables');
	foreach my $try (1 .. 60)
	{
		my $stdout = '';
		my $run = IPC::Run::start(\@list, '>', \$stdout);

		usleep(1_000_000 * $lifetime * $try / 60);
		$run->signal('KILL');
		$run->finish;
		$read++ if $stdout ne '';
	}
	note("killed in the middle of $lifetime s; $read of 60 had printed something");
	system($tool, 'check', '-D', $node->data_dir);
	is($? >> 8, 0, 'the store is in order when the tool was killed while reading');

	# sessions in a loop of reading, terminated, and one that is killed
	my $loop = q{DO $$ BEGIN
		FOR i IN 1 .. 1000000 LOOP PERFORM count(*) FROM vacuum_resume.cycles(); END LOOP; END $$};
	my $readers = q{SELECT count(*) FROM pg_stat_activity WHERE query ~ '^DO'};
	my @jobs = map { start_sql($node, $loop) } 1 .. 4;
	$node->poll_query_until('postgres', "$readers", 4) or die 'no readers';
	my $stopped = $node->safe_psql('postgres', q{SELECT count(pg_terminate_backend(pid, 10000))
		FROM pg_stat_activity WHERE query ~ '^DO'});
	is($stopped, 4, 'readers can be terminated');
	finish_sql($_) foreach @jobs;

	my $job = start_sql($node, $loop);
	$node->poll_query_until('postgres', "$readers", 1) or die 'no reader';
	my $pid = $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE query ~ '^DO'});
	crash_node($node, 'kill_backend', $pid);
	finish_sql($job);

	# slots of the dead do not keep old pages from being used again
	$node->safe_psql('postgres', $slices);
	is($node->safe_psql('postgres', $all), '64|40|t', 'all vacuums have got farther');
	cmp_ok(-s "$dir/data.mdb", '<', 2 * $size + 1024 * 1024, '  in a store that has not grown for ever');
};

subtest '64 tables' => sub {
	$node->restart;
	my ($status, undef, $text) = $node->psql('postgres',
		join '', map { "VACUUM (VERBOSE, PROCESS_TOAST off) $_;" } @tables);
	my @continued = $text =~ /cycle: run (\d+), continued at block 40 of 40 with \d+ dead item identifiers pending, 0 pages re-read/g;
	is("$status " . scalar @continued, '0 64', 'all vacuums go on after a restart');
	is($node->safe_psql('postgres', $all), '0||', '  to their ends');
	is($node->safe_psql('postgres', 'SELECT ' . join ' + ', map {
				"(SELECT dead_tuple_count FROM pgstattuple('$_'))" } @tables), 0, '  and no dead row is left');
	is($node->safe_psql('postgres', join '', map {
				"SELECT * FROM verify_heapam('$_'); SELECT FROM bt_index_check('${_}_k_idx', true) WHERE false;" } @tables),
		'', '  and amcheck finds nothing');
	Oracle::table_ok($node, 'postgres', $_) foreach @tables[ 0, 63 ];
};

only_asked_for_crashes($node);
$node->stop;

done_testing();
