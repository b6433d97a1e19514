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

# The file stays the same one.
sub rewrite
{
	my ($path, $text) = @_;

	open my $file, '>', $path or die "cannot open $path: $!";
	print $file $text;
	close $file or die "cannot write to $path: $!";
	return;
}

my %directory = (
	start => sub { move($dir, $away); },
	end => sub { system('rm', '-rf', $dir); move($away, $dir); });
my %data = (
	start => sub { move("$dir/data.mdb", $away); },
	end => sub { move($away, "$dir/data.mdb"); });
my $no_note = qr/LOG:  pg_vacuum_resume set its store aside: there is no valid note of what it has to be/;
my $missed = qr/LOG:  pg_vacuum_resume's store was removed or replaced while the server was running/;

# For what they are made of, see live_through in Trouble.pm.
my @troubles = (
	{ name => 'no_lock_file', down => 1, goes_on => 1,
		start => sub { remove("$dir/lock.mdb"); } },
	{ name => 'no_identity', down => 1,
		start => sub { remove("$dir/identity"); },
		says => qr/LOG:  pg_vacuum_resume set its store aside and begins a new one: it is not the store of this data directory/ },
	{ name => 'no_instance', down => 1, says => $no_note,
		start => sub { remove("$dir/instance"); } },
	{ name => 'garbled_instance', down => 1, says => $no_note,
		start => sub {
			my $note = slurp_file("$dir/instance");
			rewrite("$dir/instance", $note =~ s/^generation: \d/generation: 7/mr);
		} },
	{ name => 'no_instance_after_a_crash', down => 'immediate', says => $no_note,
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

foreach my $trouble (@troubles)
{
	subtest $trouble->{name} => sub { live_through($node, $trouble) };
}

only_asked_for_crashes($node);
$node->stop;

done_testing();
