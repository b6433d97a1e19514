
=pod

=head1 NAME

Twin - two copies of one data directory, one vacuumed by the server, one by us

=head1 SYNOPSIS

  use Twin;

  my $twin = Twin->new('rows');
  $twin->build('CREATE TABLE t AS SELECT generate_series(1, 1000) AS a');
  $twin->build('DELETE FROM t WHERE a % 7 = 0');
  $twin->separate;
  $twin->vacuum('plain deletes', table => 't', premise => qr/142 removed/);
  $twin->finish;

=head1 DESCRIPTION

A node is filled and stopped, its data directory is copied, and both copies are
started: "stock", the server as it is, without our library, and "ours", which
preloads pg_vacuum_resume with vacuum_resume.min_table_size = 0.  From then on
every command is run on both, in the same order, so that both assign the same
transaction ids, OIDs and file numbers.  Nothing but VACUUM may then be able to
make a difference, and the point is that it makes none.

What is compared, and what is left out of the comparison and why:

=over

=item pages

All pages of all forks of every relation in the database and of the shared
relations, read from the files of the stopped nodes.  Masked: pd_lsn, because
background processes write WAL of their own (a snapshot of running transactions
every 15 seconds, at the latest at the shutdown), so positions move; and
pd_checksum, which is computed over pd_lsn.  Nothing else: line pointers, tuple
headers with their hint bits, pd_flags, pd_prune_xid, unused space, visibility
map bits and free space map nodes are equal byte by byte.  So are all pages of
all indexes.  A b-tree's vacuum cycle id, which begins at the time of day, would
differ only on a page that another session splits while VACUUM runs; twins have
no such session.

=item WAL

The records which VACUUM writes, as pg_waldump describes them: kind, length,
transaction, contents (recovery conflict horizons and visibility map flags
among them), block references, full page images, in order.  Masked: their
positions (lsn, prev) for the reason above, and the time of a commit (a VACUUM
that truncates has a transaction id).  A parallel vacuum writes the
records of different indexes in no fixed order, so there they are sorted.

=item text

What VACUUM VERBOSE says, with its warnings (and, where a test asks for them,
its debug messages, less the line of our own).  Masked: rates, I/O timings, system
usage, and the number of a session's temporary schema.  Buffer hits, misses and
dirtied pages are compared exactly, as are WAL records, full page images and
bytes.  Of a parallel vacuum the buffer usage is masked: each worker that gets an
index to do fills its own catalog caches, and which pages have left the buffers,
to be read or dirtied once more, depends on how the workers take turns.

=item facts

pg_class of the table, its TOAST table and its indexes, the database's
datfrozenxid and datminmxid, the counters of pg_stat_all_tables after each
VACUUM; all columns of all of pg_class and pg_database, and block reads and
hits of every user table, at the end.  Of a table that was vacuumed in parallel
the sum of reads and hits, for the same reason.

=item who did it

The line which our pass logs at DEBUG1, once for each heap that the stock side's
VERBOSE text names, and never on the stock side.

=back

Background writer, checkpoints and autovacuum are kept out of the way by
settings, see C<new>.

With TWIN_STOCK=1 in the environment both sides are the server as it is.  A test
that fails even so compares something which the server does not promise.

=cut

package Twin;

use strict;
use warnings;

use Carp;
use Oracle;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::RecursiveCopy;
use PostgreSQL::Test::Utils;
use Test::More;

use constant {
	BLCKSZ => 8192,

	# Differences that are shown before "and so on"
	SHOWN => 12,
};

# Forks and the file name suffix of each
my %forks = (main => '', fsm => '_fsm', vm => '_vm', init => '_init');

# Room for all pages of all databases, where parallel workers take part: if buffers
# had to be given to other pages, which ones those are would depend on all that was read
# before, and so on how the workers of an earlier vacuum took turns.
my $shared_buffers = '256MB';

# A masked page header begins with this: pd_lsn (8 bytes), pd_checksum (2)
my $mask = "\0" x 10;

=pod

=head1 METHODS

=over

=item Twin->new($name, checksums => 0, conf => $lines, stock => 0)

Make and start the node that will be filled.  C<stock>: both twins are to be the
server as it is (to test the comparison itself).

=cut

