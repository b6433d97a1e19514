# The store cannot be read or written, or there is no room for it: each vacuum
# succeeds, says so once, and what is no longer true in the store is not believed
# when it can be read again.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use Oracle;
use Pass;
use Resume;
use Trouble;

my $node = resume_node('limits', conf => "autovacuum = off\n");
my $dir = store($node);

sub mode
{
	my ($mode, @paths) = @_;

	foreach (@paths)
	{
		chmod $mode, $_ or die "cannot change the mode of $_: $!";
	}
	return;
}

my %unreadable = (
	start => sub { mode(0000, $dir); },
	warnings => 1,
	end => sub { mode(0700, $dir); });

# For what they are made of, see live_through in Trouble.pm.
my @troubles = (
	{ name => 'read_only_directory', goes_on => 1,
		start => sub { mode(0500, $dir); },
		end => sub { mode(0700, $dir); } },
	{ name => 'read_only_store', warnings => 1,
		start => sub { mode(0400, "$dir/data.mdb", "$dir/lock.mdb"); mode(0500, $dir); },
		end => sub { mode(0700, $dir); mode(0600, "$dir/data.mdb", "$dir/lock.mdb"); } },
	{ name => 'all_read_only_until_a_crash', warnings => 1, end_down => 'immediate',
		start => sub { mode(0400, glob "$dir/*"); mode(0500, $dir); },
		end => sub { mode(0700, $dir); mode(0600, glob "$dir/*"); } },
	{ name => 'unreadable', %unreadable },
	{ name => 'unreadable_to_the_server', %unreadable, by => 'server' },
	{ name => 'unreadable_until_a_crash', %unreadable, end_down => 'immediate' },
	{ name => 'unreadable_to_the_server_until_a_crash', %unreadable, by => 'server',
		end_down => 'immediate' },
	{ name => 'unreadable_between_restarts', %unreadable, down => 1, end_down => 'fast' });

foreach my $trouble (@troubles)
{
	subtest $trouble->{name} => sub { live_through($node, $trouble) };
}

###############################################################################
# No space
###############################################################################

# A process that may not write beyond a file's first 64 kB has no room for a list of
# row pointers that takes more. WAL is written from the beginning of a segment, and
# an unlogged table needs little of it; table and index stay in the buffers; and the
# server's log is lost to this process.
subtest 'no space left' => sub {
	$node->safe_psql(
		'postgres', q{
		CREATE UNLOGGED TABLE narrow (k int);
		CREATE INDEX narrow_k ON narrow (k);
		INSERT INTO narrow SELECT generate_series(1, 50000);
		DELETE FROM narrow WHERE k % 10 <> 0;});
	my $session = $node->background_psql('postgres', on_error_stop => 0);

	$session->query_safe("SET $Resume::saving; SET vacuum_cost_delay = 1");
	my $pid = $session->query_safe('SELECT pg_backend_pid()');
	# somebody else makes the segment
	$node->safe_psql('postgres', q{SELECT pg_switch_wal(); SELECT pg_logical_emit_message(true, '', '')});
	system_or_bail('prlimit', "--pid=$pid", '--fsize=65536:unlimited');
	$session->query('VACUUM (VERBOSE, PROCESS_TOAST off) narrow');

	my ($warnings, $hints) = count_warnings($session->{stderr});
	is("$warnings, $hints", '1, 1', 'a vacuum that finds no space warns once, with a hint');
	like($session->{stderr}, qr/WARNING:  could not save the progress .*\nDETAIL:  .*File too large/,
		'  and says why');
	like($session->{stderr}, qr/finished vacuuming "postgres\.public\.narrow"/, '  and succeeds');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM vacuum_resume.progress'), 0,
		'  and leaves nothing');
	$session->quit;
	is($node->safe_psql('postgres', q{SELECT dead_tuple_count FROM pgstattuple('narrow')}), 0,
		'  but no dead row');
	Oracle::table_ok($node, 'postgres', 'narrow');
	make_table($node, 'later', %small);
	works_again($node, 'later');
};

only_asked_for_crashes($node);
$node->stop;

###############################################################################
# A store that is too small
###############################################################################

$node = resume_node('small', conf => "autovacuum = off\nvacuum_resume.store_size = '128kB'\n");

