/*
 * run.c
 *	  One VACUUM of one heap table, from top to bottom.
 *
 * A run reads the table once (the first heap pass, scan.c): it prunes and
 * freezes every page that the visibility map does not let it skip, and collects
 * the TIDs of the dead line pointers that pruning leaves.  Then the index
 * entries of those TIDs are removed (indexes.c), and only then may the line
 * pointers be set unused (the second heap pass, reap.c): a line pointer that is
 * reused while an index still has an entry for its former row would make an
 * index scan return the wrong row.  If memory for dead TIDs runs out in
 * mid-scan, indexes and second pass are done for what there is, and the scan
 * goes on behind it.  A table without indexes needs no second pass; its pages
 * are reaped as they are scanned.
 *
 * Everything that a run knows is in one VacuumRun; the steps know nothing of
 * each other but through it.
 *
 * Locking: the caller holds the table's ShareUpdateExclusiveLock, so there is
 * one run at a time for a table, nobody else sets a line pointer unused while
 * it goes on, and a dead line pointer stays dead until this run reaps it.
 */
#include "postgres.h"

#include "access/multixact.h"
#include "access/transam.h"
#include "access/visibilitymap.h"
#include "catalog/pg_class.h"
#include "commands/dbcommands.h"
#include "commands/progress.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/freespace.h"
#include "storage/ipc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "command.h"
#include "cycle.h"
#include "indexes.h"
#include "plan.h"
#include "promise.h"
#include "reap.h"
#include "report.h"
#include "run.h"
#include "scan.h"
#include "truncate.h"

/* Below this share of pages with dead line pointers, indexes may be bypassed ... */
#define BYPASS_MAX_PAGES 0.02
/* ... if the TIDs take no more memory than this */
#define BYPASS_MAX_BYTES ((size_t) 32 * 1024 * 1024)

/* The run of this process, for an exit that does not come by an ERROR. */
static VacuumRun *current_run = NULL;

static VacuumRun *run_create(Relation rel, VacuumParams *params, BufferAccessStrategy strategy);
static StepResult cover_table(VacuumRun *run);
static void clean_up(VacuumRun *run);
static StepResult wrap(VacuumRun *run);
static StepResult look_again(VacuumRun *run);
static void save_at_exit(int code, Datum arg);
static void stop_by_error(VacuumRun *run);
static void stop_in_time(VacuumRun *run);
static void update_catalog(VacuumRun *run);

/*
 * Vacuum one heap table; takes the place of the server's heap_vacuum_rel() and
 * keeps its contract.  In a transaction, with the table open and locked by
 * ShareUpdateExclusiveLock; strategy is the buffer ring to use.  Any of the
 * server's errors may be thrown.
 */
void
vacuum_run(Relation rel, struct VacuumParams *params, BufferAccessStrategy strategy)
{
	static bool exit_callback_registered = false;
	VacuumRun  *run = run_create(rel, params, strategy);
	ErrorContextCallback error_context;
	volatile StepResult covered = STEP_DONE;

	pgstat_progress_start_command(PROGRESS_COMMAND_VACUUM, RelationGetRelid(rel));

	plan_take_cutoffs(run);

	error_context.callback = report_error_context;
	error_context.arg = run;
	error_context.previous = error_context_stack;
	error_context_stack = &error_context;

	report_started(run);

	indexes_open(run);
	plan_work(run);
	run_check_failsafe(run);	/* before any parallel worker is started */
	indexes_prepare(run);

	/* from here on there is something to lose, whichever way we are stopped */
	if (!exit_callback_registered)
		before_shmem_exit(save_at_exit, 0);
	exit_callback_registered = true;
	current_run = run;
	PG_TRY();
	{
		cycle_load_pending(run);
		covered = cover_table(run);
		if (covered == STEP_DONE)
			clean_up(run);
	}
	PG_CATCH();
	{
		current_run = NULL;
		stop_by_error(run);
	}
	PG_END_TRY();
	current_run = NULL;

	if (covered == STEP_OUT_OF_TIME)
	{
		stop_in_time(run);
		error_context_stack = error_context.previous;
		pgstat_progress_end_command();
		report_finished(run);
		return;
	}

	error_context_stack = error_context.previous;

	update_catalog(run);
	cycle_finished(run);
	pgstat_progress_end_command();

	report_finished(run);
}

