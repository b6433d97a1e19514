/*
 * save.c
 *	  Saving the state of a run.
 *
 *	- What a save says rests on WAL that is flushed before (R1): the page LSN of
 *	  every heap page scanned and of every page of the visibility map that let
 *	  us skip, and the last record that we or our parallel workers wrote
 *	  (XactLastRecEnd; a finishing worker hands its own to the leader).
 *	- A page's LSN is enough to also cover the commit of whoever deleted a row
 *	  there: pruning it was logged after that commit, WAL is flushed in order.
 *	- If a save fails, no record of this cluster is trusted any more
 *	  (instance_distrust), and the run goes on without one (R2).
 */
#include "postgres.h"

#include <math.h>

#include "access/xact.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "catalog/pg_control.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "cycle.h"
#include "datafile.h"
#include "elapsed.h"
#include "estimate.h"
#include "history_row.h"
#include "instance.h"
#include "save.h"
#include "store.h"

/* Say once a run that the store is in trouble; the vacuum itself is not. */
void
save_warn_once(VacuumRun *run, const char *what, bool too_small)
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
CycleCounters
cycle_counters(VacuumRun *run)
{
	const RunCounters *done = &run->done;
	CycleCounters sum = run->cycle.base.counters;

	sum.left_dead_tuples = done->recently_dead_tuples + done->missed_dead_tuples;
	sum.live_tuples = done->live_tuples;
	if (run->cycle.resumed)
	{
		double		live_tuples = 0;
		double		live_pages = 0;
		double		left_dead_tuples = 0;

		for (int i = 0; i < LIVE_RANGES; i++)
		{
			LiveRange	range = live_range(run, i);

			live_tuples += range.with_dead.tuples + range.without_dead.tuples;
			live_pages += range.with_dead.pages + range.without_dead.pages;
			left_dead_tuples += range.left_dead_tuples;
		}
		sum.live_tuples = (int64) rint(live_tuples);
		sum.live_pages = (int64) rint(live_pages);
		sum.left_dead_tuples = (int64) rint(left_dead_tuples);
	}

	sum.scanned_pages += done->scanned_pages - done->rescanned_pages;
	/* a wrap counts rows on pages that were skipped before, the scan pages without rows */
	sum.live_pages = Max(sum.live_pages, sum.scanned_pages);
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
		int64		to_freeze = done->to_freeze_pages - cycle->counted_to_freeze;

		estimate->ahead_to_freeze -= to_freeze;
		estimate->ahead -= done->vacuumable_pages - cycle->counted_vacuumable + to_freeze;
		estimate->behind += dead_item - cycle->counted_dead_item;
		estimate->behind -= done->reaped_pages - cycle->counted_reaped;
	}
	else
	{
		/* the tail is taken to be what the head was */
		double		ratio = (double) (run->rel_blocks - cursor) / Max(cursor - run->first_block, 1);

		estimate->behind = (int64) dead_item - done->reaped_pages;
		estimate->ahead_to_freeze = done->to_freeze_pages * ratio;
		estimate->ahead = done->vacuumable_pages * ratio + estimate->ahead_to_freeze;
	}
	estimate->ahead_to_freeze = Max(estimate->ahead_to_freeze, 0);
	estimate->ahead = Max(estimate->ahead, estimate->ahead_to_freeze);
	estimate->behind = Max(estimate->behind, 0);
	estimate->pending_pages = Max((int64) cycle->set_pages - cycle->set_reaped_pages, 0);
	estimate->pending_tids = run->dead.count - cycle->set_reaped_tids;

	cycle->counted_vacuumable = done->vacuumable_pages;
	cycle->counted_to_freeze = done->to_freeze_pages;
	cycle->counted_dead_item = dead_item;
	cycle->counted_reaped = done->reaped_pages;
	return *estimate;
}

/*
 * How far the head has been wrapped.  A run that does not get back to the wrap has not
 * undone what earlier ones did of it.
 *
 * Pages that were left alone for their pending TIDs are found by these, as long as they are
 * pending; else the next wrap has to begin at the first of them.
 */
static void
describe_wrap(VacuumRun *run, CycleRecord *record)
{
	record->wrapping = run->scan.wrapping;
	record->wrap_next_block = run->scan.wrapping ? run->scan.next_block : run->wrap_from;
	if (run->nlooked == run->nlook_again)
		return;
	if (!run->waiting_reaped && run->cycle.phase != CYCLE_REAPING)
		record->wrap_waits = 1;
	else
		for (BlockNumber i = run->nlooked; i < run->nlook_again; i++)
			record->wrap_next_block = Min(record->wrap_next_block, run->look_again[i]);
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
	describe_wrap(run, &record);
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
	record.counters = cycle_counters(run);
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
void
save_give_up(VacuumRun *run, bool may_wait)
{
	CycleState *cycle = &run->cycle;

	save_warn_once(run, "could not save the progress of the vacuum", false);
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
void
save_progress(VacuumRun *run, CycleStop stop)
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
		record = describe(run, stop);	/* nothing older is trusted, if the store was lost */
		result = write_record(run, &record);
	}
	if (result == STORE_FULL && !cycle->pending_lost)
	{
		/* position and carry are small, and worth more than the list */
		cycle->pending_lost = true;
		result = write_record(run, &record);
		if (result == STORE_OK)
			save_warn_once(run, "the store is too small to keep the list of pending row pointers of the vacuum", true);
	}
	if (result != STORE_OK)
	{
		save_give_up(run, stop == CYCLE_RUNNING);
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
