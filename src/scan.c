/*
 * scan.c
 *	  The first heap pass: prune, freeze, collect dead TIDs.
 *
 * Pages that the visibility map lets a run skip are skipped, but only in
 * ranges of at least 32: reading is sequential, the system reads ahead, and
 * every all-visible page that is read after all may let relfrozenxid advance.
 * An aggressive run skips all-frozen pages only.  The last page is always
 * read: whether it is empty decides if truncating is worth an exclusive lock.
 *
 * The scan can start at any block, and between two pages it can stop: what it
 * needs to go on is next_block (and what it learned of the map, which can be
 * learned again).
 *
 * A run that continues a cycle scans the tail, and then the head once more (the
 * wrap): VACUUM promises that what was dead when it began is gone.  In the wrap
 * all that is all-visible is skipped, by aggressive runs as well, for the carry
 * knows of all XIDs there.
 */
#include "postgres.h"

#include "access/visibilitymap.h"
#include "access/xloginsert.h"
#include "commands/progress.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/freespace.h"

#include "cycle.h"
#include "reap.h"
#include "scan.h"
#include "vm.h"

/* Blocks between two looks at how near wraparound is: 4 GB. */
#define FAILSAFE_INTERVAL ((BlockNumber) (UINT64CONST(4) * 1024 * 1024 * 1024 / BLCKSZ))

/* Without indexes: blocks between two vacuums of the free space map, 8 GB. */
#define FSM_INTERVAL ((BlockNumber) (UINT64CONST(8) * 1024 * 1024 * 1024 / BLCKSZ))

/*
 * Ask the visibility map which range of blocks can be skipped from a block on,
 * and whether it is long enough to be.
 *
 * The answer may be out of date at once; that is harmless.  A page whose bit is
 * cleared after we looked has got XIDs that are newer than our cutoffs.
 */
static void
look_ahead(VacuumRun *run, BlockNumber from)
{
	HeapPass  *scan = &run->scan;
	bool		aggressive = run->pages.aggressive && !scan->wrapping;
	bool		skips_unfrozen = false;
	BlockNumber block = from;

	scan->unskippable_all_visible = true;
	while (block < scan->end_block)
	{
		uint8		bits = visibilitymap_get_status(run->rel, block, &scan->vmbuffer);

		if (!(bits & VISIBILITYMAP_ALL_VISIBLE))
		{
			scan->unskippable_all_visible = false;
			break;
		}
		if (block == run->rel_blocks - 1 || !run->skip_with_map)
			break;
		if (aggressive && !(bits & VISIBILITYMAP_ALL_FROZEN))
			break;

		server_pause_point();
		cycle_rests_on(run, BufferGetLSNAtomic(scan->vmbuffer));
		block = vm_skippable_end(scan->vmbuffer, block,
								 Min(scan->end_block, run->rel_blocks - 1), aggressive,
								 &skips_unfrozen);
	}

	scan->unskippable = block;
	/* in a wrap few pages are read, so that nothing is gained by reading more */
	scan->skipping = block - from >= (scan->wrapping ? 1 : MIN_SKIPPED_BLOCKS);

	/*
	 * R7: a page skipped that may hold unfrozen XIDs keeps relfrozenxid back.
	 * In a wrap the carry accounts for them: the page was scanned before.
	 */
	if (scan->skipping && skips_unfrozen && !scan->wrapping)
		run->skipped_all_visible = true;
}

/*
 * Get ready to scan the blocks from first to below end.  With wrapping, these
 * are blocks that the cycle has covered before.
 */
void
scan_begin(VacuumRun *run, BlockNumber first, BlockNumber end, bool wrapping)
{
	HeapPass  *scan = &run->scan;

	pgstat_progress_update_param(PROGRESS_VACUUM_TOTAL_HEAP_BLKS, run->rel_blocks);
	server_progress_max_dead_tids(run->dead.capacity);

	scan->first_block = first;
	scan->next_block = first;
	scan->end_block = end;
	scan->wrapping = wrapping;
	scan->vmbuffer = InvalidBuffer;
	scan->failsafe_checked = first;
	scan->fsm_vacuumed = first;
	look_ahead(run, first);
}

