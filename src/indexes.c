/*
 * indexes.c
 *	  Index passes: removing dead TIDs from indexes, and cleaning indexes up.
 *
 * An index pass goes through all indexes of the table, one after the other, or
 * side by side with the server's parallel workers.  What an access method
 * counts in a pass (an IndexBulkDeleteResult, allocated by it) is handed to it
 * again in the next one and at last in cleanup.
 */
#include "postgres.h"

#include <limits.h>

#include "access/htup_details.h"
#include "access/multixact.h"
#include "access/transam.h"
#include "catalog/pg_am.h"
#include "catalog/pg_index.h"
#include "commands/progress.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/autovacuum.h"
#include "storage/bufmgr.h"
#include "storage/itemptr.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"

#include "cycle.h"
#include "indexes.h"

/*
 * Open and lock all indexes.
 */
void
indexes_open(VacuumRun *run)
{
	vac_open_indexes(run->rel, RowExclusiveLock, &run->nindexes, &run->indexes);

	run->index_results = palloc0(run->nindexes * sizeof(IndexBulkDeleteResult *));
	run->earlier_results = palloc0(run->nindexes * sizeof(IndexBulkDeleteResult *));
	run->index_names = palloc(run->nindexes * sizeof(char *));
	for (int i = 0; i < run->nindexes; i++)
		run->index_names[i] = pstrdup(RelationGetRelationName(run->indexes[i]));
}

/*
 * How many dead TIDs may be collected before an index pass: what the memory
 * setting allows, but not more than the table can have, and in any case the
 * line pointers of one page.
 */
static int64
max_dead_tids(VacuumRun *run)
{
	int			work_mem = maintenance_work_mem;	/* kB */
	int64		max_tids;

	/* reaped page by page */
	if (run->nindexes == 0)
		return MaxHeapTuplesPerPage;

	if (server_is_autovacuum_worker() && autovacuum_work_mem != -1)
		work_mem = autovacuum_work_mem;

	max_tids = server_max_dead_tids(Min((size_t) work_mem * 1024, MaxAllocSize));
	max_tids = Min(max_tids, INT_MAX);
	max_tids = Min(max_tids, (int64) run->rel_blocks * MaxHeapTuplesPerPage);
	max_tids = Max(max_tids, MaxHeapTuplesPerPage);

	/* a list that an earlier run has collected has to fit, whatever its memory was */
	return Max(max_tids, run->cycle.base.pending_tids);
}

/*
 * Make room for the dead TIDs, in memory shared with parallel workers if this
 * run is to have any.  A worker takes one index at a time, so a table with one
 * index does not need them.
 */
void
indexes_prepare(VacuumRun *run)
{
	int			requested = run->params->nworkers;	/* -1: no parallel vacuum */
	int64		max_tids = max_dead_tids(run);

	if (requested >= 0 && run->nindexes > 1 && run->vacuum_indexes)
	{
		if (!RelationUsesLocalBuffers(run->rel))
			run->index_workers =
				server_start_index_workers(run->rel, run->indexes, run->nindexes, requested,
										   max_tids, run->verbose ? INFO : DEBUG2,
										   run->strategy, &run->dead);
		else if (requested > 0)
			ereport(WARNING,
					(errmsg("disabling parallel option of vacuum on \"%s\" --- cannot vacuum temporary tables in parallel",
							run->table_name)));
	}

	if (run->index_workers == NULL)
		dead_tids_init(&run->dead, palloc(max_tids * sizeof(DeadTid)), max_tids);
}

/* The question an access method asks for each of its entries. */
static bool
is_dead_tid(ItemPointer tid, void *state)
{
	return dead_tids_contain((const DeadTids *) state,
							 ItemPointerGetBlockNumberNoCheck(tid),
							 ItemPointerGetOffsetNumberNoCheck(tid));
}

/*
 * An earlier run's result is not given to an access method for another bulk
 * deletion: some take its being there for a sign that this vacuum has been here
 * before (GIN of some minors has emptied its pending list then).  What it counted
 * is added afterwards.
 */
static void
add_earlier_result(VacuumRun *run, int i)
{
	IndexBulkDeleteResult *result = run->index_results[i];
	const IndexBulkDeleteResult *earlier = run->earlier_results[i];

	if (result != NULL && earlier != NULL)
	{
		result->tuples_removed += earlier->tuples_removed;
		result->pages_newly_deleted += earlier->pages_newly_deleted;
	}
	run->earlier_results[i] = NULL;
}

