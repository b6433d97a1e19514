# What is pending is taken as it is only while the instance id is the same, and it
# must be a new one whenever somebody else can have vacuumed.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Between;
use Oracle;
use Pass;
use Resume;

my $node = between_node('id');
my $store = $node->data_dir . '/pg_vacuum_resume';

# Two tables are interrupted, one of them with an index done, one while line
# pointers are set unused; something happens; and the id is kept or not.
sub id_is
{
	my ($kept, $name, $happens) = @_;

	subtest "the id is $kept: $name" => sub {
		my ($table, $reaped) = map { ($name =~ s/\W/_/gr) . "_$_" } qw(i r);

		interrupted($node, $table, 'indexes');
		interrupted($node, $reaped, 'reaping');
		my $id = instance_id($node);
		$happens->();

		my $rest = vacuum($node, $table);
		is(instance_id($node) eq $id ? 'kept' : 'new', $kept, "the id is $kept");
		continued($rest, verified => $kept eq 'kept' ? 0 : 1);
		is("@{ $rest->{indexes} }", join(' ', map { "${table}_$_" } $kept eq 'kept' ? qw(v h) : qw(k v h)),
			'  and scans ' . ($kept eq 'kept' ? 'the indexes that are not done' : 'all indexes'));

		$rest = vacuum($node, $reaped);
		continued($rest, verified => 0);
		is(scalar @{ $rest->{indexes} }, $kept eq 'kept' ? 0 : 3,
			$kept eq 'kept' ? '  and scans no index for what it reaps' : '  and reaps nothing before it has scanned all indexes');
		settled($node, $_) foreach $table, $reaped;
	};
	return;
}

id_is('kept', 'clean restart', sub { $node->restart });
id_is('kept', 'smart stop', sub { $node->stop('smart'); $node->start });
id_is('kept', 'immediate stop', sub { $node->stop('immediate'); $node->start });
id_is('kept', 'all killed', sub { crash_node($node, 'kill_all'); $node->start });
id_is('kept', 'postmaster killed', sub { crash_node($node, 'kill_postmaster'); $node->start });

# Ends a session of the server by kill -9.
sub kill_session
{
	my $session = $node->background_psql('postgres');
	my ($pid) = $session->query_safe('SELECT pg_backend_pid()') =~ /(\d+)/;

	crash_node($node, 'kill_backend', $pid);
	return;
}

id_is('kept', 'session killed', \&kill_session);
id_is('kept', 'session killed and clean restart', sub { kill_session(); $node->restart });

id_is('new', 'checkpoint, then all killed',
	sub { $node->safe_psql('postgres', 'CHECKPOINT'); crash_node($node, 'kill_all'); $node->start });
id_is('new', 'pg_resetwal',
	sub { $node->stop; system_or_bail('pg_resetwal', '-D', $node->data_dir); $node->start });

# Test that a table's vacuum does not trust what an earlier one has left.
sub mistrusts
{
	my ($server, $table) = @_;
	my $rest = vacuum($server, $table);

	ok($rest->{run} == 1 || $rest->{verified} > 0, 'the next vacuum starts over, or verifies what is pending');
	settled($server, $table);
	return;
}

# A copy of the note is not the note.
foreach my $damage (qw(removed cut garbled copied))
{
	subtest "the note is $damage" => sub {
		interrupted($node, "note_$damage", 'indexes');
		$node->stop;
		my $note = "$store/instance";
		my $text = slurp_file($note);
		if ($damage eq 'removed')
		{
			unlink $note or die "cannot remove the note: $!";
		}
		elsif ($damage eq 'copied')
		{
			system_or_bail('cp', '-p', $note, "$note.copy");
			rename "$note.copy", $note or die "cannot replace the note: $!";
		}
		else
		{
			# in the file that is there
			open my $file, '>', $note or die "cannot open the note: $!";
			print $file $damage eq 'cut' ? substr($text, 0, 100) : $text =~ s/lsn: (.)/lsn: 1$1/r;
			close $file or die "cannot write the note: $!";
		}
		$node->start;
		mistrusts($node, "note_$damage");
	};
}

