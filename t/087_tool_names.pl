# Whatever a table or database is called, the tool shows it so that nobody's terminal is
# garbled or lied to, and tells it from others of the same name; and has the server
# forget that one, or says why it cannot be done.

use strict;
use warnings;

use JSON::PP;
use List::Util qw(max);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

use Pass;
use Trouble;

my $node = new_node(
	'tool_names',
	init => { extra => [ '--encoding=UTF8', '--locale=C' ] },
	conf => join "\n",
	'vacuum_cost_limit = 1', 'vacuum_cost_page_hit = 1', 'vacuum_cost_page_miss = 1', '');
my $tool = $node->installed_command('pg_vacuum_resume');
my $directory = $node->data_dir;

# Bytes that no LATIN1 name of a database would survive if they were converted
$ENV{PGCLIENTENCODING} = 'LATIN1';
delete $ENV{PGDATA};

# A statement in bytes, in a database whose name is bytes as well
sub query
{
	my ($database, $sql) = @_;
	my ($stdout, $stderr) = ('', '');
	local $ENV{PGCLIENTENCODING} = 'SQL_ASCII';

	IPC::Run::run(
		[ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-h', $node->host, '-p', $node->port, '-f', '-', $database ],
		'<', \$sql, '>', \$stdout, '2>', \$stderr)
	  or die "$sql: $stderr";
	return $stdout =~ s/\n\z//r;
}

# Exit status, standard output and standard error of the tool
sub tool
{
	my ($command, @arguments) = @_;
	my ($stdout, $stderr) = ('', '');

	IPC::Run::run([ $tool, $command, '-D', $directory, @arguments ], '>', \$stdout, '2>', \$stderr,
		IPC::Run::timeout(60));
	return ($? >> 8, $stdout, $stderr);
}

# It succeeds and complains of nothing; returns what it prints.
sub output_of
{
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($status, $stdout, $stderr) = tool(@_);

	is("$status$stderr", '0', visible("@_ succeeds"));
	return $stdout;
}

sub json_of
{
	return JSON::PP->new->utf8->decode(output_of(@_, '--json'));
}

# It fails with this exit status, prints nothing, and says why.
sub refuses
{
	my ($arguments, $expected, @patterns) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($status, $stdout, $stderr) = tool(@$arguments);

	is("$status$stdout", $expected, visible("@$arguments is refused"));
	like($stderr, $_, '  and it says why') foreach @patterns;
	return;
}

sub visible
{
	return $_[0] =~ s/([^ -~])/sprintf '<%02x>', ord $1/ger;
}

# Tables of another session's making whose vacuum was interrupted
sub interrupt
{
	my ($database, @tables) = @_;

	foreach my $table (@tables)
	{
		query($database, qq{
			CREATE TABLE $table (k int);
			INSERT INTO $table SELECT generate_series(1, 20000);});
	}
	return interrupt_again($database, @tables);
}

sub interrupt_again
{
	my ($database, @tables) = @_;
	my $list = join ', ', @tables;

	query($database, "SET client_min_messages = error; SET vacuum_cost_delay = 2; "
		  . "VACUUM (FREEZE, RESUME off, MAX_DURATION 1) $list");
	return;
}

sub quoted
{
	return '"' . ($_[0] =~ s/"/""/gr) . '"';
}

# What is in the store's directory, as far as only the server changes it
sub contents
{
	return join "\n", map { join ' ', $_, (stat $_)[ 1, 7, 9 ] } grep { !/lock\.mdb$/ } sort glob store($node, '*');
}

sub databases_of
{
	my ($table) = @_;
	return join ' ', sort map { $_->{database} } grep { $_->{table} eq $table } @{ json_of('list') };
}

query('postgres', $_) foreach 'CREATE EXTENSION pg_vacuum_resume', 'CREATE DATABASE one', 'CREATE DATABASE two';
query($_, 'CREATE EXTENSION pg_vacuum_resume') foreach 'one', 'two';
my %oid = map { $_ => query('postgres', "SELECT oid FROM pg_database WHERE datname = '$_'") } 'one', 'two';

###############################################################################
# Names that do something to a terminal, or to whoever reads it
###############################################################################

# [ name, how people see it, columns that it takes ]
my @names = (
	[ "two\nlines", 'two\nlines', 10 ],
	[ "x\nforged  public  sheep", 'x\nforged  public  sheep', 24 ],
	[ "tab\there\r", 'tab\there\r', 11 ],
	[ "red\e[31m\x7f", 'red\x1B[31m\x7F', 15 ],
	[ "c1 \xc2\x9b31m", 'c1 \u009B31m', 12 ],
	[ "turned \xe2\x80\xae", 'turned \u202E', 13 ],
	[ 'say "so", or not', 'say "so", or not', 16 ],
	[ 'back\\slash', 'back\\slash', 10 ],
	[ "gr\xc3\xbcn", "gr\xc3\xbcn", 4 ],
	[ "e\xcc\x81", "e\xcc\x81", 1 ],
	[ "\xe8\xa1\xa8\xe6\xa0\xbc", "\xe8\xa1\xa8\xe6\xa0\xbc", 4 ],
	[ "a\xf0\x9f\x98\x80", "a\xf0\x9f\x98\x80", 3 ]);
my $longest = max(map { $_->[2] } @names);

interrupt('one', map { quoted($_->[0]) } @names);

subtest 'for people' => sub {
	my $text = output_of('list');
	my @lines = split /\n/, $text;

	is(scalar @lines, 1 + @names, 'a line for each, and no line that a name has made up');
	unlike($text, qr/[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80\xae/, 'no character that acts');
	my ($start, $phase) = $lines[0] =~ /^(database  schema  )(table +)phase/;
	is(length $phase, $longest + 2, 'as wide as the longest name');
	foreach my $name (@names)
	{
		my ($exact, $seen, $columns) = @$name;
		my $line = "one       public  $seen" . ' ' x ($longest - $columns) . '  scanning heap';

		is(scalar(grep { index($_, $line) == 0 } @lines), 1, visible("$exact has its place"));
		like(output_of('show', $exact), qr/^table +\Q$seen\E$/m, '  in show, too');
		like((split /\n/, output_of('explain', $exact))[0], qr/^Next vacuum of public\.\Q$seen\E, by/, '  and explain');
	}
};

subtest 'for programs' => sub {
	my @exact = sort map { $_->[0] } @names;
	my @json = map { utf8::encode(my $bytes = $_->{table}); $bytes } @{ json_of('list') };
	my $csv = output_of('list', '--csv');

	is_deeply([ sort @json ], \@exact, 'JSON has the names');
	foreach my $name (@exact)
	{
		my $field = $name =~ /[,"\r\n]/ ? quoted($name) : $name;
		like($csv, qr/^one,public,\Q$field\E,scanning heap,/m, visible("CSV has $name"));
	}
};

###############################################################################
# Databases of another encoding
###############################################################################

# in UTF-8 this would not be a name at all
my $latin = "caf\xe9\n";
query('postgres', q{CREATE DATABASE latin ENCODING LATIN1 LOCALE 'C' TEMPLATE template0});
query('latin', 'CREATE DATABASE ' . quoted($latin) . q{ ENCODING LATIN1 LOCALE 'C' TEMPLATE template0});
query($latin, 'CREATE EXTENSION pg_vacuum_resume');
interrupt($latin, "\"th\xe9\"");

subtest 'names that are not UTF-8' => sub {
	my $option = "--database=$latin";

	like(output_of('list', $option), qr/^database +.*\ncaf\\xE9\\n +public +th\\xE9 +scanning heap .*\n\z/, 'people see bytes');
	my ($row) = @{ json_of('list', $option) };
	is("$row->{database} $row->{table}", "caf\\xE9\n th\\xE9", 'as do programs that read JSON');
	like(output_of('list', $option, '--csv'), qr/^"caf\xe9\n",public,th\xe9,/m, 'CSV is exact');
	is(json_of('explain', "th\xe9")->[0]{estimates}, 'now', 'the database can be asked');
	is(output_of('forget', "th\xe9") =~ s/\b\d+/N/gr,
		"forgot the vacuum of public.th\\xE9 (database caf\\xE9\\n, table N), which had got to block N of N\n",
		'and told to forget');
	is(scalar @{ json_of('list', $option) }, 0, '  which it did');
};

###############################################################################
# Tables of the same name, and of the same OID
###############################################################################

interrupt($_, 'twin') foreach 'one', 'two';
interrupt_again($_, 'pg_proc') foreach 'one', 'two';
my $proc = query('one', q{SELECT 'pg_proc'::regclass::oid});

sub one_of_several
{
	my ($table, $when) = @_;

	subtest "$table, $when" => sub {
		my $several = qr/there are several tables of this name, tell which by OID and --database: "\Q$table\E"/;

		is(scalar @{ json_of('show', $table) }, 2, 'all are shown');
		refuses([ 'explain', $table ], 2, $several);
		refuses([ 'forget', $table ], 2, $several);
		foreach my $database (sort keys %oid)
		{
			my $up = $when eq 'up';
			foreach my $option ($up ? ($database, $oid{$database}) : $oid{$database})
			{
				my $rows = json_of('show', $table, '--database', $option);
				is(join(' ', map { $_->{database} } @$rows), $up ? $database : $oid{$database}, 'one is shown');
				$rows = json_of('explain', $table, '--database', $option);
				is($rows->[0]{estimates}, $up ? 'now' : 'saved', '  and explained');
				$rows = json_of('history', $table, '--database', $option);
				is(join(' ', map { $_->{outcome} } @$rows), 'max_duration', '  and has its own past');
				$rows = json_of('list', '--database', $option);
				is(scalar(grep { $_->{database} ne ($up ? $database : $oid{$database}) } @$rows), 0,
					'  and can be listed with those of its database');
				is(scalar @$rows, $database eq 'one' ? @names + 2 : 2, '  all of them');
			}
		}
	};
	return;
}

my @several = ('twin', 'pg_catalog.pg_proc', $proc);
one_of_several($_, 'up') foreach @several;
$node->stop;
one_of_several($_, 'down') foreach @several;
$node->start;
refuses([ 'list', '--database=three' ], 2, qr/there is no database "three"/);
refuses([ 'check', '--database=one' ], 2, qr/--database does not go with command "check"/);
refuses([ 'forget', 'twin', '--json' ], 2, qr/--json and --csv do not go with command "forget"/);
refuses([ 'forget' ], 2, qr/no table given/);
is(output_of('list', '--database=4294967295', '--csv') =~ tr/\n//, 1, 'an OID that no database has matches none');

###############################################################################
# Forgetting
###############################################################################

like(output_of('forget', 'twin', '--database=two'),
	qr/^forgot the vacuum of public\.twin \(database two, table \d+\), which had got to block \d+ of \d+\n\z/,
	'the server forgets one');
is(databases_of('twin'), 'one', '  and not the other');
is(query('one', q{SELECT database FROM vacuum_resume.progress WHERE relation LIKE '%twin'}), 'one', '  as SQL says, too');
refuses([ 'forget', 'twin', '--database=two' ], 1, qr/^pg_vacuum_resume: no vacuum of table "twin" to continue$/);
like(output_of('forget', $proc, "--database=$oid{one}"), qr/of pg_catalog\.pg_proc \(database one, table $proc\)/, 'by OIDs');
is(databases_of('pg_proc'), 'two', '  one of two');

# A catalog that all databases share
query('one', q{
	DO $$ BEGIN
		FOR i IN 1 .. 1500 LOOP
			EXECUTE format('COMMENT ON DATABASE two IS %L', i || repeat('x', 400));
		END LOOP;
	END $$;});
interrupt_again('one', 'pg_shdescription');
is(join(' ', map { "$_->{database} $_->{table}" } @{ json_of('list', '--database=(shared)') }),
	'(shared) pg_shdescription', 'a shared catalog is of no database');
like(output_of('forget', 'pg_shdescription', '--database=0'), qr/of pg_catalog\.pg_shdescription \(shared, table \d+\)/,
	'  and can be forgotten');
is(databases_of('pg_shdescription'), '', '  which it is');

like(output_of('forget', $names[3][0]), qr/^forgot the vacuum of public\.red\\x1B\[31m\\x7F \(/, 'by a name that acts');
like(output_of('check'), qr/^\d+ records?, \d+ runs?, 0 problems\n\z/, 'the store is in order');

# Whoever may not, cannot; and nothing waits for hours
query('postgres', 'CREATE ROLE pgvr_stranger LOGIN');
{
	local $ENV{PGUSER} = 'pgvr_stranger';
	refuses([ 'forget', 'twin' ], 1,
		qr/^pg_vacuum_resume: could not forget the vacuum of public\.twin: ERROR:  must be owner of table twin$/);
}
{
	my $holder = $node->background_psql('one');
	$holder->query_safe('BEGIN; LOCK TABLE twin IN SHARE UPDATE EXCLUSIVE MODE');
	refuses([ 'forget', 'twin' ], 1,
		qr/could not forget the vacuum of public\.twin: a vacuum of it is under way, or something else has locked it\nStop that first/);
	$holder->quit;
}
query('two', 'DROP EXTENSION pg_vacuum_resume');
refuses([ 'forget', 'pg_proc' ], 1, qr/the extension has not been created in this database\nCREATE EXTENSION pg_vacuum_resume there/);
is(databases_of('pg_proc'), 'two', '  and nothing is forgotten');

###############################################################################
# Others' functions
###############################################################################

# Whoever may create things in a database might wait for a superuser to come along with
# the tool. Functions of our names, where ours are not:
my $columns = join ', ', map { "OUT $_" } 'plan text', 'chosen boolean', 'possible boolean', 'reason text',
  'from_block bigint', 'heap_pages float8', 'index_pages float8', 'index_passes integer', 'work float8',
  'dead_rows_removed float8', 'dead_rows_expected float8';
query('two', q{
	CREATE SCHEMA vacuum_resume;
	CREATE TABLE called ();
	CREATE FUNCTION spring() RETURNS boolean LANGUAGE plpgsql AS 'BEGIN DROP TABLE public.called; RETURN true; END';
	CREATE FUNCTION vacuum_resume.cycles() RETURNS SETOF boolean LANGUAGE sql AS 'SELECT public.spring()';});
query('two', qq{
	CREATE FUNCTION vacuum_resume.decide($_, text, $columns) RETURNS SETOF record LANGUAGE plpgsql
		AS 'BEGIN PERFORM public.spring(); END';
	CREATE FUNCTION vacuum_resume.forget($_) RETURNS boolean LANGUAGE sql AS 'SELECT public.spring()';})
  foreach 'oid', 'regclass';
refuses([ 'forget', 'pg_proc' ], 1, qr/the extension has not been created in this database/);
my (undef, $rows, $complaint) = tool('explain', 'pg_proc', '--database=two', '--json');
is(JSON::PP->new->utf8->decode($rows)->[0]{estimates}, 'saved', 'what is saved is explained');
is($complaint, "pg_vacuum_resume: the server could not be asked: the extension has not been created in this database\n",
	'  and why');
is(query('two', q{SELECT to_regclass('called')}), 'called', "nobody else's function was called");

# Functions and operators of the server's names, before the server's own
query('one', q{
	CREATE SCHEMA trap;
	CREATE TABLE trap.called ();
	CREATE FUNCTION trap.round(float8) RETURNS float8 LANGUAGE plpgsql AS 'BEGIN DROP TABLE trap.called; RETURN 7; END';
	CREATE FUNCTION trap.same(oid, oid) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN DROP TABLE trap.called; RETURN true; END';
	CREATE OPERATOR trap.= (LEFTARG = oid, RIGHTARG = oid, FUNCTION = trap.same);
	ALTER DATABASE one SET search_path = trap, pg_catalog;});
is(json_of('explain', 'twin', '--database=one')->[0]{estimates}, 'now', 'the server is asked');
is(query('one', q{SELECT pg_catalog.to_regclass('trap.called')}), 'called', '  and called its own functions');
query('one', 'ALTER DATABASE one RESET search_path');

# Dropped where the library did not see it
interrupt('one', 'gone');
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->restart;
query('one', 'DROP TABLE gone');
query('postgres', 'DROP DATABASE two');
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'pg_vacuum_resume'");
$node->restart;
refuses([ 'forget', 'pg_proc' ], 1, qr/database $oid{two} has been dropped; what is kept of its tables is not used/);
is(databases_of('gone'), 'one', 'there is a record of a table that is gone');
like(output_of('forget', 'gone'), qr/^forgot the vacuum of public\.gone \(database one, table \d+\), a table that has been dropped/,
	'  which can be forgotten');
is(databases_of('gone'), '', '  and then there is none');
is(databases_of('pg_proc'), '', 'with it the server has removed what was kept of a database that is gone');

###############################################################################
# Where no server can be asked
###############################################################################

my $only_server = qr/^Only the server can forget it: start it, and see that it lets you in\.$/m;
my $instead = qr/^directory "\Q$directory\E\/pg_vacuum_resume" instead, but only while the server is down\.$/m;

# A server that turns us away
my $hba = slurp_file("$directory/pg_hba.conf");
sub let_in
{
	my ($rules) = @_;

	unlink "$directory/pg_hba.conf";
	append_to_file("$directory/pg_hba.conf", $rules);
	$node->reload;
	return;
}
let_in("local one all reject\n$hba");
for (1 .. 600)
{
	last if $node->psql('one', 'SELECT 1') != 0;
	usleep(100_000);
}
my $before = contents();
refuses([ 'forget', 'twin' ], 1, qr/: connection to server .* FATAL:  pg_hba\.conf rejects connection.*\n/, $only_server, $instead);
let_in($hba);
$node->poll_query_until('one', 'SELECT true') or die 'no way in';

# A server that is another one, at the address that was left behind
my $pid_file = slurp_file("$directory/postmaster.pid");
my $other = PostgreSQL::Test::Cluster->new('other');
$other->init;
$other->start;
$node->stop;
append_to_file("$directory/postmaster.pid", slurp_file($other->data_dir . '/postmaster.pid'));
refuses([ 'forget', 'twin' ], 1, qr/: the server that answers is not that of this data directory$/m, $only_server);
is(databases_of('twin'), $oid{one}, 'nor is it asked for names');
$other->stop;
unlink "$directory/postmaster.pid";

# A server that was started at another time, as that of a copy would be
$node->start;
is(databases_of('twin'), 'one', 'names are there while it is the right one');
$pid_file = slurp_file("$directory/postmaster.pid");
overwrite("$directory/postmaster.pid", $pid_file =~ s/\A(.*\n.*\n)\d+/${1}1000000000/r);
is(databases_of('twin'), $oid{one}, '  and not when it has begun at another time');
overwrite("$directory/postmaster.pid", $pid_file);
$node->stop;

# None
$before = contents();
refuses([ 'forget', 'twin' ], 1,
	qr/^pg_vacuum_resume: could not forget the vacuum of public\.twin: the server is not running$/m, $only_server, $instead);
refuses([ 'forget', 'nobody' ], 1, qr/no vacuum of table "nobody" to continue/);
refuses([ 'list', '--database=one' ], 2, qr/no server tells the names of databases, give an OID instead of "one"/);
is(scalar @{ json_of('list', "--database=$oid{one}") }, @names, 'by OID it can be told');
is(contents(), $before, 'nothing has been written');

# what it advises is right
PostgreSQL::Test::Utils::system_or_bail('rm', '-r', store($node));
$node->start;
is(query('one', 'SELECT count(*) FROM vacuum_resume.progress'), 0, 'without the directory nothing is known');
query('one', 'VACUUM twin');
$node->stop;

sub overwrite
{
	my ($path, $text) = @_;

	open my $file, '+<', $path or die "cannot open $path: $!";
	print $file $text or die "cannot write to $path: $!";
	truncate $file, length $text or die "cannot truncate $path: $!";
	close $file or die "cannot close $path: $!";
	return;
}

done_testing();
