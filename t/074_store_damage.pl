# The store's file is damaged: cut off, overwritten, or another cluster's. A vacuum
# succeeds all the same, says so once, and starts over; the file is kept under
# another name, and a new one takes its place.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use Oracle;
use Pass;
use Resume;
use Trouble;

my $node = resume_node('damage', conf => "autovacuum = off\n");
my $file = store($node, 'data.mdb');
my $page = 4096;

sub inode
{
	my ($path) = @_;
	return (stat $path)[1] // 'none';
}

sub overwrite
{
	my ($bytes) = @_;

	# the inode stays
	open my $handle, '+<:raw', $file or die "cannot open $file: $!";
	syswrite $handle, $bytes or die "cannot write to $file: $!" if $bytes ne '';
	truncate $handle, length $bytes or die "cannot truncate $file: $!";
	close $handle or die "cannot close $file: $!";
	return;
}

sub garbage
{
	my ($bytes) = @_;
	return pack 'C*', map { int rand 256 } 1 .. $bytes;
}

# Fill pages of the store with what a function returns; the first two are LMDB's
# meta pages.
sub fill
{
	my ($bytes, $pages, $with) = @_;

	foreach my $number (grep { $_ < length($bytes) / $page } @$pages)
	{
		substr($bytes, $number * $page, $page) = $with->($page);
	}
	return $bytes;
}

my $garbage = \&garbage;
my $zeros = sub { return "\0" x $_[0]; };

# What becomes of the file's content
my %damages = (
	emptied => sub { return ''; },
	cut_to_a_few_bytes => sub { return substr $_[0], 0, 100; },
	cut_to_a_page => sub { return substr $_[0], 0, $page; },
	cut_to_its_meta_pages => sub { return substr $_[0], 0, 2 * $page; },
	cut_in_half => sub { return substr $_[0], 0, length($_[0]) / 2; },
	cut_by_a_page => sub { return substr $_[0], 0, length($_[0]) - $page; },
	garbage => sub { return garbage(length $_[0]); },
	zeros => sub { return $zeros->(length $_[0]); },
	text => sub { return "This is no store.\n" x (length($_[0]) / 10); },
	garbled_meta_pages => sub { return fill($_[0], [ 0, 1 ], $garbage); },
	garbled_pages => sub { return fill($_[0], [ 2 .. 999 ], $garbage); },
	zeroed_pages => sub { return fill($_[0], [ 2 .. 999 ], $zeros); },
	garbled_odd_pages => sub { return fill($_[0], [ map { 2 * $_ + 1 } 1 .. 500 ], $garbage); },
	zeroed_even_pages => sub { return fill($_[0], [ map { 2 * $_ } 1 .. 500 ], $zeros); });

# An empty file is a new store, for LMDB. Of another size it is none.
my %not_kept = (emptied => 1);

sub damage
{
	my ($name) = @_;

	overwrite($damages{$name}->(slurp_file($file)));
	return;
}

###############################################################################
# Another cluster's store, of a table that has the same OID there
###############################################################################

my $elsewhere = resume_node('elsewhere', conf => "autovacuum = off\n");
my @foreign;

foreach ($node, $elsewhere)
{
	make_table($_, 'foreign_table', %small);
	stop_at($_, 'foreign_table', 'scanning heap');
	push @foreign, $_->safe_psql('postgres', "SELECT 'foreign_table'::regclass::oid");
}
is($foreign[0], $foreign[1], 'two clusters have a table with one OID');
$elsewhere->stop;

my $not_own = qr/LOG:  pg_vacuum_resume set its store aside and begins a new one: it is not the store of this data directory/;

foreach my $story (
	[ 'its content, in our file', sub { overwrite(slurp_file(store($elsewhere, 'data.mdb'))); },
		qr/LOG:  pg_vacuum_resume set its store aside and begins a new one: it is not as the latest save left it/ ],
	[ 'its file', sub {
			unlink $file;
			system_or_bail('cp', '-p', store($elsewhere, 'data.mdb'), $file);
		}, $not_own ],
	[ 'its directory', sub {
			system_or_bail('rm', '-r', store($node));
			system_or_bail('cp', '-pr', store($elsewhere), store($node));
		}, qr/LOG:  pg_vacuum_resume set its store aside: there is no valid note of what it has to be/ ])
{
	my ($name, $replace, $says) = @$story;
	my $log = log_end($node);

	$node->stop;
	$replace->();
	$node->start;
	my $vacuum = careful_vacuum($node, 'foreign_table');
	is("$vacuum->{from} $vacuum->{warnings}", '0 0', "$name: a vacuum starts over");
	like(log_since($node, $log), $says, '  and the log says why');
	has_no_dead_rows($node, 'foreign_table');
	reuse_rows($node, 'foreign_table') if $name =~ /content/;
	works_again($node, 'foreign_table');
}

###############################################################################
# The file is damaged
###############################################################################

srand 1;

# In a server that is down, and in one that runs and has a session that uses it
my @stories = ((map { [ $_, 'down' ] } sort keys %damages),
	(map { [ $_, 'up' ] } qw(emptied cut_in_half garbage garbled_pages)));

