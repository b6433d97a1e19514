# An older copy of the store is copied over it, so that the file stays the same one:
# under the running server, after a clean stop, after a crash. It knows of line
# pointers that have been set unused since, and used again. Not a word of it may be
# believed; but a store that a crash has left just as it was is.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use Between;
use Oracle;
use Pass;
use Resume;

my $node = between_node('back');
my $dir = $node->data_dir . '/pg_vacuum_resume';
my $copy = $node->basedir . '/copy';
my @places = qw(scan indexes reaping);
my $not_as_left = qr/LOG:  pg_vacuum_resume set its store aside and begins a new one: it is not as the latest save left it/;
my $no_note = qr/LOG:  pg_vacuum_resume set its store aside: there is no valid note of what it has to be/;

sub inode
{
	return (stat "$dir/$_[0]")[1];
}

sub copy_store
{
	system_or_bail('rm', '-rf', $copy);
	system_or_bail('cp', '-r', $dir, $copy);
	return;
}

# Copy files of the store back over those that are there; all, or one.
sub copy_back
{
	my ($what) = @_;
	my $inode = inode('data.mdb');

	if ($what eq 'directory')
	{
		system_or_bail('cp', '-r', "$copy/.", $dir);
	}
	else
	{
		system_or_bail('cp', "$copy/$what", "$dir/$what");
	}
	is(inode('data.mdb'), $inode, "an older state of the store comes back by copying the $what");
	return;
}

# What an old record of a table knows becomes wrong: its vacuum is finished, its line
# pointers are used again, and some of the new rows die and are pruned.
sub outdate
{
	my ($table) = @_;

	vacuum($node, $table);
	fill_holes($node, $table, 1_000_000);
	$node->safe_psql('postgres', "SELECT count(*) FROM $table");
	return;
}

# Test that a vacuum knows nothing of an earlier one; $session is to do it.
sub starts_over
{
	my ($table, $session) = @_;

	if ($session)
	{
		$session->query_safe("VACUUM $table");
	}
	else
	{
		is(vacuum($node, $table)->{run}, 1, 'a vacuum starts over');
	}
	settled($node, $table);
	return;
}

# Test that vacuums are continued again.
sub works_again
{
	my ($table) = @_;

	interrupted($node, $table, 'indexes');
	continued(vacuum($node, $table), verified => 0);
	settled($node, $table);
	return;
}

###############################################################################
# Finished vacuums whose records come back
###############################################################################

# Each story: what is copied back, how the server is stopped for that (or else runs),
# and what the log says.
my @stories = (
	[ 'data.mdb', 'running', $not_as_left ],
	[ 'data.mdb', 'fast', $not_as_left ],
	[ 'data.mdb', 'immediate', $not_as_left ],
	[ 'directory', 'running', qr/LOG:  pg_vacuum_resume set its store aside|WARNING:  pg_vacuum_resume set its store aside/ ],
	[ 'directory', 'fast', $no_note ],
	[ 'directory', 'kill_all', $no_note ]);

foreach my $story (@stories)
{
	my ($what, $server, $says) = @$story;

	subtest "$what, server: $server" => sub {
		my $name = ($what =~ s/\W//r) . "_$server";

		interrupted($node, "${name}_$_", $_) foreach @places;
		copy_store();
		outdate("${name}_$_") foreach @places;

		# the store has something else in it now, that was saved later
		interrupted($node, "${name}_later", 'scan');
		my $session;
		if ($server eq 'running')
		{
			$session = $node->background_psql('postgres');
			is($session->query_safe('SELECT relation FROM vacuum_resume.progress'), "${name}_later",
				'a session has the store open');
		}

		my $log = log_end($node);
		crash_node($node, $server) if !$session;
		copy_back($what);
		$node->start if !$session;

		starts_over("${name}_indexes", $session);
		starts_over("${name}_$_") foreach qw(scan reaping later);
		$session->quit if $session;
		like(log_since($node, $log), $says, 'the log says why');
		works_again("${name}_again");
	};
}

###############################################################################
# While a vacuum is running
###############################################################################

subtest 'a vacuum is running, which saves, and is cancelled' => sub {
	interrupted($node, "before_$_", $_) foreach @places;
	copy_store();
	outdate("before_$_") foreach @places;

	make_table($node, 'running', pages => 300, dead => 'k % 3 = 0');
	my $log = log_end($node);
	my $vacuum = start_vacuum($node, 'running', set => [ $Resume::slowly, $Resume::saving ]);
	wait_for_phase($node, 'running', 'scanning heap', 'heap_blks_scanned > 70');
	copy_back('data.mdb');
	$node->wait_for_log($not_as_left, $log);
	stop_vacuum($node, 'running', vacuum => $vacuum, way => 'cancel', phase => 'scanning heap',
		when => 'heap_blks_scanned > 150');

	starts_over("before_$_") foreach @places;
	my $record = record($node, 'running');
	my $rest = vacuum($node, 'running');
	continued($rest, verified => 0);
	is("$rest->{from}, $rest->{pending}", "$record->{next_block}, $record->{pending_dead_tuples}",
		'  with all that it had saved before and since');
	settled($node, 'running');
};

# It reaps what the older state believes to be pending, and dies before it can see.
subtest 'a vacuum is reaping, and all is killed' => sub {
	interrupted($node, 'reaps', 'indexes');
	interrupted($node, 'other', 'scan');
	copy_store();
	my $vacuum = start_vacuum($node, 'reaps', set => ['vacuum_cost_delay = 50']);
	wait_for_phase($node, 'reaps', 'vacuuming heap', 'heap_blks_vacuumed > 20');
	copy_back('data.mdb');
	crash_node($node, 'kill_all');
	finish_sql($vacuum->{job});
	my $log = log_end($node);
	$node->start;
	fill_holes($node, 'reaps', 1_000_000);
	$node->safe_psql('postgres', 'SELECT count(*) FROM reaps');
	starts_over('reaps');
	like(log_since($node, $log), $not_as_left, 'the log says why');
	starts_over('other');
	works_again('reaps_again');
};

###############################################################################
# Crashes between a change of the store and the note of it
###############################################################################

# A link keeps a former note as the file that it is.
foreach my $changes (1, 2)
{
	subtest "a crash, and the note is $changes behind the store" => sub {
		my $table = "behind_$changes";
		my $note = $node->basedir . '/note';

		interrupted($node, $table, 'indexes');
		interrupted($node, "${table}_$_", 'scan') foreach 1 .. $changes;
		my $id = instance_id($node);
		unlink $note;
		link "$dir/instance", $note or die "cannot link the note: $!";
		foreach (1 .. $changes)
		{
			is($node->safe_psql('postgres', "SELECT vacuum_resume.forget('${table}_$_')"), 't',
				'the store is changed once');
		}
		crash_node($node, 'kill_all');
		rename $note, "$dir/instance" or die "cannot put back the note: $!";
		my $log = log_end($node);
		$node->start;

		if ($changes == 1)
		{
			# which the note does not tell; nobody has acted on it
			continued(vacuum($node, $table), verified => 0);
			is(instance_id($node), $id, '  and the id is kept');
			unlike(log_since($node, $log), qr/set its store aside/, '  the store is believed');
			settled($node, $table);
		}
		else
		{
			starts_over($table);
			like(log_since($node, $log), $not_as_left, '  as the store is not believed');
		}
		foreach (1 .. $changes)
		{
			starts_over("${table}_$_");
		}
	};
}

only_asked_for_crashes($node);
$node->stop;

done_testing();
