# A table grows under pgbench, and vacuums of all kinds follow each other. At random
# moments a session or the whole server is killed; then the table has to be sound,
# each time, and whatever was going on goes on.
#
# PGVR_ROUNDS: how often to kill; PGVR_SEED: to have the same choices again.

use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

use Between;
use Oracle;
use Pass;
use Resume;

my $rounds = $ENV{PGVR_ROUNDS} || 12;
my $seed = $ENV{PGVR_SEED} || time;
my @ways = qw(kill_vacuum kill_vacuum kill_client kill_postmaster kill_all kill_all immediate);
my %met;

srand($seed);
diag("$rounds rounds with seed $seed");

my $node = between_node('kills', conf => <<'EOC');
synchronous_commit = off
log_statement = none
EOC
$node->safe_psql('postgres', q{
	CREATE TABLE t (id bigserial PRIMARY KEY, k int, v int, tags int[], place point, filler text)
		WITH (autovacuum_enabled = off, fillfactor = 90);
	CREATE INDEX t_k ON t (k);
	CREATE INDEX t_v ON t USING hash (v);
	CREATE INDEX t_tags ON t USING gin (tags) WITH (gin_pending_list_limit = 64);
	CREATE INDEX t_place ON t USING gist (place);
	CREATE INDEX t_id ON t USING brin (id) WITH (pages_per_range = 4);
	INSERT INTO t (k, v, tags, place, filler)
		SELECT i, i % 100, ARRAY[i % 10, i % 50], point(i % 100, i / 100), repeat('x', 100)
		FROM generate_series(1, 3000) AS i;});

# More rows come than go.
my %scripts = (
	insert => q{
		INSERT INTO t (k, v, tags, place, filler) SELECT r, r % 100, ARRAY[r % 10, r % 50], point(r % 100, r / 100), repeat('x', 100)
			FROM (SELECT (random() * 10000)::int + i AS r FROM generate_series(1, 12) AS i) AS x;},
	update => q{
		\set r random(1, 10000)
		UPDATE t SET k = k + 1, v = (v + 1) % 100 WHERE k BETWEEN :r AND :r + 10;},
	update_hot => q{
		\set r random(1, 10000)
		UPDATE t SET filler = repeat('y', 100) WHERE k BETWEEN :r AND :r + 10;},
	delete => q{
		\set r random(1, 10000)
		DELETE FROM t WHERE k BETWEEN :r AND :r + 8;},
	abort => q{
		\set r random(1, 10000)
		BEGIN;
		UPDATE t SET k = k + 1 WHERE k BETWEEN :r AND :r + 5;
		INSERT INTO t (k, v) SELECT i, i FROM generate_series(:r, :r + 5) AS i;
		ROLLBACK;},
	lock => q{
		\set r random(1, 10000)
		BEGIN;
		SELECT count(*) FROM (SELECT FROM t WHERE k BETWEEN :r AND :r + 5 FOR KEY SHARE) AS x;
		SAVEPOINT s;
		UPDATE t SET filler = 'z' WHERE k BETWEEN :r AND :r + 5;
		COMMIT;},
	select => q{
		\set r random(1, 10000)
		SELECT count(*) FROM t WHERE k BETWEEN :r AND :r + 100;});
my @script_options;
foreach my $name (sort keys %scripts)
{
	my $path = $node->basedir . "/$name.sql";

	append_to_file($path, $scripts{$name} =~ s/\n\t+/\n/gr);
	push @script_options, '-f', $path;
}

sub start_pgbench
{
	my ($out, $err) = ('', '');

	return IPC::Run::start(
		[
			$node->installed_command('pgbench'), '-n', '-c', '3', '-T', '60', '-R', '300',
			@script_options, $node->connstr('postgres')
		],
		'<', \undef, '>', \$out, '2>', \$err);
}

