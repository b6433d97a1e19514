# What a vacuum does about an interrupted one: start over, continue with the tail only,
# or come back to the head as well. In each story it is known which one is right, and
# the log, VERBOSE and the table have to agree on what was done.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use Between;
use Oracle;
use Pass;
use Resume;

# Here nothing is known of how long runs last.
my $node = between_node('plans', conf => "vacuum_resume.history_size = 0\n");

# The vacuum is interrupted a little beyond the middle: in the head 93 pages have
# pending TIDs, and every fourth is all-visible.
my $pages = 240;
my $cursor = 124;
my $block = "k / $rows_per_page";

# What dies in clean pages of the head meanwhile. As long as an index pass and the tail
# have to be paid for anyway, pages with many dead rows are worth being read and reaped;
# those with a single one are not.
my %deaths = (
	nothing => 'false',
	single => "k % $rows_per_page = 7 AND $block % 4 = 0 AND $block < 60",
	many => "k % 5 < 3 AND $block % 4 = 0 AND $block < 60",
	pending => "k % $rows_per_page = 7 AND $block % 4 <> 0 AND $block < $cursor",
	pending_few => "k % $rows_per_page = 7 AND $block IN (21, 41, 61, 81)");


# A table whose vacuum is interrupted, whereupon rows die. Returns their number.
sub interrupt
{
	my ($table, $dies) = @_;

	make_table($node, $table, pages => $pages);
	is(vacuum_part($node, $table, to => 120)->{next_block}, $cursor, 'a vacuum is interrupted');
	return let_die($node, $table, $deaths{$dies});
}

# For autovacuum
sub set_mode
{
	my ($mode) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM SET vacuum_resume.mode = '$mode'");
	$node->reload;
	return;
}

# Tests that a vacuum has scanned what it should. Of the head a wrap has to scan the
# pages where rows have died, and may scan those that have pending TIDs.
sub scanned_right
{
	my ($report, $plan, $decision, $pages_with_deaths) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $tail = $pages - $cursor;

	if ($plan eq 'restart')
	{
		is($report->{scanned}, $pages, '  it scanned the whole table');
	}
	elsif ($plan eq 'resume')
	{
		is($report->{scanned}, $tail, '  it scanned the tail only');
	}
	else
	{
		cmp_ok($report->{scanned}, '>=', $tail + $pages_with_deaths,
			'  it scanned the tail, and pages of the head where rows have died');
		cmp_ok($report->{scanned}, '<=', $tail + $decision->{behind}, '  and no clean page');
	}
	return;
}

###############################################################################
# Which plan
###############################################################################

# Each story: what dies, the table's vacuum threshold and scale factor (of 4,800 rows
# there are 720 less), and how it is vacuumed then; by a worker or a command, whose
# options and settings these are.
my @stories = (
	# VACUUM has promised all that is dead when it begins
	{ name => 'plain_nothing', dies => 'nothing', plan => 'resume and wrap', because => $because{promise} },
	{ name => 'plain', dies => 'single', plan => 'resume and wrap', because => $because{promise} },
	{ name => 'plain_resume', dies => 'single', set => 'vacuum_resume.mode = resume',
		plan => 'resume and wrap', because => $because{promise} },
	{ name => 'option_auto', dies => 'single', options => 'RESUME auto', set => 'vacuum_resume.mode = restart',
		plan => 'resume and wrap', because => $because{promise} },

	# VACUUM (RESUME) has not, and comes to the head if it has to, or if it is worth it
	{ name => 'below', dies => 'single', options => 'RESUME', plan => 'resume', because => $because{tail_pays} },
	{ name => 'above', dies => 'single', threshold => 10, options => 'RESUME',
		plan => 'resume and wrap', because => $because{over_threshold} },
	{ name => 'below_scaled', dies => 'single', threshold => 0, scale => 0.01, options => 'RESUME on',
		plan => 'resume', because => $because{tail_pays} },
	{ name => 'above_scaled', dies => 'single', threshold => 0, scale => 0.002, options => 'RESUME on',
		plan => 'resume and wrap', because => $because{over_threshold} },
	{ name => 'worth_it', dies => 'many', threshold => 1000, options => 'RESUME',
		plan => 'resume and wrap', because => $because{head_pays} },
	{ name => 'option_on', dies => 'single', options => 'RESUME on', set => 'vacuum_resume.mode = restart',
		plan => 'resume', because => $because{tail_pays} },

	# nor has autovacuum
	{ name => 'worker_below', dies => 'single', worker => 1, plan => 'resume', because => $because{tail_pays} },
	{ name => 'worker_above', dies => 'single', worker => 1, threshold => 10,
		plan => 'resume and wrap', because => $because{over_threshold} },
	{ name => 'worker_above_scaled', dies => 'single', worker => 1, threshold => 0, scale => 0.002,
		plan => 'resume and wrap', because => $because{over_threshold} },

	# and all of them start over if they are asked to
	{ name => 'restart', dies => 'nothing', set => 'vacuum_resume.mode = restart',
		plan => 'restart', because => $because{asked} },
	{ name => 'option_off', dies => 'single', options => 'RESUME off', set => 'vacuum_resume.mode = resume',
		plan => 'restart', because => $because{asked} },
	{ name => 'worker_restart', dies => 'single', worker => 1, mode => 'restart',
		plan => 'restart', because => $because{asked} },
	{ name => 'worker_resume', dies => 'single', worker => 1, mode => 'resume',
		plan => 'resume', because => $because{tail_pays} });

