# Twins (see Twin.pm): one is vacuumed by the server, undisturbed, the other by us,
# stopped again and again. In the end they are the same, byte by byte. (Only the
# estimate of rows may be off a little.)

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use Oracle;
use Twin;

my $twin = Twin->new('final', conf => "min_parallel_index_scan_size = 0\n");

# Rows fill the pages, 20 on each; k counts them
sub table_of
{
	my ($name, $pages, @indexes) = @_;

	$twin->build(qq{
		CREATE TABLE $name (k int, v int, filler text);
		INSERT INTO $name SELECT i, i::bigint * 7919 % (20 * $pages), repeat('x', 364)
			FROM generate_series(0, 20 * $pages - 1) AS i;
	});
	$twin->build("CREATE INDEX ON $name $_") foreach @indexes;
	return;
}

my $some = 'k % 10 = 2 AND k / 20 % 4 <> 0';

table_of($_, 400, '(k)', '(v)', 'USING hash (v)', 'USING gin ((ARRAY[k, v]))') foreach qw(deleted frozen);
$twin->build("DELETE FROM $_ WHERE $some") foreach qw(deleted frozen);

# Chains of updated rows, whose first line pointers become redirects
table_of('updated', 400, '(k)', '(v)');
$twin->build(q{
	DELETE FROM updated WHERE k % 5 = 4;
	VACUUM updated;
	UPDATE updated SET filler = 'y' WHERE k % 7 = 1;
	UPDATE updated SET filler = 'z' WHERE k % 7 = 1;
	DELETE FROM updated WHERE k % 21 = 1;
	UPDATE updated SET v = -v WHERE k % 11 = 1;});

table_of('bare', 400);
$twin->build("DELETE FROM bare WHERE $some");

table_of('truncated', 400, '(k)');
$twin->build("DELETE FROM truncated WHERE $some OR k >= 20 * 360");

# All-visible for the most part, and in long ranges
table_of('skipped', 1000, '(k)', '(v)');
$twin->build('VACUUM skipped; DELETE FROM skipped WHERE k % 1000 < 500 AND k % 10 = 2');

# The second half has free space and the first half has none, which the upper
# levels of the free space map tell
table_of('half', 9000, '(k)');
$twin->build('DELETE FROM half WHERE k >= 20 * 5000 AND k % 10 = 2');

# 200 dead rows on each page, for two index passes in 1 MB
$twin->build(q{
	CREATE TABLE passes (k int);
	INSERT INTO passes SELECT generate_series(0, 226 * 1000 - 1);
	CREATE INDEX ON passes (k);
	DELETE FROM passes WHERE k % 226 < 200;});

# Two pages of visibility map
$twin->build(q{
	CREATE TABLE large (k int, filler text) WITH (fillfactor = 10);
	INSERT INTO large SELECT i, repeat('x', 200) FROM generate_series(0, 3 * 33000 - 1) AS i;
	CREATE INDEX ON large (k);
	DELETE FROM large WHERE k % 3 = 1;});

# Everything is hinted by now, on both sides alike
$twin->build('CHECKPOINT');
$twin->separate;
my ($stock, $ours) = $twin->nodes;

# Vacuum one table on both sides. On ours a run has so many milliseconds: it ends
# by MAX_DURATION, or every other time by an error; with "once" only the first one
# is stopped. Ten blocks of ours cost so many milliseconds, too.
sub vacuum
{
	my ($table, %opt) = @_;
	my $options = join ', ', 'VERBOSE, PROCESS_TOAST off', $opt{options} // ();
	my $set = join '', map { "SET $_;" } @{ $opt{set} // [] };
	my $pace = "SET vacuum_cost_page_hit = 1; SET vacuum_cost_page_miss = 1;"
	  . "SET vacuum_cost_page_dirty = 0; SET vacuum_cost_limit = 10;"
	  . "SET vacuum_cost_delay = $opt{pace};";
	my ($stops, $rest) = (0, '');

	$stock->safe_psql('postgres', "$set VACUUM ($options) $table");
	while (1)
	{
		my $how =
			$opt{once} && $stops ? "VACUUM ($options) $table"
		  : $stops % 2 ? "SET statement_timeout = $opt{slice}; VACUUM ($options) $table"
		  :              "VACUUM (MAX_DURATION '$opt{slice}ms', $options) $table";
		my (undef, undef, $stderr) = $ours->psql('postgres', "$set $pace $how");

		($rest) = $stderr =~ /^cycle: (.*)$/m;

		# the timeout may also come when it is done
		last if $stderr =~ /finished vacuuming/ && $stderr !~ /stopped after its maximum duration/;
		$stops++;
		die "$table is not vacuumed after $stops stops: $stderr" if $stops >= 200;
	}
	cmp_ok($stops, '>=', $opt{once} ? 1 : 5, "$table: stopped $stops times");
	like($rest, qr/^run /, '  and still in one cycle');

	# the statistics of a finished vacuum
	my @facts = map { $twin->facts($_, $table) } $stock, $ours;
	my @estimates = map { { /^(\S+): relpages \d+, reltuples (\d+)/mg } } @facts;
	my @off = grep { abs($estimates[1]{$_} - $estimates[0]{$_}) > 0.01 * $estimates[0]{$_} }
	  keys %{ $estimates[0] };

	s/(reltuples|n_live_tup) \d+/$1 (estimated)/g foreach @facts;
	Twin::same_list([ Twin::differing_lines(@facts) ], '  pg_class and pg_stat are the same');
	is("@off", '', '  reltuples is within 1 %, of indexes as well');
	return;
}

vacuum('deleted', slice => 80, pace => 10);
vacuum('frozen', slice => 80, pace => 10, options => 'FREEZE');
vacuum('updated', slice => 80, pace => 10);
vacuum('bare', slice => 60, pace => 15);
vacuum('truncated', slice => 80, pace => 10);
vacuum('skipped', slice => 150, pace => 10);
vacuum('half', slice => 100, pace => 1, once => 1);
vacuum('passes', slice => 150, pace => 4, set => ['maintenance_work_mem = 1024']);
vacuum('large', slice => 150, pace => 0.3);

# A run that its timeout met at the very end has not updated pg_database
$twin->sql('VACUUM pg_am');

# The columns of pg_class are compared one by one, but for the estimates, which are
# in its pages, too
my $found = $twin->compare;
Twin::same_list(
	[ grep { !/^pg_class \(main\)/ } @{ $found->{rest} } ],
	"$found->{rest_pages} pages of all relations and all of their forks");
cmp_ok($found->{rest_pages}, '>', 40_000, '  these are many');

my @facts = ('', '');
foreach my $line (grep { !/: heap blocks / } @{ $found->{facts} })
{
	my ($side, $fact) = $line =~ /^(stock|ours): +(.*)/;
	$facts[ $side eq 'ours' ] .= $fact =~ s/^(\S+: \((?:[^,]*,){10})[^,]*/$1(estimated)/r . "\n";
}
Twin::same_list([ Twin::differing_lines(@facts) ], 'all of pg_class and pg_database');

$ours->start;
Oracle::table_ok($ours, 'postgres', $_)
  foreach qw(deleted frozen updated bare truncated skipped half passes large);
$ours->stop;

done_testing();
