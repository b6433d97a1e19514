# What the behaviour tests share: a server that has the library in it, ways to
# see that a table went through our pass, and ways to hold a vacuum at a known
# place.
#
# A vacuum is held by the server's own means, so the same recipe holds the
# server's pass and ours:
# - while it scans the heap: a vacuum that has to freeze (FREEZE) waits for
#   other sessions' pins on a page, and an open cursor keeps such a pin;
# - while it vacuums a b-tree: it needs a cleanup lock on every leaf page, and
#   the open cursor of an index-only scan keeps a pin on one;
# - while it cleans up a GIN index, or reaps: one cost delay per page, with
#   the costs chosen so that nothing else in the vacuum costs anything;
# - while it truncates: it needs a lock that any other session's lock denies.

package Pass;

use strict;
use warnings;

use Exporter 'import';
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;

our @EXPORT = qw(
  new_node log_end log_since our_passes
  start_sql finish_sql hold_heap_page hold_index_page
  wait_for_phase wait_for_pin_wait progress
  burn_xids
);

# Costs that make every heap or index page that a vacuum touches take 100 ms.
our $slow_pages = join ' ', map { "SET $_;" } (
	'vacuum_cost_limit = 1',
	'vacuum_cost_page_hit = 1',
	'vacuum_cost_page_miss = 1',
	'vacuum_cost_page_dirty = 0',
	'vacuum_cost_delay = 100');

# Costs that make every clean page that a vacuum changes take 100 ms. Reading
# is free.
our $slow_changes = join ' ', map { "SET $_;" } (
	'vacuum_cost_limit = 1',
	'vacuum_cost_page_hit = 0',
	'vacuum_cost_page_miss = 0',
	'vacuum_cost_page_dirty = 1',
	'vacuum_cost_delay = 100');

# A server with the library preloaded, started. Every table goes through our
# pass, and nothing is vacuumed unasked, unless conf says otherwise.
sub new_node
{
	my ($name, %opt) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init(%{ $opt{init} // {} });
	$node->append_conf('postgresql.conf', <<EOC);
shared_preload_libraries = 'pg_vacuum_resume'
vacuum_resume.min_table_size = 0
log_min_messages = debug1
autovacuum = off
EOC
	$node->append_conf('postgresql.conf', $opt{conf}) if defined $opt{conf};
	$node->start unless $opt{stopped};
	return $node;
}

# Byte position of the end of the server log, for log_since.
sub log_end
{
	my ($node) = @_;
	return -s $node->logfile;
}

sub log_since
{
	my ($node, $position) = @_;
	return slurp_file($node->logfile, $position);
}

# Names (schema.table) of the tables that our pass vacuumed since position, in
# order.
sub our_passes
{
	my ($node, $position) = @_;
	return log_since($node, $position) =~
	  /vacuuming table "[^".]+\.([^"]+)" with pg_vacuum_resume/g;
}

# Starts a statement in a session of its own and does not wait for it. The
# result goes to finish_sql.
sub start_sql
{
	my ($node, $sql) = @_;
	my $job = { stdout => '', stderr => '' };

	$sql .= ";\n";

	$job->{run} = IPC::Run::start(
		[
			$node->installed_command('psql'), '-XAtq', '-v', 'ON_ERROR_STOP=1',
			'-d', $node->connstr('postgres'), '-f', '-'
		],
		'<', \$sql, '>', \$job->{stdout}, '2>', \$job->{stderr},
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	$job->{run}->pump while length $sql;
	return $job;
}

# Waits for the statement's end. Returns psql's exit code and what it wrote to
# its standard error (INFO lines, errors with their context).
sub finish_sql
{
	my ($job) = @_;

	$job->{run}->finish;
	return ($job->{run}->result(0), $job->{stderr});
}

# Opens a session with a cursor for the query and fetches its first row: the
# session keeps a pin on the page that the cursor stands on, a snapshot, and an
# ACCESS SHARE lock, until it is told to quit. The scan is a sequential one, so
# that the page is the heap's.
sub hold_heap_page
{
	my ($node, $query) = @_;

	return hold_cursor($node, $query,
		'SET enable_indexscan = off; SET enable_indexonlyscan = off; '
		  . 'SET enable_bitmapscan = off;');
}

# The same, but the page is the index's. The query must need no column that is
# not in the index, and its first row must lie on an all-visible page: then the
# heap is not touched.
sub hold_index_page
{
	my ($node, $query) = @_;

	return hold_cursor($node, $query,
		'SET enable_seqscan = off; SET enable_bitmapscan = off;');
}

sub hold_cursor
{
	my ($node, $query, $set) = @_;
	my $session = $node->background_psql('postgres');

	$session->query_safe("$set BEGIN; DECLARE holder CURSOR FOR $query;");
	$session->query_safe('FETCH 1 FROM holder');
	return $session;
}

# Waits until the vacuum of table is in phase, and condition (on the row of
# pg_stat_progress_vacuum) holds.
sub wait_for_phase
{
	my ($node, $table, $phase, $condition) = @_;

	$condition //= 'true';
	$node->poll_query_until(
		'postgres', qq{
		SELECT count(*) > 0 FROM pg_stat_progress_vacuum
		WHERE relid = '$table'::regclass AND phase = '$phase' AND ($condition)})
	  or die "vacuum of $table did not get to phase $phase";
	return;
}

# Waits until the vacuum of table is in phase and some process of it (a
# parallel worker, maybe) waits for another session's pin.
sub wait_for_pin_wait
{
	my ($node, $table, $phase) = @_;

	wait_for_phase(
		$node, $table, $phase, q{
		EXISTS (SELECT FROM pg_stat_activity a
				WHERE pg_stat_progress_vacuum.pid IN (a.pid, a.leader_pid)
				AND a.wait_event = 'BufferPin')});
	return;
}

# The progress view's row for table as "column=value column=value ...".
sub progress
{
	my ($node, $table, @columns) = @_;
	my $list = join(" || ' ' || ", map { "'$_=' || $_" } @columns);

	return $node->safe_psql('postgres',
		"SELECT $list FROM pg_stat_progress_vacuum WHERE relid = '$table'::regclass"
	);
}

# Uses up transaction IDs: aborted subtransactions need one each, and little
# else.
sub burn_xids
{
	my ($node, $count) = @_;

	$node->safe_psql(
		'postgres', qq{
		CREATE UNLOGGED TABLE IF NOT EXISTS burnt (i int);
		DO \$\$
		BEGIN
			FOR i IN 1..$count LOOP
				BEGIN
					INSERT INTO burnt VALUES (i);
					RAISE EXCEPTION 'burnt';
				EXCEPTION WHEN raise_exception THEN NULL;
				END;
				IF i % 20000 = 0 THEN COMMIT; END IF;
			END LOOP;
		END \$\$;
		DROP TABLE burnt;});
	return;
}

1;
