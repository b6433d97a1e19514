/*
 * cycle.c
 *	  Keeping the state of a run, and continuing an earlier run's.
 *
 * A cycle is one complete coverage of a table, over one or more runs.  A run
 * whose vacuum is over before the first save is due leaves no record in the
 * store.  From the first save on there is a record, and then it has to be right
 * at any moment, whatever happens to the server in the next:
 *
 *	- What a save says rests on WAL that is flushed before (R1): the page LSN of
 *	  every heap page scanned and of every page of the visibility map that let
 *	  us skip, and the last record that we or our parallel workers wrote
 *	  (XactLastRecEnd; a finishing worker hands its own to the leader).
 *	- A page's LSN is enough to also cover the commit of whoever deleted a row
 *	  there: pruning it was logged after that commit, WAL is flushed in order.
 *	- Before the first line pointer is reaped, the record says so, and how far
 *	  it may go before the next save (R6).
 *	- If a save fails, no record of this cluster is trusted any more
 *	  (instance_distrust), and the run goes on without one (R2).
 *
 * A run that ends by ERROR saves when it is caught, one that ends by FATAL in a
 * before_shmem_exit callback; both come before the transaction is aborted, and
 * what they save is what is in memory, exact to the page.  kill -9 and a crash
 * leave the last save.
 *
 * R9: all of this happens under the table's ShareUpdateExclusiveLock.
 */
#include "postgres.h"

#include <math.h>

#include "access/amapi.h"
#include "access/multixact.h"
#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "catalog/pg_control.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "command.h"
#include "cycle.h"
#include "datafile.h"
#include "estimate.h"
#include "history_row.h"
#include "instance.h"
#include "plan.h"
#include "settings.h"
#include "store.h"

/* Pages between two looks at the clock. */
#define CLOCK_INTERVAL 32

/* Dead TIDs to announce for reaping at first, and the least (R6). */
#define FIRST_REAP_STRETCH 65536

static void save(VacuumRun *run, CycleStop stop);
static void give_up_record(VacuumRun *run, bool may_wait);

/* The key of a table's record; shared catalogs belong to database 0. */
TableKey
cycle_key(Relation rel)
{
	return (TableKey) {.database = rel->rd_lockInfo.lockRelId.dbId,
					   .relation = RelationGetRelid(rel)};
}

/* A 32-bit XID of about now as one that never wraps around. */
uint64
cycle_full_xid(TransactionId xid)
{
	FullTransactionId next = ReadNextFullTransactionId();
	uint32		epoch = EpochFromFullTransactionId(next);

	if (xid > XidFromFullTransactionId(next))
	{
		/* a cutoff of a young cluster lies before its first XID */
		if (epoch == 0)
			return FirstNormalTransactionId;
		epoch--;
	}
	return ((uint64) epoch << 32) | xid;
}

static int64
elapsed_us(instr_time since)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, since);
	return INSTR_TIME_GET_MICROSEC(now);
}

static int64
elapsed_ms(instr_time since)
{
	return elapsed_us(since) / 1000;
}

/* Say once a run that the store is in trouble; the vacuum itself is not. */
static void
warn_once(VacuumRun *run, const char *what, bool too_small)
{
	if (run->cycle.warned)
		return;
	run->cycle.warned = true;
	ereport(WARNING,
			(errmsg("%s of table \"%s.%s\"", what, run->schema_name, run->table_name),
			 errdetail_internal("%s", store_error()),
			 too_small ?
			 errhint("The vacuum goes on, but if it is interrupted the next one may have to collect them again. Consider increasing the configuration parameter \"%s\".",
					 "vacuum_resume.store_size") :
			 errhint("The vacuum goes on, but if it is interrupted the next one may have to start over. Check the directory \"%s\" in the data directory.",
					 STORE_DIRECTORY)));
}

/*----------
 * Taking up an earlier run's record
 *----------
 */

/* Why a record is not of this table as it is now (R3, R8); NULL if it is. */
static const char *
foreign_record(Relation rel, const CycleRecord *record)
{
	TableIdentity identity = {0};
	bool		unlogged = rel->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED;

	server_table_identity(rel, &identity);
	if (record->identity.system_identifier != identity.system_identifier)
		return "it is of another cluster";
	if (record->identity.timeline != identity.timeline)
		return "it is of another timeline";
	if (record->saved_lsn > GetXLogInsertRecPtr())
		return "it was written by a later state of this cluster";
	if (record->identity.tablespace != identity.tablespace ||
		record->identity.file_number != identity.file_number)
		return "the table has been rewritten";
	if (record->identity.persistence != identity.persistence)
		return "the table's persistence has been changed";
	if (unlogged && !(instance_vouches_for(record) && instance_no_crash_since(record)))
		return "an unlogged table may have been reset";
	return NULL;
}

