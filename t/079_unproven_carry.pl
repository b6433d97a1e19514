# What an interrupted vacuum had frozen, and which XIDs it had seen the end of, proves
# nothing if the cluster is not what it was then: when WAL was thrown away, when a power
# cut lost what was not flushed, or when the store was away while something happened.

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename;
use PostgreSQL::Test::Utils;
use Test::More;

use Oracle;
use Pass;
use Resume;

my $node = resume_node('unproven', conf => "wal_writer_delay = 10s\nautovacuum = off\n");

sub query
{
	return $node->safe_psql('postgres', @_);
}

sub frozen
{
	return query("SELECT relfrozenxid FROM pg_class WHERE oid = '$_[0]'::regclass");
}

# No row is older than pg_class says, nor is anything else wrong.
sub sound
{
	my ($table) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is(query("SELECT count(*) FROM verify_heapam('$table')"), 0, 'no row is older than relfrozenxid says');
	Oracle::table_ok($node, 'postgres', $table);
	vacuum($node, $table, options => 'FREEZE');
	is(record($node, $table), undef, '  and the next vacuum freezes all');
	return;
}

###############################################################################
# WAL is thrown away
###############################################################################

# Pages that an interrupted VACUUM (FREEZE) had frozen were on disk in WAL only.
foreach my $table (qw(reset_frozen reset_plain))
{
	make_table($node, $table, pages => 200, dead => 'false');
	query("CHECKPOINT");
	burn_xids($node, 20);
	stop_vacuum($node, $table, way => 'cancel', options => 'FREEZE', set => [$Resume::slowly],
		phase => 'scanning heap', when => 'heap_blks_scanned >= 100');
}
my %before = map { $_ => frozen($_) } qw(reset_frozen reset_plain);
crash_node($node, 'kill_all');
unlink $node->data_dir . '/postmaster.pid';
command_ok([ $node->installed_command('pg_resetwal'), '-f', '-D', $node->data_dir ], 'WAL is reset');
$node->start;
burn_xids($node, 60);

subtest 'an aggressive vacuum after pg_resetwal' => sub {
	my $report = vacuum($node, 'reset_frozen', options => 'FREEZE');

	is($report->{run}, 1, 'it starts over');
	sound('reset_frozen');
};

subtest 'a plain vacuum after pg_resetwal' => sub {
	vacuum($node, 'reset_plain');
	is(frozen('reset_plain'), $before{reset_plain}, 'relfrozenxid stays where it was');
	sound('reset_plain');
};

###############################################################################
# A power cut
###############################################################################

# As if WAL that was not flushed had never been written
sub cut_power
{
	my ($file, $offset) = split /\|/, query(
		'SELECT file_name, file_offset FROM pg_walfile_name_offset(pg_current_wal_flush_lsn())');
	my $path = $node->data_dir . "/pg_wal/$file";
	my $size = -s $path;

	crash_node($node, 'kill_all');
	open my $wal, '+<:raw', $path or die "cannot open $path: $!";
	sysseek $wal, $offset, 0 or die "cannot seek in $path: $!";
	syswrite $wal, "\0" x ($size - $offset) or die "cannot write $path: $!";
	close $wal or die "cannot close $path: $!";
	return;
}

subtest 'XIDs whose end was not on disk' => sub {
	make_table($node, 'cut', pages => 200, dead => 'false');
	query('VACUUM (FREEZE) cut; CHECKPOINT');
	query('DELETE FROM cut WHERE k >= 2000 AND k % 4 = 1; UPDATE cut SET v = v WHERE k >= 2000 AND k % 4 = 2');
	query('SELECT pg_current_xact_id()') foreach 1 .. 20;
	my $next = query('SELECT pg_snapshot_xmax(pg_current_snapshot())');

	# an all-frozen head is skipped, and at the first page after it the vacuum waits
	my $holder = hold_heap_page($node, q{SELECT k FROM cut WHERE ctid = '(100,1)'});
	stop_vacuum($node, 'cut', way => 'cancel', options => 'FREEZE', holder => $holder, phase => 'scanning heap',
		when => q{EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = p.pid AND wait_event = 'BufferPin')});
	ok(record($node, 'cut'), 'a vacuum has written nothing, but a record');
	cut_power();
	$node->start;
	ok(record($node, 'cut'), 'the power cut leaves it');
	cmp_ok(query('SELECT pg_snapshot_xmax(pg_current_snapshot())'), '>=', $next,
		'  and no XID before its OldestXmin is handed out again');
	query(q{UPDATE cut SET v = v WHERE ctid IN ('(0,1)', '(1,1)')});
	burn_xids($node, 40);
	vacuum($node, 'cut', options => 'FREEZE, RESUME on');
	sound('cut');
};

###############################################################################
# A store that is away
###############################################################################

# Moved away when a backend crashes, and back before a vacuum of which it is not told
subtest 'a store that was away while a backend crashed' => sub {
	my $store = $node->data_dir . '/pg_vacuum_resume/data.mdb';

	make_table($node, 'away', pages => 200);
	my $holder = hold_index($node, 'away', 'v');
	stop_vacuum($node, 'away', way => 'cancel', holder => $holder, phase => 'vacuuming indexes',
		when => q{EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = p.pid AND wait_event = 'BufferPin')});
	cmp_ok(record($node, 'away')->{pending_dead_tuples}, '>', 0, 'dead TIDs are pending');

	rename $store, "$store.away" or die $!;
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	my $pid = $session->query_safe('SELECT pg_backend_pid()');
	crash_node($node, 'kill_backend', $pid);
	rename "$store.away", $store or die $!;

	query('SET vacuum_resume.enabled = off; VACUUM away');
	query(q{INSERT INTO away SELECT 10000 + i, 10000 + i, repeat('y', 364) FROM generate_series(1, 300) AS i;
		DELETE FROM away WHERE k > 10000 AND k % 3 = 0});
	query('SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM away');
	vacuum($node, 'away');
	query(q{INSERT INTO away SELECT 20000 + i, 20000 + i, repeat('z', 364) FROM generate_series(1, 100) AS i});
	Oracle::table_ok($node, 'postgres', 'away');
	is_deeply([ Oracle::same_rows($node, 'postgres', 'away', 'v = 10001') ], [], 'the hash index agrees');
};

###############################################################################
# A store that cannot be told from another one
###############################################################################

# Where the system does not say which file the store is, no copy of it may pass for it:
# then none is taken for it, once the server has been restarted.
subtest 'a system that refuses to say which file is which' => sub {
	my $library = $node->basedir . '/no_statx.so';
	my $source = dirname(abs_path($0)) . '/lib/no_statx.c';

	make_table($node, 'unknown', pages => 200);
	system_or_bail('cc', '-shared', '-fPIC', '-o', $library, $source);
	local $ENV{LD_PRELOAD} = $library;
	$node->restart;
	stop_vacuum($node, 'unknown', way => 'cancel', set => [$Resume::slowly],
		phase => 'scanning heap', when => 'heap_blks_scanned >= 100');
	$node->restart;
	is(vacuum($node, 'unknown')->{run}, 1, 'the next vacuum starts over');
	Oracle::table_ok($node, 'postgres', 'unknown');
	delete local $ENV{LD_PRELOAD};
	$node->restart;
};

only_asked_for_crashes($node);
$node->stop;

done_testing();
