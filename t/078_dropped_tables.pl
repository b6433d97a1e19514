# Whatever way a table goes, nothing is kept of its vacuum; and nothing that stays
# is forgotten.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use Between;
use Oracle;
use Pass;
use Resume;

my $node = between_node('dropped');
my $tables = q{SELECT coalesce(string_agg(table_name, ' ' ORDER BY table_name), 'none') FROM vacuum_resume.cycles()};

# What the store has, without anybody looking at it through the server
sub in_store
{
	my $tool = $node->installed_command('pg_vacuum_resume');
	my ($out, $err) = run_command([ $tool, 'list', '-D', $node->data_dir, '--csv' ]);

	return join ' ', sort map { /^\w*,\w*,(\w+),/ ? $1 : () } (split /\n/, $out)[ 1 .. 99 ];
}

subtest 'by a transaction that is prepared' => sub {
	interrupted($node, $_, 'indexes') foreach qw(committed rolled_back);
	foreach my $table (qw(committed rolled_back))
	{
		$node->safe_psql('postgres', "BEGIN; DROP TABLE $table; PREPARE TRANSACTION '$table'");
	}
	$node->restart;
	$node->safe_psql('postgres', q{COMMIT PREPARED 'committed'});
	$node->safe_psql('postgres', q{ROLLBACK PREPARED 'rolled_back'});
	is(in_store(), '', 'nothing is kept of its vacuum');
	is(vacuum($node, 'rolled_back')->{run}, 1, 'if it stays after all, its vacuum starts over');
	settled($node, 'rolled_back');
};

subtest 'by a transaction that is rolled back' => sub {
	interrupted($node, 'stays', 'indexes');
	is($node->safe_psql('postgres', "BEGIN; DROP TABLE stays; $tables; ROLLBACK;"), 'none',
		'who drops it does not see its vacuum any more');
	continued(vacuum($node, 'stays'), verified => 0);
	settled($node, 'stays');
};

subtest 'by a server without the library' => sub {
	interrupted($node, $_, 'indexes') foreach qw(gone kept);
	$node->stop;
	$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "''");
	$node->start;
	$node->safe_psql('postgres', 'DROP TABLE gone');
	$node->stop;
	$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'pg_vacuum_resume'");
	$node->start;
	is(in_store(), 'gone kept', 'what was kept is still there');

	# another database's session does not know which tables this one has
	$node->safe_psql('postgres', 'CREATE DATABASE elsewhere');
	$node->safe_psql('elsewhere', 'CREATE EXTENSION pg_vacuum_resume');
	is($node->safe_psql('elsewhere', $tables), 'gone kept', 'one who cannot know sees it');
	is($node->safe_psql('postgres', $tables), 'kept', 'one who can know does not');
	is(in_store(), 'kept', '  and then it is gone');
	continued(vacuum($node, 'kept'));
	settled($node, 'kept');
};

only_asked_for_crashes($node);
$node->stop;

done_testing();
