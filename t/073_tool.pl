# The command-line tool shows what is in the store, with the server up or down; says
# what is wrong with it; and never writes.

use strict;
use warnings;

use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

use Oracle;
use Pass;
use Resume;
use Trouble;

my $node = resume_node('tool', conf => "autovacuum = off\n");
my $dir = store($node);
my $file = store($node, 'data.mdb');
my $tool = $node->installed_command('pg_vacuum_resume');

delete $ENV{PGDATA};

# Exit status, standard output and standard error of the tool
sub run_tool
{
	my (@arguments) = @_;
	my ($stdout, $stderr) = ('', '');

	IPC::Run::run([ $tool, @arguments ], '>', \$stdout, '2>', \$stderr);
	return ($? & 127 ? 'signal ' . ($? & 127) : $? >> 8, $stdout, $stderr);
}

# The same on our data directory
sub tool
{
	my ($command, @arguments) = @_;
	return run_tool($command, '-D', $node->data_dir, @arguments);
}

# A command succeeds and complains of nothing; returns what it prints.
sub output_of
{
	my ($command, @arguments) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($status, $stdout, $stderr) = tool($command, @arguments);

	is("$status$stderr", '0', "$command @arguments succeeds");
	return $stdout;
}

sub json_of
{
	return decode_json(output_of(@_, '--json'));
}

# Records that were checked, if all is well; history is checked with them.
sub checked
{
	my ($text) = @_;
	return $text =~ /^(\d+) records?, \d+ runs?, 0 problems\n\z/ ? $1 : $text;
}

# A command finds something wrong, says so, and does not die of it.
sub complains
{
	my ($what, $pattern, $command, @arguments) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($status, $stdout, $stderr) = tool($command, @arguments);

	is($status, 1, "$command: $what");
	like($stderr, $pattern, '  and it says so');
	return $stdout;
}

# Lines of CSV as a reader would take them: a list of lists
sub parse_csv
{
	my ($text) = @_;
	my (@rows, @row);

	while ($text =~ /\G(?:"((?:[^"]|"")*)"|([^",\n]*))([,\n])/gc)
	{
		my ($quoted, $plain, $end) = ($1, $2, $3);

		push @row, defined $quoted ? $quoted =~ s/""/"/gr : $plain;
		next if $end eq ',';
		push @rows, [@row];
		@row = ();
	}
	is(pos($text), length $text, 'CSV is well-formed');
	return @rows;
}

# What is in the store's directory: names, inodes, modes, owners and sizes, and times
# of change but for the lock file, which readers use
sub contents
{
	return join "\n", map { join ' ', $_, (stat $_)[ 1, 2, 4, 7, /lock\.mdb$/ ? () : 9 ] }
	  sort glob "$dir/*";
}

###############################################################################
# How it is called
###############################################################################

my $data_dir = $node->data_dir;

foreach my $case (
	[ [], 'no command given' ],
	[ [ '-D', $data_dir ], 'no command given' ],
	[ ['list'], 'no data directory given' ],
	[ [ 'list', '-D' ], 'unrecognized option or missing value "-D"' ],
	[ [ 'list', '-D', '/nowhere' ], '"/nowhere" is not a data directory' ],
	[ [ 'list', '-D', $dir ], 'is not a data directory' ],
	[ [ 'list', '-D', '' ], 'is not a data directory' ],
	[ [ 'lst', '-D', $data_dir ], 'unrecognized command "lst"' ],
	[ [ 'list', '-D', $data_dir, '--xml' ], 'unrecognized option or missing value "--xml"' ],
	[ [ 'list', '-D', $data_dir, '-x' ], 'unrecognized option or missing value "-x"' ],
	[ [ 'list', '-D', $data_dir, 't' ], 'too many arguments, the first is "t"' ],
	[ [ 'check', '-D', $data_dir, 't' ], 'too many arguments, the first is "t"' ],
	[ [ 'show', '-D', $data_dir ], 'no table given' ],
	[ [ 'show', '-D', $data_dir, 't', 'u' ], 'too many arguments, the first is "u"' ])
{
	my ($arguments, $message) = @$case;
	my ($status, $stdout, $stderr) = run_tool(@$arguments);

	is("$status$stdout", '2', "misuse: @$arguments");
	like($stderr, qr/^pg_vacuum_resume: .*\Q$message\E/, '  is told');
}

