# The store is moved away in the middle of a save, or before anybody has noticed; it is
# missed at once. When it comes back after a crash it knows of line pointers that have
# been set unused since, and used again: not a word of it may be believed.

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename;
use PostgreSQL::Test::Utils;
use Test::More;

use Oracle;
use Pass;
use Resume;
use Trouble;

my $node = resume_node('moved', conf => "autovacuum = off\n");
my $dir = store($node);
my $away = $node->basedir . '/away';
my $trap = $node->data_dir . '/move_store';
my $library = $node->basedir . '/move_store.so';
my $missed = qr/LOG:  pg_vacuum_resume's store was removed or replaced while the server was running/;

system_or_bail('cc', '-shared', '-fPIC', '-o', $library,
	dirname(abs_path($0)) . '/lib/move_store.c', '-ldl');
$ENV{LD_PRELOAD} = $library;
$node->restart;

# Ways to move the store: at a vacuum's next save, or now
my %move = (
	'in a save' => sub { append_to_file($trap, ''); },
	'between saves' => sub { rename $dir, $away or die "cannot move $dir: $!"; });

sub crash
{
	$node->stop('immediate');
	return;
}

###############################################################################
# While a vacuum goes on
###############################################################################

foreach my $phase ('scanning heap', 'vacuuming heap')
{
	subtest "in a save while $phase" => sub {
		my $table = $phase =~ s/ /_/r;
		my $log = log_end($node);

		lose_store_while($node, $table, $phase, $move{'in a save'});
		ok(-e $away && !-e $trap, 'a save has lost its store');
		like(log_since($node, $log), $missed, '  which the vacuum has noticed');
		my $record = record($node, $table);
		ok($record, '  and has made a new one');
		my $rest = careful_vacuum($node, $table);
		is("$rest->{run} $rest->{warnings}", '2 0', 'the next one goes on from there');
		has_no_dead_rows($node, $table);
		Oracle::table_ok($node, 'postgres', $table);
		works_again($node, $table);
		system_or_bail('rm', '-r', $away);
		$node->safe_psql('postgres', "DROP TABLE $table");
	};
}

###############################################################################
# Back after a crash
###############################################################################

# Each story: when the store is moved, which vacuum is the first without it.
foreach my $story (
	[ 'in a save', 'ours' ],
	[ 'between saves', 'ours' ],
	[ 'between saves', 'one that goes on' ],
	[ 'between saves', 'a session' ],
	[ 'between saves', q{the server's} ])
{
	my ($when, $first) = @$story;

	subtest "$when, the first after it is $first" => sub {
		my $log = log_end($node);
		my @tables = map { 'back_' . ($first =~ s/\W//gr) . ($when =~ s/ //gr) . "_$_" } 1 .. @everywhere;
		my $session;

		foreach my $i (0 .. $#tables)
		{
			make_table($node, $tables[$i], %small);
			stop_at($node, $tables[$i], @{ $everywhere[$i] });
		}
		if ($first eq 'a session')
		{
			# has it open, and saves
			$session = $node->background_psql('postgres');
			$session->query_safe('SELECT count(*) FROM vacuum_resume.progress');
		}
		if ($first eq 'one that goes on')
		{
			# its next save makes a new store before it says that the old one is missed
			lose_store_while($node, 'going_on', 'scanning heap', $move{$when});
			push @tables, 'going_on';
		}
		else
		{
			$move{$when}->();
		}
		if ($session)
		{
			$session->query_safe("VACUUM $_") foreach reverse @tables;
			$session->quit;
		}
		foreach my $table (reverse @tables)
		{
			careful_vacuum($node, $table,
				set => [ $first =~ /server/ ? 'vacuum_resume.enabled = off' : () ]);
			has_no_dead_rows($node, $table);
			reuse_rows($node, $table) if $table ne 'going_on';
		}
		ok(-e $away && !-e $trap, 'the store is away');
		like(log_since($node, $log), $missed, '  and missed');

		crash();
		system_or_bail('rm', '-rf', $dir);
		rename $away, $dir or die "cannot move $away: $!";
		$node->start;

		foreach my $table (@tables)
		{
			# pages of pending TIDs are looked at again; those that were being set unused
			# are looked for from the start, in all indexes
			my $vacuum = careful_vacuum($node, $table);
			ok($vacuum->{pending} == 0 || $vacuum->{verified} > 0 || @{ $vacuum->{indexes} } == 3,
				"the vacuum of $table takes no pending TID for granted")
			  or diag("$vacuum->{pending} pending, $vacuum->{verified} pages verified");
			has_no_dead_rows($node, $table);
			Oracle::table_ok($node, 'postgres', $table);
		}
		works_again($node, $tables[0]);
		$node->safe_psql('postgres', "DROP TABLE $_") foreach @tables;
	};
}

$node->stop;

done_testing();