/* What a run with these cutoffs has to freeze if it is aggressive. */
static Promise
own_promise(const Cutoffs *cutoffs)
{
	return (Promise) {.xid = cycle_full_xid(cutoffs->freeze_limit),
		.mxid = cutoffs->multixact_cutoff,
		.xid_age = cutoffs->oldest_xmin - cutoffs->freeze_limit,
		.mxid_age = cutoffs->oldest_mxid - cutoffs->multixact_cutoff};
}

/* Is there nothing left that is older than what was promised to be frozen? */
static bool
satisfies(uint64 carry_xid, MultiXactId carry_mxid, const Promise *promise)
{
	return carry_xid >= promise->xid &&
		!MultiXactIdPrecedes(carry_mxid, (MultiXactId) promise->mxid);
}

/*
 * R7: why the record does not let a run keep an aggressive vacuum's promise; NULL
 * if it does.
 *
 * The promise of a vacuum that takes many runs is the one it began with, as that
 * of an uninterrupted one is: with a limit that moved on from run to run, no cycle
 * would ever be completed on a server where XIDs are used up meanwhile.  But this
 * run must not have been asked to freeze younger rows than the first was.
 */
static const char *
broken_promise(const Cutoffs *cutoffs, bool aggressive, const CycleRecord *record)
{
	const Promise *first = &record->promise;
	Promise		own = own_promise(cutoffs);

	if (!aggressive)
		return NULL;
	if (record->skipped_all_visible)
		return "an aggressive vacuum has to scan pages that were skipped";
	if (satisfies(record->carry_xid, record->carry_mxid, &own))
		return NULL;
	if (first->xid != 0 && satisfies(record->carry_xid, record->carry_mxid, first) &&
		first->xid_age <= own.xid_age && first->mxid_age <= own.mxid_age)
		return NULL;
	return "an aggressive vacuum has to freeze more than was frozen";
}

/*
 * R7: has a complete cycle frozen what its first or its last run had to?  Both are
 * aggressive.
 */
bool
cycle_keeps_promise(VacuumRun *run)
{
	const Carry *carry = &run->pages.carry;
	Promise		own = own_promise(&run->pages.cutoffs);

	return satisfies(cycle_full_xid(carry->xid), carry->mxid, &own) ||
		(run->cycle.promise.xid != 0 &&
		 satisfies(cycle_full_xid(carry->xid), carry->mxid, &run->cycle.promise));
}

/*
 * Why a run with these cutoffs cannot continue the cycle of a record; NULL if it
 * can.  The caller has the table locked.
 */
