/*
 * cycle.c
 *	  The course of a run, as its record has it.
 *
 * A cycle is one complete coverage of a table, over one or more runs.  A run
 * whose vacuum is over before the first save is due leaves no record in the
 * store.  From the first save on there is a record, and then it has to be right
 * at any moment, whatever happens to the server in the next.  What that takes for
 * each save, save.c tells.  Before the first line pointer is reaped, the record
 * says so, and how far it may go before the next save (R6).
 *
 * A run that ends by ERROR saves when it is caught, one that ends by FATAL in a
 * before_shmem_exit callback; both come before the transaction is aborted, and
 * what they save is what is in memory, exact to the page.  kill -9 and a crash
 * leave the last save.
 *
 * R9: all of this happens under the table's ShareUpdateExclusiveLock.
 */
#include "postgres.h"

#include "access/amapi.h"
#include "access/transam.h"
#include "utils/lsyscache.h"

#include "cycle.h"
#include "datafile.h"
#include "elapsed.h"
#include "history_row.h"
#include "instance.h"
#include "report.h"
#include "save.h"
#include "settings.h"
#include "store.h"

/* Pages between two looks at the clock. */
#define CLOCK_INTERVAL 32

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
		save_progress(run, CYCLE_RUNNING);
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
	run->waiting_reaped = true;
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
		save_progress(run, CYCLE_RUNNING);
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
		save_progress(run, CYCLE_RUNNING);
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
		save_progress(run, CYCLE_RUNNING);
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
		save_progress(run, stop);
		if (run->cycle.recorded && stop != CYCLE_OUT_OF_TIME)
			report_interrupted(run);
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
		save_warn_once(run, "could not remove the record of the finished vacuum", false);
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
