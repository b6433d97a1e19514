# History tells how far runs come before they are stopped. If the next one is expected not
# to get through the tail, while the head is in need of a vacuum and worth more, it had
# better begin there; but not again and again.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use Between;
use Oracle;
use Pass;
use Resume;

# Slices tell about those that have a maximum duration, too, however long
my $node = between_node('reach', conf => "vacuum_resume.max_duration = '1h'\n");

# Each run is stopped after 31 pages, until the last one is a little beyond the middle.
my $pages = 240;
my $cursor = 124;
my $block = "k / $rows_per_page";

# What dies in clean pages of the head meanwhile
my %deaths = (
	few => "k % $rows_per_page = 7 AND $block % 4 = 0 AND $block < 60",
	most => "k % 5 < 3 AND $block % 4 = 0 AND $block < 120",
	most_further_on => "k % 5 < 3 AND $block % 4 = 0 AND $block BETWEEN 32 AND 120");


# A table whose vacuum is interrupted, whereupon rows die. Returns their number.
sub interrupt
{
	my ($table, $dies, %opt) = @_;

	make_table($node, $table, pages => $pages, %opt);
	$node->safe_psql('postgres',
		"ALTER TABLE $table SET (autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0)");
	is(vacuum_part($node, $table, to => 120)->{next_block}, $cursor, 'a vacuum is interrupted');
	return let_die($node, $table, $deaths{$dies});
}

# The plan that is said to be chosen, if a table was vacuumed now, and the reason for each
# plan
sub foretold
{
	my ($table, $by) = @_;
	my ($chosen, %because);

	foreach my $row (split /\n/, $node->safe_psql('postgres',
			"SELECT plan, chosen, reason FROM vacuum_resume.decide('$table', '$by')"))
	{
		my ($plan, $is_chosen, $because) = split /\|/, $row;

		$because{$plan} = $because;
		$chosen = $plan if $is_chosen eq 't';
	}
	return ($chosen, \%because);
}

# Tests that the last row of history about a table says what was decided.
sub remembered
{
	my ($table, $plan, $because, $expected_work) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is($node->safe_psql('postgres', qq{
			SELECT format('%s, because %s; expected work %s', plan, reason, round(expected_work))
			FROM vacuum_resume.history WHERE relid = '$table'::regclass ORDER BY run DESC LIMIT 1}),
		"$plan, because $because; expected work $expected_work", '  and so says history');
}

foreach my $story (
	{ name => 'reach', dies => 'most', by => 'VACUUM', plan => 'restart', because => $because{out_of_reach} },
	{ name => 'reach_below', dies => 'few', by => 'VACUUM', plan => 'resume and wrap', because => $because{promise} },
	{ name => 'reach_resume', dies => 'most', by => 'VACUUM (RESUME)',
		plan => 'resume and wrap', because => $because{over_threshold} },
	{ name => 'reach_worker', dies => 'most', by => 'autovacuum', plan => 'restart', because => $because{out_of_reach} },
	{ name => 'reach_worker_below', dies => 'few', by => 'autovacuum', plan => 'resume', because => $because{tail_pays} })
{
	my ($table, $by, $plan, $because) = @{$story}{qw(name by plan because)};
	my ($option) = $by =~ /\((.*)\)/;

	subtest "$table: $plan" => sub {
		my $died = interrupt($table, $story->{dies});
		my ($chosen, $reasons) = foretold($table, $by);
		is("$chosen, because $reasons->{$chosen}", "$plan, because $because", "$by would $plan");
		my $log = log_end($node);
		my $report = $by eq 'autovacuum'
		  ? autovacuum($node, $table, threshold => 50)
		  : vacuum($node, $table, $option ? (options => $option) : ());

		decided($node, $table, $log, $report, $plan, $because);
		remembered($table, $plan, $because, 31);
		is($report->{from}, $plan eq 'restart' ? 0 : $cursor, '  and that is where it began');
		settled($node, $table, dead => $plan eq 'resume' ? $died : 0);
	};
}

# If runs are that short, and rows die that fast, starting over again and again would
# never get to the table's end. So it does not happen twice in a row.
subtest 'the head is out of reach, and out of reach again' => sub {
	my $table = 'reach_again';

	interrupt($table, 'most_further_on');
	my $log = log_end($node);
	is(vacuum_part($node, $table, to => 31)->{next_block}, 31, 'a run starts over, and is stopped');
	is(join(' ', map { "$_->{plan}, because $_->{because}" } decisions($node, $table, $log)),
		"restart, because $because{out_of_reach}", '  for the sake of the head');

	let_die($node, $table, "$block % 4 = 0 AND $block < 31");
	my ($chosen, $reasons) = foretold($table, 'VACUUM');
	is("$chosen, because $reasons->{$chosen}", "resume and wrap, because $because{promise}", 'the next one is to go on');
	is($reasons->{restart}, $because{given_up}, '  and why it is not to start over');
	$log = log_end($node);
	is(vacuum_part($node, $table, to => 62)->{next_block}, 62, '  so it does');
	is(join(' ', map { $_->{plan} } decisions($node, $table, $log)), 'resume and wrap', '  as the log says');

	my $report = vacuum($node, $table);
	is($report->{plan}, 'resume and wrap', '  and the last one, too');
	settled($node, $table);
};

# That it was given up is remembered as long as it takes, even if history is not.
subtest 'and history does not reach back so far' => sub {
	my $table = 'reach_forgotten';
	my $remembered = 6;

	$node->safe_psql('postgres', "ALTER SYSTEM SET vacuum_resume.history_size = $remembered");
	$node->reload;
	$node->poll_query_until('postgres', 'SHOW vacuum_resume.history_size', $remembered)
	  or die 'the setting was not taken';
	interrupt($table, 'most_further_on', pages => 2 * $pages);
	my $log = log_end($node);
	vacuum_part($node, $table, to => 31 * ($remembered + 1));
	is(join(', ', map { $_->{plan} } decisions($node, $table, $log)),
		join(', ', 'restart', ('resume and wrap') x $remembered), 'a run starts over, and many go on');
	is($node->safe_psql('postgres', qq{
			SELECT count(*) FROM vacuum_resume.history WHERE relid = '$table'::regclass AND plan = 'restart'}),
		0, '  until history has none that started over');

	let_die($node, $table, "$block % 4 = 0 AND ($block < 31 OR $block BETWEEN 124 AND 215)");
	my (undef, $reasons) = foretold($table, 'VACUUM');
	is($reasons->{restart}, $because{given_up}, 'the head is out of reach once more, but the next one is to go on');
	my $rest = vacuum_in_slices($node, $table, slice => '1ms', set => ['vacuum_cost_delay = 0.2']);
	cmp_ok($rest->{runs}, '>', 8, '  and so do many');
	is(scalar(grep { $_->{plan} eq 'restart' } decisions($node, $table, $log)), 1, '  to the end');
	settled($node, $table);
};

only_asked_for_crashes($node);
$node->stop;

done_testing();
