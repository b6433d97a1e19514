# RESUME and MAX_DURATION in VACUUM's option list: what they take, what they
# refuse and where the message points, and that they last for one statement.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use Pass;

# At DEBUG2 our pass says with which of our options it runs, if any were given.
my $node = new_node('command', conf => <<'EOC');
log_min_messages = debug2
shared_preload_libraries = 'pg_stat_statements, pg_vacuum_resume'
EOC

$node->safe_psql(
	'postgres', q{
	CREATE TABLE a (id int PRIMARY KEY);
	CREATE TABLE b (id int);
	INSERT INTO a SELECT generate_series(1, 1000);
	INSERT INTO b SELECT generate_series(1, 1000);
	CREATE EXTENSION pg_stat_statements;
});

# The options that our pass worked with since position, once per table
sub options_since
{
	my ($position) = @_;
	return join '; ', log_since($node, $position) =~ /vacuum options: (.*)$/mg;
}

sub options_of
{
	my ($sql) = @_;
	my $position = log_end($node);

	$node->safe_psql('postgres', $sql);
	return options_since($position);
}

# Values, as the pass gets them
for my $case (
	[ 'RESUME', 'on', 0 ],
	[ 'RESUME on', 'on', 0 ],
	[ 'RESUME ON', 'on', 0 ],
	[ 'resume true', 'on', 0 ],
	[ 'RESUME yes', 'on', 0 ],
	[ 'RESUME 1', 'on', 0 ],
	[ "RESUME 'on'", 'on', 0 ],
	[ 'RESUME off', 'off', 0 ],
	[ 'RESUME FALSE', 'off', 0 ],
	[ 'RESUME 0', 'off', 0 ],
	[ 'RESUME auto', 'auto', 0 ],
	[ "RESUME 'AUTO'", 'auto', 0 ],
	[ '"resume" off', 'off', 0 ],
	[ "MAX_DURATION '30min'", 'auto', 1800000 ],
	[ "max_duration '90 s'", 'auto', 90000 ],
	[ "MAX_DURATION '1.5h'", 'auto', 5400000 ],
	[ "MAX_DURATION '2d'", 'auto', 172800000 ],
	[ "MAX_DURATION '1500us'", 'auto', 2 ],
	[ 'MAX_DURATION 250', 'auto', 250 ],
	[ 'MAX_DURATION 2147483647', 'auto', 2147483647 ],
	[ 'MAX_DURATION 0', 'auto', 0 ],
	[ "RESUME, MAX_DURATION '1s'", 'on', 1000 ],
	[ "MAX_DURATION '1s', RESUME off", 'off', 1000 ],

	# the last one counts, as it does for the server's options
	[ 'RESUME on, RESUME off', 'off', 0 ],
	[ "MAX_DURATION '1s', MAX_DURATION '2s'", 'auto', 2000 ],

	# all at once
	[
		"FULL off, FREEZE, VERBOSE off, ANALYZE, RESUME, DISABLE_PAGE_SKIPPING, "
		  . "SKIP_LOCKED, INDEX_CLEANUP on, MAX_DURATION '1h', PROCESS_TOAST, "
		  . 'TRUNCATE off, PARALLEL 2',
		'on', 3600000
	])
{
	my ($options, $resume, $duration) = @$case;

	is( options_of("VACUUM ($options) a"),
		"resume $resume, max_duration $duration ms",
		"VACUUM ($options)");
}

is( options_of(
		"VACUUM\n(\n  RESUME, -- and\n  MAX_DURATION /* for */ '1s'\n) \"a\", public.b, a"),
	join('; ', ('resume on, max_duration 1000 ms') x 3),
	'every table of the list is vacuumed with the options');
like(options_of('VACUUM (RESUME off)'),
	qr/^resume off, max_duration 0 ms(; resume off, max_duration 0 ms){20,}$/,
	'and so is every table of the database, without a list');

# Statements that have none of our options
for my $sql ('VACUUM a', 'VACUUM VERBOSE a', 'VACUUM FREEZE ANALYZE a',
	'VACUUM FULL a', 'VACUUM (VERBOSE) a', 'ANALYZE a')
{
	is(options_of($sql), '', "$sql is none of our business");
}
is(options_of('SET vacuum_resume.enabled = off; VACUUM (RESUME) a'),
	'', 'options are taken and of no effect for the tables that the server vacuums');
