/*
 * take_up.c
 *	  Taking up an earlier run's record.
 *
 * A run asks for the record that is there of its table, whether it may continue that
 * (cycle_is_over, plan_decide), and takes over what it says; or removes it.  What it
 * says of pending TIDs is loaded later, when there is room for them.
 */
#include "postgres.h"

#include "access/multixact.h"
#include "access/xlog.h"
#include "storage/bufmgr.h"

#include "command.h"
#include "cycle.h"
#include "elapsed.h"
#include "estimate.h"
#include "instance.h"
#include "plan.h"
#include "promise.h"
#include "save.h"
#include "settings.h"
#include "store.h"

/* Dead TIDs to announce for reaping at first, and the least (R6). */
#define FIRST_REAP_STRETCH 65536

/* Is a record not of this table as it is now (R3, R8)?  Then says why not. */
static bool
is_foreign(Relation rel, const CycleRecord *record, DecideReason *why)
{
	TableIdentity identity = {0};
	bool		unlogged = rel->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED;

	server_table_identity(rel, &identity);
	if (record->identity.system_identifier != identity.system_identifier)
		*why = BECAUSE_OTHER_CLUSTER;
	else if (record->identity.timeline != identity.timeline)
		*why = BECAUSE_OTHER_TIMELINE;
	else if (record->saved_lsn > GetXLogInsertRecPtr())
		*why = BECAUSE_LATER_STATE;
	else if (record->identity.tablespace != identity.tablespace ||
			 record->identity.file_number != identity.file_number)
		*why = BECAUSE_REWRITTEN;
	else if (record->identity.persistence != identity.persistence)
		*why = BECAUSE_PERSISTENCE_CHANGED;
	else if (unlogged && !(instance_vouches_for(record) && instance_no_crash_since(record)))
		*why = BECAUSE_MAY_BE_RESET;
	else
		return false;
	return true;
}

/*
 * Can no run with these cutoffs continue the cycle of a record?  Then says why not.
 * The caller has the table locked.
 */
bool
cycle_is_over(Relation rel, const Cutoffs *cutoffs, bool aggressive, const CycleRecord *record,
			  DecideReason *why)
{
	if (is_foreign(rel, record, why))
		return true;

	/* R12: nor does anybody know what has become of what was frozen */
	if (aggressive && !instance_vouches_for(record))
	{
		*why = BECAUSE_FREEZING_UNPROVEN;
		return true;
	}
	return promise_broken(cutoffs, aggressive, record, why);
}

/* The XID and MXID below which the table has none, as far as the cycle has got. */
static void
take_over_carry(VacuumRun *run, const CycleRecord *record)
{
	const Cutoffs *cutoffs = &run->pages.cutoffs;
	Carry	   *carry = &run->pages.carry;

	/* somebody else's vacuum may have frozen beyond the carry since */
	if (record->carry_xid < cycle_full_xid(cutoffs->relfrozenxid))
		carry->xid = cutoffs->relfrozenxid;
	else if (record->carry_xid < cycle_full_xid(carry->xid))
		carry->xid = (TransactionId) record->carry_xid;

	if (MultiXactIdPrecedes((MultiXactId) record->carry_mxid, cutoffs->relminmxid))
		carry->mxid = cutoffs->relminmxid;
	else if (MultiXactIdPrecedes((MultiXactId) record->carry_mxid, carry->mxid))
		carry->mxid = (MultiXactId) record->carry_mxid;
}

/*
 * Look for a record that this run can continue.  Called once the run's cutoffs
 * and extent are known.
 *
 * If there is one, the run's first block, carry and what depends on them are
 * set from it.  If not, whatever was in the store about the table is gone when
 * this returns (R5).  Returns true if the run continues a cycle.
 */
