# A data directory is copied, or an earlier state of it comes back. A store that was
# copied may be torn, and one that stayed is of a history that did not happen: neither
# is used.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Between;
use Oracle;
use Pass;
use Resume;

my $node = between_node('source', conf => "wal_level = replica\nmax_wal_senders = 5\n");
my $set_aside = qr/LOG:  pg_vacuum_resume set its store aside/;

make_table($node, 'copied', pages => 80, dead => 'k % 3 = 0');
interrupted($node, 'copied', 'indexes', made => 1);
my $id = instance_id($node);

sub start_copy
{
	my ($name, $backup, %opt) = @_;
	my $copy = PostgreSQL::Test::Cluster->new($name);

	$copy->init_from_backup($node, $backup, %opt);
	ok(-e $copy->data_dir . '/pg_vacuum_resume/data.mdb', "$name has a store");
	$copy->start;
	return $copy;
}

# Test that a server that was started anew knows nothing of an interrupted vacuum; its
# log begins at $log.
sub starts_over
{
	my ($server, $table, $log) = @_;

	is(vacuum($server, $table)->{run}, 1, 'a vacuum starts over');
	like(log_since($server, $log), $set_aside, '  as the store is not used');
	settled($server, $table);

	# the note is written with the first save
	interrupted($server, "later_$table", 'scan');
	isnt(instance_id($server), $id, '  and the id is a new one');
	continued(vacuum($server, "later_$table"), verified => 0);
	return;
}

subtest 'a base backup of the running server, started as a clone' => sub {
	$node->backup('clone');
	my $clone = start_copy('clone', 'clone');
	starts_over($clone, 'copied', 0);
	fill_holes($clone, 'copied', 1_000_000);
	vacuum($clone, 'copied');
	settled($clone, 'copied');
	$clone->stop;
};

subtest 'a promoted standby' => sub {
	my $standby = start_copy('standby', 'clone', has_streaming => 1);
	$node->wait_for_catchup($standby);

	# It has a copy of the store, but no vacuum of its own.
	is($standby->safe_psql('postgres', 'SELECT count(*) FROM vacuum_resume.progress'), 0,
		'it shows no progress while it follows');
	is($standby->safe_psql('postgres', "SELECT reason FROM vacuum_resume.decide('copied') WHERE chosen"),
		'there is nothing to continue', '  knows of nothing to continue');
	my (undef, undef, $refused) = $standby->psql('postgres', "SELECT vacuum_resume.forget('copied')");
	like($refused, qr/cannot execute vacuum_resume\.forget\(\) during recovery/, '  and has nothing to forget');
	$standby->promote;
	starts_over($standby, 'copied', 0);
	$standby->stop;
};

subtest 'a copy of the stopped server' => sub {
	$node->stop;
	$node->backup_fs_cold('cold');
	my $copy = start_copy('copy', 'cold');
	starts_over($copy, 'copied', 0);
	$copy->stop;
	$node->start;
};

subtest 'the server that was copied' => sub {
	continued(vacuum($node, 'copied'), verified => 0);
	is(instance_id($node), $id, '  and the id is kept');
	settled($node, 'copied');
};

# Copied without stopping the server, and put back by copying each file over the old
# one: the store's file is the same one, and nothing but the backup's label tells.
subtest 'a base backup copied over the data directory' => sub {
	my $data = $node->data_dir;
	my $backup = $node->backup_dir . '/low_level';

	make_table($node, 'copied_over', pages => 80, dead => 'k % 3 = 0');
	my $session = $node->background_psql('postgres');
	$session->query_safe(q{SELECT pg_backup_start('copied_over', true)});
	interrupted($node, 'copied_over', 'indexes', made => 1);
	system_or_bail('cp', '-a', $data, $backup);
	system_or_bail('rm', '-r', "$backup/postmaster.pid", "$backup/pg_wal");
	vacuum($node, 'copied_over');
	fill_holes($node, 'copied_over', 1_000_000);
	my ($label) = $session->query_safe('SELECT labelfile FROM pg_backup_stop(false)') =~
	  /(START WAL LOCATION.*?START TIMELINE: \d+\n)/s;
	append_to_file("$backup/backup_label", $label);
	$session->quit;
	crash_node($node, 'kill_all');
	system_or_bail('cp', '-r', "$backup/.", $data);
	my $log = log_end($node);
	$node->start;
	starts_over($node, 'copied_over', $log);
};

