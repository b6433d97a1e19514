# A system that does not let us into the server's memory, and another module that
# is there already: what cannot be had is said, and nothing breaks.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use Pass;

my $dir = PostgreSQL::Test::Utils::tempdir();
my ($pg_config) = grep { -x } map { "$_/pg_config" } split /:/, $ENV{PATH};
my %config = map { /^(\S+) = (.*)$/ } split /\n/, `$pg_config`;

# Compiles a C file into a shared library, with or without the server's headers.
sub compile
{
	my ($name, $text) = @_;

	append_to_file("$dir/$name.c", $text);
	system_or_bail(
		split(' ', $config{CC}), '-shared', '-fPIC', '-D_GNU_SOURCE',
		"-I$config{'INCLUDEDIR-SERVER'}", '-o', "$dir/$name.so", "$dir/$name.c", '-ldl');
	return "$dir/$name.so";
}

# Stands in for mprotect(): writes down each call, and refuses write permission
# if told so, as a system does that seals read-only memory.
my $mprotect = compile('mprotect', <<'EOC');
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

int
mprotect(void *address, size_t size, int protection)
{
	static int	(*next) (void *, size_t, int);
	const char *file = getenv("MPROTECT_CALLS");
	FILE	   *calls = file ? fopen(file, "a") : NULL;

	if (calls)
	{
		fprintf(calls, "%p %zu %s%s%s\n", address, size,
				protection & PROT_READ ? "r" : "", protection & PROT_WRITE ? "w" : "",
				protection & PROT_EXEC ? "x" : "");
		fclose(calls);
	}
	if (getenv("MPROTECT_REFUSE") && (protection & PROT_WRITE))
	{
		errno = EACCES;
		return -1;
	}
	if (!next)
		next = (int (*) (void *, size_t, int)) dlsym(RTLD_NEXT, "mprotect");
	return next(address, size, protection);
}
EOC

my $node = new_node('obstacles', stopped => 1);

sub start_with
{
	my (%env) = @_;

	local @ENV{ keys %env } = values %env;
	unlink "$dir/calls";
	$node->start;
	return -e "$dir/calls" ? slurp_file("$dir/calls") : '';
}

# As it should be: one page is made writable for a moment
my $calls = start_with(LD_PRELOAD => $mprotect, MPROTECT_CALLS => "$dir/calls");
like($calls, qr/^(\S+ \d+) rw\n\1 r\n$/,
	'memory is made writable, and as it was before; one page, once');
my $position = log_end($node);
$node->safe_psql('postgres',
	'CREATE TABLE t AS SELECT generate_series(1, 1000) AS id; VACUUM t;');
is(join(' ', our_passes($node, $position)), 'public.t', 'our pass is in front');
$node->stop;

# Refused
$position = log_end($node);
start_with(LD_PRELOAD => $mprotect, MPROTECT_REFUSE => '1');
my $reason = qr/the server's memory could not be made writable: Permission denied/;
like(
	log_since($node, $position),
	qr/WARNING:  pg_vacuum_resume is not active: $reason\n.*HINT:  Vacuums run as without pg_vacuum_resume\./,
	'sealed memory: a warning says so when the server starts');
$position = log_end($node);
is($node->safe_psql('postgres', 'DELETE FROM t WHERE id % 2 = 0; VACUUM t; SELECT count(*) FROM t;'),
	'500', '  the server vacuums');
is(join(' ', our_passes($node, $position)), '', '  by itself');
my (undef, undef, $stderr) = $node->psql('postgres', 'VACUUM (RESUME) t');
like($stderr, qr/ERROR:  pg_vacuum_resume is not active: $reason$/m, '  and RESUME is refused');
$node->safe_psql('postgres', 'CREATE EXTENSION pg_vacuum_resume');
(undef, undef, $stderr) = $node->psql('postgres', 'SELECT vacuum_resume.version()');
like($stderr, qr/ERROR:  pg_vacuum_resume is not active: $reason$/m, '  and so is version()');
$node->stop;

# Another module that does as we do
my $other = compile('other', <<'EOC');
#include "postgres.h"

#include <sys/mman.h>
#include <unistd.h>

#include "access/heapam.h"
#include "access/tableam.h"
#include "fmgr.h"
#include "utils/rel.h"

PG_MODULE_MAGIC;
void		_PG_init(void);

static void (*next_vacuum) (Relation, struct VacuumParams *, BufferAccessStrategy);

static void
other_vacuum(Relation rel, struct VacuumParams *params, BufferAccessStrategy strategy)
{
	elog(LOG, "other module was asked to vacuum %s", RelationGetRelationName(rel));
	next_vacuum(rel, params, strategy);
}

void
_PG_init(void)
{
	TableAmRoutine *heap = (TableAmRoutine *) GetHeapamTableAmRoutine();
	uintptr_t	page_size = sysconf(_SC_PAGESIZE);
	void	   *page = (void *) ((uintptr_t) &heap->relation_vacuum & ~(page_size - 1));

	next_vacuum = heap->relation_vacuum;
	mprotect(page, page_size, PROT_READ | PROT_WRITE);
	heap->relation_vacuum = other_vacuum;
	mprotect(page, page_size, PROT_READ);
}
EOC

# What each of the two was asked to vacuum
sub asked
{
	my ($sql) = @_;
	my $from = log_end($node);

	$node->safe_psql('postgres', $sql);
	return 'we: '
	  . join(' ', our_passes($node, $from))
	  . ', other: '
	  . join(' ', log_since($node, $from) =~ /other module was asked to vacuum (\w+)/g);
}
my $not_ours = 'SET vacuum_resume.enabled = off; VACUUM t';

# There first: it gets what we leave
$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'$other, pg_vacuum_resume'");
$position = log_end($node);
$node->start;
like(
	log_since($node, $position),
	qr/LOG:  pg_vacuum_resume found the heap's VACUUM replaced by another module/,
	'another module is noticed');
is(asked('VACUUM t'), 'we: public.t, other: ', '  our tables are ours');
is(asked($not_ours), 'we: , other: t', '  it gets the others');
is(asked('VACUUM (RESUME) t'), 'we: public.t, other: ', '  options work');
$node->stop;

# There later: it gets all, and hands it on to us
$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'pg_vacuum_resume, $other'");
$node->start;
is(asked('VACUUM t'), 'we: public.t, other: t', 'a module in front of us hands tables on');
is(asked($not_ours), 'we: , other: t', '  also those that we leave to the server');

unlike(slurp_file($node->logfile), qr/PANIC|terminated by signal/, 'there was no crash');
$node->stop;

done_testing();