sub new
{
	my ($class, $name, %params) = @_;

	my $node = PostgreSQL::Test::Cluster->new("${name}_stock");
	$node->init(extra => $params{checksums} ? ['--data-checksums'] : []);

	# Full page images, dirtied pages and the order of WAL depend on when a
	# checkpoint or the background writer comes by: let neither come.
	$node->append_conf('postgresql.conf', <<"EOC");
autovacuum = off
bgwriter_lru_maxpages = 0
checkpoint_timeout = 1d
max_wal_size = 8GB
wal_recycle = off
wal_level = replica
shared_buffers = $shared_buffers
max_connections = 20
max_prepared_transactions = 5
max_parallel_maintenance_workers = 0
log_min_messages = debug1
jit = off
EOC
	$node->append_conf('postgresql.conf', $params{conf}) if $params{conf};
	$node->start;
	Oracle::prepare($node, 'postgres');
	$node->safe_psql('postgres', 'CREATE EXTENSION pageinspect');

	return bless {
		name => $name,
		stock => $node,
		both_stock => $params{stock} || $ENV{TWIN_STOCK},
		tables => [],
		wal => [],
		parallel_tables => {},
		sessions => {},
	}, $class;
}

=pod

=item $twin->build($sql)

Run SQL on the node that is being filled; returns its output.

=cut

sub build
{
	my ($self, $sql) = @_;

	croak 'too late to build: the twins are separate' if $self->{ours};
	return $self->{stock}->safe_psql('postgres', $sql);
}

=pod

=item $twin->edit_file($relation, $fork, $code)

Stop the node that is being filled, let $code change the contents of a fork
(passed and returned as one string), and start it again.  Makes what a crash
leaves behind and no command can.

=cut

sub edit_file
{
	my ($self, $relation, $fork, $code) = @_;

	my $node = $self->{stock};
	my $path = $node->data_dir . '/'
	  . $self->build("SELECT pg_relation_filepath(" . Oracle::literal($relation) . ')') . $forks{$fork};

	$node->stop;
	my $contents = $code->(-e $path ? slurp_file($path) : '');
	open my $file, '>:raw', $path or die "could not open \"$path\": $!";
	print $file $contents;
	close $file or die "could not write \"$path\": $!";
	$node->start;
	return;
}

=pod

=item Twin::empty_page()

An initialized page without any item.

=cut

sub empty_page
{
	# pd_lsn, pd_checksum, pd_flags, pd_lower, pd_upper, pd_special,
	# pd_pagesize_version, pd_prune_xid
	return pack('QSSSSSSL', 0, 0, 0, 24, BLCKSZ, BLCKSZ, BLCKSZ | 4, 0)
	  . "\0" x (BLCKSZ - 24);
}

=pod

=item $twin->separate

Stop the node, copy it, start both.

=cut

sub separate
{
	my ($self) = @_;

	my $stock = $self->{stock};
	$stock->stop;

	my $ours = PostgreSQL::Test::Cluster->new("$self->{name}_ours");
	PostgreSQL::Test::RecursiveCopy::copypath($stock->data_dir, $ours->data_dir);
	chmod 0700, $ours->data_dir or die "could not chmod data directory: $!";
	$ours->append_conf('postgresql.conf',
		sprintf("port = %d\nunix_socket_directories = '%s'\n", $ours->port, $ours->host));
	$ours->append_conf('postgresql.conf', <<'EOC') unless $self->{both_stock};
shared_preload_libraries = 'pg_vacuum_resume'
vacuum_resume.min_table_size = 0
EOC
	$self->{ours} = $ours;

	$_->start foreach $self->nodes;
	return;
}

=pod

=item $twin->nodes

Both nodes, stock first.

=cut

sub nodes
{
	my ($self) = @_;
	return ($self->{stock}, $self->{ours});
}

=pod

=item $twin->sql($sql)

Run SQL on both; their output is the same, and is returned.

=cut

sub sql
{
	my ($self, $sql) = @_;
	my ($stock, $ours) = map { $_->safe_psql('postgres', $sql) } $self->nodes;

	is($ours, $stock, 'both answer alike') if $ours ne $stock;
	return $stock;
}

=pod

=item $twin->session($name, $sql), $twin->end_session($name)

Keep a session open on both, and run SQL in it.

=cut