foreach my $option ('--help', '-?')
{
	my ($status, $stdout) = run_tool($option);
	is($status, 0, "$option succeeds");
	like($stdout, qr/^Usage:\n.*^Commands:\n.*^Options:\n/ms, '  and helps');
	is(scalar(grep { length > 95 } split /\n/, $stdout), 0, '  in lines that fit');
}
my $version = $node->safe_psql('postgres', 'SELECT vacuum_resume.version()');
foreach my $option ('--version', '-V')
{
	is((run_tool($option))[1], "pg_vacuum_resume $version\n", "$option");
}

###############################################################################
# Nothing to show
###############################################################################

sub shows_nothing
{
	my ($when) = @_;

	subtest $when => sub {
		my $before = contents();

		like(output_of('list'), qr/^database +schema +table +phase .*\n\z/, 'a head line alone');
		is_deeply(json_of('list'), [], 'an empty list');
		is(scalar(parse_csv(output_of('list', '--csv'))), 1, 'a head line alone');
		is(checked(output_of('check')), 0, 'nothing to check');
		complains('there is no such table', qr/no vacuum of table "t" to continue/, 'show', 't');
		is(contents(), $before, 'nothing has been written');
	};
	return;
}

ok(!-e $dir, 'there is no store yet');
shows_nothing('no store');
ok(!-e $dir, '  and still none');

###############################################################################
# Vacuums to show
###############################################################################

make_table($node, $_, %small) foreach qw(scanned indexes reaped);
stop_at($node, 'scanned', 'scanning heap');
stop_at($node, 'indexes', 'vacuuming indexes', 1);
stop_at($node, 'reaped', 'vacuuming heap');