/* Remove the dead TIDs from one index. */
static void
vacuum_index(VacuumRun *run, int i)
{
	RunPosition previous = run_enter(run, RUN_VACUUMING_INDEX, InvalidBlockNumber);
	IndexVacuumInfo info;

	run->position.index_name = run->index_names[i];
	run->index_blocks = RelationGetNumberOfBlocks(run->indexes[i]);
	run->index_accesses = pgBufferUsage.shared_blks_hit + pgBufferUsage.shared_blks_read;

	server_init_index_info(&info, run->indexes[i], run->rel, run->old_live_tuples, true,
						   run->strategy);
	run->index_results[i] = index_bulk_delete(&info, run->index_results[i],
											  is_dead_tid, &run->dead);
	run->done.index_scans++;
	run->done.index_pages += run->index_blocks;
	add_earlier_result(run, i);
	ereport(info.message_level,
			(errmsg("scanned index \"%s\" to remove %lld row versions",
					run->index_names[i], (long long) run->dead.count)));

	run->position = previous;
}

/* All indexes that are not done with this set yet, one after the other. */
static IndexPass
vacuum_indexes_serially(VacuumRun *run)
{
	void	   *directory = palloc(dead_tids_directory_bytes(&run->dead));
	IndexPass	pass = INDEX_PASS_COMPLETE;
	bool		first = true;

	dead_tids_build_directory(&run->dead, directory);
	for (int i = 0; i < run->nindexes && pass == INDEX_PASS_COMPLETE; i++)
	{
		if (cycle_index_is_done(run, i))
			continue;

		/* one at least, or a run that is too short would never come any further */
		if (!first && !cycle_between_indexes(run))
		{
			pass = INDEX_PASS_OUT_OF_TIME;
			break;
		}
		first = false;
		vacuum_index(run, i);
		cycle_index_done(run, i);
		if (run_check_failsafe(run))
			pass = INDEX_PASS_FAILSAFE;
	}
	dead_tids_drop_directory(&run->dead);
	pfree(directory);

	return pass;
}

/* All indexes side by side; what the workers count stays with them until the end. */
static IndexPass
vacuum_indexes_in_parallel(VacuumRun *run)
{
	server_bulk_delete_in_parallel(run->index_workers, &run->dead, run->old_live_tuples,
								   run->parallel_passes++);
	run->done.index_scans += run->nindexes;
	for (int i = 0; i < run->nindexes; i++)
	{
		run->done.index_pages += RelationGetNumberOfBlocks(run->indexes[i]);
		cycle_index_done(run, i);
	}

	return run_check_failsafe(run) ? INDEX_PASS_FAILSAFE : INDEX_PASS_COMPLETE;
}

/* Are some of the indexes done with this set, by an earlier run? */
static bool
some_are_done(VacuumRun *run)
{
	for (int i = 0; i < run->nindexes; i++)
		if (cycle_index_is_done(run, i))
			return true;
	return false;
}

/*
 * Empty the pending list of GIN indexes that are about to be vacuumed once more.
 *
 * A bulk deletion does not look into that list, and GIN empties it only in the first
 * one of a vacuum (checked in the source of 15 to 18).  A row that was inserted and
 * rolled back since has its entries there, and is dead already: once it is reaped they
 * would lead to another row.  The server takes that risk when memory is short; we have
 * a second pass whenever a run begins with pending TIDs and then finds more.
 */
static void
empty_pending_lists(VacuumRun *run)
{
	for (int i = 0; i < run->nindexes; i++)
	{
		RunPosition previous;

		if (run->indexes[i]->rd_rel->relam != GIN_AM_OID || cycle_index_is_done(run, i))
			continue;
		previous = run_enter(run, RUN_VACUUMING_INDEX, InvalidBlockNumber);
		run->position.index_name = run->index_names[i];
		/* here, as workers' bulk deletions are out of our hands; VACUUM runs as the table's owner */
		(void) DirectFunctionCall1(gin_clean_pending_list,
								   ObjectIdGetDatum(RelationGetRelid(run->indexes[i])));
		run->position = previous;
	}
}

/*
 * Remove the collected dead TIDs from all indexes that are not done with them.
 *
 * They may be reaped only if the pass is complete.  It can also be ended by the
 * wraparound failsafe (then they may never be), or because the run's time is
 * over.
 */
IndexPass
indexes_vacuum(VacuumRun *run)
{
	IndexPass	pass;

	Assert(run->vacuum_indexes && run->clean_up_indexes);

	if (run_check_failsafe(run))
		return INDEX_PASS_FAILSAFE;

	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, PROGRESS_VACUUM_PHASE_VACUUM_INDEX);

	if (run->done.index_passes > 0)
		empty_pending_lists(run);

	/* workers know nothing of indexes that are done, so such a pass is finished without */
	if (run->index_workers == NULL || some_are_done(run))
		pass = vacuum_indexes_serially(run);
	else
		pass = vacuum_indexes_in_parallel(run);

	/* a pass that was cut short counts, too */
	run->done.index_passes++;
	pgstat_progress_update_param(PROGRESS_VACUUM_NUM_INDEX_VACUUMS, run->done.index_passes);

	return pass;
}