sub session
{
	my ($self, $name, $sql) = @_;

	$self->{sessions}{$name} ||= [ map { $_->background_psql('postgres') } $self->nodes ];
	$_->query_safe($sql) foreach @{ $self->{sessions}{$name} };
	return;
}

sub end_session
{
	my ($self, $name) = @_;

	$_->quit foreach @{ delete $self->{sessions}{$name} };
	$self->wait_for_sessions;
	return;
}

=pod

=item $twin->wait_for_sessions

Wait until sessions that ended have handed in their statistics.

=cut

sub wait_for_sessions
{
	my ($self) = @_;
	my $open = 1 + keys %{ $self->{sessions} };

	foreach my $node ($self->nodes)
	{
		$node->poll_query_until('postgres',
			"SELECT count(*) = $open FROM pg_stat_activity WHERE backend_type = 'client backend'")
		  or die 'sessions did not end';
	}
	return;
}

=pod

=item $twin->vacuum($story, table => $table, ...)

Run one VACUUM (VERBOSE) on both and compare what can be compared while they
run: the text, who did it, and the facts.  C<finish> compares the rest.

  table     a table's name or a list of names; they are what C<finish> has to
            find pages of
  options   more VACUUM options, as a string
  set       settings of the session, a list of "name = value"
  command   the whole command, where VACUUM (VERBOSE, options) table is not it;
            what it prints is compared with the text
  stock_command   another command for the stock side (to test the comparison)
  premise   a pattern, or a list of them, that the stock side's text matches:
            the scenario does go the way it is named for
  during    code that is called with the node while the command runs
  parallel  true: workers take part, see the DESCRIPTION
  skipped   true: no heap is to be vacuumed at all
  fails     a pattern that the error matches, if it is to fail

=cut

sub vacuum
{
	my ($self, $story, %params) = @_;

	subtest $story => sub {
		my @seen = $self->observe_vacuum(%params);
		my ($stock, $ours) = @seen;
		my @premises = ref $params{premise} eq 'ARRAY' ? @{ $params{premise} } : $params{premise};

		if ($params{fails})
		{
			ok($stock->{text} =~ $params{fails}, 'VACUUM fails as it should')
			  or diag("no match of $params{fails} in: $stock->{text}");
		}
		else
		{
			unlike($stock->{text}, qr/(ERROR|FATAL|PANIC): /, 'VACUUM succeeds');
		}
		foreach my $premise (grep { defined } @premises)
		{
			ok($stock->{text} =~ $premise, 'the scenario is what it is called')
			  or diag("no match of $premise in: " . substr($stock->{text}, 0, 2000));
		}

		if ($params{skipped})
		{
			is(scalar(@{ $stock->{heaps} }), 0, 'no heap is vacuumed by the server');
		}
		else
		{
			cmp_ok(scalar(@{ $stock->{heaps} }), '>', 0, 'the server vacuums a heap');
		}
		is("@{ $stock->{passes} }", '', 'our pass never runs on the stock side');
		is( "@{ $ours->{passes} }",
			$self->{both_stock} ? '' : "@{ $stock->{heaps} }",
			'our pass runs for exactly the same heaps, in the same order');

		same($ours->{text}, $stock->{text}, 'VERBOSE text');
		same($ours->{facts}, $stock->{facts}, 'pg_class, pg_database, pg_stat');
	};
	return;
}

=pod

=item $twin->observe_vacuum(...)

What C<vacuum> compares, for both: a hash with text, heaps (named in the text),
passes (named in the log), facts; and where its WAL is.

=cut