# Names that need quotes, of whatever kind
$node->safe_psql(
	'postgres', q{
	CREATE SCHEMA "Other, ""schema""";
	CREATE TABLE "Other, ""schema""".scanned (k int);
	CREATE TABLE public."two
lines" (k int);
	INSERT INTO "Other, ""schema""".scanned SELECT generate_series(1, 20000);
	INSERT INTO public."two
lines" SELECT generate_series(1, 20000);});
$node->safe_psql('postgres', "SET $Resume::slowly; "
	  . qq{VACUUM (MAX_DURATION 1) "Other, ""schema""".scanned, public."two\nlines"});
$node->safe_psql('postgres', 'CREATE DATABASE "another one"');
$node->safe_psql('another one', "CREATE TABLE far (k int); INSERT INTO far SELECT generate_series(1, 20000); "
	  . "SET $Resume::slowly; VACUUM (MAX_DURATION 1) far");
$node->safe_psql('postgres', "SET $Resume::slowly; VACUUM (FREEZE, MAX_DURATION 1) pg_proc, pg_depend");

my @columns = qw(database schema table phase percent next_block blocks pending_row_pointers
  indexes_done indexes runs last_stop);
my $expected = decode_json($node->safe_psql(
		'postgres', q{
	SELECT json_agg(json_build_object(
		'database', d.datname, 'schema', schema_name, 'table', table_name, 'phase', phase,
		'percent', round(100.0 * next_block / rel_blocks, 2), 'next_block', next_block,
		'blocks', rel_blocks, 'pending_row_pointers', pending_dead_tuples,
		'indexes_done', indexes_done, 'indexes', indexes, 'runs', runs, 'last_stop', last_stop))
	FROM vacuum_resume.cycles() c LEFT JOIN pg_database d ON d.oid = database}));
is(scalar @$expected, 8, 'so many vacuums can be continued');

# What list says of the columns that SQL knows, in an order that is always the same
sub comparable
{
	my (@rows) = @_;

	return [ map { join '|', map { defined ? $_ : 'none' } @{$_}{@columns} }
		  sort { "$a->{schema}.$a->{table}" cmp "$b->{schema}.$b->{table}" } @rows ];
}

sub shows_all
{
	my ($when, @by_hand) = @_;

	subtest $when => sub {
		my $before = contents();
		my $up = $when =~ /up/;

		# without a server nobody knows a database's name
		my @rows = map { { %$_, database => $up ? $_->{database} : undef } } @$expected;
		my $json = json_of('list');
		my ($head, @csv) = parse_csv(output_of('list', '--csv'));
		my @from_csv;
		foreach my $line (@csv)
		{
			my %row;
			@row{@$head} = @$line;
			push @from_csv, \%row;
		}
		foreach my $row (@$json, @from_csv)
		{
			like($row->{database}, qr/^\d+$/, 'a database without its name') unless $up;
			$row->{database} = undef unless $up;
			like($row->{last_saved}, qr/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4}$/, 'a time');
			$row->{percent} += 0;
		}
		$_->{percent} += 0 foreach @rows;
		is_deeply(comparable(@$json), comparable(@rows), 'JSON says what SQL says');
		is_deeply(comparable(@from_csv), comparable(@rows), 'CSV says what SQL says');

		my @lines = split /\n/, output_of('list');
		like($lines[0], qr/^database +schema +table +phase +percent +next block +blocks +pending row pointers/,
			'a head line');
		foreach my $row (@rows)
		{
			next if $row->{table} =~ /\n/;
			my @found = grep { /^\S.*?\s+\Q$row->{schema}\E\s+\Q$row->{table}\E\s+\Q$row->{phase}\E\s+/ } @lines;
			is(scalar @found, 1, "a line for $row->{schema}.$row->{table}");
			like($found[0], qr/\s$row->{next_block}\s+$row->{blocks}\s+$row->{pending_row_pointers}\s/,
				'  with its numbers');
		}
		is(checked(output_of('check')), 8, 'all is well');
		is(contents(), $before, 'nothing has been written');
	};
	return;
}

shows_all('the server is up');

# show knows more
my %reaped = %{ json_of('show', 'reaped')->[0] };
my $record = record($node, 'reaped');
is("$reaped{table_oid} $reaped{file_number}",
	$node->safe_psql('postgres', q{SELECT oid || ' ' || relfilenode FROM pg_class WHERE relname = 'reaped'}),
	'show tells which table it is');
is("@reaped{qw(pages_scanned pages_scanned_again pages_verified index_scans tuples_removed runs interruptions)}",
	"@{$record}{qw(pages_scanned pages_scanned_again pages_verified index_scans tuples_removed runs interruptions)}",
	'  and what was done so far');
is("$reaped{row_pointers_lost}, $reaped{skipped_all_visible_pages}", 'no, no', '  as words');
my $age = $node->safe_psql('postgres', "SELECT age('$reaped{carried_xid}'::xid)");
ok($age >= 0 && $age < 1000, '  and how far relfrozenxid may advance');
like(output_of('show', 'reaped'), qr/^table +reaped\n(?:.*\n)*phase +vacuuming heap\n(?:.*\n)*pages scanned +48\n/m,
	'  line by line');
is($_->[1], scalar @{ json_of('show', $_->[0]) }, "show $_->[0]")
  foreach [ 'scanned', 2 ], [ 'public.scanned', 1 ], [ 'Other, "schema".scanned', 1 ],
	[ $reaped{table_oid}, 1 ], [ "two\nlines", 1 ], [ 'pg_catalog.pg_proc', 1 ];
my (undef, $row) = parse_csv(output_of('show', "two\nlines", '--csv'));
is($row->[2], "two\nlines", 'show as CSV');
complains('it is not known', qr/no vacuum of table "nobody" to continue/, 'show', 'nobody', '--json');

$ENV{PGDATA} = $data_dir;
is(checked((run_tool('check'))[1]), 8, 'PGDATA is used');
is(checked((run_tool('check', "--pgdata=$data_dir"))[1]), 8, '--pgdata is used');
delete $ENV{PGDATA};

###############################################################################
# While a vacuum runs
###############################################################################

subtest 'a vacuum runs' => sub {
	make_table($node, 'running', pages => 300, dead => 'k % 3 = 0');

	# it will not get farther than where another session holds a page
	my $holder = hold_block($node, 'running', 290);
	my $vacuum = start_vacuum($node, 'running', options => 'FREEZE',
		set => [ $Resume::slowly, $Resume::saving ]);
	my @seen;

	wait_for_phase($node, 'running', 'scanning heap', 'heap_blks_scanned > 32');
	for (1 .. 15)
	{
		my $rows = json_of('show', 'running');
		is($rows->[0]{last_stop}, 'running or killed', 'it is shown as running');
		push @seen, $rows->[0]{next_block};
		is(checked(output_of('check')), 9, 'all is well');
	}
	cmp_ok($seen[-1], '>', $seen[0], 'it is seen to go on');
	is_deeply(\@seen, [ sort { $a <=> $b } @seen ], '  and never back');
	stop_vacuum($node, 'running', vacuum => $vacuum, way => 'cancel', phase => 'scanning heap',
		holder => $holder);
	is(json_of('show', 'running')->[0]{last_stop}, 'cancelled', 'then it is shown as cancelled');
	$node->safe_psql('postgres', q{SELECT vacuum_resume.forget('running')});
};

###############################################################################
# Where it may not write, and is not let in
###############################################################################

# A vacuum that is killed cannot say that it stops. If a server may be running, so may the
# vacuum; also if one has left its postmaster.pid behind.
subtest 'a vacuum was killed' => sub {
	make_table($node, 'shot', pages => 300, dead => 'k % 3 = 0');
	stop_vacuum($node, 'shot', way => 'immediate', set => [ $Resume::slowly, $Resume::saving ],
		phase => 'scanning heap', when => 'heap_blks_scanned >= 200');
	is(json_of('show', 'shot')->[0]{last_stop}, 'running or killed', 'it may be running');
	$node->stop;
	is(json_of('show', 'shot')->[0]{last_stop}, 'killed', '  but not if the server is down');
	is((grep { $_->{table} eq 'shot' } @{ json_of('list') })[0]{last_stop}, 'killed', '  as list says, too');
	append_to_file("$data_dir/postmaster.pid", "1\n$data_dir\n1\n1\n/nowhere\n");
	is(json_of('show', 'shot')->[0]{last_stop}, 'running or killed', '  for which nobody vouches then');
	unlink "$data_dir/postmaster.pid";
	$node->start;
	$node->safe_psql('postgres', q{SELECT vacuum_resume.forget('shot')});
};

$node->stop;
shows_all('the server is down');

subtest 'nothing may be written' => sub {
	unlink "$dir/lock.mdb" or die "cannot remove lock.mdb: $!";
	my $before = contents();
	is(checked(output_of('check')), 8, 'without a lock file');
	is(contents(), $before, '  there is none afterwards');
	$node->start;
	$node->safe_psql('postgres', 'SELECT * FROM vacuum_resume.progress');
	chmod 0400, glob "$dir/*" or die $!;
	chmod 0500, $dir or die $!;
	$before = contents();
	is(checked(output_of('check')), 8, 'in a read-only directory');
	is(contents(), $before, '  nothing has changed');
	chmod 0700, $dir or die $!;
	chmod 0600, glob "$dir/*" or die $!;

	# a server that does not let us in
	$node->append_conf('pg_hba.conf', '');
	my $hba = slurp_file("$data_dir/pg_hba.conf");
	unlink "$data_dir/pg_hba.conf";
	append_to_file("$data_dir/pg_hba.conf", "local all all reject\n");
	$node->reload;
	is(scalar @{ json_of('list') }, 8, 'a server that rejects us costs names only');
	unlink "$data_dir/pg_hba.conf";
	append_to_file("$data_dir/pg_hba.conf", $hba);
	$node->reload;
	$node->poll_query_until('postgres', 'SELECT true') or die 'no way in';
	$node->stop;
	append_to_file("$data_dir/postmaster.pid", "1\n$data_dir\n1\n1\n/nowhere\n");
	is(scalar @{ json_of('list') }, 8, 'one that is gone without a trace, too');
	unlink "$data_dir/postmaster.pid";
};

###############################################################################
# A damaged store
###############################################################################

my $good = slurp_file($file);
my $pages = length($good) / 4096;

sub overwrite
{
	my ($bytes) = @_;

	# the inode stays
	open my $handle, '+<:raw', $file or die "cannot open $file: $!";
	syswrite $handle, $bytes or die "cannot write to $file: $!" if $bytes ne '';
	truncate $handle, length $bytes or die "cannot truncate $file: $!";
	close $handle or die "cannot close $file: $!";
	return;
}

sub garbage
{
	my ($bytes) = @_;
	return pack 'C*', map { int rand 256 } 1 .. $bytes;
}

srand 1;
foreach my $damage (
	[ 'a short file', sub { substr $_[0], 0, length($_[0]) / 2 }, qr/too short|damaged/ ],
	[ 'one page', sub { substr $_[0], 0, 4096 }, qr/could not open the store|damaged/ ],
	[ 'garbage', sub { garbage(length $_[0]) }, qr/could not open the store|damaged/ ],
	[ 'text', sub { "no store\n" x 5000 }, qr/could not open the store|damaged/ ],
	[ 'garbled pages', sub { substr($_[0], 0, 8192) . garbage(length($_[0]) - 8192) }, qr/pg_vacuum_resume: / ],
	[ 'zeroed pages', sub { substr($_[0], 0, 8192) . "\0" x (length($_[0]) - 8192) }, qr/pg_vacuum_resume: / ],
	[ 'a changed record', sub { $_[0] =~ s/reaped\0/reaper\0/gr },
		qr/database \d+, table $reaped{table_oid}: the record is damaged/ ])
{
	my ($name, $change, $says) = @$damage;

	subtest $name => sub {
		overwrite($change->($good));
		my $before = contents();

		like(complains('the store is damaged', $says, 'check'), qr/^\d+ records?, \d+ runs?, [1-9]\d* problems?$/,
			'  and how much is wrong');
		my $rows = decode_json(complains('the store is damaged', $says, 'list', '--json'));
		is(scalar(grep { ref ne 'HASH' } @$rows), 0, '  and the rest is shown');
		is(scalar @$rows, 7, '  all of it') if $name eq 'a changed record';
		is(contents(), $before, 'nothing has been written');
	};
}

# An empty file is not written yet: a server that was killed just then leaves it so, and
# the next one takes it for new. But once it has been written it has its identity.
subtest 'an empty file' => sub {
	overwrite('');
	like(complains('it was not empty before', qr/the store's file has been emptied; the server will begin a new one/, 'check'),
		qr/^0 records, 0 runs, 1 problem$/, '  and nothing is left');
	rename "$dir/identity", "$dir/identity.away" or die $!;
	shows_nothing('not written yet');
	rename "$dir/identity.away", "$dir/identity" or die $!;
};

# Numbers that cannot be
my $survived = 0;
foreach my $round (1 .. 60)
{
	my $bytes = $good;

	srand $round;
	foreach (1 .. 1 + rand 6)
	{
		my $offset = 4096 * int(2 + rand($pages - 2)) + 8 + 2 * int rand 40;
		substr($bytes, $offset, 2) = pack 'v', $round % 2 ? rand 65536 : rand 64;
	}
	overwrite($bytes);
	my ($status) = tool('check');
	$survived++ if $status =~ /^[01]$/;
	diag("round $round: $status") if $status !~ /^[01]$/;
}
is($survived, 60, 'wrong numbers in pages do not kill it');
overwrite($good);
is(checked(output_of('check')), 8, 'the good one is good');

chmod 0000, $dir or die $!;
complains('it cannot be read', qr/could not look at the store: Permission denied/, 'list');
chmod 0700, $dir or die $!;
rename "$dir/identity", "$dir/identity.away" or die $!;
complains('it is not this directory\'s', qr/the store is not that of this data directory; the server will set it aside/, 'check');
rename "$dir/identity.away", "$dir/identity" or die $!;

# A server sets aside what is damaged, and the tool sees the new one
overwrite(garbage(length $good));
$node->start;
$node->safe_psql('postgres', 'VACUUM scanned');
is(checked(output_of('check')), 0, 'a store that was set aside does not count');
Oracle::table_ok($node, 'postgres', 'scanned');
stop_at($node, 'reaped', 'scanning heap');
is(json_of('list')->[0]{table}, 'reaped', '  and a new one does');
careful_vacuum($node, 'reaped');
shows_nothing('an empty store');

only_asked_for_crashes($node);
$node->stop;

done_testing();
