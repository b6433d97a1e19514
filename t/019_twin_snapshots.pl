
# Twins (see Twin.pm): other transactions are still running.  Rows that died too
# recently to be removed, rows of transactions that are neither committed nor
# aborted, row locks that are held, and what happens when they end.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use Twin;

my $twin = Twin->new('snapshots');

sub table_of
{
	my ($name, $pages_free) = @_;

	foreach my $kind (qw(plain indexed))
	{
		$twin->build(qq{
			CREATE TABLE ${kind}_$name (a int, b int, c text) WITH (fillfactor = $pages_free);
			INSERT INTO ${kind}_$name SELECT i, i % 10, repeat('x', 60) FROM generate_series(1, 2000) AS i;
		});
		$twin->build("CREATE INDEX ON indexed_$name (a)") if $kind eq 'indexed';
	}
	return;
}

# The same on both kinds of a table, on both sides
sub both
{
	my ($name, $sql) = @_;
	$twin->sql($sql =~ s/\bTABLE\b/${_}_$name/gr) foreach qw(plain indexed);
	return;
}

sub vacuum_both
{
	my ($story, $name, %params) = @_;
	$twin->vacuum("$_: $story", table => "${_}_$name", %params) foreach qw(plain indexed);
	return;
}

my @names = qw(recent tail chains prepared locks multis horizon pinned pinned_full);
table_of($_, $_ =~ /chains|multis|pinned$/ ? 50 : 100) foreach @names;
$twin->build(qq{
	CREATE TABLE midway (a int, b int, c text);
	INSERT INTO midway SELECT i, i, repeat('x', 60) FROM generate_series(1, 5000) AS i;
	CREATE INDEX midway_a ON midway (a);
	CREATE INDEX midway_b ON midway (b);
	VACUUM midway;
});
$twin->separate;