sub observe_vacuum
{
	my ($self, %params) = @_;

	my @tables = ref $params{table} eq 'ARRAY' ? @{ $params{table} } : ($params{table} || ());
	my $command = $params{command}
	  || sprintf('VACUUM (VERBOSE%s) %s',
		$params{options} ? ", $params{options}" : '',
		join(', ', @tables));
	my $set = join('', map { "SET $_;\n" } @{ $params{set} || [] });
	my @seen;

	foreach my $node ($self->nodes)
	{
		my $offset = -s $node->logfile;
		my $mine = $node == $self->{stock} && $params{stock_command} || $command;
		my ($stdout, $stderr) = run_psql($node,
			"$set SELECT pg_current_wal_insert_lsn();\n$mine;\nSELECT pg_current_wal_insert_lsn();",
			$params{during});
		my ($start, $end) = $stdout =~ m{^([0-9A-F]+/[0-9A-F]+)$}mg;
		croak "the session did not survive: $stderr" unless defined $end;
		my $text = plain_text($stderr, %params);
		my $answers = join("\n", grep { !m{^[0-9A-F]+/[0-9A-F]+$} } split /\n/, $stdout);
		my $log = slurp_file($node->logfile, $offset);

		push @seen,
		  {
			text => $answers eq '' ? $text : "$text\n$answers\n",
			heaps => [ $text =~ /^INFO:  (?:aggressively )?vacuuming "(postgres\..*?)"$/mg ],
			passes => [
				map { s/pg_(temp|toast_temp)_\d+/pg_$1_N/r }
				  $log =~ /DEBUG:  vacuuming table "(.*?)" with pg_vacuum_resume$/mg ],
			facts => $self->facts($node, @tables),
			wal_start => $start,
			wal_end => $end,
		  };
	}

	$self->{parallel_tables}{$_} = 1 foreach $params{parallel} ? @tables : ();
	push @{ $self->{tables} }, @tables;
	push @{ $self->{wal} }, { command => "$set$command", parallel => $params{parallel},
		ranges => [ map { [ $_->{wal_start}, $_->{wal_end} ] } @seen ] };
	return @seen;
}