/*
 * Done with the pages, for good or for now: release what the scan holds.
 */
static void
release_map(HeapPass *scan)
{
	if (BufferIsValid(scan->vmbuffer))
		ReleaseBuffer(scan->vmbuffer);
	scan->vmbuffer = InvalidBuffer;
}

void
scan_end(VacuumRun *run)
{
	release_map(&run->scan);
	run->position.block = InvalidBlockNumber;
	if (!run->scan.wrapping)
		pgstat_progress_update_param(PROGRESS_VACUUM_HEAP_BLKS_SCANNED, run->rel_blocks);
}

/*
 * Make the space freed below next_block visible in the free space map's upper
 * levels, where backends look for it.
 */
void
scan_vacuum_free_space_map(VacuumRun *run)
{
	HeapPass  *scan = &run->scan;

	if (scan->next_block > scan->fsm_vacuumed)
		FreeSpaceMapVacuumRange(run->rel, scan->fsm_vacuumed, scan->next_block);
	scan->fsm_vacuumed = scan->next_block;
}

/*
 * Take a page whose buffer is locked and that holds no line pointers: it only
 * needs to be found by those who look for space.  A page that was never
 * initialized stays out of the visibility map, so that the next vacuum comes
 * here again: its free space map entry may be lost in a crash.  An empty one is
 * all-visible and all-frozen.
 *
 * Returns true if it was such a page; lock and pin are released then.  Returns
 * false if not; a share lock may have become an exclusive one.
 */
static bool
take_blank_page(VacuumRun *run, Buffer buf, BlockNumber block, bool share_locked)
{
	Page		page = BufferGetPage(buf);
	Size		free_space;

	if (PageIsNew(page))
	{
		UnlockReleaseBuffer(buf);
		if (GetRecordedFreeSpace(run->rel, block) == 0)
			RecordPageWithFreeSpace(run->rel, block, BLCKSZ - SizeOfPageHeaderData);
		return true;
	}

	if (!PageIsEmpty(page))
		return false;

	if (share_locked)
	{
		LockBuffer(buf, BUFFER_LOCK_UNLOCK);
		LockBuffer(buf, BUFFER_LOCK_EXCLUSIVE);
		if (!PageIsEmpty(page))
			return false;
	}

	if (!PageIsAllVisible(page))
	{
		START_CRIT_SECTION();

		MarkBufferDirty(buf);

		/*
		 * Extending a table is not logged, so a backend that failed right
		 * after may have left a page that WAL knows nothing of.  Replay of the
		 * map's record needs the page; log it first.
		 */
		if (RelationNeedsWAL(run->rel) && PageGetLSN(page) == InvalidXLogRecPtr)
			log_newpage_buffer(buf, true);

		PageSetAllVisible(page);
		visibilitymap_set(run->rel, block, buf, InvalidXLogRecPtr, run->scan.vmbuffer,
						  InvalidTransactionId,
						  VISIBILITYMAP_ALL_VISIBLE | VISIBILITYMAP_ALL_FROZEN);

		END_CRIT_SECTION();
	}

	free_space = PageGetHeapFreeSpace(page);
	UnlockReleaseBuffer(buf);
	RecordPageWithFreeSpace(run->rel, block, free_space);
	return true;
}