# A vacuum without regard to the record cannot remove it: then it must not be trusted
# any more, in this server's life and after it.
foreach my $then ('goes on', 'fast', 'kill_all')
{
	subtest "forgetting fails, and the server: $then" => sub {
		my $table = 'unforgotten_' . ($then =~ s/\W/_/r);

		interrupted($node, $table, 'indexes');
		chmod 0400, glob "$store/*";
		chmod 0500, $store;
		my ($rc, undef, $stderr) = $node->psql('postgres', "SET vacuum_resume.enabled = off; VACUUM $table");
		is($rc, 0, 'the vacuum is done');
		like($stderr, qr/WARNING:  could not remove the saved progress of the vacuum of table "public\.$table"/,
			'  with a warning');
		fill_holes($node, $table, 1_000_000);
		crash_node($node, $then) if $then ne 'goes on';
		chmod 0700, $store;
		chmod 0600, glob "$store/*";
		$node->start if $then ne 'goes on';
		mistrusts($node, $table);
	};
}

# A session has the store open when it is removed under the running server.
subtest 'the store is removed, but a session has it open' => sub {
	interrupted($node, 'removed', 'indexes');
	my $session = $node->background_psql('postgres');
	is($session->query_safe('SELECT indexes_done FROM vacuum_resume.progress'), 1, 'a session reads the record');
	system_or_bail('rm', '-r', $store);
	is(vacuum($node, 'removed')->{run}, 1, 'others do not know of it');
	fill_holes($node, 'removed', 1_000_000);
	$session->query_safe('VACUUM removed');
	$session->quit;
	settled($node, 'removed');
};

# Unlogged tables are empty after a crash, whatever was known of them. (A checkpoint
# leaves their pages dirty, so they cannot be interrupted in slices.)
my %moments = (
	scan => [ 'scanning heap', 'heap_blks_scanned > 40' ],
	indexes => [ 'vacuuming indexes',
		q{EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = p.pid AND wait_event = 'BufferPin')} ],
	reaping => [ 'vacuuming heap', 'heap_blks_vacuumed > 40' ]);

foreach my $ending (qw(fast kill_all kill_backend))
{
	subtest "unlogged tables, then $ending" => sub {
		my $crash = $ending ne 'fast';
		my %tables = map { $_ => "unlogged_${_}_$ending" } keys %moments;
		my $fill = q{
			INSERT INTO %1$s SELECT i, i, repeat('x', 364) FROM generate_series(0, 1599) AS i;
			DELETE FROM %1$s WHERE k %% 3 = 0;};

		foreach my $where (sort keys %moments)
		{
			my $table = $tables{$where};

			$node->safe_psql('postgres', qq{
				CREATE UNLOGGED TABLE $table (k int, v int, filler text) WITH (autovacuum_enabled = off);
				CREATE INDEX ${table}_k ON $table (k);
				CREATE INDEX ${table}_v ON $table (v);
				CREATE INDEX ${table}_h ON $table USING hash (v);}
				. sprintf($fill, $table));
			stop_vacuum(
				$node, $table,
				way => 'cancel',
				phase => $moments{$where}[0],
				when => $moments{$where}[1],
				set => [$Resume::slowly],
				holder => $where eq 'indexes' ? hold_index($node, $table, 'v') : undef);
		}
		if ($ending eq 'kill_backend')
		{
			kill_session();
		}
		else
		{
			crash_node($node, $ending);
			$node->start;
		}
		foreach my $where (sort keys %moments)
		{
			my $table = $tables{$where};

			is($node->safe_psql('postgres', "SELECT count(*) FROM $table"), $crash ? 0 : 1066,
				$crash ? "$table is empty" : "$table is as it was");
			$node->safe_psql('postgres', sprintf($fill, $table)) if $crash;

			my $log = log_end($node);
			my $rest = vacuum($node, $table);
			if ($crash)
			{
				begun_anew($node, $rest, $log, $table, 'an unlogged table may have been reset');
			}
			else
			{
				continued($rest, verified => 0);
			}
			settled($node, $table);
		}
	};
}

only_asked_for_crashes($node);
$node->stop;

done_testing();