subtest 'the server follows another one, and is promoted' => sub {
	interrupted($node, 'led', 'indexes');
	$node->stop;
	append_to_file($node->data_dir . '/standby.signal', '');
	my $log = log_end($node);
	$node->start;
	$node->promote;
	starts_over($node, 'led', $log);
};
$node->stop;

# An earlier copy of the stopped server is put back, but for the store. There, an
# aggressive vacuum had scanned the table, most of whose pages are all-visible: what
# it says of the XIDs left in them would be wrong.
sub restored
{
	my ($name, %opt) = @_;
	my $server = between_node($name);
	my $data = $server->data_dir;
	my $cold = $server->backup_dir . '/cold';
	my $kept = $server->backup_dir . '/kept';

	# the pages that are not all-visible have younger rows than the others
	make_table($server, 'restored', pages => 160, dead => 'k < 1000 OR k >= 2900');
	$server->safe_psql('postgres', q{
		CREATE TABLE passed (i int);
		SET vacuum_resume.enabled = off;
		VACUUM (TRUNCATE off) restored;
		INSERT INTO restored SELECT i, i, repeat('x', 364) FROM generate_series(0, 3199) AS i
			WHERE i < 1000 OR i >= 2900;
		VACUUM restored;
		DELETE FROM restored WHERE (k < 1000 OR k >= 2900) AND k % 3 = 0;});
	$server->stop;
	mkdir $server->backup_dir;
	system_or_bail('cp', '-a', $data, $cold);
	$server->start;
	burn_xids($server, 1000);
	interrupted($server, 'restored', 'indexes', made => 1, options => 'FREEZE');
	$server->stop;

	system_or_bail('mv', "$data/pg_vacuum_resume", $kept);
	unlink "$kept/instance" if $opt{no_note};
	system_or_bail('rm', '-r', $data);
	system_or_bail('cp', '-a', $cold, $data);
	system_or_bail('mv', $kept, "$data/pg_vacuum_resume");
	$server->start;
	$opt{then}->($server) if $opt{then};

	# beyond the WAL position of the other history
	$server->safe_psql('postgres', 'SELECT pg_switch_wal(); INSERT INTO passed VALUES (1);')
	  foreach 1 .. 3;
	$server->restart if $opt{restart};
	my $rest = vacuum($server, 'restored');
	is($rest->{run}, 1, 'a vacuum starts over');
	is($server->safe_psql('postgres', q{
		SELECT relfrozenxid = (SELECT min(xmin::text::int) FROM restored)::text::xid
		FROM pg_class WHERE relname = 'restored'}), 't', '  relfrozenxid is the oldest XID left');
	settled($server, 'restored');
	$server->stop;
	return;
}

subtest 'an earlier copy put back around the store' => sub { restored('at_once') };
subtest 'an earlier copy put back around the store, then a session is killed' => sub {
	restored('killed', then => sub {
		my ($server) = @_;
		my $session = $server->background_psql('postgres');
		my ($pid) = $session->query_safe('SELECT pg_backend_pid()') =~ /(\d+)/;

		crash_node($server, 'kill_backend', $pid);
	});
};
subtest 'an earlier copy put back around the store, then a restart' => sub { restored('restarted', restart => 1) };
subtest 'an earlier copy put back around the store without its note' => sub { restored('no_note', no_note => 1) };

done_testing();