/* Add what was counted on a page. */
static void
count_page(VacuumRun *run, BlockNumber block, const PageOutcome *outcome)
{
	RunCounters *done = &run->done;
	int			range = Min(block / run->cycle.range_blocks, LIVE_RANGES - 1);

	if (outcome->ndead > 0)
	{
		done->pages_with_dead[range]++;
		done->live_with_dead[range] += outcome->live_tuples;
	}
	else
	{
		done->pages_without_dead[range]++;
		done->live_without_dead[range] += outcome->live_tuples;
	}
	done->pages_again[range] += run->scan.wrapping;

	done->tuples_deleted += outcome->tuples_deleted;
	if (block == run->rel_blocks - 1)
		done->last_page_scanned = true;
	if (outcome->prevents_truncation)
		done->nonempty_pages = Max(done->nonempty_pages, block + 1);

	done->live_tuples += outcome->live_tuples;
	done->recently_dead_tuples += outcome->recently_dead_tuples;
	done->missed_dead_tuples += outcome->missed_dead_tuples;
	done->left_dead[range] += outcome->recently_dead_tuples + outcome->missed_dead_tuples;
	if (outcome->missed_dead_tuples > 0)
		done->missed_dead_pages++;
}

/* Remember a page's dead line pointers; scan_heap() has made sure of the room. */
static void
collect_dead_tids(VacuumRun *run, BlockNumber block, PageOutcome *outcome)
{
	int			nnew = outcome->ndead;
	bool		page_known = false;

	/* a page that is scanned once more may have pending TIDs */
	if (run->scan.wrapping && run->nindexes > 0)
	{
		page_known = dead_tids_have_block(&run->dead, block);
		nnew = dead_tids_leave_out_known(&run->dead, block, outcome->dead, outcome->ndead);
	}
	if (nnew == 0)
		return;

	dead_tids_append(&run->dead, block, outcome->dead, nnew);
	run->done.dead_items += nnew;
	if (!page_known)
	{
		run->done.dead_item_pages++;
		run->cycle.set_pages++;
	}
	server_progress_dead_tids(run->dead.count);
}

/* Last step for a page: let go of it, and record its free space. */
static void
release_page(VacuumRun *run, Buffer buf, BlockNumber block, bool record_free_space)
{
	Size		free_space = 0;

	cycle_rests_on(run, PageGetLSN(BufferGetPage(buf)));
	if (record_free_space)
		free_space = PageGetHeapFreeSpace(BufferGetPage(buf));
	UnlockReleaseBuffer(buf);
	if (record_free_space)
		RecordPageWithFreeSpace(run->rel, block, free_space);
}

/*
 * Bring page and map in line with what the page deserves.  map_all_visible is
 * what the map said before the page was locked.  The caller has the page
 * locked for cleanup.
 */
static void
update_map(VacuumRun *run, Buffer buf, BlockNumber block, const PageOutcome *outcome,
		   bool map_all_visible)
{
	Page		page = BufferGetPage(buf);
	Buffer	   *vmbuffer = &run->scan.vmbuffer;

	if (outcome->all_visible && !map_all_visible)
	{
		uint8		bits = VISIBILITYMAP_ALL_VISIBLE;

		if (outcome->all_frozen)
			bits |= VISIBILITYMAP_ALL_FROZEN;

		/*
		 * The page's own bit may be set already.  With checksums the page must
		 * be dirty all the same before the map's record refers to it; that
		 * case is too rare to tell apart.
		 */
		PageSetAllVisible(page);
		MarkBufferDirty(buf);
		visibilitymap_set(run->rel, block, buf, InvalidXLogRecPtr, *vmbuffer,
						  outcome->visibility_cutoff, bits);
	}
	else if (map_all_visible && !PageIsAllVisible(page) &&
			 visibilitymap_get_status(run->rel, block, vmbuffer) & VISIBILITYMAP_ALL_VISIBLE)
	{
		/* the bit was not cleared since we looked ahead: the map is wrong */
		elog(WARNING, "page is not marked all-visible but visibility map bit is set in relation \"%s\" page %u",
			 run->table_name, block);
		visibilitymap_clear(run->rel, block, *vmbuffer, VISIBILITYMAP_VALID_BITS);
	}
	else if (outcome->ndead > 0 && PageIsAllVisible(page))
	{
		/*
		 * Rows that only seem too new for an all-visible page are no sign of
		 * trouble, the horizon can move back.  A dead line pointer is.
		 */
		elog(WARNING, "page containing LP_DEAD items is marked as all-visible in relation \"%s\" page %u",
			 run->table_name, block);
		PageClearAllVisible(page);
		MarkBufferDirty(buf);
		visibilitymap_clear(run->rel, block, *vmbuffer, VISIBILITYMAP_VALID_BITS);
	}
	else if (map_all_visible && outcome->all_visible && outcome->all_frozen &&
			 !(visibilitymap_get_status(run->rel, block, vmbuffer) & VISIBILITYMAP_ALL_FROZEN))
	{
		/* no conflict horizon: freezing cannot take a row from anybody's view */
		visibilitymap_set(run->rel, block, buf, InvalidXLogRecPtr, *vmbuffer,
						  InvalidTransactionId, VISIBILITYMAP_ALL_FROZEN);
	}
}

