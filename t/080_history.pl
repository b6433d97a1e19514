# History has a row for each vacuum, however it ended: what it did, from where to where,
# and why. It is kept within its bounds, and gives way to what is needed to resume.

use strict;
use warnings;

use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

use Oracle;
use Pass;
use Resume;
use Trouble;

my $node = resume_node('history', conf => "autovacuum = off\n");
my $tool = $node->installed_command('pg_vacuum_resume');

sub query
{
	return $node->safe_psql('postgres', @_);
}

# A table's rows of history, or all, oldest first
sub runs
{
	my ($table) = @_;
	my $which = $table ? "WHERE relid = '$table'::regclass" : '';

	return @{ decode_json(query(
				"SELECT coalesce(json_agg(h ORDER BY run), '[]') FROM vacuum_resume.history AS h $which")) };
}

sub numbers
{
	return map { $_->{run} } runs(@_);
}

# Columns of a row, as text; the tool rounds numbers
sub columns
{
	my ($row, @columns) = @_;
	return join ' ', map { ref $_ ? $_ + 0 : !defined $_ ? 'none' : /^\d+\.\d+$/ ? sprintf '%.0f', $_ : $_ } @{$row}{@columns};
}

sub set_history_size
{
	my ($size) = @_;

	query("ALTER SYSTEM SET vacuum_resume.history_size = $size");
	$node->reload;
	$node->poll_query_until('postgres', "SELECT current_setting('vacuum_resume.history_size') = '$size'")
	  or die 'the setting has not changed';
	return;
}

# Vacuums that find nothing to do, in one session
sub many_vacuums
{
	my ($count) = @_;

	query(join ';', ('VACUUM (PROCESS_TOAST off) tiny') x $count);
	return;
}

# A vacuum of the table alone that has something to do and is stopped soon
sub stopped_vacuum
{
	my ($table) = @_;

	query("UPDATE $table SET v = v + 1 WHERE k % 3 = 1");
	slice($node, $table, options => 'PROCESS_TOAST off');
	return;
}

###############################################################################
# A vacuum that nothing happens to
###############################################################################

is(scalar runs(), 0, 'history begins empty');

make_table($node, 'whole', %small);
my $begun = query('SELECT now()');
my $report = careful_vacuum($node, 'whole');
my @rows = runs('whole');
my $row = $rows[0];

is(scalar @rows, 1, 'a vacuum that leaves no record leaves a row');
is(columns($row, qw(run database relation relid plan reason outcome)),
	'1 postgres whole ' . query(q{SELECT 'whole'::regclass::oid}) . ' restart there is nothing to continue finished',
	'  of this table, which was vacuumed as ever');
