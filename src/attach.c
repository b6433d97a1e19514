/*
 * attach.c
 *	  How we get in front of the heap's VACUUM.
 *
 * No server up to 18 has a hook where VACUUM hands a table to its access
 * method.  What there is instead is the table of functions that the heap access
 * method is made of: one constant struct, found through
 * GetHeapamTableAmRoutine(), with a member relation_vacuum.  We replace that one
 * pointer.
 *
 * The alternative, a table access method of our own that delegates everything
 * but VACUUM, would have to be written into pg_class of every table, would be
 * needed on every standby and in every restore, and makes amcheck, pgstattuple
 * and others refuse the table.  This way nothing outlives the line in
 * shared_preload_libraries.
 *
 * The struct is constant data of the server's executable.  After relocation
 * the loader has made the memory that it lies in read-only (RELRO), so the page
 * is made writable, the pointer written, and the page given the protection back
 * that it had, which is looked up in /proc/self/maps rather than assumed.  It
 * happens once, in the postmaster, before it has any children; they inherit
 * the page.  A system that seals such memory refuses the first mprotect: then
 * we say so and leave the server as it was.
 */
#include "postgres.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "access/heapam.h"
#include "access/tableam.h"
#include "commands/vacuum.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "attach.h"
#include "cycle.h"
#include "run.h"
#include "settings.h"

typedef void (*RelationVacuum) (Relation rel, struct VacuumParams *params,
								BufferAccessStrategy bstrategy);

/* What VACUUM would have called without us; set once we are attached. */
static RelationVacuum server_vacuum = NULL;

/* Why we are not, if we tried. */
static const char *obstacle = NULL;

/*
 * Is this table for our pass?  Called with the table's ShareUpdateExclusiveLock
 * held; costs no lock, no write and no catalog access.
 */
bool
attach_is_ours(Relation rel)
{
	if (!setting_enabled)
		return false;

	/* an access method that borrowed the heap's functions is not the heap */
	if (rel->rd_tableam != GetHeapamTableAmRoutine())
		return false;

	return RelationGetNumberOfBlocks(rel) >= (BlockNumber) setting_min_table_size;
}

/* The heap's relation_vacuum from now on. */
static void
attached_vacuum(Relation rel, struct VacuumParams *params, BufferAccessStrategy bstrategy)
{
	if (attach_is_ours(rel))
	{
		vacuum_run(rel, params, bstrategy);
		return;
	}

	/* R5: the server's code will reap without regard to what we know of the table */
	if (rel->rd_rel->relpersistence != RELPERSISTENCE_TEMP)
		cycle_forget(rel, decide_reason_text(BECAUSE_SERVERS_OWN_CODE));
	server_vacuum(rel, params, bstrategy);
}

/*
 * Protection (PROT_*) of the memory at an address, -1 if it cannot be told.
 */
static int
memory_protection(const void *address)
{
	FILE	   *maps = fopen("/proc/self/maps", "r");
	char		line[1024];
	int			protection = -1;

	if (maps == NULL)
		return -1;

	while (protection < 0 && fgets(line, sizeof(line), maps) != NULL)
	{
		unsigned long start,
					end;
		char		flags[5];

		/* the rest of an overlong line does not parse as a mapping */
		if (sscanf(line, "%lx-%lx %4s ", &start, &end, flags) != 3)
			continue;
		if ((uintptr_t) address < start || (uintptr_t) address >= end)
			continue;

		protection = PROT_NONE;
		if (flags[0] == 'r')
			protection |= PROT_READ;
		if (flags[1] == 'w')
			protection |= PROT_WRITE;
		if (flags[2] == 'x')
			protection |= PROT_EXEC;
	}

	fclose(maps);
	return protection;
}

/*
 * Write one pointer into read-only memory.  Returns NULL, or what prevented it.
 */
static const char *
replace_pointer(RelationVacuum *slot, RelationVacuum value)
{
	long		page_size = sysconf(_SC_PAGESIZE);
	void	   *page = (void *) ((uintptr_t) slot & ~((uintptr_t) page_size - 1));
	int			protection = memory_protection(slot);

	if (protection < 0)
		return "the protection of the server's memory could not be determined";

	if (mprotect(page, page_size, protection | PROT_WRITE) != 0)
		return psprintf("the server's memory could not be made writable: %s", strerror(errno));

	*(volatile RelationVacuum *) slot = value;

	/* the pointer is in place by now; a page left writable does no harm */
	if (mprotect(page, page_size, protection) != 0)
		ereport(LOG,
				(errmsg("pg_vacuum_resume could not restore the protection of the server's memory: %m")));

	return NULL;
}

/*
 * Put us in front of the heap's VACUUM, or log a WARNING and leave the server
 * as it was.  Called in the postmaster while it loads
 * shared_preload_libraries.  Returns true if every vacuum comes to us now.
 */
bool
attach_to_heap(void)
{
	const TableAmRoutine *heap = GetHeapamTableAmRoutine();
	RelationVacuum found = NULL;

	if (server_vacuum != NULL)
		return true;

	if (!IsA(heap, TableAmRoutine) || heap->relation_vacuum == NULL)
		obstacle = "the server's table of heap functions is not what was expected";
	else
	{
		/* another module may be in front already: it stays the one to delegate to */
		found = heap->relation_vacuum;
		if (found != heap_vacuum_rel)
			ereport(LOG,
					(errmsg("pg_vacuum_resume found the heap's VACUUM replaced by another module"),
					 errdetail("Tables that are not vacuumed by pg_vacuum_resume go to that module.")));

		obstacle = replace_pointer((RelationVacuum *) &heap->relation_vacuum, attached_vacuum);
	}

	if (obstacle != NULL)
	{
		/* for the backends, which free what the postmaster worked with */
		obstacle = MemoryContextStrdup(TopMemoryContext, obstacle);
		ereport(WARNING,
				(errmsg("pg_vacuum_resume is not active: %s", obstacle),
				 errhint("Vacuums run as without pg_vacuum_resume.")));
		return false;
	}

	Assert(heap->relation_vacuum == attached_vacuum);
	server_vacuum = found;
	return true;
}

/*
 * Raise an ERROR unless every vacuum of this server goes through us.
 */
void
require_preloaded(void)
{
	if (server_vacuum != NULL)
		return;

	if (obstacle != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("pg_vacuum_resume is not active: %s", obstacle)));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("pg_vacuum_resume must be loaded via shared_preload_libraries")));
}
