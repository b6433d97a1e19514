/*
 * reap.c
 *	  The second heap pass: dead line pointers become unused.
 *
 * Only pages in the set of dead TIDs are visited, in block order.  By now no
 * index has an entry for any of these TIDs.  With its dead line pointers gone a
 * page may have become all-visible, which the first pass could not say.
 */
#include "postgres.h"

#include "access/visibilitymap.h"
#include "commands/progress.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/freespace.h"

#include "cycle.h"
#include "reap.h"

/*
 * Reap one page: set its dead line pointers (ascending offsets) unused, and
 * bring its visibility up to date.
 *
 * The caller holds the page's exclusive lock, a cleanup lock will do as well.
 * *vmbuffer is a pinned page of the visibility map or InvalidBuffer; it is left
 * pinned for the next call.
 */
void
reap_page(VacuumRun *run, Buffer buf, BlockNumber block,
		  const OffsetNumber *dead, int ndead, Buffer *vmbuffer)
{
	Page		page = BufferGetPage(buf);
	RunPosition previous = run_enter(run, RUN_REAPING, block);
	TransactionId visibility_cutoff;
	bool		all_frozen;

	pgstat_progress_update_param(PROGRESS_VACUUM_HEAP_BLKS_VACUUMED, block);

	if (!page_reap(&run->pages, buf, dead, ndead))
	{
		/* whatever happened, it must not happen again with the same list */
		cycle_distrust_pending(run);
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("row pointers to be removed from block %u of table \"%s.%s\" are not dead any more",
						block, run->schema_name, run->table_name),
				 errhint("Check the table and its indexes with amcheck.")));
	}
	run->cycle.reaped_below = block + 1;
	run->done.reaped_tids += ndead;

	/*
	 * A crash between the two leaves the page without its visibility bits,
	 * which the next vacuum puts right.
	 */
	if (page_is_all_visible(&run->pages, buf, &visibility_cutoff, &all_frozen))
		PageSetAllVisible(page);
	if (PageIsAllVisible(page))
	{
		uint8		map = visibilitymap_get_status(run->rel, block, vmbuffer);
		uint8		bits = 0;

		if (!(map & VISIBILITYMAP_ALL_VISIBLE))
			bits |= VISIBILITYMAP_ALL_VISIBLE;
		if (!(map & VISIBILITYMAP_ALL_FROZEN) && all_frozen)
			bits |= VISIBILITYMAP_ALL_FROZEN;

		/* the first pass has made sure that the map is this long */
		Assert(BufferIsValid(*vmbuffer));
		if (bits != 0)
			visibilitymap_set(run->rel, block, buf, InvalidXLogRecPtr, *vmbuffer,
							  visibility_cutoff, bits);
	}

	run->position = previous;
}

/*
 * Reap all pages of the set of dead TIDs.  Stops in between if the run's time is
 * over, or if the state of the store forbids to go on; the set keeps its TIDs.
 */
StepResult
reap_heap(VacuumRun *run)
{
	RunPosition previous = run_enter(run, RUN_REAPING, InvalidBlockNumber);
	Buffer		vmbuffer = InvalidBuffer;
	OffsetNumber dead[MaxHeapTuplesPerPage];
	BlockNumber block;
	BlockNumber pages = 0;
	int64		items = 0;
	int64		position = 0;
	StepResult	result = STEP_DONE;
	int			ndead;

	Assert(run->vacuum_indexes);

	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, PROGRESS_VACUUM_PHASE_VACUUM_HEAP);

	while ((ndead = dead_tids_next_page(&run->dead, &position, &block, dead)) > 0)
	{
		Buffer		buf;
		Size		free_space;

		/* No page is locked, all below block are reaped. */
		run->position.block = block;
		if (!cycle_between_pages(run))
		{
			result = STEP_OUT_OF_TIME;
			break;
		}
		if (!cycle_may_reap(run, block))
			break;

		buf = ReadBufferExtended(run->rel, MAIN_FORKNUM, block, RBM_NORMAL, run->strategy);
		LockBuffer(buf, BUFFER_LOCK_EXCLUSIVE);
		reap_page(run, buf, block, dead, ndead, &vmbuffer);
		free_space = PageGetHeapFreeSpace(BufferGetPage(buf));
		UnlockReleaseBuffer(buf);
		RecordPageWithFreeSpace(run->rel, block, free_space);
		pages++;
		items += ndead;
		run->done.reaped_pages++;
		run->cycle.set_reaped_pages++;
		run->cycle.set_reaped_tids += ndead;
	}

	if (BufferIsValid(vmbuffer))
		ReleaseBuffer(vmbuffer);

	ereport(DEBUG2,
			(errmsg("table \"%s\": removed %lld dead item identifiers in %u pages",
					run->table_name, (long long) items, pages)));

	run->position = previous;
	return result;
}
