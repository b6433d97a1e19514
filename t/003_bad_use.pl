# The library where it should not be, or with what it cannot work with: a clear
# message, never a crash, and the server goes on as without it.

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Pass;

my $not_preloaded =
  qr/ERROR:  55000: pg_vacuum_resume must be loaded via shared_preload_libraries$/m;

# Runs SQL to its end whatever fails, and returns what psql complained about,
# with error codes.
sub complaints
{
	my ($node, $sql) = @_;
	my (undef, undef, $stderr) =
	  $node->psql('postgres', "\\set VERBOSITY verbose\n$sql", on_error_stop => 0);

	return $stderr;
}

# A server without the library
my $node = PostgreSQL::Test::Cluster->new('without');
$node->init;
$node->append_conf('postgresql.conf', "log_min_messages = debug1\nautovacuum = off\n");
$node->start;
$node->safe_psql('postgres',
	'CREATE TABLE t (id int); INSERT INTO t SELECT generate_series(1, 1000);');

like(
	complaints($node, 'VACUUM (RESUME) t;'),
	qr/ERROR:  42601: unrecognized VACUUM option "resume"/,
	'without the library nobody knows our options');

# LOAD is too late: the session has the library, vacuums do not go through it
is(complaints($node, "LOAD 'pg_vacuum_resume';"), '', 'LOAD says nothing');
like(complaints($node, "LOAD 'pg_vacuum_resume'; VACUUM (RESUME) t;"),
	$not_preloaded, 'LOAD: RESUME is refused, with the reason');
like(complaints($node, "LOAD 'pg_vacuum_resume'; VACUUM (MAX_DURATION '1h') t;"),
	$not_preloaded, 'LOAD: so is MAX_DURATION');
is( complaints(
		$node, q{
		LOAD 'pg_vacuum_resume';
		LOAD 'pg_vacuum_resume';
		SET vacuum_resume.min_table_size = 0;
		DELETE FROM t WHERE id % 2 = 0;
		VACUUM (PARALLEL 2) t;
		VACUUM (FULL) t;
		ANALYZE t;}),
	'',
	'LOAD: every other vacuum is done by the server');
like(
	complaints($node, "LOAD 'pg_vacuum_resume'; SET vacuum_resume.min_table_size = -1;"),
	qr/ERROR:  22023: -1 8kB is outside the valid range/,
	'LOAD: settings are checked');

# The extension's SQL objects need no library in the server, its function does
is(complaints($node, 'CREATE EXTENSION pg_vacuum_resume;'), '', 'the extension can be created');
like(complaints($node, 'SELECT vacuum_resume.version();'),
	$not_preloaded, 'version() says that nothing goes through the library');

# Nor is session_preload_libraries early enough
$node->safe_psql('postgres',
	'ALTER DATABASE postgres SET session_preload_libraries = pg_vacuum_resume');
is(complaints($node, 'VACUUM t;'), '', 'session_preload_libraries: the server vacuums');
like(complaints($node, 'VACUUM (RESUME, VERBOSE) t;'),
	$not_preloaded, 'session_preload_libraries: RESUME is refused');
unlike(
	slurp_file($node->logfile),
	qr/with pg_vacuum_resume|WARNING|terminated by signal/,
	'our pass never ran, and nothing else went wrong');
$node->safe_psql('postgres', 'ALTER DATABASE postgres RESET session_preload_libraries');

# Values in the configuration file that cannot be: as for any setting of a
# library, the server starts with the default and says so
$node->append_conf('postgresql.conf', <<'EOC');
shared_preload_libraries = 'pg_vacuum_resume'
vacuum_resume.min_table_size = 99TB
vacuum_resume.enabled = maybe
EOC
my $position = log_end($node);
$node->restart;
is( $node->safe_psql(
		'postgres', 'SHOW vacuum_resume.min_table_size; SHOW vacuum_resume.enabled'),
	"64MB\non",
	'defaults take the place of values that cannot be');
like(log_since($node, $position), qr/WARNING:.*"vacuum_resume\.min_table_size"/,
	'with a warning for the size');
like(log_since($node, $position), qr/WARNING:.*"vacuum_resume\.enabled"/,
	'and one for the switch');

# A reload with such a value keeps the one before
$node->adjust_conf('postgresql.conf', 'vacuum_resume.min_table_size', '1MB');
$node->adjust_conf('postgresql.conf', 'vacuum_resume.enabled', 'on');
$node->reload;
$node->poll_query_until('postgres', 'SHOW vacuum_resume.min_table_size', '1MB')
  or die 'reload had no effect';
$node->adjust_conf('postgresql.conf', 'vacuum_resume.min_table_size', '-2');
$position = log_end($node);
$node->reload;
$node->wait_for_log(qr/configuration file "[^"]*" contains errors/, $position);
like(
	log_since($node, $position),
	qr/-2 8kB is outside the valid range for parameter "vacuum_resume\.min_table_size"/,
	'reload names the value that cannot be');
is($node->safe_psql('postgres', 'SHOW vacuum_resume.min_table_size'),
	'1MB', 'and keeps the one before');