foreach my $story (@stories)
{
	my ($name, $server) = @$story;

	subtest "$name while the server is $server" => sub {
		my $table = "${name}_$server";
		my $other = "${table}_other";
		my @tables = $server eq 'up' ? ($table, $other) : $table;
		my $session;

		foreach (@tables)
		{
			make_table($node, $_, %small);
			stop_at($node, $_, 'scanning heap');
		}
		if ($server eq 'up')
		{
			$session = $node->background_psql('postgres');
			is($session->query_safe('SELECT count(*) FROM vacuum_resume.progress'), 2,
				'a session has the store open');
		}

		$node->stop if $server eq 'down';
		my $inode = inode($file);
		unlink "$file.set-aside";
		damage($name);
		$node->start if $server eq 'down';

		my $log = log_end($node);
		my $vacuum = careful_vacuum($node, $table);
		cmp_ok($vacuum->{warnings}, '<=', 1, 'the next vacuum warns once');
		is($vacuum->{hints}, $vacuum->{warnings}, '  with a hint');
		# where the record is whole, its position is right, too
		is($vacuum->{from}, 0, '  and starts over') unless $name =~ /odd|even/;
		is(inode("$file.set-aside"), $inode, '  the damaged file is kept') if !$not_kept{$name};

		# the session still has the old one mapped
		if ($session)
		{
			$session->query_safe("VACUUM $other");
			unlike(log_since($node, $log), qr/cycle: run/, 'a session that had it open starts over');
		}
		has_no_dead_rows($node, $_) foreach @tables;
		reuse_rows($node, $_) foreach @tables;
		if ($session)
		{
			$session->query_safe("VACUUM $other");
			$session->quit;
		}
		works_again($node, $tables[-1]);
		is($node->safe_psql('postgres', 'SELECT count(*) FROM vacuum_resume.progress'),
			0, 'nothing is left in the store');
		$node->safe_psql('postgres', "DROP TABLE $_") foreach @tables;
	};
}

# Numbers in pages that cannot be. LMDB has no checksums and believes them; a writer
# that does so would move bytes to where they do not belong. Nobody has the file open
# when it is changed.
subtest 'wrong numbers in pages' => sub {
	my @tables = map { "wrong_$_" } 1 .. 4;
	my %wrong = (
		'end of offsets' => [ 12, sub { $_[0] + 64 } ],
		'far end of offsets' => [ 12, sub { 4000 } ],
		'beginning of entries' => [ 14, sub { $_[0] + 500 } ],
		'far beginning of entries' => [ 14, sub { 60000 } ],
		'near beginning of entries' => [ 14, sub { 20 } ],
		'kind of page' => [ 10, sub { $_[0] ^ 3 } ],
		'number of page' => [ 0, sub { $_[0] + 1 } ],
		'offset' => [ 16, sub { 4090 } ],
		'far offset' => [ 16, sub { 65000 } ]);
	my @rounds = ('none', (map { my $what = $_; map { "$what, $_" } 0 .. 2 } sort keys %wrong),
		map { "at random, $_" } 1 .. 24);
	my $succeeded = 0;

	make_table($node, $_, %small) foreach @tables;

	# what is read, and then written anew: there is always something in the store
	my $sql = "SET $Resume::slowly; SELECT count(*) FROM vacuum_resume.progress; "
	  . join('', map { my $more = $_; map { "VACUUM (PROCESS_TOAST off, MAX_DURATION 1$more) $_;" } @tables }
			'', ', RESUME off')
	  . 'SELECT count(*) FROM vacuum_resume.progress';
	$node->safe_psql('postgres', $sql);

	foreach my $round (@rounds)
	{
		my ($what, $which) = split /, /, $round;

		# after a crash there may be none
		$node->safe_psql('postgres', $sql) unless -e $file;
		my $bytes = slurp_file($file);
		my $pages = length($bytes) / $page;

		if ($wrong{$what})
		{
			my ($offset, $change) = @{ $wrong{$what} };

			# of every third page of a tree
			foreach my $number (grep { $_ % 3 == $which } 2 .. $pages - 1)
			{
				my $place = $number * $page + $offset;
				next if unpack('v', substr $bytes, $number * $page + 10, 2) !~ /^[12]$/;
				substr($bytes, $place, 2) = pack 'v', $change->(unpack 'v', substr $bytes, $place, 2);
			}
		}
		elsif (defined $which)
		{
			srand $which;
			foreach (1 .. 1 + rand 6)
			{
				my $place = $page * int(2 + rand($pages - 2)) + 8 + 2 * int rand 40;
				substr($bytes, $place, 2) = pack 'v', $which % 2 ? rand 65536 : rand 64;
			}
		}
		unlink store($node, 'lock.mdb');
		overwrite($bytes);

		my ($status, undef, $stderr) = $node->psql('postgres', $sql);
		$succeeded++ if $status == 0;
		next if $status == 0;
		diag("$round: $stderr");
		$node->poll_query_until('postgres', 'SELECT true') or last;
	}
	is($succeeded, scalar @rounds, 'all vacuums have succeeded');
	foreach my $table (@tables)
	{
		careful_vacuum($node, $table);
		has_no_dead_rows($node, $table);
		Oracle::table_ok($node, 'postgres', $table);
	}
};

only_asked_for_crashes($node);
$node->stop;

done_testing();