/*
 * A page with dead line pointers in a table without indexes: reap it at once.
 * That also considers the map, which may have got better than outcome says.
 */
static void
reap_at_once(VacuumRun *run, Buffer buf, BlockNumber block, const PageOutcome *outcome)
{
	HeapPass  *scan = &run->scan;

	reap_page(run, buf, block, outcome->dead, outcome->ndead, &scan->vmbuffer);
	dead_tids_clear(&run->dead);
	run->cycle.set_pages = 0;

	if (block - scan->fsm_vacuumed >= FSM_INTERVAL)
	{
		FreeSpaceMapVacuumRange(run->rel, scan->fsm_vacuumed, block);
		scan->fsm_vacuumed = block;
	}

	release_page(run, buf, block, true);
}

/*
 * A page whose cleanup lock is not to be had: make do with the share lock that
 * the caller got.  Returns false if that does not do for this run, which then
 * has to wait; otherwise lock and pin are released.
 */
static bool
take_unpruned_page(VacuumRun *run, Buffer buf, BlockNumber block)
{
	PageOutcome outcome;

	if (!page_inspect_unpruned(&run->pages, buf, &outcome))
		return false;

	/* one-pass mode reaps under a cleanup lock or not at all */
	if (run->nindexes == 0 && outcome.ndead > 0)
	{
		outcome.prevents_truncation = true;
		outcome.missed_dead_tuples += outcome.ndead;
		outcome.ndead = 0;
	}

	count_page(run, block, &outcome);
	if (outcome.ndead > 0)
		collect_dead_tids(run, block, &outcome);

	/* a page that will be reaped gets its free space recorded then */
	release_page(run, buf, block, outcome.ndead == 0);
	return true;
}

/*
 * Scan one page.  map_all_visible is what the visibility map said of it.
 */
static void
scan_page(VacuumRun *run, BlockNumber block, bool map_all_visible)
{
	PageOutcome outcome;
	Buffer		buf;

	/* pinned beforehand: reading the map while the page is locked would block others */
	visibilitymap_pin(run->rel, block, &run->scan.vmbuffer);
	buf = ReadBufferExtended(run->rel, MAIN_FORKNUM, block, RBM_NORMAL, run->strategy);

	if (!ConditionalLockBufferForCleanup(buf))
	{
		LockBuffer(buf, BUFFER_LOCK_SHARE);
		if (take_blank_page(run, buf, block, true) || take_unpruned_page(run, buf, block))
			return;

		/* an aggressive run must freeze here, so it has to wait */
		LockBuffer(buf, BUFFER_LOCK_UNLOCK);
		LockBufferForCleanup(buf);
	}
	if (take_blank_page(run, buf, block, false))
		return;

	page_prune_and_freeze(&run->pages, buf, &outcome);
	count_page(run, block, &outcome);
	if (outcome.ndead > 0)
	{
		collect_dead_tids(run, block, &outcome);
		if (run->nindexes == 0)
		{
			reap_at_once(run, buf, block, &outcome);
			return;
		}
	}

	update_map(run, buf, block, &outcome, map_all_visible);

	/* a page that will be reaped gets its free space recorded then */
	release_page(run, buf, block, outcome.ndead == 0 || !run->vacuum_indexes);
}