# A snapshot that sees what is deleted afterwards: half of the dead rows can go
both('recent', 'DELETE FROM TABLE WHERE a % 5 = 0');
both('tail', 'DELETE FROM TABLE WHERE a % 100 = 0');
$twin->session('reader', 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM plain_recent');
both('recent', 'DELETE FROM TABLE WHERE a % 5 = 1');
both('tail', 'DELETE FROM TABLE WHERE a > 1000');
both('chains', 'UPDATE TABLE SET b = b + 1 WHERE a % 3 = 0; UPDATE TABLE SET b = b + 1 WHERE a % 6 = 0; DELETE FROM TABLE WHERE a % 12 = 0');
vacuum_both('dead, but not for all', 'recent', premise => qr/1600 remain, 400 are dead but not yet removable.*400 dead item/s);
vacuum_both('an empty tail, but not for all', 'tail', premise => qr/pages: 0 removed.*1980 remain, 990 are dead but not.*20 dead item/s);
vacuum_both('row versions that a reader needs', 'chains', premise => qr/[1-9]\d* are dead but not yet removable/);
vacuum_both('frozen as far as possible', 'recent', options => 'FREEZE', premise => qr/are dead but not yet removable/);
vacuum_both('row versions that a reader needs, frozen as far as possible', 'chains', options => 'FREEZE');
$twin->end_session('reader');
vacuum_both('dead for all', 'recent', premise => qr/400 removed, 1200 remain, 0 are dead/);
vacuum_both('an empty tail for all', 'tail', premise => qr/truncated/);
vacuum_both('row versions that nobody needs', 'chains', premise => qr/[1-9]\d* removed, \d+ remain, 0 are dead/);

# A transaction that has an id but no snapshot holds back the horizon as well.
$twin->session('writer', 'BEGIN; SELECT txid_current()');
both('horizon', 'UPDATE TABLE SET b = b + 1 WHERE a % 4 = 0');
vacuum_both('behind an open transaction', 'horizon', options => 'FREEZE', premise => qr/0 removed, 2500 remain, 500 are dead/);
$twin->end_session('writer');
vacuum_both('after it', 'horizon', options => 'FREEZE', premise => qr/500 removed, 2000 remain, 0 are dead/);

# Prepared transactions are neither committed nor aborted: inserts, updates and
# deletes in progress, and no empty tail.
both('prepared', 'DELETE FROM TABLE WHERE a % 50 = 0');
foreach my $kind (qw(plain indexed))
{
	$twin->sql(qq{
		BEGIN;
		INSERT INTO ${kind}_prepared SELECT i, 0, 'in progress' FROM generate_series(3000, 3600) AS i;
		DELETE FROM ${kind}_prepared WHERE a % 7 = 0;
		UPDATE ${kind}_prepared SET b = b + 1 WHERE a % 11 = 0;
		PREPARE TRANSACTION '$kind';
	});
}
vacuum_both('inserts and deletes in progress', 'prepared', premise => qr/had 40 dead item identifiers removed/);
vacuum_both('inserts and deletes in progress, frozen as far as possible', 'prepared', options => 'FREEZE');
$twin->sql("ROLLBACK PREPARED 'plain'");
$twin->sql("COMMIT PREPARED 'indexed'");
vacuum_both('they have ended', 'prepared', premise => qr/[1-9]\d* removed/);

# Row locks that are held: by one transaction, and by several of which some have
# ended.  Freezing makes new multixacts of those that go on.
foreach my $kind (qw(plain indexed))
{
	my $lock = "SELECT count(*) FROM (SELECT FROM ${kind}_multis WHERE a % 2 = 0 FOR KEY SHARE) AS l";

	$twin->session('a', "BEGIN; $lock");
	$twin->session('b', "BEGIN; $lock; SELECT count(*) FROM (SELECT FROM ${kind}_locks WHERE a % 3 = 0 FOR UPDATE) AS l");
	$twin->session('c', "BEGIN; $lock");
	$twin->session('c', "UPDATE ${kind}_multis SET b = b + 1 WHERE a % 10 = 0");
	$twin->session('a', 'COMMIT');
	$twin->session('c', $kind eq 'plain' ? 'ROLLBACK' : 'COMMIT');
	my $multis = qq{
		SELECT string_agg(DISTINCT t_xmax::text, ' ') FROM heap_page_items(get_raw_page('${kind}_multis', 0))
		WHERE t_infomask & 4096 <> 0};
	my $before = $twin->sql($multis);
	foreach my $table (qw(multis locks))
	{
		$twin->vacuum("$kind: row locks ($table)", table => "${kind}_$table");
		$twin->vacuum("$kind: row locks ($table), frozen as far as possible", table => "${kind}_$table", options => 'FREEZE');
	}
	isnt($twin->sql($multis), $before, "$kind: multixacts were replaced by new ones");
	like($twin->sql($multis), qr/^\d+/, "$kind: multixacts are still there");
	$twin->end_session($_) foreach qw(a b c);
	foreach my $table (qw(multis locks))
	{
		$twin->sql("DELETE FROM ${kind}_$table WHERE a % 5 = 0");
		$twin->vacuum("$kind: row locks ($table) are gone", table => "${kind}_$table", options => 'FREEZE',
			premise => qr/[1-9]\d* removed, \d+ remain, 0 are dead/);
	}
}

# A cursor holds pins: no cleanup lock for the first page.  Dead rows and rows that
# could be frozen stay there; LP_DEAD items, which a reader's pruning has left, are
# removed from the indexes and reaped, but without an index they are missed.
both('pinned', 'DELETE FROM TABLE WHERE a % 4 = 0');
both('pinned_full', 'DELETE FROM TABLE WHERE a % 4 = 0; SELECT count(*) FROM TABLE; DELETE FROM TABLE WHERE a % 5 = 0');
foreach my $table (map { ("plain_$_", "indexed_$_") } qw(pinned pinned_full))
{
	$twin->session('cursor', "BEGIN; DECLARE c CURSOR FOR SELECT * FROM $table; FETCH c");
	$twin->vacuum("$table: no cleanup lock", table => $table,
		premise => qr/tuples missed: \d+ dead from 1 pages not removed due to cleanup lock contention/);
	$twin->vacuum("$table: no cleanup lock, and freezing", table => $table,
		set => ['vacuum_freeze_min_age = 0'], premise => qr/tuples missed/);
	$twin->end_session('cursor');
	$twin->vacuum("$table: cleanup lock", table => $table, options => 'FREEZE', premise => qr/[1-9]\d* removed/);
}

# The failsafe triggers in the middle: the first index waits for a page on which
# an index-only scan holds a pin; meanwhile transactions go by.  (The table is made
# to look nearly old enough in pg_class: see 017_twin_wraparound.pl.)  Without the
# TOAST table: a commit closes a cursor by letting go of its pin first and of its
# snapshot after that, so it is chance whether VACUUM, which goes on in between,
# sees that snapshot when it takes the next table's cutoffs.
$twin->sql(q{
	DELETE FROM midway WHERE a % 10 = 0 AND a > 1000;
	UPDATE pg_class SET relfrozenxid = ((txid_current() + (1::bigint << 32) - 1599999980) % (1::bigint << 32))::text::xid
	WHERE relname = 'midway';
});
$twin->session('cursor', q{
	SET enable_seqscan = off; SET enable_bitmapscan = off;
	BEGIN;
	DECLARE c CURSOR FOR SELECT a FROM midway WHERE a > 0 ORDER BY a;
	FETCH c;
});
my @cursors = @{ $twin->{sessions}{cursor} };
$twin->vacuum('failsafe in the middle of index vacuuming', table => 'midway',
	options => 'PROCESS_TOAST off',
	during => sub {
		my ($node) = @_;
		$node->poll_query_until('postgres', q{
			SELECT count(*) = 1 FROM pg_stat_progress_vacuum JOIN pg_stat_activity USING (pid)
			WHERE phase = 'vacuuming indexes' AND wait_event = 'BufferPin'})
		  or die 'VACUUM does not wait for the page';
		$node->safe_psql('postgres', 'DO $$ BEGIN FOR i IN 1..100 LOOP PERFORM txid_current(); COMMIT; END LOOP; END $$');
		(shift @cursors)->query_safe('COMMIT');
	},
	premise => [
		qr/WARNING:  bypassing nonessential maintenance of table "postgres.public.midway" as a failsafe after 0 index scans/,
		qr/index scans: 1\n.*index scan bypassed by failsafe: \d+ pages from table .* have 400 dead item identifiers.*index "midway_a"/s ]);
$twin->end_session('cursor');
$twin->vacuum('the rest afterwards', table => 'midway', premise => qr/index scan needed: \d+ pages from table .* had 400 dead/);

$twin->finish;
done_testing();