# Run SQL in a session of its own, and, if there is any, some code while it runs.
# Returns what it prints on either channel.
sub run_psql
{
	my ($node, $sql, $during) = @_;
	my ($stdout, $stderr) = ('', '');

	if (!$during)
	{
		(undef, $stdout, $stderr) = $node->psql('postgres', $sql,
			on_error_stop => 0,
			timeout => $PostgreSQL::Test::Utils::timeout_default);
		return ($stdout, $stderr);
	}

	my $file = PostgreSQL::Test::Utils::tempdir . '/script.sql';
	append_to_file($file, $sql);
	my $psql = IPC::Run::start(
		[ $node->installed_command('psql'), '-XAtq', '-d', $node->connstr('postgres'), '-f', $file ],
		'>', \$stdout, '2>', \$stderr,
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	$during->($node);
	$psql->finish;
	return ($stdout, $stderr);
}

=pod

=item $twin->facts($node, @tables)

The rows of pg_class of the tables, their TOAST tables and all their indexes, of
pg_database, and of pg_stat_all_tables (where a VACUUM has changed them at once)
as lines of text.

=cut

sub facts
{
	my ($self, $node, @tables) = @_;
	my $list = join(', ', map { Oracle::literal($_) . '::regclass' } @tables) || '0::regclass';

	return $node->safe_psql('postgres', <<"EOQ");
WITH heaps AS (
	SELECT oid FROM pg_class
	WHERE oid IN ($list)
		OR oid IN (SELECT reltoastrelid FROM pg_class WHERE oid IN ($list))),
	relations AS (
	SELECT oid FROM heaps
	UNION ALL SELECT indexrelid FROM pg_index WHERE indrelid IN (SELECT oid FROM heaps))
SELECT format('%s: relpages %s, reltuples %s, relallvisible %s, relhasindex %s, relfrozenxid %s, relminmxid %s',
	oid::regclass, relpages, reltuples, relallvisible, relhasindex, relfrozenxid, relminmxid)
FROM (SELECT * FROM relations JOIN pg_class USING (oid) ORDER BY oid) AS r
UNION ALL
SELECT format('%s: n_live_tup %s, n_dead_tup %s, n_mod_since_analyze %s, n_ins_since_vacuum %s, vacuums %s (%s), autovacuums %s, analyzes %s (%s)',
	relid::regclass, n_live_tup, n_dead_tup, n_mod_since_analyze, n_ins_since_vacuum,
	vacuum_count, last_vacuum IS NOT NULL, autovacuum_count, analyze_count, last_analyze IS NOT NULL)
FROM (SELECT * FROM heaps JOIN pg_stat_all_tables ON oid = relid ORDER BY oid) AS s
UNION ALL
SELECT format('database %s: datfrozenxid %s, datminmxid %s', datname, datfrozenxid, datminmxid)
FROM (SELECT * FROM pg_database ORDER BY oid) AS d
EOQ
}

=pod

=item $twin->all_facts($node)

All of pg_class, pg_database and pg_statio_user_tables, as lines of text.

=cut

sub all_facts
{
	my ($self, $node) = @_;
	my $facts = $node->safe_psql('postgres', <<'EOQ');
SELECT format('%s: %s', oid::regclass, pg_class) FROM pg_class ORDER BY oid;
SELECT format('%s: %s', datname, pg_database) FROM pg_database ORDER BY oid;
SELECT format('%s: heap blocks %s read %s hit, index blocks %s read %s hit, TOAST blocks %s read %s hit, its index blocks %s read %s hit',
	relid::regclass, heap_blks_read, heap_blks_hit, idx_blks_read, idx_blks_hit,
	toast_blks_read, toast_blks_hit, tidx_blks_read, tidx_blks_hit)
FROM pg_statio_user_tables ORDER BY relid;
EOQ

	foreach my $table (keys %{ $self->{parallel_tables} })
	{
		$facts =~ s{^(\Q$table\E: heap blocks .*)$}
			{ $1 =~ s/(\d+) read (\d+) hit/($1 + $2) . ' read or hit'/gre; }me;
	}
	return $facts;
}

=pod

=item $twin->same_answers($story, $sql)

Run SQL on both, and compare what it prints on either channel.

=cut

sub same_answers
{
	my ($self, $story, $sql) = @_;
	my @seen;

	foreach my $node ($self->nodes)
	{
		my ($ret, $stdout, $stderr) = $node->psql('postgres', $sql, on_error_stop => 0);
		push @seen, "$stdout\n" . plain_text($stderr);
	}
	unlike($seen[0], qr/ERROR: /, "$story: no error");
	same($seen[1], $seen[0], $story);
	return $seen[0];
}

=pod

=item $twin->finish(oracle => 1)

Compare all that was not compared yet: the WAL of each VACUUM, the facts about
the whole database, every page.  Then check our side's tables with the server's
own tools, see Oracle.pm.

=cut

sub finish
{
	my ($self, %params) = @_;
	my %unique;
	my @tables = grep { !$unique{$_}++ } @{ $self->{tables} };

	my $found = $self->compare;
	if (@{ $self->{wal} })
	{
		cmp_ok($found->{wal_records}, '>', 0, "WAL was compared ($found->{wal_records} records)");
		same_list($found->{wal}, 'WAL written by VACUUM');
	}
	same_list($found->{facts}, 'pg_class, pg_database, pg_statio of the whole database');

	# Every table that was vacuumed has pages, and all of them were compared.
	foreach my $table (@tables)
	{
		my $of = $found->{relations}{$table};
		ok(defined $of, "pages of $table were found") or next;
		my %pages = %{ $of->{pages} };
		my $complete = ($pages{main} || 0) == $of->{relpages}
		  && ($of->{relpages} == 0 || $pages{vm} && $pages{fsm} || !$of->{vacuumed});
		ok($complete, "$table: all of its pages were compared")
		  or diag(explain($of));
		same_list(
			$of->{differences},
			sprintf(
				'%s: %d pages of the heap, %d of its visibility map, %d of its free space map, %d of TOAST and indexes',
				$table, map { $_ || 0 } @pages{qw(main vm fsm other)}));
	}
	same_list($found->{rest},
		"$found->{rest_pages} pages of all other relations, system catalogs among them");

	if ($params{oracle} // 1)
	{
		$self->{ours}->start;
		Oracle::table_ok($self->{ours}, 'postgres', $_) foreach @tables;
		$self->{ours}->stop;
	}
	return;
}

=pod

=item $twin->compare

The comparison behind C<finish>, without judging it: stops both nodes, returns
lists of differences and counts of what was compared.

=cut

sub compare
{
	my ($self) = @_;

	# End the current WAL segment, so that all of it is on disk and readable.
	$self->sql('SELECT pg_switch_wal() IS NOT NULL');
	my @wal = $self->compare_wal;

	$self->wait_for_sessions;
	my @facts = differing_lines(map { $self->all_facts($_) } $self->nodes);
	my @relations = map { $self->relations($_) } $self->nodes;
	foreach my $node (%{ $self->{parallel_tables} } ? $self->nodes : ())
	{
		$node->safe_psql('postgres',
			"SELECT sum(pg_database_size(oid)) < pg_size_bytes('$shared_buffers') FROM pg_database") eq 't'
		  or die "$self->{name}: more pages than buffers\n";
	}

	$_->stop foreach $self->nodes;

	my %found = (
		wal_records => shift @wal,
		wal => \@wal,
		facts => \@facts,
		relations => {},
		rest => [],
		rest_pages => 0,
	);
	my ($stock, $ours) = @relations;
	my %listed = map { $_ => 1 } @{ $self->{tables} };

	foreach my $oid (sort { $a <=> $b } keys %$stock)
	{
		my $relation = $stock->{$oid};
		my %pages;
		my @differences =
		  !$ours->{$oid} ? ("$relation->{name} is missing on our side")
		  : $ours->{$oid}{path} ne $relation->{path} ? ("$relation->{name}: file numbers differ")
		  : $self->compare_relation($relation, \%pages);

		if ($listed{ $relation->{owner} })
		{
			my $of = $found{relations}{ $relation->{owner} } ||=
			  { pages => {}, differences => [], relpages => 0 };

			push @{ $of->{differences} }, @differences;
			if ($relation->{name} eq $relation->{owner})
			{
				$of->{relpages} = $relation->{relpages};
				$of->{vacuumed} = $relation->{vacuumed};
				$of->{pages}{$_} = $pages{$_} foreach keys %pages;
			}
			else
			{
				$of->{pages}{other} += $_ foreach values %pages;
			}
		}
		else
		{
			push @{ $found{rest} }, @differences;
			$found{rest_pages} += $_ foreach values %pages;
		}
	}
	foreach my $oid (grep { !$stock->{$_} } keys %$ours)
	{
		push @{ $found{rest} }, "$ours->{$oid}{name} is missing on the stock side";
	}
	return \%found;
}

=pod

=item $twin->relations($node)

Everything with a file that this database sees, by OID: name, kind, path,
relpages, whether VACUUM has been there, and owner, the table that it is, or is
an index or a TOAST table or a TOAST table's index of.

=cut

sub relations
{
	my ($self, $node) = @_;
	my %relations;

	my $rows = $node->safe_psql('postgres', <<'EOQ');
SELECT c.oid, c.oid::regclass, coalesce(m.oid, c.oid)::regclass AS owner, c.relkind,
	pg_relation_filepath(c.oid), c.relpages, coalesce(s.vacuum_count, 0) > 0
FROM pg_class c
	LEFT JOIN pg_index i ON i.indexrelid = c.oid
	LEFT JOIN pg_class t ON t.oid = coalesce(i.indrelid, c.oid)
	LEFT JOIN pg_class m ON m.oid = t.oid AND t.relkind <> 't' OR m.reltoastrelid = t.oid
	LEFT JOIN pg_stat_all_tables s ON s.relid = c.oid
WHERE pg_relation_filepath(c.oid) IS NOT NULL
EOQ
	foreach my $row (split /\n/, $rows)
	{
		my ($oid, $name, $owner, $kind, $path, $relpages, $vacuumed) = split /\|/, $row;
		$relations{$oid} = {
			name => $name,
			owner => $owner,
			kind => $kind,
			path => $path,
			relpages => $relpages,
			vacuumed => $vacuumed eq 't',
		};
	}
	return \%relations;
}

=pod

=item $twin->compare_relation($relation, $pages)

Compare the files of one relation on the stopped nodes.  Returns the differences
and counts pages into %$pages, by fork.

=cut

sub compare_relation
{
	my ($self, $relation, $pages) = @_;
	my @differences;

	foreach my $fork (sort keys %forks)
	{
		for (my $segment = 0;; $segment++)
		{
			my $file = "$relation->{path}$forks{$fork}" . ($segment ? ".$segment" : '');
			my ($stock, $ours) = map { $_->data_dir . "/$file" } $self->nodes;
			my $what = "$relation->{name} ($fork)";

			last unless -e $stock || -e $ours;
			if (!-e $stock || !-e $ours)
			{
				push @differences,
				  "$what: $file exists on " . (-e $ours ? 'our' : 'the stock') . ' side only';
				last;
			}
			push @differences,
			  compare_files($stock, $ours, $what, \$pages->{$fork},
				$fork eq 'main' && $relation->{kind} =~ /[rtm]/);
		}
		delete $pages->{$fork} unless $pages->{$fork};
	}
	return @differences;
}

# Compare two files page by page; $$count grows by the pages that were compared.
sub compare_files
{
	my ($stock, $ours, $what, $count, $is_heap) = @_;
	my @differences;
	my $block = 0;

	if (-s $stock != -s $ours)
	{
		push @differences,
		  sprintf('%s: %d pages on the stock side, %d on ours',
			$what, (-s $stock) / BLCKSZ, (-s $ours) / BLCKSZ);
	}

	open my $stock_file, '<:raw', $stock or die "could not open \"$stock\": $!";
	open my $ours_file, '<:raw', $ours or die "could not open \"$ours\": $!";
	while (1)
	{
		my $chunk = 64 * BLCKSZ;
		my ($stock_pages, $ours_pages);
		my $stock_length = read $stock_file, $stock_pages, $chunk;
		my $ours_length = read $ours_file, $ours_pages, $chunk;
		my $length = $stock_length < $ours_length ? $stock_length : $ours_length;

		last if $length == 0;
		for (my $offset = 0; $offset < $length; $offset += BLCKSZ, $block++)
		{
			my $stock_page = substr($stock_pages, $offset, BLCKSZ);
			my $ours_page = substr($ours_pages, $offset, BLCKSZ);

			$$count++;
			substr($stock_page, 0, 10) = $mask;
			substr($ours_page, 0, 10) = $mask;
			push @differences, "$what block $block: " . differing_page($stock_page, $ours_page, $is_heap)
			  if $stock_page ne $ours_page;
		}
	}
	return @differences;
}

# Say where two pages differ, for a person to read.
sub differing_page
{
	my ($stock, $ours, $is_heap) = @_;
	my @where;

	# In the XOR of the pages each byte that differs is not zero.
	my $xor = $stock ^ $ours;
	$xor =~ /[^\0]/g;
	my $first = pos($xor) - 1;
	my $bytes = ($xor =~ tr/\0//c);

	push @where, sprintf('%d bytes, the first at %d: stock %s, ours %s', $bytes, $first,
		unpack('H*', substr($stock, $first, 8)), unpack('H*', substr($ours, $first, 8)));

	if ($is_heap)
	{
		my @stock_items = heap_items($stock);
		my @ours_items = heap_items($ours);
		my $last = @stock_items > @ours_items ? $#stock_items : $#ours_items;
		my @items = grep { ($stock_items[$_] // '') ne ($ours_items[$_] // '') } 0 .. $last;

		foreach my $item (@items > 4 ? @items[ 0 .. 3 ] : @items)
		{
			push @where, sprintf("stock %s\n\t\tours  %s",
				$stock_items[$item] // "no item $item", $ours_items[$item] // "no item $item");
		}
	}
	return join("\n\t\t", @where);
}

# A heap page's header and items as lines of text, the header first.
sub heap_items
{
	my ($page) = @_;
	my ($flags, $lower, $upper, $special, $version, $prune_xid) = unpack('x10 SSSSSL', $page);
	my @items = (sprintf 'header: flags %x, lower %d, upper %d, prune_xid %u',
		$flags, $lower, $upper, $prune_xid);
	my @kinds = qw(unused normal redirect dead);

	for (my $item = 1; 24 + 4 * $item <= $lower; $item++)
	{
		my $pointer = unpack('L', substr($page, 20 + 4 * $item, 4));
		my ($offset, $kind, $length) =
		  ($pointer & 0x7fff, $pointer >> 15 & 3, $pointer >> 17);
		my $text = "item $item: $kinds[$kind], offset $offset, length $length";

		if ($length >= 23)
		{
			my ($xmin, $xmax, $field3, $hi, $lo, $number, $infomask2, $infomask, $hoff) =
			  unpack('LLLSSSSSC', substr($page, $offset, 23));
			$text .= sprintf(', xmin %u, xmax %u, cid %u, ctid (%u,%u), infomask2 %04x, infomask %04x, hoff %d',
				$xmin, $xmax, $field3, $hi << 16 | $lo, $number, $infomask2, $infomask, $hoff);
			$text .= ', sum of data ' . unpack('%32C*', substr($page, $offset + 23, $length - 23));
		}
		push @items, $text;
	}
	return @items;
}

=pod

=item $twin->compare_wal

Compare the WAL of each VACUUM, while the nodes run.  Returns the number of
records that were compared, and the differences.

=cut

sub compare_wal
{
	my ($self) = @_;
	my $count = 0;
	my @differences;

	foreach my $vacuum (@{ $self->{wal} })
	{
		my @ranges = @{ $vacuum->{ranges} };
		my @records;

		foreach my $node ($self->nodes)
		{
			my ($start, $end) = @{ shift @ranges };
			my @lines = wal_records($node, $start, $end);
			@lines = sort @lines if $vacuum->{parallel};
			push @records, \@lines;
		}
		$count += @{ $records[0] };

		my @differing = differing_lines(map { join("\n", @$_) } @records);
		push @differences, "$vacuum->{command}:", @differing if @differing;
	}
	return ($count, @differences);
}

# Descriptions of the WAL records of a range, without their positions, less those
# that background processes wrote.
sub wal_records
{
	my ($node, $start, $end) = @_;
	my ($stdout, $stderr) = ('', '');

	return () if $start eq $end;
	IPC::Run::run(
		[
			$node->installed_command('pg_waldump'), '-p', $node->data_dir . '/pg_wal',
			'-s', $start, '-e', $end
		],
		'>', \$stdout, '2>', \$stderr)
	  or die "pg_waldump failed: $stderr";

	return
	  map { s/, lsn: [^,]*, prev [^,]*,/,/r =~ s/desc: COMMIT [-0-9]+ [0-9:.]+ /desc: COMMIT /r }
	  grep { !/rmgr: Standby .* RUNNING_XACTS|rmgr: XLOG .* (?:CHECKPOINT|SWITCH)/ }
	  split /\n/, $stdout;
}

=pod

=item Twin::plain_text($text)

VERBOSE text less what no two runs have in common, see the DESCRIPTION.

=cut

sub plain_text
{
	my ($text, %params) = @_;

	$text =~ s/^psql:[^:]*:\d+: //mg;
	$text =~ s/^DEBUG:  vacuuming table ".*" with pg_vacuum_resume\n//mg;
	$text =~ s/^(avg read rate:).*$/$1 (masked)/mg;
	$text =~ s/^(I\/O timings:).*$/$1 (masked)/mg;
	$text =~ s/(system usage:|CPU:).*$/$1 (masked)/mg;
	$text =~ s/pg_(temp|toast_temp)_\d+/pg_$1_N/g;
	$text =~ s/^(buffer usage:).*$/$1 (masked)/mg if $params{parallel};
	return $text;
}

=pod

=item Twin::differing_lines($stock, $ours)

Lines which only one of two texts has, in order, marked by the side.

=cut

sub differing_lines
{
	my ($stock, $ours) = @_;
	my @stock = split /\n/, $stock;
	my @ours = split /\n/, $ours;
	my @differences;

	return () if $stock eq $ours;

	# Step over what is equal at both ends; in between, lines that also appear
	# on the other side are not worth showing, unless nothing else is.
	while (@stock && @ours && $stock[0] eq $ours[0])
	{
		shift @stock;
		shift @ours;
	}
	while (@stock && @ours && $stock[-1] eq $ours[-1])
	{
		pop @stock;
		pop @ours;
	}

	my %in_stock = map { $_ => 1 } @stock;
	my %in_ours = map { $_ => 1 } @ours;
	push @differences, map { "stock: $_" } grep { !$in_ours{$_} } @stock;
	push @differences, map { "ours:  $_" } grep { !$in_stock{$_} } @ours;
	@differences = ((map { "stock: $_" } @stock), (map { "ours:  $_" } @ours)) unless @differences;
	return @differences;
}

# Test that two texts are equal, and show where they are not.
sub same
{
	my ($ours, $stock, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	ok($stock ne '', "$name: there is something to compare");
	return same_list([ differing_lines($stock, $ours) ], "$name: equal");
}

# Test that a list of differences is empty.
sub same_list
{
	my ($differences, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $shown = @$differences > SHOWN ? SHOWN : @$differences;

	ok(@$differences == 0, $name)
	  or diag(
		join("\n",
			@$differences[ 0 .. $shown - 1 ],
			@$differences > $shown ? '... and ' . (@$differences - $shown) . ' more' : ()));
	return @$differences == 0;
}

=pod

=back

=cut

1;