$node->safe_psql('postgres', 'VACUUM (RESUME, ANALYZE) b');
is($node->safe_psql('postgres', "SELECT analyze_count FROM pg_stat_all_tables WHERE relname = 'b'"),
	'1', 'the rest of the statement is done as ever');

# Refused, and psql's marker stands below the option
sub is_refused
{
	my ($sql, $message, $marked) = @_;
	my ($rc, undef, $stderr) = $node->psql('postgres', $sql);
	my ($line, $marker) = $stderr =~ /^LINE \d+: (.*)\n(.*)\^/m;

	is($rc, 3, "$sql fails");
	like($stderr, $message, '  with the message');
	return unless defined $marked;
	is(substr($line, length($marker // '') - length('LINE 1: '), length $marked),
		$marked, '  that points to the option');
	return;
}

my $no_resume = 'unrecognized value for VACUUM option "resume"';
my $no_duration = 'invalid value for VACUUM option "max_duration"';

is_refused('VACUUM (RESUME foo) a', qr/ERROR:  $no_resume: "foo"$/m, 'RESUME');
is_refused("VACUUM (VERBOSE, RESUME '') a", qr/ERROR:  $no_resume: ""$/m, 'RESUME');
is_refused('VACUUM (FREEZE, resume 2, ANALYZE) a', qr/ERROR:  $no_resume: "2"$/m, 'resume');
is_refused('SELECT 1\; VACUUM (RESUME foo) a', qr/ERROR:  $no_resume: "foo"$/m, 'RESUME foo');
is_refused('VACUUM (RESUME, RESUME foo) a', qr/ERROR:  $no_resume: "foo"$/m, 'RESUME foo');
is_refused("VACUUM (MAX_DURATION 'foo') a", qr/ERROR:  $no_duration: "foo"$/m, 'MAX_DURATION');
is_refused(
	"VACUUM (RESUME, MAX_DURATION '30 minutes') a",
	qr/ERROR:  $no_duration: "30 minutes"\n.*\n.*\nHINT:  Valid units for this parameter are "us", "ms", "s", "min", "h", and "d"\./,
	'MAX_DURATION');
is_refused('VACUUM (MAX_DURATION -1) a', qr/ERROR:  $no_duration: "-1"$/m, 'MAX_DURATION');
is_refused("VACUUM (MAX_DURATION '25d') a", qr/ERROR:  $no_duration: "25d"$/m, 'MAX_DURATION');
is_refused("VACUUM (MAX_DURATION '') a", qr/ERROR:  $no_duration: ""$/m, 'MAX_DURATION');
is_refused('VACUUM (MAX_DURATION on) a', qr/ERROR:  $no_duration: "on"$/m, 'MAX_DURATION');
is_refused('VACUUM (MAX_DURATION) a',
	qr/ERROR:  VACUUM option "max_duration" requires a value$/m, 'MAX_DURATION');
is_refused('VACUUM (RESUME, FULL) a',
	qr/ERROR:  VACUUM option RESUME cannot be used with FULL$/m, 'RESUME');
is_refused("VACUUM (FULL on, MAX_DURATION '1s') a",
	qr/ERROR:  VACUUM option MAX_DURATION cannot be used with FULL$/m, 'MAX_DURATION');

# Without ours in the list nothing of it is read before the server reads it: it
# is the first option that it names.
is_refused('VACUUM (FOO, FULL maybe) a', qr/ERROR:  unrecognized VACUUM option "foo"$/m, 'FOO');

# What the server refuses, it refuses with its own words, whether or not our
# options stand beside
for my $ours ('', 'RESUME, ', "RESUME off, MAX_DURATION '1s', ")
{
	is_refused("VACUUM (${ours}FOO) a", qr/ERROR:  unrecognized VACUUM option "foo"$/m, 'FOO');
	is_refused("VACUUM (${ours}PARALLEL) a",
		qr/ERROR:  parallel option requires a value between 0 and 1024$/m, 'PARALLEL');
	is_refused("VACUUM (${ours}PARALLEL 2, PARALLEL 9999) a",
		qr/ERROR:  parallel workers for vacuum must be between 0 and 1024$/m, 'PARALLEL 9');
	is_refused("VACUUM (${ours}VERBOSE maybe) a", qr/ERROR:  verbose requires a Boolean value$/m);
	is_refused("VACUUM (${ours}TRUNCATE) nosuch", qr/ERROR:  relation "nosuch" does not exist$/m);
	is_refused("VACUUM (${ours}FREEZE) a (id)",
		qr/ERROR:  ANALYZE option must be specified when a column list is provided$/m);
	is_refused("BEGIN; VACUUM (${ours}FREEZE) a",
		qr/ERROR:  VACUUM cannot run inside a transaction block$/m);
	is_refused("DO \$\$BEGIN VACUUM (${ours}FREEZE) a; END\$\$",
		qr/ERROR:  VACUUM cannot be executed from a function$/m);
}
is_refused('VACUUM ("RESUME") a', qr/ERROR:  unrecognized VACUUM option "RESUME"$/m, '"RESUME"');
is_refused('ANALYZE (RESUME) a', qr/ERROR:  unrecognized ANALYZE option "resume"$/m, 'RESUME');

# A statement that fails leaves nothing set for the next one of its session:
# before the pass, within it, and where another statement calls it
$node->safe_psql(
	'postgres', q{
	CREATE TABLE slow (id int);
	INSERT INTO slow SELECT generate_series(1, 20000);
	CREATE ROLE owner;
	ALTER TABLE b OWNER TO owner;
});
my $position = log_end($node);
my (undef, undef, $stderr) = $node->psql(
	'postgres', qq{
	VACUUM (RESUME, FOO) a;
	VACUUM a;
	VACUUM (RESUME, MAX_DURATION 'foo') a;
	VACUUM a;
	VACUUM (RESUME off) nosuch;
	VACUUM a;
	BEGIN;
	VACUUM (MAX_DURATION '1s') a;
	ROLLBACK;
	VACUUM a;
	DO 'BEGIN VACUUM (RESUME) a; END';
	VACUUM a;},
	on_error_stop => 0);
is(scalar(() = $stderr =~ /ERROR:/g), 5, 'five statements fail');
is(join(' ', our_passes($node, $position)), join(' ', ('public.a') x 5),
	'the one after each goes through our pass');
is(options_since($position), '', 'without options of the one that failed');

$position = log_end($node);
(undef, undef, $stderr) = $node->psql(
	'postgres', qq{
	$Pass::slow_pages
	SET statement_timeout = '200ms';
	VACUUM (RESUME, MAX_DURATION '1h') slow;
	SET vacuum_cost_delay = 0;
	VACUUM slow;},
	on_error_stop => 0);
like($stderr, qr/ERROR:  canceling statement due to statement timeout/, 'vacuum is cancelled');
is(join(' ', our_passes($node, $position)), 'public.slow public.slow', 'and another is done');
is(options_since($position), 'resume on, max_duration 3600000 ms',
	'options were for the one that was cancelled');

# One error among several tables of one statement
$position = log_end($node);
$node->psql('postgres', "VACUUM (RESUME) a, nosuch, b; VACUUM a", on_error_stop => 0);
is(options_since($position), '', 'a list with an unknown table is not begun');

# The owner of a table needs no other right for our options
is(options_of('SET ROLE owner; VACUUM (RESUME, MAX_DURATION 1000) b'),
	'resume on, max_duration 1000 ms', 'a table owner may use the options');

# Extended protocol: the statement is parsed once and executed several times,
# so its tree must stay as it is
my $statement = "VACUUM (VERBOSE off, RESUME, MAX_DURATION '1h') a";
for my $mode ('simple', 'extended', 'prepared')
{
	$position = log_end($node);
	$node->pgbench(
		"-n -t 4 -M $mode", 0,
		[qr{processed: 4/4}], [qr{^$}],
		"pgbench -M $mode", { "002_$mode" => "$statement;\n" });
	is(options_since($position),
		join('; ', ('resume on, max_duration 3600000 ms') x 4),
		"-M $mode: each execution has its options");
}

# pg_stat_statements in front of us and behind us sees the statement as it was
# written, and as one statement
for my $libraries ('pg_stat_statements, pg_vacuum_resume',
	'pg_vacuum_resume, pg_stat_statements')
{
	$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'$libraries'");
	$node->restart;
	$node->safe_psql('postgres', 'SELECT pg_stat_statements_reset()');
	is( options_of("$statement;\n$statement; SELECT 1;"),
		join('; ', ('resume on, max_duration 3600000 ms') x 2),
		"$libraries: options work");
	is( $node->safe_psql(
			'postgres', q{
			SELECT calls, query FROM pg_stat_statements WHERE query LIKE 'VACUUM%'}),
		"2|$statement",
		"$libraries: statement is counted under its text");
}

$node->stop;

done_testing();
