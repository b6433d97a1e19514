# The store of interrupted vacuums is removed, moved away or taken apart, and comes
# back when what it says is no longer true. That costs progress, and never a row.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use Oracle;
use Pass;
use Resume;
use Trouble;

my $node = resume_node('trouble');
my $dir = store($node);
my $away = $node->basedir . '/away';

sub move
{
	my ($from, $to) = @_;
	rename $from, $to or die "cannot move $from to $to: $!";
	return;
}

sub remove
{
	foreach (@_)
	{
		unlink or die "cannot remove $_: $!";
	}
	return;
}

my %directory = (
	start => sub { move($dir, $away); },
	end => sub { system('rm', '-rf', $dir); move($away, $dir); });
my %data = (
	start => sub { move("$dir/data.mdb", $away); },
	end => sub { move($away, "$dir/data.mdb"); });
my $missed = qr/LOG:  pg_vacuum_resume's store was removed or replaced while the server was running/;

# Each trouble:
#
#   start     what happens to the store ...
#   down      ... while the server is down; else while it runs
#   goes_on   the next vacuum goes on, as the record is there and believed; or
#   verified  it goes on, but looks at all that is pending; else it starts over
#   warnings  how many each vacuum gives (0)
#   by        'server': the next vacuum is not ours
#   end       how the trouble ends; the record may be back then, of another time
#   end_down  how the server is stopped for that ('fast' or 'immediate'); else it runs
#   says      what the log says
#
# Those after which a record is there that must not be believed are tried with
# vacuums stopped in three places, the others with one.
my @troubles = (
	{ name => 'no_lock_file', down => 1, goes_on => 1,
		start => sub { remove("$dir/lock.mdb"); } },
	{ name => 'no_identity', down => 1,
		start => sub { remove("$dir/identity"); },
		says => qr/LOG:  pg_vacuum_resume set its store aside and begins a new one: it is not the store of this data directory/ },
	{ name => 'no_instance', down => 1, verified => 1,
		start => sub { remove("$dir/instance"); } },
	{ name => 'garbled_instance', down => 1, verified => 1,
		start => sub {
			my $note = slurp_file("$dir/instance");
			remove("$dir/instance");
			append_to_file("$dir/instance", $note =~ s/^generation: \d/generation: 7/mr);
		} },
	{ name => 'no_instance_after_a_crash', down => 'immediate', verified => 1,
		start => sub { remove("$dir/instance"); } },
	{ name => 'no_directory', down => 1,
		start => sub { system_or_bail('rm', '-r', $dir); } },
	{ name => 'directory_removed', says => $missed,
		start => sub { system_or_bail('rm', '-r', $dir); } },
	{ name => 'data_removed', says => $missed,
		start => sub { remove("$dir/data.mdb"); } },
	{ name => 'directory_is_a_file', warnings => 1,
		start => sub { system_or_bail('rm', '-r', $dir); append_to_file($dir, "not a directory\n"); },
		end => sub { remove($dir); } },
	{ name => 'directory_moved', %directory, says => $missed },
	{ name => 'data_moved', %data, says => $missed, by => 'server' },
	{ name => 'data_away_until_a_restart', %data, end_down => 'fast', says => $missed },
	{ name => 'directory_away_until_a_crash', %directory, end_down => 'immediate', by => 'server' },
	{ name => 'directory_away_from_a_restart', %directory, down => 1, by => 'server' },
	{ name => 'data_away_between_restarts', %data, down => 1, end_down => 'fast' });

# Do something now, or while the server is down.
sub happens
{
	my ($what, $down) = @_;

	$node->stop($down eq 'immediate' ? $down : 'fast') if $down;
	$what->();
	$node->start if $down;
	return;
}

foreach my $trouble (@troubles)
{
	subtest $trouble->{name} => sub {
		my $comes_back = $trouble->{verified} || $trouble->{end};
		my @places = $comes_back ? @everywhere : $everywhere[0];
		my @tables = map { "$trouble->{name}_$_" } 1 .. @places;
		my %record;

		for my $i (0 .. $#places)
		{
			make_table($node, $tables[$i], %small);
			$record{ $tables[$i] } = stop_at($node, $tables[$i], @{ $places[$i] });
		}
		my $log = log_end($node);
		happens($trouble->{start}, $trouble->{down});

		foreach my $table (@tables)
		{
			my $record = $record{$table};
			my $from = $trouble->{goes_on} || $trouble->{verified} ? $record->{next_block} : 0;
			my $vacuum = careful_vacuum($node, $table,
				set => [ $trouble->{by} ? 'vacuum_resume.enabled = off' : () ]);

			is($vacuum->{from}, $from, "the next vacuum begins at block $from");
			# when it is not known how far reaping went, nothing is left to verify
			my $verifies = $trouble->{verified} && $record->{phase} ne 'vacuuming heap';
			is($vacuum->{verified}, $verifies ? $from : 0, '  and verifies what it has to');
			is($vacuum->{warnings}, $trouble->{warnings} // 0, '  with so many warnings');
			is($vacuum->{hints}, $vacuum->{warnings}, '  each with a hint');
			has_no_dead_rows($node, $table);
			reuse_rows($node, $table);
		}

		if ($trouble->{end})
		{
			happens($trouble->{end}, $trouble->{end_down});
			foreach my $table (@tables)
			{
				my $vacuum = careful_vacuum($node, $table);

				is($vacuum->{warnings}, 0, 'when it is over, a vacuum has nothing to warn of');
				has_no_dead_rows($node, $table);
				Oracle::table_ok($node, 'postgres', $table);
			}
		}
		like(log_since($node, $log), $trouble->{says}, 'the log says what happened')
		  if $trouble->{says};
		works_again($node, $tables[0]);
		$node->safe_psql('postgres', "DROP TABLE $_") foreach @tables;
	};
}

only_asked_for_crashes($node);
$node->stop;

done_testing();