bool
cycle_take_up(VacuumRun *run)
{
	CycleState *cycle = &run->cycle;
	CycleRecord *base = &cycle->base;
	TableKey	key = cycle_key(run->rel);
	const char *unreadable = NULL;
	DecideReason why;
	bool		starts_over = true;
	StoreResult result;

	INSTR_TIME_SET_CURRENT(cycle->started);
	cycle->last_save = cycle->started;
	cycle->phase = CYCLE_SCANNING;
	cycle->may_reap = true;
	cycle->set_number = 1;
	cycle->rewrite_chunks = true;	/* whatever an earlier cycle may have left in the store */
	cycle->drop_indexes = true;
	if (run->pages.aggressive)
		cycle->promise = promise_of(&run->pages.cutoffs);
	cycle->reap_stretch = FIRST_REAP_STRETCH;
	cycle->range_blocks = run->rel_blocks / LIVE_RANGES + 1;
	cycle->max_duration = command_options()->max_duration_given ?
		command_options()->max_duration : setting_max_duration;

	/* R8: nobody can continue a temporary table's vacuum */
	cycle->keeps_record = run->rel->rd_rel->relpersistence != RELPERSISTENCE_TEMP;
	if (!cycle->keeps_record)
		return false;

	/* for a decision to come, should the run be stopped before it counts more */
	estimate_rows(run->rel, true, &cycle->estimate);
	cycle->estimate.rows_at_start = cycle->estimate.rows;

	result = store_find(&key, base);
	if (result == STORE_NOT_FOUND)
		return false;

	if (result != STORE_OK)
	{
		why = BECAUSE_UNREADABLE;
		unreadable = store_error();
	}
	else if (run->params->options & VACOPT_DISABLE_PAGE_SKIPPING)
		why = BECAUSE_EVERY_PAGE_ASKED_FOR;
	else if (!cycle_is_over(run->rel, &run->pages.cutoffs, run->pages.aggressive, base, &why))
	{
		plan_decide(run, base);
		why = run->decision.reason;
		starts_over = run->decision.plan == PLAN_RESTART;
		cycle->gave_up = starts_over && why != BECAUSE_ASKED_TO_RESTART;
	}
	if (starts_over)
	{
		run->history.decision.reason = why;
		memset(base, 0, sizeof(*base));
		if (result == STORE_FAILED)
			save_give_up(run, true);
		else
			cycle_forget(run->rel, unreadable != NULL ? unreadable : decide_reason_text(why));
		return false;
	}

	cycle->rewrite_chunks = false;
	cycle->resumed = true;
	cycle->recorded = true;
	cycle->gave_up = base->gave_up != 0;
	cycle->dropped_tids = base->lost_tids;
	cycle->killed_run_pending = true;
	cycle->record = *base;
	cycle->estimate.rows_at_start = base->estimate.rows_at_start;
	cycle->store_epoch = instance_store_epoch();
	cycle->set_number = base->set_number;
	cycle->range_blocks = Max(base->range_blocks, 1);

	/* a table cannot have shrunk under an id that we vouch for, but under another */
	run->first_block = Min(base->next_block, run->rel_blocks);
	run->wrap_from = Min(base->wrap_next_block, run->first_block);
	run->wraps = run->decision.plan == PLAN_RESUME_AND_WRAP;
	if (base->lost_tids > 0)
		run->wrap_from = 0;		/* they may be anywhere */
	run->reread_pending = run->decision.reread_pending;

	/*
	 * R7, R12: if others may have written to the cluster, or put an earlier state in
	 * its place, the carry proves nothing.
	 */
	run->skipped_all_visible = base->skipped_all_visible != 0 || !instance_vouches_for(base);
	cycle->promise = base->promise;
	take_over_carry(run, base);
	return true;
}

/* Keep of a page's pending TIDs those that are dead line pointers still (R4). */
static int
verify_page(VacuumRun *run, BlockNumber block, OffsetNumber *offsets, int noffsets)
{
	Buffer		buf;
	Page		page;
	int			kept = 0;

	if (block >= run->rel_blocks)
		return 0;

	buf = ReadBufferExtended(run->rel, MAIN_FORKNUM, block, RBM_NORMAL, run->strategy);
	LockBuffer(buf, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buf);
	for (int i = 0; i < noffsets; i++)
		if (!PageIsNew(page) && offsets[i] <= PageGetMaxOffsetNumber(page) &&
			ItemIdIsDead(PageGetItemId(page, offsets[i])))
			offsets[kept++] = offsets[i];
	cycle_rests_on(run, PageGetLSN(page));
	UnlockReleaseBuffer(buf);

	run->done.verified_pages++;
	return kept;
}

/*
 * Check all pending TIDs against the table; the set stays sorted.  If the run is
 * stopped meanwhile, or its time is over, what has been checked is kept; the rest is
 * dropped, or a run that is too short for all of it would never come any further.
 */
static void
verify_pending(VacuumRun *run, DeadTids *loaded)
{
	CycleState *cycle = &run->cycle;
	int64		dropped_before = cycle->dropped_tids;
	OffsetNumber offsets[MaxHeapTuplesPerPage];
	BlockNumber block;
	int64		position = 0;
	int			noffsets;

	cycle->dropped_tids = dropped_before + loaded->count;
	cycle->loaded = true;
	while ((noffsets = dead_tids_next_page(loaded, &position, &block, offsets)) > 0)
	{
		server_pause_point();
		if (cycle->max_duration != 0 && elapsed_ms(cycle->started) >= cycle->max_duration)
			break;
		noffsets = verify_page(run, block, offsets, noffsets);
		dead_tids_append(&run->dead, block, offsets, noffsets);
		run->scan.complete_tids = run->dead.count;
		cycle->set_pages += noffsets > 0;
		cycle->dropped_tids = dropped_before + loaded->count - position;
	}
}

/* R6: drop pending TIDs of blocks below this one. */
static void
drop_below(DeadTids *loaded, BlockNumber block)
{
	int64		kept = 0;

	for (int64 i = 0; i < loaded->count; i++)
		if (dead_tid_block(&loaded->tids[i]) >= block)
			loaded->tids[kept++] = loaded->tids[i];
	loaded->count = kept;
}

