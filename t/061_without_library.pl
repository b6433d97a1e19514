# Between two runs of a vacuum the server runs without the library. What was pending
# is vacuumed there, its line pointers are used again, and some of the new rows are
# dead again, with entries in indexes that the first run was done with. The next
# run must not believe a word of what it finds: no living row may lose an index
# entry, and no line pointer may be set unused while an index has an entry for it.

use strict;
use warnings;

use IPC::Run;
use List::Util qw(uniq);
use PostgreSQL::Test::Utils;
use Test::More;

use Between;
use Oracle;
use Pass;
use Resume;

my $node = between_node('without');
my $rows_before = 1600;
my @places = qw(scan indexes reaping);

# End the server, start it with or without the library.
sub restart
{
	my ($how, $library) = @_;

	stop_server($how);
	$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', $library ? "'pg_vacuum_resume'" : "''");
	$node->start;
	is($node->safe_psql('postgres', 'SHOW shared_preload_libraries'), $library ? 'pg_vacuum_resume' : '',
		($library ? 'the server runs with' : 'the server runs without') . " the library after: $how");
	return;
}

sub stop_server
{
	my ($how) = @_;
	return $how eq 'crash' ? crash_node($node, 'kill_all') : $node->stop($how);
}

# Use all line pointers that were reaped, and let every fourth of the new rows die;
# the last scan makes dead line pointers of these.
sub reuse
{
	my ($table) = @_;
	my ($living, $dead) = split /\|/, (split /\n/, $node->safe_psql(
			'postgres', qq{
			INSERT INTO $table SELECT 1000000 + i, 1000000 + i, repeat('y', 364)
				FROM generate_series(1, $rows_before - (SELECT count(*) FROM $table)) AS i;
			DELETE FROM $table WHERE k >= 1000000 AND k % 4 = 0;
			SELECT count(*) FROM $table;
			SELECT count(*) FILTER (WHERE lp_flags = 1 AND t_xmin = (SELECT max(xmin::text::int) FROM $table)::text::xid),
				count(*) FILTER (WHERE lp_flags = 3)
			FROM generate_series(0, 79) AS block, heap_page_items(get_raw_page('$table', block))}))[-1];

	cmp_ok($living, '>', 300, "$living line pointers of $table have living rows again");
	cmp_ok($dead, '>', 100, "  $dead are dead a second time");
	return;
}

# What the second run makes of it; $where is where the first one was interrupted.
# What was to be reaped is not even verified.
sub resume
{
	my ($table, $where) = @_;
	my $rest = vacuum($node, $table);

	continued($rest, verified => $where eq 'reaping' ? 0 : 1);
	is(join(' ', sort { $a cmp $b } uniq @{ $rest->{indexes} }), "${table}_h ${table}_k ${table}_v",
		'  and scans all indexes');
	settled($node, $table);
	return;
}

# Each round: how the server is ended that has the library, and the one that has not.
my @rounds = ([ 'fast', 'fast' ], [ 'crash', 'fast' ], [ 'fast', 'crash' ], [ 'crash', 'crash' ]);

