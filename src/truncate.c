/*
 * truncate.c
 *	  Giving an empty tail back to the operating system.
 *
 * Truncating needs an AccessExclusiveLock, which stops everybody and is
 * replayed on standbys, so it is tried only where many pages can be won, never
 * waited for beyond a few seconds, and given up as soon as somebody else wants
 * the table.
 */
#include "postgres.h"

#include "catalog/storage.h"
#include "commands/progress.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "portability/instr_time.h"
#include "storage/bufmgr.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "utils/wait_event.h"

#include "truncate.h"

/* Worth a lock: this many empty pages, or this fraction of the table. */
#define WORTHWHILE_PAGES 1000
#define WORTHWHILE_FRACTION 16

/* How long to try for the lock, and how often. */
#define LOCK_TIMEOUT_MS 5000
#define LOCK_RETRY_MS 50

/* How often to look whether somebody waits for the lock that we hold. */
#define WAITER_CHECK_MS 20
#define WAITER_CHECK_BLOCKS 32

/* Pages to ask the system for at once, as reading backwards defeats its read-ahead. */
#define PREFETCH_BLOCKS 32

/*
 * Is the table's tail likely to be empty for long enough?
 *
 * Not with the failsafe active: truncating takes an XID, which the server may
 * refuse just then.
 */
bool
truncate_is_worthwhile(VacuumRun *run)
{
	BlockNumber empty = run->rel_blocks - run_nonempty_pages(run);

	if (!run->truncate || run->failsafe || server_forbids_truncation())
		return false;

	return empty > 0 &&
		(empty >= WORTHWHILE_PAGES || empty >= run->rel_blocks / WORTHWHILE_FRACTION);
}

/*
 * Try for the table's AccessExclusiveLock.  Waiting for it in the lock queue
 * would block everybody behind us, and could deadlock with the lock that we
 * hold already.
 */
static bool
get_exclusive_lock(VacuumRun *run)
{
	for (int retries = 0; !ConditionalLockRelation(run->rel, AccessExclusiveLock); retries++)
	{
		CHECK_FOR_INTERRUPTS();

		if (retries >= LOCK_TIMEOUT_MS / LOCK_RETRY_MS)
		{
			ereport(run->verbose ? INFO : DEBUG2,
					(errmsg("\"%s\": stopping truncate due to conflicting lock request",
							run->table_name)));
			return false;
		}

		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 LOCK_RETRY_MS, WAIT_EVENT_VACUUM_TRUNCATE);
		ResetLatch(MyLatch);
	}
	return true;
}

/*
 * Does the page hold any line pointer in use?  A dead one counts: its index
 * entries are still there.
 */
static bool
page_is_in_use(VacuumRun *run, BlockNumber block)
{
	Buffer		buf = ReadBufferExtended(run->rel, MAIN_FORKNUM, block, RBM_NORMAL, run->strategy);
	Page		page = BufferGetPage(buf);
	bool		in_use = false;

	LockBuffer(buf, BUFFER_LOCK_SHARE);
	if (!PageIsNew(page))
	{
		OffsetNumber max = PageGetMaxOffsetNumber(page);

		for (OffsetNumber offset = FirstOffsetNumber; offset <= max && !in_use; offset++)
			in_use = ItemIdIsUsed(PageGetItemId(page, offset));
	}
	UnlockReleaseBuffer(buf);

	return in_use;
}

/* Ask for the aligned group of pages that a block is the last one of. */
static BlockNumber
prefetch_group(VacuumRun *run, BlockNumber block)
{
	BlockNumber start = block - block % PREFETCH_BLOCKS;

	for (BlockNumber each = start; each <= block; each++)
	{
		PrefetchBuffer(run->rel, MAIN_FORKNUM, each);
		CHECK_FOR_INTERRUPTS();
	}
	return start;
}

/* Does anybody wait for our lock?  Looks once in a while only. */
static bool
somebody_waits(VacuumRun *run, instr_time *last_check)
{
	instr_time	now;
	instr_time	elapsed;

	INSTR_TIME_SET_CURRENT(now);
	elapsed = now;
	INSTR_TIME_SUBTRACT(elapsed, *last_check);
	if (INSTR_TIME_GET_MICROSEC(elapsed) / 1000 < WAITER_CHECK_MS)
		return false;

	*last_check = now;
	return LockHasWaitersRelation(run->rel, AccessExclusiveLock);
}

/*
 * Read backwards from the table's end to the first page in use.  What the scan
 * saw is no proof: rows may have been added since.  Only the exclusive lock
 * that the caller holds makes the answer last.
 *
 * Returns the blocks to keep.  If somebody waits for the lock, the search ends
 * early and *interrupted is set.
 */
static BlockNumber
find_blocks_to_keep(VacuumRun *run, bool *interrupted)
{
	BlockNumber keep = run->rel_blocks;
	BlockNumber prefetched = InvalidBlockNumber;
	instr_time	last_check;

	INSTR_TIME_SET_CURRENT(last_check);
	*interrupted = false;

	for (; keep > run_nonempty_pages(run); keep--)
	{
		BlockNumber block = keep - 1;

		if (keep % WAITER_CHECK_BLOCKS == 0 && somebody_waits(run, &last_check))
		{
			ereport(run->verbose ? INFO : DEBUG2,
					(errmsg("table \"%s\": suspending truncate due to conflicting lock request",
							run->table_name)));
			*interrupted = true;
			break;
		}

		/* no cost-based delay while everybody is locked out */
		CHECK_FOR_INTERRUPTS();

		if (prefetched > block)
			prefetched = prefetch_group(run, block);
		if (page_is_in_use(run, block))
			break;
	}

	return keep;
}

/*
 * Truncate the table once, if the lock is to be had and pages are to be won.
 *
 * Returns true if it was truncated but somebody's wish for the lock left more
 * to do.
 */
static bool
truncate_once(VacuumRun *run)
{
	BlockNumber blocks = run->rel_blocks;
	BlockNumber keep;
	bool		interrupted;

	if (!get_exclusive_lock(run))
		return false;

	/* a table that has grown has rows in its new pages; no use in looking */
	if (RelationGetNumberOfBlocks(run->rel) != blocks)
	{
		UnlockRelation(run->rel, AccessExclusiveLock);
		return false;
	}

	keep = find_blocks_to_keep(run, &interrupted);
	run->position.block = keep;
	if (keep < blocks)
		RelationTruncate(run->rel, keep);

	/* others see the new size when they get a lock and read the invalidations */
	UnlockRelation(run->rel, AccessExclusiveLock);
	if (keep == blocks)
		return false;

	run->done.removed_pages += blocks - keep;
	run->rel_blocks = keep;
	ereport(run->verbose ? INFO : DEBUG2,
			(errmsg("table \"%s\": truncated %u to %u pages",
					run->table_name, blocks, keep)));

	return interrupted && keep > run_nonempty_pages(run);
}

/*
 * Truncate off the empty pages at the table's end, as far as others let us.
 */
void
truncate_heap(VacuumRun *run)
{
	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, PROGRESS_VACUUM_PHASE_TRUNCATE);
	run_enter(run, RUN_TRUNCATING, run_nonempty_pages(run));

	while (truncate_once(run))
		;
}