/*
 * Scan one page out of turn, which is in the part of the table that the cycle
 * has covered; unless it is all-visible.  Holds no pin and no lock on any page before
 * and after, but for the pin on the visibility map that scan_end() releases.
 */
void
scan_again(VacuumRun *run, BlockNumber block)
{
	HeapPass   *scan = &run->scan;

	run_enter(run, RUN_SCANNING, block);
	if (visibilitymap_get_status(run->rel, block, &scan->vmbuffer) & VISIBILITYMAP_ALL_VISIBLE)
		cycle_rests_on(run, BufferGetLSNAtomic(scan->vmbuffer));
	else
	{
		scan_page(run, block, false);
		run->done.scanned_pages++;
		run->done.rescanned_pages++;
		scan->complete_tids = run->dead.count;
	}
}

/*
 * Is this a page that the wrap can leave alone for now?  With its pending TIDs
 * collected it is not all-visible, though nothing may have happened to it since.
 * Once they are reaped the map will tell.  (If it is likely that something has
 * happened to most of them, another index pass afterwards would cost more.)
 */
static bool
waits_for_reaping(VacuumRun *run, BlockNumber block)
{
	return run->scan.wrapping && run->vacuum_indexes && !run->reread_pending &&
		block != run->rel_blocks - 1 &&	/* always read, for truncation */
		dead_tids_have_block(&run->dead, block);
}

/*
 * Scan up to the end of the range, or until there might not be room for the next
 * page's dead TIDs, or until the run's time is over.  Can be called again in
 * each case.  Holds no pin and no lock on any page when it returns, but for the
 * pin on the visibility map that scan_end() releases.
 */
StepResult
scan_heap(VacuumRun *run)
{
	HeapPass  *scan = &run->scan;

	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, PROGRESS_VACUUM_PHASE_SCAN_HEAP);

	while (scan->next_block < scan->end_block)
	{
		BlockNumber block;
		bool		map_all_visible;
		bool		to_freeze;

		if (scan->skipping && scan->next_block < scan->unskippable)
		{
			scan->next_block = scan->unskippable;
			if (scan->next_block >= scan->end_block)
				break;			/* only a range that ends before the table's last page */
		}
		block = scan->next_block;

		if (!scan->wrapping)
			pgstat_progress_update_param(PROGRESS_VACUUM_HEAP_BLKS_SCANNED, block);
		run_enter(run, RUN_SCANNING, block);

		/* No page is locked, all below block are done. */
		if (!cycle_between_pages(run))
		{
			release_map(scan);
			return STEP_OUT_OF_TIME;
		}
		if (block - scan->failsafe_checked >= FAILSAFE_INTERVAL)
		{
			run_check_failsafe(run);
			scan->failsafe_checked = block;
		}
		if (dead_tids_room(&run->dead) < MaxHeapTuplesPerPage)
		{
			release_map(scan);
			return STEP_MEMORY_FULL;
		}

		map_all_visible = true;
		to_freeze = false;
		if (block == scan->unskippable)
		{
			map_all_visible = scan->unskippable_all_visible;
			to_freeze = map_all_visible && run->pages.aggressive;
			look_ahead(run, block + 1);
		}

		if (waits_for_reaping(run, block))
			run->look_again[run->nlook_again++] = block;
		else
		{
			scan_page(run, block, map_all_visible);
			run->done.scanned_pages++;
			run->done.rescanned_pages += scan->wrapping;
			run->done.vacuumable_pages += !scan->wrapping && !map_all_visible;
			run->done.to_freeze_pages += !scan->wrapping && to_freeze;
			scan->complete_tids = run->dead.count;
		}
		scan->next_block = block + 1;
	}

	return STEP_DONE;
}