/* Find what is known of this run's indexes among the records of finished ones. */
static void
take_over_indexes(VacuumRun *run, const StoredCycle *stored)
{
	for (int i = 0; i < run->nindexes; i++)
	{
		for (int j = 0; j < stored->nindexes; j++)
		{
			const IndexRecord *record = &stored->indexes[j];
			IndexBulkDeleteResult *result;

			if (record->index != RelationGetRelid(run->indexes[i]) ||
				record->file_number != server_file_number(run->indexes[i]))
				continue;

			run->cycle.indexes[i] = *record;
			if (!record->has_result)
				continue;
			result = palloc0(sizeof(IndexBulkDeleteResult));
			run->earlier_results[i] = result;
			result->num_pages = record->num_pages;
			result->estimated_count = record->estimated_count != 0;
			result->num_index_tuples = record->num_index_tuples;
			result->tuples_removed = record->tuples_removed;
			result->pages_newly_deleted = record->pages_newly_deleted;
			result->pages_deleted = record->pages_deleted;
			result->pages_free = record->pages_free;
		}
	}
}

static BlockNumber
count_set_pages(const DeadTids *dead)
{
	BlockNumber pages = 0;

	for (int64 i = 0; i < dead->count; i++)
		if (i == 0 || dead_tid_block(&dead->tids[i]) != dead_tid_block(&dead->tids[i - 1]))
			pages++;
	return pages;
}

/*
 * Load the pending TIDs and finished indexes of the cycle that the run
 * continues, as far as they can be trusted, and make the record say that a run
 * is under way.  The run's set must have room for all of them.
 */
void
cycle_load_pending(VacuumRun *run)
{
	CycleState *cycle = &run->cycle;
	TableKey	key = cycle_key(run->rel);
	StoredCycle stored;
	DeadTids	loaded;
	int64		nloaded;
	int64		nsafe;
	bool		complete;
	bool		vouched = instance_vouches_for(&cycle->base);

	cycle->indexes = palloc0(run->nindexes * sizeof(IndexRecord));
	if (!cycle->resumed)
	{
		cycle->loaded = true;
		return;
	}

	complete = store_load(&key, &stored) == STORE_OK && !cycle->base.pending_lost;
	if (!complete)
	{
		/* position and carry are sound; the pages with pending TIDs are in the head */
		if (!cycle->base.pending_lost)
			save_warn_once(run, "could not read the saved list of pending row pointers of the vacuum", false);
		stored.ntids = 0;
		stored.nindexes = 0;
	}
	dead_tids_init(&loaded, stored.tids, stored.ntids);
	loaded.count = stored.ntids;
	dead_tids_sort(&loaded);
	nloaded = loaded.count;

	/* without indexes a page is reaped when it is scanned, as the head will be */
	if (run->nindexes == 0)
		loaded.count = 0;

	if (cycle->base.phase == CYCLE_REAPING)
	{
		drop_below(&loaded, cycle->base.reap_next_block);
		nsafe = loaded.count;
		if (!vouched)
			loaded.count = 0;
		else if (cycle->base.stop == CYCLE_RUNNING)
			drop_below(&loaded, cycle->base.reap_until_block);
		cycle->unsafe_tids = nsafe - loaded.count;
		cycle->dropped_tids += cycle->unsafe_tids;
	}

	if (vouched)
	{
		take_over_indexes(run, &stored);
		memcpy(run->dead.tids, loaded.tids, loaded.count * sizeof(DeadTid));
		run->dead.count = loaded.count;
	}
	else
	{
		/* R4: an item may have been reaped, reused and died again: all indexes anew */
		cycle->drop_indexes = true;
		cycle_begin_new_set(run);
		verify_pending(run, &loaded);
	}

	/* a wrap that goes on where the last one was would not find what was dropped */
	if (cycle->dropped_tids > 0 || !complete)
		run->wrap_from = 0;

	/* with all indexes to do, what is found yet can be removed in the same pass */
	cycle->phase = run->dead.count > 0 && vouched ? cycle->base.phase : CYCLE_SCANNING;

	/*
	 * A run that begins its wrap anew would meet the same pages again, before it
	 * came to remove anything: what is collected goes first this time.
	 */
	if (run->dead.count > 0 && vouched && cycle->phase == CYCLE_SCANNING &&
		cycle->base.wrapping && plan_wraps_anew(run))
		cycle->phase = CYCLE_VACUUMING_INDEXES;
	cycle->reaped_below = cycle->base.reap_next_block;
	cycle->set_pages = count_set_pages(&run->dead);
	run->scan.complete_tids = run->dead.count;
	run->done.taken_over_items = run->dead.count;
	run->done.taken_over_pages = cycle->set_pages;

	/* the list in the store is right to add to if we have taken just that */
	cycle->chunks = cycle->base.chunks;
	cycle->chunked_tids = cycle->base.pending_tids;
	cycle->saved_tids = run->dead.count;
	cycle->drop_indexes = !vouched || !complete;
	if (!vouched || !complete || run->dead.count != nloaded)
		cycle_begin_new_set(run);
	cycle->loaded = true;

	if (stored.tids != NULL)
		pfree(stored.tids);
	if (stored.indexes != NULL)
		pfree(stored.indexes);
}

/*
 * A run that continues a cycle says so in the record before it does anything.
 */
void
cycle_begin(VacuumRun *run)
{
	if (run->cycle.resumed)
		save_progress(run, CYCLE_RUNNING);
}