const char *
cycle_why_not(Relation rel, const Cutoffs *cutoffs, bool aggressive, const CycleRecord *record)
{
	const char *why = foreign_record(rel, record);

	/* R12: nor does anybody know what has become of what was frozen */
	if (why == NULL && aggressive && !instance_vouches_for(record))
		why = "an aggressive vacuum cannot rely on what was frozen before";
	return why != NULL ? why : broken_promise(cutoffs, aggressive, record);
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
	const char *why;
	StoreResult result;

	INSTR_TIME_SET_CURRENT(cycle->started);
	cycle->last_save = cycle->started;
	cycle->phase = CYCLE_SCANNING;
	cycle->may_reap = true;
	cycle->set_number = 1;
	cycle->rewrite_chunks = true;	/* whatever an earlier cycle may have left in the store */
	cycle->drop_indexes = true;
	if (run->pages.aggressive)
		cycle->promise = own_promise(&run->pages.cutoffs);
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
	cycle->estimate.dead_rows_at_start = cycle->estimate.dead_rows;

	result = store_find(&key, base);
	if (result == STORE_NOT_FOUND)
		return false;

	if (result != STORE_OK)
		why = store_error();
	else if (run->params->options & VACOPT_DISABLE_PAGE_SKIPPING)
		why = "DISABLE_PAGE_SKIPPING asks for every page";
	else
		why = cycle_why_not(run->rel, &run->pages.cutoffs, run->pages.aggressive, base);
	if (why == NULL)
	{
		plan_decide(run, base);
		if (run->decision.plan == PLAN_RESTART)
		{
			why = decide_reason_text(run->decision.reason);
			cycle->gave_up = run->decision.reason != BECAUSE_ASKED_TO_RESTART;
		}
	}
	if (why != NULL)
	{
		if (!run->decided)
			run->history.decision.reason = BECAUSE_NOT_USABLE;
		memset(base, 0, sizeof(*base));
		if (result == STORE_FAILED)
			give_up_record(run, true);
		else
			cycle_forget(run->rel, why);
		return false;
	}

	cycle->rewrite_chunks = false;
	cycle->resumed = true;
	cycle->recorded = true;
	cycle->gave_up = base->gave_up != 0;
	cycle->dropped_tids = base->lost_tids;
	cycle->killed_run_pending = true;
	cycle->record = *base;
	cycle->estimate.dead_rows_at_start = base->estimate.dead_rows_at_start;
	cycle->store_epoch = instance_store_epoch();
	cycle->set_number = base->set_number;
	cycle->range_blocks = Max(base->range_blocks, 1);

	/* a table cannot have shrunk under an id that we vouch for, but under another */
	run->first_block = Min(base->next_block, run->rel_blocks);
	run->wrap_from = base->wrapping ? Min(base->wrap_next_block, run->first_block) : 0;
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
 * The set of dead TIDs is no longer the one that indexes may be done with, and
 * that the store has a list of: it is another set (R11), with all of its list to
 * be written.
 */
void
cycle_begin_new_set(VacuumRun *run)
{
	CycleState *cycle = &run->cycle;

	cycle->set_number++;
	cycle->rewrite_chunks = true;
	for (int i = 0; i < run->nindexes; i++)
	{
		IndexRecord *record = &cycle->indexes[i];

		/* done with no set, but what it has counted stays */
		record->set_number = 0;
		if (record->index != InvalidOid)
			record_seal(record, sizeof(*record), RECORD_INDEX);
	}
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
			warn_once(run, "could not read the saved list of pending row pointers of the vacuum", false);
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
		cycle->dropped_tids += nsafe - loaded.count;
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
		save(run, CYCLE_RUNNING);
}

/*----------
 * Saving
 *----------
 */

/* Take so many pages out of the count; returns how many there were not. */
static BlockNumber
take_out(LivePages *live, BlockNumber pages)
{
	BlockNumber taken = Min(pages, (BlockNumber) live->pages);

	if (taken == 0)
		return pages;
	live->tuples -= live->tuples * taken / live->pages;
	live->pages -= taken;
	return pages - taken;
}

static BlockNumber
overlap(BlockNumber from, BlockNumber to, BlockNumber other_from, BlockNumber other_to)
{
	BlockNumber begin = Max(from, other_from);
	BlockNumber end = Min(to, other_to);

	return end > begin ? end - begin : 0;
}

/* Which share of a range's part in the head has this run's wrap not been to? */
static double
share_not_wrapped(VacuumRun *run, int i)
{
	const HeapPass *scan = &run->scan;
	uint64		from = (uint64) i * run->cycle.range_blocks;
	uint64		to = i == LIVE_RANGES - 1 ? run->first_block :
		Min(from + run->cycle.range_blocks, run->first_block);
	BlockNumber wrapped = 0;

	if (from >= to)
		return 1;
	if (scan->wrapping)
		wrapped = overlap(from, to, scan->first_block, scan->next_block);
	if (run->wrapped_from_there)
		wrapped += overlap(from, to, run->wrap_from, run->first_block);
	return 1 - Min((double) wrapped / (to - from), 1);
}

/* The rows of one range, as they were found last. */
static LiveRange
live_range(VacuumRun *run, int i)
{
	const RunCounters *done = &run->done;
	LiveRange	range = run->cycle.base.live[i];

	/* pages with such rows are not all-visible, so that a wrap comes to all of them */
	range.left_dead_tuples = range.left_dead_tuples * share_not_wrapped(run, i) + done->left_dead[i];

	(void) take_out(&range.without_dead, take_out(&range.with_dead, done->pages_again[i]));
	range.with_dead.tuples += done->live_with_dead[i];
	range.with_dead.pages += done->pages_with_dead[i];
	range.without_dead.tuples += done->live_without_dead[i];
	range.without_dead.pages += done->pages_without_dead[i];
	return range;
}

/* What all runs together have counted. */
static CycleCounters
sum_counters(VacuumRun *run)
{
	const RunCounters *done = &run->done;
	CycleCounters sum = run->cycle.base.counters;

	sum.left_dead_tuples = done->recently_dead_tuples + done->missed_dead_tuples;
	sum.live_tuples = done->live_tuples;
	if (run->cycle.resumed)
	{
		double		live_tuples = 0;
		double		left_dead_tuples = 0;

		for (int i = 0; i < LIVE_RANGES; i++)
		{
			LiveRange	range = live_range(run, i);

			live_tuples += range.with_dead.tuples + range.without_dead.tuples;
			left_dead_tuples += range.left_dead_tuples;
		}
		sum.live_tuples = (int64) rint(live_tuples);
		sum.left_dead_tuples = (int64) rint(left_dead_tuples);
	}

	sum.scanned_pages += done->scanned_pages - done->rescanned_pages;
	sum.rescanned_pages += done->rescanned_pages;
	sum.verified_pages += done->verified_pages;
	sum.dead_item_pages += done->dead_item_pages;
	sum.missed_dead_pages += done->missed_dead_pages;
	sum.tuples_deleted += done->tuples_deleted;
	sum.dead_items += done->dead_items;
	sum.index_passes += done->index_passes;
	sum.index_scans += done->index_scans;
	return sum;
}

/*
 * Take the estimate that the next run's decision will need.
 *
 * While the run goes on, and when it was interrupted between two pages, it is
 * counted; interrupts are held, so that a second one does not spoil the save.  An
 * error can have come from anywhere, and then nothing is read: from what was
 * counted last, and has been done since, follows nearly the same.
 */
static Estimate
take_estimate(VacuumRun *run, CycleStop stop)
{
	CycleState *cycle = &run->cycle;
	Estimate   *estimate = &cycle->estimate;
	const RunCounters *done = &run->done;
	BlockNumber dead_item = run->nindexes > 0 ? done->dead_item_pages : 0;
	BlockNumber cursor = run->scan.wrapping ? run->rel_blocks_at_start : run->scan.next_block;
	bool	   *index_done;

	if (stop != CYCLE_FAILED)
	{
		index_done = palloc(run->nindexes * sizeof(bool) + 1);
		for (int i = 0; i < run->nindexes; i++)
			index_done[i] = cycle->phase == CYCLE_REAPING || cycle_index_is_done(run, i);

		HOLD_INTERRUPTS();
		estimate_pages(run->rel, cursor, run->rel_blocks, run->pages.aggressive, estimate);
		estimate_rows(run->rel, true, estimate);
		if (stop == CYCLE_RUNNING)
			estimate->threshold = estimate_threshold(run->rel);
		if (run->indexes != NULL)
			estimate_indexes(run->indexes, run->nindexes, index_done, estimate);
		RESUME_INTERRUPTS();

		pfree(index_done);
		cycle->counted = true;
	}
	else if (cycle->counted)
	{
		int64		passed = done->vacuumable_pages - cycle->counted_vacuumable;

		/* of each kind there is the same share among these */
		if (passed > 0 && estimate->ahead > 0)
			estimate->ahead_to_freeze -= rint((double) estimate->ahead_to_freeze *
											  Min(passed, estimate->ahead) / estimate->ahead);
		estimate->ahead -= passed;
		estimate->behind += dead_item - cycle->counted_dead_item;
		estimate->behind -= done->reaped_pages - cycle->counted_reaped;
	}
	else
	{
		/* the tail is taken to be what the head was */
		estimate->behind = (int64) dead_item - done->reaped_pages;
		estimate->ahead = (double) (run->rel_blocks - cursor) * done->vacuumable_pages /
			Max(cursor - run->first_block, 1);
	}
	estimate->ahead = Max(estimate->ahead, 0);
	estimate->behind = Max(estimate->behind, 0);
	estimate->pending_pages = Max((int64) cycle->set_pages - cycle->set_reaped_pages, 0);
	estimate->pending_tids = run->dead.count - cycle->set_reaped_tids;

	cycle->counted_vacuumable = done->vacuumable_pages;
	cycle->counted_dead_item = dead_item;
	cycle->counted_reaped = done->reaped_pages;
	return *estimate;
}

/* The record as it has to be now, but for what concerns the list of TIDs. */
static CycleRecord
describe(VacuumRun *run, CycleStop stop)
{
	CycleState *cycle = &run->cycle;
	CycleRecord record = {0};

	record.key = cycle_key(run->rel);
	server_table_identity(run->rel, &record.identity);
	instance_mark(&record);

	record.phase = cycle->phase;
	record.stop = stop;
	record.next_block = run->scan.wrapping ? run->rel_blocks_at_start : run->scan.next_block;
	record.rel_blocks = run->rel_blocks_at_start;
	record.wrapping = run->scan.wrapping;
	record.wrap_next_block = run->scan.wrapping ? run->scan.next_block : 0;
	record.nonempty_pages = run_nonempty_pages(run);
	record.skipped_all_visible = run->skipped_all_visible;
	record.carry_xid = cycle_full_xid(run->pages.carry.xid);
	record.carry_mxid = run->pages.carry.mxid;
	record.promise = cycle->promise;
	record.set_number = cycle->set_number;
	record.reap_next_block = cycle->reaped_below;
	record.reap_until_block = cycle->reap_until;
	record.indexes = run->nindexes;
	for (int i = 0; i < run->nindexes; i++)
		record.indexes_done += cycle->phase == CYCLE_REAPING || cycle_index_is_done(run, i);
	record.estimate = take_estimate(run, stop);
	record.counters = sum_counters(run);
	record.range_blocks = cycle->range_blocks;
	for (int i = 0; i < LIVE_RANGES; i++)
		record.live[i] = live_range(run, i);
	record.gave_up = cycle->gave_up;
	record.runs = cycle->base.runs + 1;
	record.interruptions = cycle->base.interruptions +
		(cycle->resumed && cycle->base.stop == CYCLE_RUNNING) + (stop != CYCLE_RUNNING);
	/* not the end of WAL: what others have written and nobody has flushed, a crash loses */
	record.saved_lsn = GetFlushRecPtr(NULL);
	record.last_saved = GetCurrentTimestamp();
	record.cycle_started = cycle->resumed ? cycle->base.cycle_started :
		record.last_saved - elapsed_ms(cycle->started) * 1000;
	record.run = history_row(run, stop);
	record.run.ended = record.last_saved;
	strlcpy(record.schema_name, run->schema_name, sizeof(record.schema_name));
	strlcpy(record.table_name, run->table_name, sizeof(record.table_name));
	return record;
}

/* Does the state say of any index that it is done with the set? */
static bool
rests_on_indexes(VacuumRun *run)
{
	if (run->cycle.phase == CYCLE_REAPING)
		return true;
	for (int i = 0; i < run->nindexes; i++)
		if (cycle_index_is_done(run, i))
			return true;
	return false;
}

/*
 * R1: have all WAL on disk that the state rests on.
 *
 * That an index is done rests on more than what we have written and on more
 * pages than we have looked at the LSNs of: where another backend had removed an
 * entry before we came there, on its WAL.  A record of our own that does nothing
 * is behind all of that.
 *
 * So does the carry: no XID before the run's OldestXmin will be found on pages that
 * were not scanned yet.  That is so once the records of those XIDs' ends are on disk; a
 * crash before would have the XIDs handed out again.  Each run's first save
 * therefore writes such a record, too.
 */
static void
flush_wal(VacuumRun *run)
{
	XLogRecPtr	lsn = run->cycle.lsn;

	/* pages of unlogged tables have LSNs that are none */
	if (!RelationNeedsWAL(run->rel))
		lsn = InvalidXLogRecPtr;
	if (XactLastRecEnd > lsn)
		lsn = XactLastRecEnd;

	/* nor can a page that is damaged make us wait for WAL that is not there yet */
	if (!run->cycle.cutoffs_flushed ||
		(RelationNeedsWAL(run->rel) && rests_on_indexes(run)) || lsn > GetXLogInsertRecPtr())
	{
		char		nothing = 0;

		XLogResetInsertion();	/* an error may have left a record half made */
		XLogBeginInsert();
		XLogRegisterData(&nothing, sizeof(nothing));
		lsn = XLogInsert(RM_XLOG_ID, XLOG_NOOP);
	}
	if (!XLogRecPtrIsInvalid(lsn))
		XLogFlush(lsn);
	run->cycle.cutoffs_flushed = true;
}

/*
 * A save failed: the record in the store no longer keeps up with us.  Make sure
 * that nobody takes it for the truth, and go on without it.
 */
static void
give_up_record(VacuumRun *run, bool may_wait)
{
	CycleState *cycle = &run->cycle;

	warn_once(run, "could not save the progress of the vacuum", false);
	cycle->keeps_record = false;

	/* if even this is not certain, nothing may happen that contradicts the record */
	if (!instance_distrust(may_wait) && may_wait)
	{
		cycle->may_reap = false;
		ereport(WARNING,
				(errmsg("could not invalidate the saved progress of the vacuum of table \"%s.%s\"",
						run->schema_name, run->table_name),
				 errdetail("Dead row pointers will not be removed from the table by this vacuum."),
				 errhint("Remove the directory \"%s\" from the data directory while the server is down.",
						 STORE_DIRECTORY)));
	}
	cycle->recorded = false;
}

/* The part of the set that the store has not got yet as a chunk; NULL if none. */
static ChunkRecord *
new_chunk(VacuumRun *run, size_t *bytes)
{
	CycleState *cycle = &run->cycle;
	int64		ntids = run->dead.count - cycle->saved_tids;
	ChunkRecord *chunk;

	*bytes = 0;
	if (ntids <= 0 || cycle->pending_lost)
		return NULL;
	chunk = MemoryContextAllocExtended(CurrentMemoryContext, chunk_max_bytes(ntids),
									   MCXT_ALLOC_NO_OOM | MCXT_ALLOC_HUGE);
	if (chunk == NULL)
		return NULL;

	memset(chunk, 0, sizeof(ChunkRecord));
	*bytes = chunk_encode(chunk, run->dead.tids + cycle->saved_tids, ntids);
	chunk->set_number = cycle->set_number;
	chunk->number = cycle->chunks;
	record_seal(chunk, *bytes, RECORD_CHUNK);
	return chunk;
}

/* Write one record with what is new of the list. */
static StoreResult
write_record(VacuumRun *run, CycleRecord *record)
{
	CycleState *cycle = &run->cycle;
	StoreChange change = {.cycle = record};
	StoreResult result;
	ChunkRecord *chunk;

	/* what the store has is not a beginning of our list: write it from the start */
	if (cycle->rewrite_chunks)
	{
		change.drop_chunks = true;
		cycle->chunks = 0;
		cycle->chunked_tids = 0;
		cycle->saved_tids = 0;
	}

	change.drop_indexes = cycle->drop_indexes;
	change.run = record->stop != CYCLE_RUNNING ? &record->run :
		cycle->killed_run_pending ? history_killed_run(&cycle->base) : NULL;

	chunk = new_chunk(run, &change.chunk_bytes);
	change.chunk = chunk;
	change.indexes = cycle->indexes;
	change.nindexes = 0;
	for (int i = 0; i < run->nindexes; i++)
		if (cycle->indexes[i].index != InvalidOid)
			change.nindexes = i + 1;

	/* out of memory for it: the list is lost, not the rest */
	if (chunk == NULL && run->dead.count > cycle->saved_tids)
		cycle->pending_lost = true;
	if (cycle->pending_lost)
	{
		change.drop_chunks = true;
		cycle->chunks = 0;
		cycle->chunked_tids = 0;
	}

	record->pending_lost = cycle->pending_lost;
	record->lost_tids = cycle->dropped_tids + (cycle->pending_lost ? run->dead.count : 0);
	record->chunks = cycle->chunks + (chunk != NULL);
	record->pending_tids = cycle->chunked_tids + (chunk != NULL ? chunk->tids : 0);
	record_seal(record, sizeof(CycleRecord), RECORD_CYCLE);

	result = store_write(&change);
	cycle->saved_bytes = sizeof(CycleRecord) + change.chunk_bytes +
		change.nindexes * sizeof(IndexRecord);
	if (result == STORE_OK)
	{
		cycle->chunks = record->chunks;
		cycle->chunked_tids = record->pending_tids;
		cycle->saved_tids = run->dead.count;
		cycle->rewrite_chunks = false;
		cycle->drop_indexes = false;
		cycle->killed_run_pending = false;
	}
	if (chunk != NULL)
		pfree(chunk);
	return result;
}

/*
 * Make the state durable.  Never fails the vacuum (R2): if the store does not
 * take it, the run goes on without a record.
 */
static void
save(VacuumRun *run, CycleStop stop)
{
	CycleState *cycle = &run->cycle;
	CycleRecord record;
	StoreResult result;
	instr_time	started;

	if (!cycle->keeps_record)
		return;

	INSTR_TIME_SET_CURRENT(started);

	/* somebody replaced the store by a new one: ours is not in it */
	if (cycle->store_epoch != instance_store_epoch())
	{
		cycle->store_epoch = instance_store_epoch();
		cycle->rewrite_chunks = true;
	}

	flush_wal(run);
	record = describe(run, stop);
	result = write_record(run, &record);
	if (result == STORE_REPLACED)
	{
		cycle->rewrite_chunks = true;
		result = write_record(run, &record);
	}
	if (result == STORE_FULL && !cycle->pending_lost)
	{
		/* position and carry are small, and worth more than the list */
		cycle->pending_lost = true;
		result = write_record(run, &record);
		if (result == STORE_OK)
			warn_once(run, "the store is too small to keep the list of pending row pointers of the vacuum", true);
	}
	if (result != STORE_OK)
	{
		give_up_record(run, stop == CYCLE_RUNNING);
		return;
	}

	ereport(DEBUG2,
			(errmsg_internal("saved the progress of vacuuming table \"%s.%s\" in " INT64_FORMAT " us, %zu bytes",
							 run->schema_name, run->table_name, elapsed_us(started),
							 cycle->saved_bytes)));
	cycle->recorded = true;
	cycle->record = record;
	cycle->store_epoch = instance_store_epoch();
	INSTR_TIME_SET_CURRENT(cycle->last_save);
}

/* R6: announce the stretch of pages that will be reaped until the next save. */
static void
announce_stretch(VacuumRun *run, BlockNumber from)
{
	CycleState *cycle = &run->cycle;
	const DeadTids *dead = &run->dead;
	int64		low = 0;
	int64		high = dead->count;

	/* the first TID of block from or beyond */
	while (low < high)
	{
		int64		middle = low + (high - low) / 2;

		if (dead_tid_block(&dead->tids[middle]) < from)
			low = middle + 1;
		else
			high = middle;
	}

	if (low + cycle->reap_stretch >= dead->count)
		cycle->reap_until = InvalidBlockNumber;
	else
		cycle->reap_until = Max(from + 1, dead_tid_block(&dead->tids[low + cycle->reap_stretch]));
}

/*
 * The run enters a phase.  If there is a record, it says so before this
 * returns: a phase must not do what the record would not lead one to expect.
 */
void
cycle_enter(VacuumRun *run, CyclePhase phase)
{
	CycleState *cycle = &run->cycle;

	cycle->phase = phase;
	if (phase == CYCLE_REAPING)
	{
		cycle->reaped_below = run->dead.count > 0 ? dead_tid_block(&run->dead.tids[0]) : 0;
		announce_stretch(run, cycle->reaped_below);
	}
	if (cycle->recorded)
		save(run, CYCLE_RUNNING);
}

/*
 * The set of dead TIDs is empty again; the next one is another set.
 */
void
cycle_set_emptied(VacuumRun *run)
{
	CycleState *cycle = &run->cycle;

	cycle->set_number++;
	cycle->set_pages = 0;
	cycle->set_reaped_pages = 0;
	cycle->set_reaped_tids = 0;
	cycle->saved_tids = 0;
	cycle->chunked_tids = 0;
	cycle->chunks = 0;
	cycle->pending_lost = false;
	cycle->rewrite_chunks = true;
	cycle->reaped_below = 0;
	cycle->reap_until = 0;
	run->scan.complete_tids = 0;
	cycle_enter(run, CYCLE_SCANNING);
}

/*
 * Index i is done with the set as it is.  Its result can be kept if it is known
 * to be no more than the struct, which it is for access methods whose results
 * the server itself copies between parallel workers.
 */
void
cycle_index_done(VacuumRun *run, int i)
{
	CycleState *cycle = &run->cycle;
	IndexRecord *record = &cycle->indexes[i];
	const IndexBulkDeleteResult *result = run->index_results[i];

	memset(record, 0, sizeof(*record));
	record->index = RelationGetRelid(run->indexes[i]);
	record->file_number = server_file_number(run->indexes[i]);
	record->set_number = cycle->set_number;
	record->set_tids = run->dead.count;
	if (result != NULL && run->indexes[i]->rd_indam->amparallelvacuumoptions != 0)
	{
		record->has_result = true;
		record->num_pages = result->num_pages;
		record->estimated_count = result->estimated_count;
		record->num_index_tuples = result->num_index_tuples;
		record->tuples_removed = result->tuples_removed;
		record->pages_newly_deleted = result->pages_newly_deleted;
		record->pages_deleted = result->pages_deleted;
		record->pages_free = result->pages_free;
	}
	record_seal(record, sizeof(*record), RECORD_INDEX);

	if (cycle->recorded)
		save(run, CYCLE_RUNNING);
}

/* R11: is index i done with just this set? */
bool
cycle_index_is_done(VacuumRun *run, int i)
{
	const IndexRecord *record = &run->cycle.indexes[i];

	return record->index != InvalidOid &&
		record->set_number == run->cycle.set_number &&
		record->set_tids == run->dead.count;
}

/* Save if that is due.  Returns false if the run's time is over. */
static bool
look_at_clock(VacuumRun *run)
{
	CycleState *cycle = &run->cycle;

	cycle->clock_skipped = 0;
	if (cycle->keeps_record && elapsed_ms(cycle->last_save) >= setting_save_interval)
	{
		if (cycle->phase == CYCLE_REAPING)
			announce_stretch(run, cycle->reaped_below);
		save(run, CYCLE_RUNNING);
	}
	return cycle->max_duration == 0 || elapsed_ms(cycle->started) < cycle->max_duration;
}

/*
 * Between two pages: take interrupts and cost-based delay, save if that is due.
 * Returns false if the run's time is over.
 */
bool
cycle_between_pages(VacuumRun *run)
{
	server_pause_point();

	if (++run->cycle.clock_skipped < CLOCK_INTERVAL)
		return true;
	return look_at_clock(run);
}

/* The same between two indexes, each of which takes long. */
bool
cycle_between_indexes(VacuumRun *run)
{
	server_pause_point();
	return look_at_clock(run);
}

/*
 * R6: may this page be reaped now?  Announces a new stretch if the last one
 * ends here.  Returns false if the store is in a state that forbids reaping.
 */
bool
cycle_may_reap(VacuumRun *run, BlockNumber block)
{
	CycleState *cycle = &run->cycle;

	if (cycle->recorded && block >= cycle->reap_until)
	{
		/* a stretch that was over too soon: save less often */
		if (elapsed_ms(cycle->last_save) < setting_save_interval / 2)
			cycle->reap_stretch = Min(cycle->reap_stretch * 2, PG_INT32_MAX);
		announce_stretch(run, block);
		save(run, CYCLE_RUNNING);
	}
	return cycle->may_reap;
}

/*
 * The list of pending TIDs has proved wrong: what is saved from now on has none.
 */
void
cycle_distrust_pending(VacuumRun *run)
{
	run->dead.count = 0;
	cycle_begin_new_set(run);
	run->cycle.phase = CYCLE_SCANNING;
	run->scan.complete_tids = 0;
}

/*
 * What all runs of the cycle have counted of the table's rows.
 */
CycleCounters
cycle_counters(VacuumRun *run)
{
	return sum_counters(run);
}

/*
 * The run has to stop.  Save exactly what is done: of a page at work in the scan
 * nothing counts.  Does not throw.
 */
void
cycle_stopped(VacuumRun *run, CycleStop stop)
{
	MemoryContext context = CurrentMemoryContext;

	if (!run->cycle.keeps_record || !run->cycle.loaded)
		return;
	if (run->cycle.phase == CYCLE_SCANNING)
		run->dead.count = Min(run->dead.count, run->scan.complete_tids);

	PG_TRY();
	{
		save(run, stop);
	}
	PG_CATCH();
	{
		/* the caller has put its own error aside */
		MemoryContextSwitchTo(context);
		FlushErrorState();
		(void) instance_distrust(false);
	}
	PG_END_TRY();
}

/*
 * The cycle is complete: nothing to continue any more.  The run goes into
 * history, also one that has left no record.
 */
void
cycle_finished(VacuumRun *run)
{
	TableKey	key = cycle_key(run->rel);
	RunRecord	row = history_row(run, CYCLE_FINISHED);
	bool		recorded = run->cycle.recorded;

	if (run->rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		return;
	run->cycle.recorded = false;
	if (store_finish(&key, &row) == STORE_OK)
		return;
	if (recorded)
	{
		warn_once(run, "could not remove the record of the finished vacuum", false);
		(void) instance_distrust(false);
	}
	else
		ereport(LOG,
				(errmsg("could not add the vacuum of table \"%s.%s\" to the history of vacuums",
						run->schema_name, run->table_name),
				 errdetail_internal("%s", store_error())));
}

/*
 * R5: remove what is known of a table, because it will be vacuumed without
 * regard to it, for the reason given.  Called with the table's
 * ShareUpdateExclusiveLock.
 */
void
cycle_forget(Relation rel, const char *why)
{
	TableKey	key = cycle_key(rel);
	CycleRecord record;
	StoreResult result;

	if (!instance_may_have_record(&key))
		return;
	result = store_find(&key, &record);
	if (result == STORE_NOT_FOUND)
		return;

	if (result != STORE_FAILED)
	{
		ereport(LOG,
				(errmsg("discarding the saved progress of the vacuum of table \"%s.%s\": %s",
						get_namespace_name(RelationGetNamespace(rel)),
						RelationGetRelationName(rel), why)));
		result = store_finish(&key, result == STORE_OK ? history_killed_run(&record) : NULL);
	}
	if (result != STORE_OK)
	{
		ereport(WARNING,
				(errmsg("could not remove the saved progress of the vacuum of table \"%s.%s\"",
						get_namespace_name(RelationGetNamespace(rel)),
						RelationGetRelationName(rel)),
				 errdetail("%s. Row pointers saved so far, of any table, will be verified before they are used.", store_error()),
				 errhint("Check the directory \"%s\" in the data directory.", STORE_DIRECTORY)));
		(void) instance_distrust(true);
	}
}