$node->adjust_conf('postgresql.conf', 'vacuum_resume.min_table_size', '0');
$node->restart;

# A data directory that cannot be written to while a vacuum runs. The vacuum is
# held by a pin on the first page. The server does not need the top folder for
# that, and neither do we.
my $data = $node->data_dir;

$node->safe_psql('postgres',
	'TRUNCATE t; INSERT INTO t SELECT generate_series(1, 1000); DELETE FROM t WHERE id % 3 = 0;');
$position = log_end($node);
my $holder = hold_heap_page($node, 'SELECT id FROM t');
my $vacuum = start_sql($node, 'VACUUM (FREEZE, VERBOSE) t');
wait_for_pin_wait($node, 't', 'scanning heap');
chmod 0500, $data or die "cannot change the mode of $data";
$holder->quit;
my ($rc, $stderr) = finish_sql($vacuum);
is($rc, 0, 'vacuum finishes in a data directory that became read-only');
like($stderr, qr/finished vacuuming "postgres\.public\.t"/, '  and says so');
is(join(' ', our_passes($node, $position)), 'public.t', '  it was ours');
is(complaints($node, 'VACUUM t;'), '', 'another one starts and finishes in it');
chmod 0700, $data or die "cannot change the mode of $data";

# A database folder that cannot be written to: no visibility map can be made
# for a new table. The server's own vacuum is the measure.
my ($database) = glob "$data/base/"
  . $node->safe_psql('postgres',
	'SELECT oid FROM pg_database WHERE datname = current_database()');
my %failure;

for my $enabled ('off', 'on')
{
	$node->safe_psql('postgres', "CREATE TABLE new_$enabled AS SELECT 1 AS id");
	chmod 0500, $database or die "cannot change the mode of $database";
	$position = log_end($node);
	$failure{$enabled} =
	  complaints($node, "SET vacuum_resume.enabled = $enabled; VACUUM new_$enabled;");
	is(join(' ', our_passes($node, $position)),
		($enabled eq 'on' ? "public.new_$enabled" : ''), "enabled = $enabled");
	chmod 0700, $database or die "cannot change the mode of $database";
	$failure{$enabled} =~ s/new_$enabled/new/g;
	$failure{$enabled} =~ s!base/\d+/\d+!base/FILE!g;
	$failure{$enabled} =~ s/^LOCATION:.*\n?//mg;
	is(complaints($node, "VACUUM new_$enabled;"), '', '  works when it can be written again');
}
like(
	$failure{on},
	qr!ERROR:  42501: could not create file "base/FILE_vm": Permission denied\nCONTEXT:  while scanning block 0 of relation "public\.new"!,
	'vacuum fails where a file cannot be made');
is($failure{on}, $failure{off}, 'with the words of the server');

# The library built for another server version. Its own sources, compiled
# anew; only the version that it takes itself to be built for is another one.
my $source = dirname(dirname(abs_path(__FILE__)));
my $build = PostgreSQL::Test::Utils::tempdir() . '/build';
my ($pg_config) = grep { -x } map { "$_/pg_config" } split /:/, $ENV{PATH};
my $running = $node->safe_psql('postgres', "SELECT split_part(current_setting('server_version'), ' ', 1)");

mkdir $build;
system_or_bail('cp', '-R', (map { "$source/$_" } qw(Makefile pg_vacuum_resume.control include src sql)),
	$build);
unlink glob "$build/src/*.o";

sub build_for
{
	my ($version_num) = @_;

	# Not with the options of a make that may be running this test
	local @ENV{qw(MAKEFLAGS MFLAGS MAKELEVEL)} = ('', '', '');

	unlink "$build/src/module.o", "$build/pg_vacuum_resume.so";
	system_or_bail('make', '-s', '-C', $build, "PG_CONFIG=$pg_config", 'with_llvm=no',
		"COPT=-DPGVR_BUILT_VERSION_NUM=$version_num", 'pg_vacuum_resume.so');
	return "$build/pg_vacuum_resume.so";
}

for my $case ([ 150099, '15.99', 'a newer minor version' ],
	[ 150007, '15.7', 'one before a function of the server changed' ])
{
	my ($version_num, $version, $what) = @$case;
	my $library = build_for($version_num);
	my $message =
	  qr/pg_vacuum_resume was built for server version \Q$version\E and cannot be loaded into version \Q$running\E/;

	like(complaints($node, "LOAD '$library';"), qr/ERROR:  0A000: $message/,
		"built for $what: LOAD is refused");
	$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'$library'");
	$position = log_end($node);
	$node->stop;
	is($node->start(fail_ok => 1), 0, "built for $what: the server does not start");
	like(log_since($node, $position), qr/FATAL:  $message/,
		'  and the log names both versions');
	$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'pg_vacuum_resume'");
	$node->start;
	is(complaints($node, 'VACUUM (RESUME) t;'), '', '  with the right one it does again');
}

my $library = build_for(150010);
$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'$library'");
$node->restart;
is(complaints($node, 'VACUUM (RESUME) t;'), '', 'built for an earlier minor version: works');

unlike(slurp_file($node->logfile), qr/terminated by signal|PANIC/, 'there was no crash');
$node->stop;

done_testing();