is(columns($row, qw(autovacuum aggressive)), '0 0', '  by hand');
is(query("SELECT '$begun' <= started AND started < ended AND ended <= now() AND duration = ended - started
	FROM vacuum_resume.history"), 't', '  just now');
is(columns($row, qw(from_block to_block rel_blocks)), '0 48 48', '  from end to end');
is(columns($row, qw(pages_scanned pages_scanned_again pages_skipped pages_verified)),
	"$report->{scanned} 0 " . (48 - $report->{scanned}) . ' 0', '  with so many pages scanned');
is(columns($row, qw(pages_vacuumed row_pointers_removed tuples_removed index_scans)),
	"48 $report->{removed} $report->{removed} 3", '  and so much removed');
my $index_pages = query(q{SELECT sum(pg_relation_size(indexrelid) / 8192) FROM pg_index WHERE indrelid = 'whole'::regclass});
is($row->{index_pages}, $index_pages, '  from all pages of the indexes');
is($row->{work}, $report->{scanned} + 48 + $index_pages, '  which is its work');
my $frozen = query(q{SELECT relfrozenxid FROM pg_class WHERE relname = 'whole'});
is(columns($row, qw(relfrozenxid_before relfrozenxid_after)), "$frozen $frozen", '  relfrozenxid is what it was');
is(columns($row, qw(pages_ahead pages_behind expected_work restart_work wrap_dead_rows)),
	'none none none none none', '  there was nothing to decide, and so nothing to estimate');

query('DELETE FROM whole WHERE k % 5 = 1');
careful_vacuum($node, 'whole', options => 'FREEZE, INDEX_CLEANUP off');
$row = (runs('whole'))[-1];
is(columns($row, qw(run aggressive pages_vacuumed row_pointers_removed index_scans index_pages)),
	'2 1 0 0 0 0', 'the next one is aggressive, and leaves the indexes alone');
cmp_ok($row->{tuples_removed}, '>', 0, '  but prunes');
is(columns($row, qw(relfrozenxid_before relfrozenxid_after)),
	"$frozen " . query(q{SELECT relfrozenxid FROM pg_class WHERE relname = 'whole'}), '  and relfrozenxid advances');
cmp_ok($row->{relfrozenxid_after}, '>', $frozen, '  indeed');

query(q{CREATE TABLE bare AS SELECT * FROM whole; DELETE FROM bare WHERE k % 2 = 0});
$report = careful_vacuum($node, 'bare');
$row = (runs('bare'))[0];
is(columns($row, qw(row_pointers_removed pages_vacuumed index_scans work)),
	"$report->{removed} 0 0 $report->{scanned}", 'without indexes, row pointers are removed in the one pass');

query('CREATE TEMP TABLE passing AS SELECT * FROM whole; VACUUM passing');
careful_vacuum($node, 'whole', set => ['vacuum_resume.enabled = off']);
is(scalar runs(), 3, 'no row of a temporary table, or by the server\'s own code');

###############################################################################
# Vacuums that are stopped
###############################################################################

# Each way once, in a table that all of them bring to its end together; with FREEZE, so
# that a vacuum waits for a page that another session holds
my @stops = (
	[ 'cancel', 'cancelled' ], [ 'terminate', 'terminated' ], [ 'kill_backend', 'killed' ],
	[ 'max_duration', 'max_duration' ], [ 'error', 'failed' ], [ 'kill_all', 'killed' ], [ 'fast', 'terminated' ]);
my $pages = 700;
my $at = 0;

make_table($node, 'stopped', pages => $pages, dead => 'k % 3 = 0');
foreach (@stops)
{
	my ($way, $outcome) = @$_;
	my $before = scalar runs('stopped');

	# a page whose first row is not dead
	my $from = $at;
	$at += 80;
	$at++ if $at % 3 == 0;
	if ($way eq 'max_duration')
	{
		slice($node, 'stopped', options => 'FREEZE');
	}
	elsif ($way eq 'error')
	{
		my $restore;

		query('CHECKPOINT');
		$node->restart;
		$restore = garble($node, 'stopped', $at);
		my ($status, undef, $stderr) = $node->psql('postgres', 'VACUUM (FREEZE) stopped');
		like($stderr, qr/ERROR:  invalid page in block $at/, 'a vacuum fails');
		$restore->();
	}
	else
	{
		# it waits where another session holds a page, or it would be over
		my $holder = hold_block($node, 'stopped', $at);
		my $vacuum = start_vacuum($node, 'stopped', options => 'FREEZE',
			set => [ $Resume::slowly, $Resume::saving ]);
		wait_for_pin_wait($node, 'stopped', 'scanning heap');
		if ($outcome eq 'killed')
		{
			$node->poll_query_until('postgres',
				"SELECT next_block > $from FROM vacuum_resume.progress WHERE last_stop = 'running'")
			  or die 'it has not saved';
		}
		is(scalar runs('stopped'), $before, 'a vacuum under way has no row');
		stop_vacuum($node, 'stopped', vacuum => $vacuum, way => $way, phase => 'scanning heap', holder => $holder);
	}
	@rows = runs('stopped');
	if ($outcome eq 'killed')
	{
		is(scalar @rows, $before, 'one that was killed has none either');
		my $record = record($node, 'stopped');
		slice($node, 'stopped', options => 'FREEZE');
		@rows = runs('stopped');
		is(scalar @rows, $before + 2, '  until the next one comes');
		$row = splice @rows, -2, 1;
		is($rows[-1]{from_block}, $record->{next_block}, '  which goes on where its last save was');
		is($row->{to_block}, $record->{next_block}, '  as its row says');
		is($row->{pages_scanned}, $row->{to_block} - $from, '  with what it had done by then');
		is(query("SELECT ended = '$record->{last_saved}' FROM vacuum_resume.history WHERE run = $row->{run}"),
			't', '  and when');
	}
	else
	{
		is(scalar @rows, $before + 1, 'then it has one');
		$row = $rows[-1];
	}
	is($row->{outcome}, $outcome, "$way: it was $outcome");
	$at = record($node, 'stopped')->{next_block};
}
careful_vacuum($node, 'stopped', options => 'FREEZE');
@rows = runs('stopped');
is_deeply([ map { $_->{plan} } @rows ], [ 'restart', ('resume and wrap') x $#rows ],
	'the first run has started over, all others have gone on');
is($rows[-1]{outcome}, 'finished', 'the last one has finished');
is_deeply([ map { $_->{from_block} } @rows[ 1 .. $#rows ] ], [ map { $_->{to_block} } @rows[ 0 .. $#rows - 1 ] ],
	'each has begun where the one before had got to');
is($rows[-1]{to_block}, $pages, '  up to the end');
my %sum;
foreach $row (@rows)
{
	$sum{$_} += $row->{$_} foreach qw(pages_scanned pages_skipped index_scans row_pointers_removed);
}
is(columns(\%sum, qw(pages_scanned pages_skipped index_scans row_pointers_removed)),
	"$pages 0 3 " . query(qq{SELECT count(*) FROM generate_series(0, $pages * $rows_per_page - 1) AS k WHERE k % 3 = 0}),
	'together they have done the work of one');

# In all of its phases: the sums of the rows are what the record has summed up
make_table($node, 'phases', %small);
stop_at($node, 'phases', 'vacuuming heap');
my $record = record($node, 'phases');
%sum = ();
foreach $row (runs('phases'))
{
	$sum{$_} += $row->{$_} foreach qw(pages_scanned pages_scanned_again index_scans tuples_removed pages_vacuumed index_pages);
}
is(columns(\%sum, qw(pages_scanned pages_scanned_again index_scans tuples_removed)),
	columns($record, qw(pages_scanned pages_scanned_again index_scans tuples_removed)),
	'in later phases the rows add up to the record, too');
cmp_ok($sum{pages_vacuumed}, '>', 0, '  and say how far the last phase got');
is($sum{index_pages}, query(q{SELECT sum(pg_relation_size(indexrelid) / 8192) FROM pg_index WHERE indrelid = 'phases'::regclass}),
	'  and that each index was read once');

# In mid-index
make_table($node, 'in_index', pages => 400, dead => 'k % 3 = 0');
my $holder = hold_index($node, 'in_index', 'k');
my $vacuum = start_vacuum($node, 'in_index');
wait_for_pin_wait($node, 'in_index', 'vacuuming indexes');
stop_vacuum($node, 'in_index', vacuum => $vacuum, way => 'cancel', phase => 'vacuuming indexes', holder => $holder);
$row = (runs('in_index'))[0];
is(columns($row, qw(index_scans to_block)), '0 400', 'an index that is not done with does not count');
cmp_ok($row->{index_pages}, '>', 0, '  but its pages do, as far as it was');
cmp_ok($row->{index_pages}, '<', query(q{SELECT pg_relation_size('in_index_k') / 8192}), '  and no more');

###############################################################################
# Killed, and what comes then does not go on
###############################################################################

make_table($node, 'killed', pages => 100, dead => 'k % 3 = 0');

sub kill_vacuum
{
	query('UPDATE killed SET v = v + 1 WHERE k % 3 = 1');
	my $job_holder = hold_block($node, 'killed', 91);
	my $job = start_vacuum($node, 'killed', options => 'FREEZE, RESUME off',
		set => [ $Resume::slowly, $Resume::saving ]);

	wait_for_pin_wait($node, 'killed', 'scanning heap');
	$node->poll_query_until('postgres', q{SELECT next_block > 0 FROM vacuum_resume.progress
		WHERE relid = 'killed'::regclass AND last_stop = 'running'})
	  or die 'it has not saved';
	stop_vacuum($node, 'killed', vacuum => $job, way => 'kill_backend', phase => 'scanning heap', holder => $job_holder);
	query(q{SELECT vacuum_resume.forget('in_index'), vacuum_resume.forget('phases')});
	return;
}

foreach my $case (
	[ 'starts over', sub { careful_vacuum($node, 'killed', options => 'RESUME off') }, 'killed finished' ],
	[ 'is the server\'s own', sub { careful_vacuum($node, 'killed', set => ['vacuum_resume.enabled = off']) }, 'killed' ],
	[ 'is none, as it is forgotten', sub { query(q{SELECT vacuum_resume.forget('killed')}) }, 'killed' ])
{
	my ($name, $do, $outcomes) = @$case;
	my $before = scalar runs('killed');

	kill_vacuum();
	$do->();
	@rows = runs('killed');
	is(join(' ', map { $_->{outcome} } @rows[ $before .. $#rows ]), $outcomes, "the next vacuum $name");
}
query('DROP TABLE killed');
is(scalar(grep { $_->{relation} eq 'public.killed' } runs()), 4, 'rows outlive their table');

###############################################################################
# Autovacuum
###############################################################################

make_table($node, 'auto', %small);
query(q{ALTER SYSTEM SET autovacuum = on});
$node->reload;
autovacuum($node, 'auto');
$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM vacuum_resume.history WHERE relid = 'auto'::regclass})
  or die 'there is no row';
query(q{ALTER SYSTEM SET autovacuum = off});
$node->reload;
is(columns((runs('auto'))[0], qw(autovacuum outcome plan)), '1 finished restart', 'autovacuum is told from vacuums by hand');

###############################################################################
# The tool shows the same
###############################################################################

sub tool
{
	my (@arguments) = @_;
	my ($stdout, $stderr) = ('', '');

	IPC::Run::run([ $tool, @arguments, '-D', $node->data_dir ], '>', \$stdout, '2>', \$stderr);
	return ($? >> 8, $stdout, $stderr);
}

my @all = reverse runs();
my %renamed = (
	run => 'run', relid => 'table_oid', plan => 'plan', reason => 'reason', outcome => 'outcome',
	from_block => 'from_block', to_block => 'to_block', rel_blocks => 'blocks',
	map { $_ => $_ } qw(pages_scanned pages_scanned_again pages_skipped pages_verified pages_vacuumed index_pages
	  index_scans tuples_removed row_pointers_removed work relfrozenxid_before relfrozenxid_after
	  pages_ahead pages_behind dead_rows_ahead dead_rows_behind expected_work restart_work restart_dead_rows
	  resume_work resume_dead_rows wrap_work wrap_dead_rows));

foreach my $server (qw(up down))
{
	$node->stop if $server eq 'down';
	my ($status, $json, $stderr) = tool('history', '--json');
	my @shown = @{ decode_json($json) };

	is("$status$stderr", '0', "the server is $server: the tool shows history");
	is_deeply(
		[ map { my $run = $_; columns({ map { $renamed{$_} => $run->{$_} } keys %renamed }, sort values %renamed) } @all ],
		[ map { columns($_, sort values %renamed) } @shown ], '  newest first, and as SQL does');
	is($shown[0]{database}, 'postgres', '  with the database\'s name') if $server eq 'up';
	like($shown[0]{database}, qr/^\d+$/, '  with the database\'s number') if $server eq 'down';
	is(columns($shown[0], qw(table schema autovacuum aggressive)), 'auto public yes no', '  and words');
	like($shown[0]{$_}, qr/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4}$/, "  $_ at a time") foreach qw(started ended);
	cmp_ok($shown[0]{seconds}, '>', 0, '  in seconds');
	is((tool('check'))[1] =~ s/^\d+ records?//r, ', ' . @all . " runs, 0 problems\n", '  and checks it');
}
my (undef, $text) = tool('history', 'stopped');
my @lines = split /\n/, $text;
is(scalar @lines, 1 + scalar(grep { $_->{relation} eq 'stopped' } @all), 'of one table, for people');
like($lines[0], qr/^run +database +schema +table +started +seconds +plan +outcome .* reason$/, '  a head line');
like($lines[1], qr/ stopped .* resume and wrap +finished .* what is dead in the head has to be removed as well$/, '  and a line for each run');
is(scalar(split /\n/, (tool('history', 'public.stopped', '--limit=2'))[1]), 3, 'the last two');
is(scalar @{ decode_json((tool('history', '--limit', '5', '--json'))[1]) }, 5, 'the last five of all tables');
is(scalar(split /\n/, (tool('history', 'nobody'))[1]), 1, 'a table that has no history has an empty one');
my ($head, $csv) = split /\n/, (tool('history', 'whole', '--limit=1', '--csv'))[1];
is(join(' ', (split /,/, $head, -1)[ 0, 4, 38 ]), 'run started wrap_dead_rows', 'CSV has all columns');
is(scalar(split /,/, $csv, -1), 39, '  in each line');
foreach my $case (
	[ [qw(history a b)], 'too many arguments, the first is "b"' ],
	[ [qw(history --limit=many)], 'not a number of vacuums: "many"' ],
	[ [qw(history --limit=-1)], 'not a number of vacuums: "-1"' ],
	[ [qw(list --limit=1)], '--limit does not go with command "list"' ])
{
	my ($status, $stdout, $stderr) = tool(@{ $case->[0] });
	is("$status$stdout", 2, "misuse: @{ $case->[0] }");
	like($stderr, qr/^pg_vacuum_resume: \Q$case->[1]\E/, '  is told');
}
$node->start;

###############################################################################
# Who may see it
###############################################################################

query('CREATE ROLE monitor LOGIN IN ROLE pg_monitor; CREATE ROLE pgvr_stranger LOGIN');
is(query('SET ROLE monitor; SELECT count(*) FROM vacuum_resume.history'), scalar @all, 'pg_monitor sees history');
foreach my $what ('view history', 'function runs')
{
	my ($name) = $what =~ /(\w+)$/;
	my (undef, undef, $stderr) =
	  $node->psql('postgres', "SET ROLE pgvr_stranger; SELECT * FROM vacuum_resume.$name" . ($name eq 'runs' ? '()' : ''));
	like($stderr, qr/permission denied for $what/, 'others do not');
}

###############################################################################
# Its size
###############################################################################

query('CREATE TABLE tiny (k int); INSERT INTO tiny VALUES (1)');
my $last = (numbers())[-1];
many_vacuums(300);
is(join(' ', (numbers())[ -300, -1 ]), join(' ', $last + 1, $last + 300), 'numbers ascend, without a gap');

# Each vacuum takes a hundred rows out at most
my $have = scalar runs();
$last += 300;
set_history_size(30);
many_vacuums(1);
is(scalar runs(), $have - 99, 'when history is to be shorter, a hundred rows go with the next vacuum');
many_vacuums(10);
is_deeply([ numbers() ], [ $last + 11 - 29 .. $last + 11 ], '  and the rest with those that follow; the last ones are kept');
many_vacuums(1);
is_deeply([ numbers() ], [ $last + 12 - 29 .. $last + 12 ], '  from then on one goes when one comes');
stopped_vacuum('auto');
is((runs())[-1]{outcome}, 'max_duration', 'it is the same with one that is stopped');
is(scalar runs(), 30, '  and leaves a record');
careful_vacuum($node, 'auto');
is_deeply([ numbers() ], [ $last + 14 - 29 .. $last + 14 ], '  and with one that finishes it');
set_history_size(0);
many_vacuums(1);
is(scalar runs(), 0, 'no history is kept');
stopped_vacuum('auto');
ok(record($node, 'auto'), '  but records are');
careful_vacuum($node, 'auto');
is(scalar runs(), 0, '  whose vacuum leaves no row');
$node->restart;
set_history_size(30);
many_vacuums(2);
is_deeply([ numbers() ], [ $last + 15, $last + 16 ], 'once it is kept again, numbers go on from where they were');
set_history_size(0);
many_vacuums(1);
set_history_size(30);
many_vacuums(1);
is_deeply([ numbers() ], [ $last + 17 ], '  each time');
set_history_size(0);
$node->stop;
system_or_bail('rm', '-r', store($node));
$node->start;
many_vacuums(2);
ok(!-e store($node, 'data.mdb'), '  and no store, if there is no need');
query('ALTER SYSTEM RESET vacuum_resume.history_size');
$node->reload;
$node->poll_query_until('postgres', q{SELECT current_setting('vacuum_resume.history_size') = '10000'})
  or die 'the setting has not changed';

###############################################################################
# Many at once, and crashes
###############################################################################

my @sessions = map {
	query("CREATE TABLE at_once_$_ (k int); INSERT INTO at_once_$_ VALUES (1)");
	start_sql($node, join ';', ("VACUUM (PROCESS_TOAST off) at_once_$_") x 40)
} 1 .. 5;
finish_sql($_) foreach @sessions;
is_deeply([ numbers() ], [ 1 .. 200 ], 'vacuums at the same time have numbers of their own');
is(query(q{SELECT string_agg(n::text, ' ') FROM (SELECT count(*) AS n FROM vacuum_resume.history GROUP BY relid) AS x}),
	'40 40 40 40 40', '  and miss none');

my $session = start_sql($node, "SELECT 'VACUUM (PROCESS_TOAST off) at_once_1' FROM generate_series(1, 100000) \\gexec\nSELECT 1");
$node->poll_query_until('postgres', 'SELECT count(*) > 220 FROM vacuum_resume.history') or die 'it does not begin';
crash_node($node, 'kill_all');
finish_sql($session);
$node->start;
my @numbers = numbers();
cmp_ok(scalar @numbers, '>', 220, 'after a crash history is there');
is_deeply(\@numbers, [ 1 .. @numbers ], '  without a gap');
many_vacuums(1);
is((numbers())[-1], @numbers + 1, '  and the next number is one more');
is((tool('check'))[0], 0, '  the store is sound');

###############################################################################
# A row is damaged
###############################################################################

query('CREATE TABLE to_be_damaged AS SELECT * FROM tiny; VACUUM (PROCESS_TOAST off) to_be_damaged');
$have = scalar runs();
$node->stop;
my $file = store($node, 'data.mdb');
my $bytes = slurp_file($file);

# the copies in pages that are free do not matter
open my $handle, '+<:raw', $file or die "cannot open $file: $!";
syswrite $handle, $bytes =~ s/to_be_damaged\0/to_be_savaged\0/gr or die $!;
close $handle or die $!;
my ($status, undef, $stderr) = tool('check');
is($status, 1, 'a row is damaged: the tool finds it');
like($stderr, qr/^pg_vacuum_resume: a run in the history is damaged$/m, '  and says so');
$node->start;
(undef, $text, $stderr) = $node->psql('postgres', 'SELECT count(*) FROM vacuum_resume.history');
is($text, $have - 1, 'the view leaves it out');
like($stderr, qr/WARNING:  could not read all of the history of vacuums\n.*DETAIL:  a run in the history is damaged/,
	'  with a warning');
many_vacuums(1);
stopped_vacuum('auto');
is(careful_vacuum($node, 'auto')->{run}, 2, 'vacuums go on, and are resumed');
is(scalar runs(), $have - 1 + 3, '  and have rows as ever');

###############################################################################
# A store of another version
###############################################################################

stopped_vacuum('auto');
$node->stop;
my $identity = slurp_file(store($node, 'identity'));
unlink store($node, 'identity');
append_to_file(store($node, 'identity'), $identity =~ s/format \d+/format 1/r);
($status, undef, $stderr) = tool('history');
is($status, 1, 'a store of another version is not read');
like($stderr, qr/the store is of another version of pg_vacuum_resume/, '  as the tool says');
$node->start;
is(careful_vacuum($node, 'auto')->{run}, 1, 'a vacuum does not go on from it');
is_deeply([ map { $_->{relation} } runs() ], ['auto'], '  and history begins anew');
ok(-e store($node, 'data.mdb.set-aside'), '  the old one is kept');

only_asked_for_crashes($node);
$node->stop;

###############################################################################
# A store that is too small
###############################################################################

$node = resume_node('small', conf => "autovacuum = off\nvacuum_resume.store_size = '128kB'\n");
query('CREATE TABLE tiny (k int); INSERT INTO tiny VALUES (1)');
many_vacuums(300);
my $most = scalar runs();
cmp_ok($most, '>', 10, 'a small store has a short history');
cmp_ok($most, '<', 100, '  which is not to take all of it');
is((numbers())[-1], 300, '  and ends with the last run');
my $vacuums = 300;

# What is left for a list
sub pending_after_slices
{
	my ($table) = @_;
	my $pages;

	query(qq{
		CREATE TABLE $table (k int);
		INSERT INTO $table SELECT generate_series(1, 15000);
		CREATE INDEX ${table}_k ON $table (k);
		DELETE FROM $table WHERE k % 10 <> 0;});
	$pages = query("SELECT pg_relation_size('$table') / 8192");
	for (1 .. 5)
	{
		slice($node, $table);
		$vacuums++;
		last if record($node, $table)->{next_block} == $pages;
	}
	return record($node, $table)->{pending_dead_tuples};
}

my $full = 15000 * 9 / 10;
is(pending_after_slices('first'), $full, 'the list of a vacuum is kept beside it');
is(pending_after_slices('more_1'), $full, '  and another one');

# Two lists leave less room than there must be for history to grow.
my $oldest = (numbers())[0];
many_vacuums(40);
$vacuums += 40;
@numbers = numbers();
cmp_ok(scalar @numbers, '>', 10, '  and history');
is_deeply(\@numbers, [ $vacuums - $#numbers .. $vacuums ], 'where there is no room for more, new rows are entered');
cmp_ok($numbers[0], '>', $oldest, '  and take the place of the oldest');
my $kept = 1;
my $shortest = $most;
foreach my $number (2 .. 6)
{
	$kept++ if pending_after_slices("more_$number") == $full;
	is((runs())[-1]{relation}, "more_$number", 'whether there is room for the list or not, its run is in history');
	$shortest = scalar runs() if runs() < $shortest;
}
$have = scalar runs();
many_vacuums(10);
$vacuums += 10;
is_deeply([ numbers() ], [ $vacuums - $have + 1 .. $vacuums ],
	'  each run had its number, and history does not grow while there is no room');
cmp_ok($shortest, '<', $most, 'where more lists come, history goes');
my $with_history = $kept;
note("$kept of 6 lists are kept, history is down to $shortest of $most runs");

# The same without any history
query(join ';', map { "SELECT vacuum_resume.forget('$_')" } 'first', map { "more_$_" } 1 .. 6);
set_history_size(0);
many_vacuums(10);
is(scalar runs(), 0, 'without history');
$kept = -1;
foreach my $number (1 .. 7)
{
	$kept++ if pending_after_slices("again_$number") == $full;
}
cmp_ok($kept, '<=', $with_history, '  no more lists are kept than with one');

###############################################################################
# A store in which nothing can be replaced
###############################################################################

# Somebody reads the store and does not get on: what he sees must stay, and all
# that is written takes room besides.
$node->stop;
system_or_bail('rm', '-r', store($node));
$node->start;
set_history_size(10000);
many_vacuums(20);
my $reader = $node->basedir . '/reader';
append_to_file("$reader.c", <<'EOC');
#include <lmdb.h>
#include <stdio.h>

int
main(int argc, char **argv)
{
	MDB_env    *env;
	MDB_txn    *txn;

	if (argc != 2 || mdb_env_create(&env) != 0 ||
		mdb_env_open(env, argv[1], MDB_RDONLY, 0600) != 0 ||
		mdb_txn_begin(env, NULL, MDB_RDONLY, &txn) != 0)
		return 1;
	puts("reading");
	fflush(stdout);
	return getchar() != EOF;
}
EOC
system_or_bail('cc', '-o', $reader, "$reader.c", '-llmdb');
my ($stdin, $stdout) = ('', '');
my $reading = IPC::Run::start([ $reader, store($node) ], '<', \$stdin, '>', \$stdout, IPC::Run::timeout(60));
$reading->pump until $stdout =~ /reading/;
my $log = log_end($node);
my $lost = qr/LOG:  could not add the vacuum of table "public\.tiny" to the history of vacuums\n.*DETAIL:  There is no room for it in the store/;
for (1 .. 100)
{
	many_vacuums(10);
	last if log_since($node, $log) =~ $lost;
}
like(log_since($node, $log), $lost, 'a run that history has no room for is told of in the log');
$log = log_end($node);
many_vacuums(10);
is(scalar(() = log_since($node, $log) =~ /$lost/g), 10, '  once each');
is((count_warnings(log_since($node, $log)))[0], 0, '  without a warning');
$last = (numbers())[-1];
$reading->finish;
many_vacuums(2);
is(join(' ', (numbers())[ -2, -1 ]), join(' ', $last + 1, $last + 2), 'it goes on when there is room again');

only_asked_for_crashes($node);
$node->stop;

done_testing();