static VacuumRun *
run_create(Relation rel, VacuumParams *params, BufferAccessStrategy strategy)
{
	VacuumRun  *run = palloc0(sizeof(VacuumRun));

	run->context = CurrentMemoryContext;
	run->rel = rel;
	run->params = params;
	run->strategy = strategy;
	run->verbose = (params->options & VACOPT_VERBOSE) != 0;
	run->position.phase = RUN_STARTING;
	run->position.block = InvalidBlockNumber;

	/* the report counts what the look-ups below read, as the server's does */
	report_begin(run);

	/* copies: an error message must not depend on a catalog look-up */
	run->schema_name = get_namespace_name(RelationGetNamespace(rel));
	run->table_name = pstrdup(RelationGetRelationName(rel));

	return run;
}

/*
 * Near wraparound only freezing matters: give up index passes, truncation and
 * cost-based delay for the rest of the run, and say so once.
 *
 * Returns true if that is the case, from the first time on.
 */
bool
run_check_failsafe(VacuumRun *run)
{
	if (run->failsafe)
		return true;
	if (likely(!server_needs_failsafe(&run->pages.cutoffs)))
		return false;

	run->failsafe = true;
	run->vacuum_indexes = false;
	run->clean_up_indexes = false;
	run->truncate = false;

	ereport(WARNING,
			(errmsg("bypassing nonessential maintenance of table \"%s.%s.%s\" as a failsafe after %d index scans",
					get_database_name(MyDatabaseId), run->schema_name, run->table_name,
					run->done.index_passes),
			 errdetail("The table's relfrozenxid or relminmxid is too far in the past."),
			 errhint("Consider increasing configuration parameter \"maintenance_work_mem\" or \"autovacuum_work_mem\".\n"
					 "You might also need to consider other ways for VACUUM to keep up with the allocation of transaction IDs.")));

	server_lift_cost_limits();
	return true;
}

/*
 * So few pages with dead line pointers that removing their index entries can
 * wait?  Not if that has begun, nor unless the whole table's dead TIDs are in memory,
 * but for those that were removed with a set that an earlier run had completed.
 */
static bool
can_bypass_indexes(VacuumRun *run)
{
	BlockNumber threshold = (double) run->rel_blocks * BYPASS_MAX_PAGES;

	return run->vacuum_indexes && run->cycle.phase == CYCLE_SCANNING &&
		run->may_bypass_indexes &&
		run->cycle.set_pages < threshold &&
		run->dead.count < server_max_dead_tids(BYPASS_MAX_BYTES);
}

/*
 * Remove the dead TIDs from indexes and table, or what is left to do of that.
 */
static StepResult
vacuum_indexes_and_reap(VacuumRun *run)
{
	if (run->cycle.phase != CYCLE_REAPING)
	{
		if (run->cycle.phase != CYCLE_VACUUMING_INDEXES)
		{
			cycle_enter(run, CYCLE_VACUUMING_INDEXES);
			dead_tids_sort(&run->dead);
		}
		switch (indexes_vacuum(run))
		{
			case INDEX_PASS_COMPLETE:
				break;
			case INDEX_PASS_FAILSAFE:
				return STEP_DONE;	/* nothing may be reaped any more */
			case INDEX_PASS_OUT_OF_TIME:
				return STEP_OUT_OF_TIME;
		}
	}

	/* R6: all indexes are done, and the record says so before the first page is reaped */
	cycle_enter(run, CYCLE_REAPING);
	return reap_heap(run);
}

/*
 * Remove the collected dead TIDs from the indexes, then from the table, or
 * leave them for a later vacuum where that is wanted.  Empties the set, unless
 * the run's time is over.
 */
static StepResult
remove_dead_tids(VacuumRun *run)
{
	StepResult	result = STEP_DONE;

	Assert(run->nindexes > 0);

	if (can_bypass_indexes(run))
		run->vacuum_indexes = false;
	else if (run->vacuum_indexes)
		result = vacuum_indexes_and_reap(run);

	if (result == STEP_DONE)
	{
		if (!run->vacuum_indexes)
		{
			run->done.left_items += run->dead.count;
			run->done.left_pages += run->cycle.set_pages;
		}
		dead_tids_clear(&run->dead);
		cycle_set_emptied(run);
	}
	return result;
}

/*
 * Scan a range of blocks, removing dead TIDs from indexes and table whenever
 * there is no room for more.
 */
static StepResult
scan_range(VacuumRun *run, BlockNumber first, BlockNumber end, bool wrapping)
{
	StepResult	result;

	scan_begin(run, first, end, wrapping);
	while ((result = scan_heap(run)) == STEP_MEMORY_FULL)
	{
		run->may_bypass_indexes = false;
		result = remove_dead_tids(run);
		if (result != STEP_DONE)
			break;
		scan_vacuum_free_space_map(run);
	}
	scan_end(run);
	return result;
}