foreach my $story (@stories)
{
	my ($table, $plan) = @{$story}{qw(name plan)};
	my ($threshold, $scale) = ($story->{threshold} // 50, $story->{scale} // 0);

	subtest "$table: $plan" => sub {
		my $died = interrupt($table, $story->{dies});
		my $log = log_end($node);
		my $report;

		if ($story->{worker})
		{
			set_mode($story->{mode}) if $story->{mode};
			$report = autovacuum($node, $table, threshold => $threshold, scale => $scale);
			set_mode('auto') if $story->{mode};
		}
		else
		{
			$node->safe_psql('postgres',
				"ALTER TABLE $table SET (autovacuum_vacuum_threshold = $threshold, autovacuum_vacuum_scale_factor = $scale)");
			$report = vacuum($node, $table, $story->{options} ? (options => $story->{options}) : (),
				set => [ $story->{set} // () ]);
		}
		my $decision = decided($node, $table, $log, $report, $plan, $story->{because});
		is($decision->{block}, $cursor, '  about what was interrupted there');
		is($decision->{head_dead}, $died, "  with $died dead rows in the head");

		is($report->{from}, $plan eq 'restart' ? 0 : $cursor, '  and that is where it began');
		scanned_right($report, $plan, $decision, $died > 0 ? 15 : 0);
		settled($node, $table, dead => $plan eq 'resume' ? $died : 0);
	};
}

###############################################################################
# What is known of the head
###############################################################################

# With the statistics gone, each page that has become vacuumable is taken to have a dead
# row.
foreach my $story ([ 50, 'resume', $because{tail_pays} ], [ 10, 'resume and wrap', $because{over_threshold} ])
{
	my ($threshold, $plan, $because) = @$story;

	subtest "the statistics are lost, threshold $threshold: $plan" => sub {
		my $table = "lost_$threshold";

		interrupt($table, 'nothing');
		$node->safe_psql('postgres', "SELECT pg_stat_reset_single_table_counters('$table'::regclass)");
		my $died = let_die($node, $table, $deaths{single});
		$node->safe_psql('postgres',
			"ALTER TABLE $table SET (autovacuum_vacuum_threshold = $threshold, autovacuum_vacuum_scale_factor = 0)");
		my $log = log_end($node);
		my $report = vacuum($node, $table, options => 'RESUME');
		my $decision = decided($node, $table, $log, $report, $plan, $because);

		is($decision->{head_dead}, $died, '  one dead row for each page');
		settled($node, $table, dead => $plan eq 'resume' ? $died : 0);
	};
}

# Another server's vacuum has been there: nothing is known of what died in the head since,
# so it is not left alone. Checking what is pending costs more than starting over, as
# the head is all-visible now; but whoever asks to resume gets that.
subtest 'vacuumed by a server without the library' => sub {
	my %stories = (
		elsewhere => [ undef, 'restart', 'checking what is pending costs more than starting over' ],
		elsewhere_resumed => [ 'RESUME', 'resume and wrap', $because{others} ],
		elsewhere_forced => [ undef, 'resume and wrap', $because{promise}, 'vacuum_resume.mode = resume' ]);

	interrupt($_, 'nothing') foreach sort keys %stories;
	$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "''");
	$node->restart;
	$node->safe_psql('postgres', "VACUUM $_") foreach sort keys %stories;
	$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'pg_vacuum_resume'");
	$node->restart;

	foreach my $table (sort keys %stories)
	{
		my ($options, $plan, $because, @set) = @{ $stories{$table} };

		let_die($node, $table, $deaths{single});
		my $log = log_end($node);
		my $report = vacuum($node, $table, $options ? (options => $options) : (), set => \@set);

		decided($node, $table, $log, $report, $plan, $because);
		is($report->{verified}, $plan eq 'restart' ? 0 : 93, '  and verified what was pending only if it needs that');
		settled($node, $table);
	}
};

###############################################################################
# In the middle of removing
###############################################################################

# All pages are scanned, so all of the table is head. What was begun is completed, and
# what has died in the pages without pending TIDs can wait.
foreach my $story ([ 'indexes', 'v h' ], [ 'reaping', '' ])
{
	my ($where, $indexes) = @$story;

	subtest "interrupted in $where" => sub {
		my $table = "in_$where";
		my $record = interrupted($node, $table, $where, dead => "k % 10 = 2 AND $block % 4 <> 1");
		my $died = let_die($node, $table, "k % $rows_per_page = 7 AND $block % 4 = 1 AND $block < 40");
		my $log = log_end($node);
		my $report = vacuum($node, $table, options => 'RESUME');
		my $decision = decided($node, $table, $log, $report, 'resume', $because{only_pending});

		is("$decision->{block} $decision->{ahead}", "$record->{rel_blocks} 0", '  nothing is ahead');
		is(join(' ', map { s/.*_//r } @{ $report->{indexes} }), $indexes, '  what was begun is completed');
		cmp_ok($report->{scanned}, '<=', 1, '  and no page is scanned');
		settled($node, $table, dead => $died);
	};
}

# Nothing is left to be done but to clean up an index, which fails.
foreach my $story ([ 'RESUME', 'resume', 'nothing is left to do in the tail' ], [ undef, 'resume and wrap', $because{promise} ])
{
	my ($options, $plan, $because) = @$story;

	subtest "interrupted at the end: $plan" => sub {
		my $table = $options ? 'at_end' : 'at_end_plain';

		make_table($node, $table, pages => 80, indexes => 'k b');
		$node->restart;			# it must not be in the buffers
		my $repair = garble($node, "${table}_b", 1);
		stop_vacuum($node, $table, way => 'error');
		$repair->();
		my $died = let_die($node, $table, $deaths{single});
		my $log = log_end($node);
		my $report = vacuum($node, $table, options => join ', ', 'INDEX_CLEANUP on', $options // ());

		decided($node, $table, $log, $report, $plan, $because);
		settled($node, $table, dead => $plan eq 'resume' ? $died : 0);
	};
}

###############################################################################
# Rows that died in pages with pending TIDs
###############################################################################

# Tests that what a vacuum with one index pass said of dead TIDs and their pages is right.
sub counted_once
{
	my ($report, $died, $dirty_pages) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($tid_pages, $tids) =
	  $report->{text} =~ /^\s*index scan needed: (\d+) pages from table .* had (\d+) dead item identifiers removed$/m;

	is($report->{cycle_dead}, $died, '  each dead row is one dead TID');
	is($tids, $died, '  all of them are removed from the indexes');
	is($tid_pages, $dirty_pages, '  and from so many pages');
	return;
}

# If there are many, a wrap had better scan all of these pages in their turn, so that
# one index pass is enough. Some of the rows have been made dead line pointers by those
# who read the pages.
subtest 'many died where TIDs are pending' => sub {
	my $died = 360 + interrupt('reread', 'pending');

	$node->safe_psql('postgres', "SELECT count(*) FROM reread WHERE ctid < '(60,1)'");
	my $log = log_end($node);
	my $report = vacuum($node, 'reread');

	decided($node, 'reread', $log, $report, 'resume and wrap', $because{promise});
	is(join(' ', map { s/.*_//r } @{ $report->{indexes} }), 'k v h', '  one index pass');
	is($report->{scanned}, $pages - $cursor + 93, '  scans all pages where TIDs were pending');
	counted_once($report, $died, 180);
	settled($node, 'reread');
};

# If there are few, the others are left alone.
subtest 'few died where TIDs are pending' => sub {
	my $died = 360 + interrupt('left_alone', 'pending_few');
	my $log = log_end($node);
	my $report = vacuum($node, 'left_alone', options => 'INDEX_CLEANUP on');

	decided($node, 'left_alone', $log, $report, 'resume and wrap', $because{promise});
	is(join(' ', map { s/.*_//r } @{ $report->{indexes} }), 'k v h k v h', '  the indexes are scanned once more');
	is($report->{scanned}, $pages - $cursor + 4, '  scans those few pages');
	is($report->{cycle_dead}, $died, '  each dead row is one dead TID');
	settled($node, 'left_alone');
};

###############################################################################
# The log
###############################################################################

subtest 'who is told' => sub {
	my @tables = qw(told_first told_second);

	interrupt($_, 'single') foreach @tables;
	make_table($node, 'never_interrupted', pages => 40);
	my $log = log_end($node);
	$node->safe_psql('postgres', 'VACUUM told_first, never_interrupted, told_second');
	is(scalar decisions($node, $_, $log), 1, "one line about $_") foreach @tables;
	is(scalar(() = log_since($node, $log) =~ /LOG:  interrupted vacuum of table/g), 2,
		'  and none about a table whose vacuum was not interrupted');
	settled($node, $_) foreach @tables;

	$log = log_end($node);
	my $report = vacuum($node, 'told_first');
	is(scalar decisions($node, 'told_first', $log), 0, 'no line when the vacuum is finished');
	is($report->{plan}, undef, '  nor in the report');

	interrupt('not_told', 'single');
	$log = log_end($node);
	$report = vacuum($node, 'not_told', options => 'RESUME', set => ['vacuum_resume.log_decisions = off']);
	is(scalar decisions($node, 'not_told', $log), 0, 'no line if none is wanted');
	is("$report->{plan}, because $report->{because}", "resume, because $because{tail_pays}", '  but the report has it');
};

only_asked_for_crashes($node);
$node->stop;

done_testing();