/*
 * What an earlier run's bulk deletion counted, for the cleanup of an index that
 * this run has not vacuumed.  GIN takes it for a sign that its pending list has
 * just been emptied, and reads all of its pages without it as well.
 */
static IndexBulkDeleteResult *
earlier_result(VacuumRun *run, int i)
{
	if (run->indexes[i]->rd_rel->relam == GIN_AM_OID)
		return NULL;
	return run->earlier_results[i];
}

/* Has an index fewer entries than the table has rows now, though each row wants one? */
static bool
lacks_entries(VacuumRun *run, int i, double entries)
{
	HeapTuple	definition = run->indexes[i]->rd_indextuple;

	return definition != NULL && heap_attisnull(definition, Anum_pg_index_indpred, NULL) &&
		run->new_rel_tuples > 1.01 * entries;
}

/* Let one index clean up after itself. */
static void
clean_up_index(VacuumRun *run, int i, bool estimated)
{
	RunPosition previous = run_enter(run, RUN_CLEANING_UP_INDEX, InvalidBlockNumber);
	IndexBulkDeleteResult *earlier = NULL;
	double		earlier_entries = 0;
	IndexVacuumInfo info;

	run->position.index_name = run->index_names[i];

	server_init_index_info(&info, run->indexes[i], run->rel, run->new_rel_tuples, estimated,
						   run->strategy);
	if (run->index_results[i] == NULL && (earlier = earlier_result(run, i)) != NULL)
	{
		earlier_entries = earlier->num_index_tuples;
		run->index_results[i] = earlier;
	}
	run->index_results[i] = vac_cleanup_one_index(&info, run->index_results[i]);

	/*
	 * Rows may have been added since that count, which then is exact no longer.
	 * It is another one if the cleanup has counted: BRIN does, and it counts
	 * ranges, in bulk deletion none at all.  (No cleanup reads the flag.)
	 */
	if (earlier != NULL && run->index_results[i] == earlier &&
		earlier->num_index_tuples == earlier_entries && lacks_entries(run, i, earlier_entries))
		earlier->estimated_count = true;

	run->position = previous;
}

/*
 * Do the workers know at least as much of the indexes as we do?  They do unless
 * indexes were vacuumed, but never by them.
 */
static bool
workers_know_most(VacuumRun *run)
{
	bool		know_something = false;

	for (int i = 0; i < run->nindexes; i++)
		know_something |= run->index_results[i] != NULL || run->earlier_results[i] != NULL;
	return run->parallel_passes > 0 || !know_something;
}

/*
 * Let all indexes clean up after themselves, if that is wanted.
 */
void
indexes_clean_up(VacuumRun *run)
{
	bool		estimated = run->cycle_scanned_pages < run->rel_blocks;

	if (run->nindexes == 0 || !run->clean_up_indexes)
		return;

	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, PROGRESS_VACUUM_PHASE_INDEX_CLEANUP);

	if (run->index_workers != NULL && workers_know_most(run))
		server_clean_up_in_parallel(run->index_workers, run->new_rel_tuples,
									run->parallel_passes, estimated);
	else
		for (int i = 0; i < run->nindexes; i++)
			clean_up_index(run, i, estimated);
}

/* Stop the workers and take over what they counted, which replaces nothing we have. */
static void
stop_workers(VacuumRun *run)
{
	IndexBulkDeleteResult **results = palloc0(run->nindexes * sizeof(*results));

	server_stop_index_workers(run->index_workers, results);
	for (int i = 0; i < run->nindexes; i++)
		if (results[i] != NULL)
			run->index_results[i] = results[i];
	pfree(results);
}

/*
 * Done with the indexes: stop the workers, update pg_class rows of the indexes
 * whose entries were counted exactly, and close them.  Their locks stay until
 * the transaction ends.
 */
void
indexes_close(VacuumRun *run)
{
	if (run->index_workers != NULL)
	{
		/* the dead TIDs go with it; there are none by now */
		stop_workers(run);
		run->index_workers = NULL;
		dead_tids_init(&run->dead, NULL, 0);
	}

	for (int i = 0; run->clean_up_indexes && i < run->nindexes; i++)
	{
		const IndexBulkDeleteResult *result = run->index_results[i];
		const Carry unchanged = {InvalidTransactionId, InvalidMultiXactId};

		if (result != NULL && !result->estimated_count)
			server_update_relstats(run->indexes[i], result->num_pages,
								   result->num_index_tuples, 0, false, &unchanged,
								   NULL, NULL);
	}

	vac_close_indexes(run->nindexes, run->indexes, NoLock);
	run->indexes = NULL;
}