# In slices, with a list that outgrows the store
subtest 'no room for the list' => sub {
	$node->safe_psql(
		'postgres', q{
		CREATE TABLE narrow (k int);
		INSERT INTO narrow SELECT generate_series(1, 50000);
		CREATE INDEX narrow_k ON narrow (k);
		DELETE FROM narrow WHERE k % 10 <> 0;});
	my $pages = $node->safe_psql('postgres', q{SELECT pg_relation_size('narrow') / 8192});
	my $xid = $node->safe_psql('postgres', 'SELECT pg_current_xact_id()::xid');
	my ($cursor, $warned, $given_up) = (0, 0, 0);

	for (1 .. 20)
	{
		last if $cursor == $pages;
		my $log = log_end($node);
		slice($node, 'narrow', options => 'FREEZE');
		my ($warnings, $hints) = count_warnings(log_since($node, $log));
		my $record = record($node, 'narrow') or last;

		is($hints, $warnings, 'a slice warns with a hint, if at all');
		cmp_ok($warnings, '<=', 1, '  and once');
		cmp_ok($record->{next_block}, '>', $cursor, '  and gets farther');
		$cursor = $record->{next_block};
		$warned += $warnings;
		$given_up += $record->{pending_dead_tuples} == 0;
	}
	is($cursor, $pages, 'in slices a vacuum gets to the end of the table');
	cmp_ok($warned, '>', 0, '  though there was no room');
	cmp_ok($given_up, '>', 0, '  and the list was given up for the position');

	my $rest = careful_vacuum($node, 'narrow', options => 'FREEZE');
	is($rest->{from}, $pages, 'the last one goes on from there');
	cmp_ok($rest->{cycle_again}, '>', 0, '  and looks again where row pointers were forgotten');
	cmp_ok($node->safe_psql('postgres', q{SELECT relfrozenxid FROM pg_class WHERE relname = 'narrow'}),
		'>=', $xid, '  relfrozenxid has advanced all the same');
	is($node->safe_psql('postgres', q{SELECT dead_tuple_count FROM pgstattuple('narrow')}), 0,
		'  and no dead row is left');
	Oracle::table_ok($node, 'postgres', 'narrow');
	make_table($node, 'later', %small);
	works_again($node, 'later');
};

# Many tables, each with a list of its own
subtest 'no room for the lists of many tables' => sub {
	my @tables = map { "t$_" } 1 .. 64;
	my ($warned, $most) = (0, 0);

	$node->safe_psql('postgres', join '', map {
			"CREATE TABLE $_ (k int, filler text);
			INSERT INTO $_ SELECT i, repeat('x', 364) FROM generate_series(1, 800) AS i;
			CREATE INDEX ON $_ (k);
			DELETE FROM $_ WHERE k % 3 = 0;" } @tables);
	my $log = log_end($node);
	$node->safe_psql('postgres', "SET $Resume::slowly;"
		  . join '', map { "VACUUM (PROCESS_TOAST off, MAX_DURATION 1) $_;" } @tables);
	foreach (split /(?=LOG:  statement: VACUUM)/, log_since($node, $log))
	{
		my ($warnings, $hints) = count_warnings($_);

		is($hints, $warnings, 'a warning has a hint') if $warnings;
		$warned += $warnings;
		$most = $warnings if $warnings > $most;
	}
	my $kept = $node->safe_psql('postgres', 'SELECT count(*) FROM vacuum_resume.progress');
	cmp_ok($warned, '>', 0, 'there is not room for 64 lists');
	is($most, 1, '  of which each vacuum warns once');
	is($kept, 64, '  but for all positions');

	$log = log_end($node);
	$node->safe_psql('postgres', join '', map { "VACUUM (PROCESS_TOAST off) $_;" } @tables);
	my (undef, @each) = split /(?=LOG:  statement: VACUUM)/, log_since($node, $log);
	is(scalar @each, 64, 'all of them are vacuumed again');
	is(scalar(grep { my ($n) = count_warnings($_); $n > 1 } @each), 0, '  with one warning at most');
	is($node->safe_psql("postgres", "SELECT " . join " + ", map { "(SELECT dead_tuple_count FROM pgstattuple('$_'))" } @tables),
		0, '  and no dead row is left');
	# a record that could not be removed, as that takes room, too, is gone at last
	$node->safe_psql('postgres', join '', map { "VACUUM (PROCESS_TOAST off) $_;" } @tables) for 1 .. 2;
	is($node->safe_psql('postgres', 'SELECT count(*) FROM vacuum_resume.progress'), 0,
		'in the end the store is empty');
	Oracle::table_ok($node, 'postgres', $_) foreach @tables[ 0, 31, 63 ];
	make_table($node, 'latest', %small);
	works_again($node, 'latest');
};

only_asked_for_crashes($node);
$node->stop;

done_testing();