foreach my $i (0 .. $#rounds)
{
	my ($with, $without) = @{ $rounds[$i] };

	subtest "with the library, $with, without it, $without, with it" => sub {
		interrupted($node, "${_}_$i", $_) foreach @places;
		my $id = instance_id($node);
		restart($with, 0);
		foreach my $where (@places)
		{
			$node->safe_psql('postgres', "VACUUM ${where}_$i");
			reuse("${where}_$i");
		}
		restart($without, 1);
		foreach my $where (@places)
		{
			subtest "interrupted in $where" => sub { resume("${where}_$i", $where) };
		}
		isnt(instance_id($node), $id, 'the instance id is a new one');
	};
}

# Killed together with the server, the first run says of itself that it is running.
my %moments = (
	scan => [ 'scanning heap', 'heap_blks_scanned > 40' ],
	indexes => [ 'vacuuming indexes',
		q{EXISTS (SELECT FROM vacuum_resume.progress r WHERE r.relid = p.relid AND indexes_done = 1)} ],
	reaping => [ 'vacuuming heap', 'heap_blks_vacuumed > 40' ]);

foreach my $where (@places)
{
	subtest "with the library, killed in $where, without it, with it" => sub {
		my $table = "${where}_killed";
		my ($phase, $when) = @{ $moments{$where} };

		make_table($node, $table, pages => 80, dead => 'k % 3 = 0');
		my $holder = $where eq 'indexes' ? hold_index($node, $table, 'v') : undef;
		# so slow that it is there still when it is killed
		my $vacuum = start_vacuum($node, $table, set => [ 'vacuum_cost_delay = 20', $Resume::saving ]);
		$node->safe_psql('postgres', sprintf(q{SELECT meet_vacuum('%s', '%s', '%s', '')},
				map { s/'/''/gr } $table, $phase, $when));
		my $record = record($node, $table);
		is($record->{last_stop}, 'running', 'the vacuum is running');
		stop_server('crash');
		finish_sql($vacuum->{job});
		if ($holder)
		{
			local $@;
			eval { $holder->quit; };
		}
		$node->start;
		is(record($node, $table)->{last_stop}, 'killed', '  and is killed');

		restart('fast', 0);
		$node->safe_psql('postgres', "VACUUM $table");
		reuse($table);
		restart('crash', 1);
		resume($table, $where);
	};
}

# Even if nothing is vacuumed without the library, nobody can know.
subtest 'with the library, without it, with it, and nothing happened' => sub {
	interrupted($node, "${_}_quiet", $_) foreach @places;
	my $id = instance_id($node);
	restart('fast', 0);
	restart('fast', 1);
	foreach my $where (@places)
	{
		my $rest = vacuum($node, "${where}_quiet");

		continued($rest, verified => $where eq 'reaping' ? 0 : 1);
		is(uniq(@{ $rest->{indexes} }), 3, '  and scans all indexes');
		settled($node, "${where}_quiet");
	}
	isnt(instance_id($node), $id, 'the instance id is a new one');
};

# What was pending has to be checked, and that takes longer than a run lasts. What it
# has checked is kept, however it ends, or a table whose runs are that short would never
# be vacuumed.
foreach my $way (qw(max_duration cancel))
{
	subtest "checking is cut short: $way" => sub {
		my $table = "check_$way";

		make_table($node, $table, pages => 240, dead => 'k % 3 = 0');
		vacuum_part($node, $table, to => 186);
		restart('fast', 0);
		restart('fast', 1);
		my $options = $way eq 'max_duration' ? "MAX_DURATION '100ms'" : 'RESUME auto';
		my $timeout = $way eq 'cancel' ? [q{statement_timeout = '100ms'}] : [];
		my (undef, undef, $stderr) = $node->psql('postgres',
			join('', map { "SET $_;" } $Resume::slowly, @$timeout) . "VACUUM ($options) $table");
		like($stderr, $way eq 'cancel' ? qr/ERROR:  canceling statement due to statement timeout/ :
				qr/NOTICE:  vacuum of table "public\.$table" stopped after its maximum duration/,
			'it is stopped');
		my $record = record($node, $table);
		cmp_ok($record->{pages_verified}, '>', 0, 'some pages have been checked');
		cmp_ok($record->{pages_verified}, '<', 186, '  but not all');

		my $rest = vacuum($node, $table);
		continued($rest, verified => 0);
		settled($node, $table);
	};
}

# A server in single-user mode is one like any other.
sub single_user
{
	my ($library, $sql) = @_;
	my ($out, $err) = ('', '');

	$sql .= "\n";
	IPC::Run::run(
		[
			$node->installed_command('postgres'), '--single', '-j',
			'-D', $node->data_dir, '-c', "shared_preload_libraries=$library",
			'-c', 'log_min_messages=debug1', 'postgres'
		],
		'<', \$sql, '>', \$out, '2>', \$err)
	  or die "single-user mode failed: $err";
	return $err;
}

foreach my $library ('', 'pg_vacuum_resume')
{
	subtest "with the library, single-user mode with '$library', with it" => sub {
		my $name = $library eq '' ? 'bare' : 'loaded';
		interrupted($node, "${_}_$name", $_) foreach @places;
		my $id = instance_id($node);
		$node->stop('fast');
		foreach my $where (@places)
		{
			my $said = single_user($library, "VACUUM (VERBOSE) ${where}_$name;");

			like($said, qr/tuples: \d+ removed/, "${where}_$name is vacuumed");
			if ($library eq '')
			{
				unlike($said, qr/cycle: run/, '  by the server itself');
			}
			else
			{
				like($said, qr/cycle: run \d+, .*, 0 pages re-read/, '  from where it was');
			}
		}
		$node->start;
		foreach my $where (@places)
		{
			my $table = "${where}_$name";

			reuse($table);
			if ($library eq '')
			{
				resume($table, $where);
			}
			else
			{
				is(vacuum($node, $table)->{run}, 1, 'there is nothing to go on with');
				settled($node, $table);
			}
		}
		is(instance_id($node) eq $id, $library ne '', 'the instance id is kept if the library was there');
	};
}

only_asked_for_crashes($node);
$node->stop;

done_testing();