# As many vacuums as are needed to be there when the moment comes
sub start_vacuums
{
	my @vacuums;

	for (1 .. 100)
	{
		my $options = ('', '', '(INDEX_CLEANUP on)', '(INDEX_CLEANUP on)', '(INDEX_CLEANUP off)', '(FREEZE)',
			"(MAX_DURATION '100ms')", "(MAX_DURATION '300ms', INDEX_CLEANUP on)",
			'(RESUME off)', '(DISABLE_PAGE_SKIPPING)')[ rand 10 ];
		my $delay = (0, 0.1, 0.5, 2)[ rand 4 ];
		my $enabled = rand() < 0.05 ? 'off' : 'on';
		my $workers = rand() < 0.2 ? 2 : 0;

		push @vacuums, "SET vacuum_cost_delay = $delay; SET max_parallel_maintenance_workers = $workers; "
		  . "SET vacuum_resume.enabled = $enabled; VACUUM $options t";
	}
	return start_sql($node, join '; ', 'SET vacuum_resume.save_interval = 10',
		'SET min_parallel_index_scan_size = 0', @vacuums);
}

sub pick
{
	my ($condition) = @_;

	return $node->safe_psql('postgres', qq{
		SELECT pid FROM pg_stat_activity
		WHERE backend_type IN ('client backend', 'parallel worker') AND pid <> pg_backend_pid() AND $condition
		ORDER BY random() LIMIT 1});
}

foreach my $round (1 .. $rounds)
{
	subtest "round $round" => sub {
		my $way = $ways[ rand @ways ];
		my $pgbench = start_pgbench();
		my $vacuums = start_vacuums();
		my $pid;

		$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_progress_vacuum}) or die 'no vacuum';
		usleep(rand(800_000));
		$node->safe_psql('postgres', 'CHECKPOINT') if rand() < 0.2;
		$pid = pick(q{query LIKE '%VACUUM%'}) if $way eq 'kill_vacuum';
		$pid = pick(q{query NOT LIKE '%VACUUM%'}) if $way eq 'kill_client';
		crash_node($node, $pid ? 'kill_backend' : $way =~ /^kill_(?:vacuum|client)/ ? 'kill_all' : $way, $pid);
		finish_sql($vacuums);
		$pgbench->signal('TERM');
		$pgbench->finish;
		$node->start if !$pid;

		my $record = record($node, 't');
		my $where = $record ? $record->{phase} . ($record->{indexes_done} ? ', with indexes done' : '') : 'nowhere';
		$met{"interrupted $where"}++;
		note("$way; " . ($record ? "$where, block $record->{next_block} of $record->{rel_blocks}, "
				. "$record->{pending_dead_tuples} pending, $record->{indexes_done} indexes done" : 'no record'));
		Oracle::table_ok($node, 'postgres', 't', "after $way the table is sound");
		entries_ok($node, 't', any_time => 1);

		# to the end, or leave it to the next round
		if (rand() < 0.5)
		{
			my $rest = vacuum($node, 't', options => 'INDEX_CLEANUP on');

			$met{"continued, $rest->{verified} pages verified" =~ s/[1-9]\d*/some/r}++ if $rest->{run} > 1;
			settled($node, 't');
		}
		my @complaints = map { Oracle::same_rows($node, 'postgres', 't', $_) } 'v = 7', 'tags @> ARRAY[7]',
		  'place <@ box(point(10, 10), point(30, 40))', 'id BETWEEN 1000 AND 1500';
		is_deeply(\@complaints, [], 'other indexes agree, too');
	};
}

diag("$met{$_} times: $_") foreach sort keys %met;
diag($node->safe_psql('postgres', q{SELECT count(*) || ' rows, ' || pg_relation_size('t') / 8192 || ' pages' FROM t}));
cmp_ok(scalar(grep { $_ ne 'interrupted nowhere' } keys %met), '>', 0, 'vacuums were interrupted');
only_asked_for_crashes($node);
$node->stop;

done_testing();