/* Estimate the table's rows from those on the pages that the cycle has scanned. */
static void
estimate_tuples(VacuumRun *run)
{
	CycleCounters sum = cycle_counters(run);

	run->cycle_scanned_pages = Min(sum.live_pages, run->rel_blocks);
	run->new_live_tuples = vac_estimate_reltuples(run->rel, run->rel_blocks,
												  run->cycle_scanned_pages, sum.live_tuples);
	run->new_rel_tuples = Max(run->new_live_tuples, 0) + sum.left_dead_tuples;
}

/* Make room for the pages that may be left alone for their pending TIDs: as many as have some. */
static void
make_room_to_wait(VacuumRun *run)
{
	Size		bytes = sizeof(BlockNumber) * ((Size) run->nlook_again + run->cycle.set_pages);

	if (run->look_again == NULL)
		run->look_again = palloc_extended(bytes, MCXT_ALLOC_HUGE);
	else
		run->look_again = repalloc_huge(run->look_again, bytes);
}

/*
 * An earlier run's wrap, which this one or a later one goes on with, has left pages
 * alone for their pending TIDs.  Take note of them before these are reaped.
 */
static void
take_over_waiting_pages(VacuumRun *run)
{
	OffsetNumber dead[MaxHeapTuplesPerPage];
	BlockNumber block;
	int64		position = 0;

	if (!run->cycle.base.wrap_waits || (run->wraps && plan_wraps_anew(run)))
		return;
	make_room_to_wait(run);
	while (dead_tids_next_page(&run->dead, &position, &block, dead) > 0 && block < run->wrap_from)
		run->look_again[run->nlook_again++] = block;
}

/*
 * Scan the head once more.
 *
 * If the last run was stopped in doing so, begin where it was.  What lies before
 * that is scanned as well, for VACUUM's promise holds from when this one began.
 * Autovacuum has made none, nor has a VACUUM that may take a certain time only, and
 * this way they get through a table whose head takes longer than they have.
 */
static StepResult
wrap(VacuumRun *run)
{
	StepResult	result;

	make_room_to_wait(run);
	dead_tids_begin_lower(&run->dead);
	result = scan_range(run, run->wrap_from, run->first_block, true);
	if (result == STEP_DONE && run->wrap_from > 0 && plan_wraps_anew(run))
	{
		run->wrapped_from_there = true;
		dead_tids_begin_lower(&run->dead);
		result = scan_range(run, 0, run->wrap_from, true);
	}
	return result;
}

/*
 * Scan those pages of the head that the wrap has left alone for their pending TIDs,
 * unless these are reaped and nothing else has happened there; and remove what that
 * brings, with what is in the set yet.
 */
static StepResult
look_again(VacuumRun *run)
{
	StepResult	result;

	for (; run->wraps && run->nlooked < run->nlook_again && !run->failsafe; run->nlooked++)
	{
		BlockNumber i = run->nlooked;

		if (!cycle_between_pages(run))
		{
			scan_end(run);
			return STEP_OUT_OF_TIME;
		}
		if (dead_tids_room(&run->dead) < MaxHeapTuplesPerPage)
		{
			run->may_bypass_indexes = false;
			scan_end(run);
			if ((result = remove_dead_tids(run)) != STEP_DONE)
				return result;
		}
		/* a wrap can consist of two ranges */
		if (i == 0 || run->look_again[i] < run->look_again[i - 1])
			dead_tids_begin_lower(&run->dead);
		scan_again(run, run->look_again[i]);
	}
	scan_end(run);
	return run->dead.count > 0 ? remove_dead_tids(run) : STEP_DONE;
}

/*
 * The work on the table's pages and indexes, but for cleanup.
 *
 * A run that continues a cycle first completes what was begun for the pending
 * TIDs, if their set is complete; then it scans the tail; then, unless it may
 * leave that to a later vacuum, the head once more, so that one index pass serves
 * both.
 */
static StepResult
cover_table(VacuumRun *run)
{
	StepResult	result = STEP_DONE;

	take_over_waiting_pages(run);
	cycle_begin(run);
	if (!run->vacuum_indexes && run->cycle.phase != CYCLE_SCANNING)
	{
		/* what was begun will not be completed; the set grows and is dropped in the end */
		run->cycle.phase = CYCLE_SCANNING;
		cycle_begin_new_set(run);
	}
	if (run->cycle.phase != CYCLE_SCANNING)
		result = remove_dead_tids(run);

	if (result == STEP_DONE)
		result = scan_range(run, run->first_block, run->rel_blocks, false);
	if (result == STEP_DONE && run->wraps)
		result = wrap(run);
	if (result != STEP_DONE)
		return result;

	/* what is not going to be reaped, no page need wait for */
	if (run->dead.count > 0 && !can_bypass_indexes(run))
		result = remove_dead_tids(run);
	if (result == STEP_DONE)
		result = look_again(run);
	if (result != STEP_DONE)
		return result;
	estimate_tuples(run);

	/* a run that continues a cycle has left ranges behind here and there */
	if (run->cycle.resumed)
		FreeSpaceMapVacuum(run->rel);
	else
		scan_vacuum_free_space_map(run);
	pgstat_progress_update_param(PROGRESS_VACUUM_HEAP_BLKS_VACUUMED, run->rel_blocks);
	cycle_enter(run, CYCLE_FINISHING);
	return STEP_DONE;
}

/* What is left to do once every page is covered; an interrupted run does it again. */
static void
clean_up(VacuumRun *run)
{
	indexes_clean_up(run);
	indexes_close(run);
	if (truncate_is_worthwhile(run))
		truncate_heap(run);
}

/* Exit by FATAL: the transaction is still as it was. */
static void
save_at_exit(int code, Datum arg)
{
	VacuumRun  *run = current_run;

	if (run == NULL)
		return;
	current_run = NULL;
	MemoryContextSwitchTo(run->context);
	cycle_stopped(run, CYCLE_TERMINATED);
}

/*
 * Called in PG_CATCH: save, and throw on.  The error is put aside meanwhile, so
 * that one of our own cannot take its place.
 */
static void
stop_by_error(VacuumRun *run)
{
	ErrorData  *error;

	MemoryContextSwitchTo(run->context);
	error = CopyErrorData();
	FlushErrorState();
	cycle_stopped(run, error->sqlerrcode == ERRCODE_QUERY_CANCELED ?
				  CYCLE_CANCELLED : CYCLE_FAILED);
	ReThrowError(error);
}

/*
 * The run's time is over: save, say how far it came, and let go of everything.
 */
static void
stop_in_time(VacuumRun *run)
{
	cycle_stopped(run, CYCLE_OUT_OF_TIME);

	/* what is said from here on is not about the page where it stopped */
	run_enter(run, RUN_STARTING, InvalidBlockNumber);
	run->clean_up_indexes = false;
	indexes_close(run);
	run->new_rel_blocks = run->rel_blocks;
	estimate_tuples(run);
	report_out_of_time(run);
}

/*
 * Update the table's pg_class row and its statistics.
 */
static void
update_catalog(VacuumRun *run)
{
	BlockNumber all_visible;
	double		left = plan_dead_rows_left(run);
	double		seen = run->new_live_tuples;

	/*
	 * They were counted as live ones when their pages were scanned.  pg_class keeps that
	 * count: a later vacuum takes it for the rows of pages that it skips, and would find
	 * these rows gone once more.
	 */
	run->new_live_tuples = Max(run->new_live_tuples - left, Min(run->new_live_tuples, 0));
	run->new_rel_tuples = Max(run->new_rel_tuples - left, 0);

	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, PROGRESS_VACUUM_PHASE_FINAL_CLEANUP);

	/*
	 * R7: relfrozenxid and relminmxid may advance to what was left unfrozen,
	 * unless pages were skipped that may hold older XIDs.  An aggressive run
	 * skips none, and its cycle has left nothing before its limits.
	 */
	run->new_frozen = run->pages.carry;
	if (run->skipped_all_visible)
	{
		Assert(!run->pages.aggressive);
		run->new_frozen.xid = InvalidTransactionId;
		run->new_frozen.mxid = InvalidMultiXactId;
	}
	Assert(!run->pages.aggressive || promise_is_kept(run));

	/* the map can be longer than the table by now */
	run->new_rel_blocks = run->rel_blocks;
	visibilitymap_count(run->rel, &all_visible, NULL);
	all_visible = Min(all_visible, run->new_rel_blocks);

	server_update_relstats(run->rel, run->new_rel_blocks, seen, all_visible,
						   run->nindexes > 0, &run->new_frozen,
						   &run->frozenxid_updated, &run->minmulti_updated);

	/*
	 * Line pointers that a bypass left dead are not reported as dead rows: it
	 * must not bring the next autovacuum about at once.  What a run has left in
	 * the head is reported, and brings it about when there is enough of it (R10).
	 */
	server_report_vacuum(run->rel, Max(run->new_live_tuples, 0),
						 run->new_rel_tuples - Max(run->new_live_tuples, 0) + left);
}
