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
#include "utils/lsyscache.h"

#include "command.h"
#include "indexes.h"
#include "plan.h"
#include "reap.h"
#include "report.h"
#include "run.h"
#include "scan.h"
#include "truncate.h"

/* Below this share of pages with dead line pointers, indexes may be bypassed ... */
#define BYPASS_MAX_PAGES 0.02
/* ... if the TIDs take no more memory than this */
#define BYPASS_MAX_BYTES ((size_t) 32 * 1024 * 1024)

static VacuumRun *run_create(Relation rel, VacuumParams *params, BufferAccessStrategy strategy);
static void remove_dead_tids(VacuumRun *run);
static void estimate_tuples(VacuumRun *run);
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
	VacuumRun  *run = run_create(rel, params, strategy);
	ErrorContextCallback error_context;

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

	/* first heap pass; it pauses when there is no room for a page's dead TIDs */
	scan_begin(run);
	while (!scan_heap(run))
	{
		run->may_bypass_indexes = false;
		remove_dead_tids(run);
		scan_vacuum_free_space_map(run);
	}
	scan_end(run);

	estimate_tuples(run);
	if (run->dead.count > 0)
		remove_dead_tids(run);
	scan_vacuum_free_space_map(run);
	pgstat_progress_update_param(PROGRESS_VACUUM_HEAP_BLKS_VACUUMED, run->rel_blocks);

	indexes_clean_up(run);
	indexes_close(run);

	if (truncate_is_worthwhile(run))
		truncate_heap(run);

	error_context_stack = error_context.previous;

	update_catalog(run);
	pgstat_progress_end_command();

	report_finished(run);
}

static VacuumRun *
run_create(Relation rel, VacuumParams *params, BufferAccessStrategy strategy)
{
	VacuumRun  *run = palloc0(sizeof(VacuumRun));

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
 * wait?  Only asked when the whole table's dead TIDs are in memory.
 */
static bool
can_bypass_indexes(VacuumRun *run)
{
	BlockNumber threshold = (double) run->rel_blocks * BYPASS_MAX_PAGES;

	return run->may_bypass_indexes &&
		run->done.dead_item_pages < threshold &&
		run->done.dead_items < server_max_dead_tids(BYPASS_MAX_BYTES);
}

/*
 * Remove the collected dead TIDs from the indexes, then from the table, or
 * leave them for a later vacuum where that is wanted.  Empties the set.
 */
static void
remove_dead_tids(VacuumRun *run)
{
	Assert(run->nindexes > 0);

	if (run->vacuum_indexes)
	{
		if (can_bypass_indexes(run))
			run->vacuum_indexes = false;
		else if (indexes_vacuum(run))
			reap_heap(run);
		else
			Assert(run->failsafe);	/* nothing may be reaped any more */
	}

	dead_tids_clear(&run->dead);
}

/* Estimate the table's rows from those on the pages that were scanned. */
static void
estimate_tuples(VacuumRun *run)
{
	run->new_live_tuples = vac_estimate_reltuples(run->rel, run->rel_blocks,
												  run->done.scanned_pages,
												  run->done.live_tuples);
	run->new_rel_tuples = Max(run->new_live_tuples, 0) +
		run->done.recently_dead_tuples + run->done.missed_dead_tuples;
}

/*
 * Update the table's pg_class row and its statistics.
 */
static void
update_catalog(VacuumRun *run)
{
	const Cutoffs *cutoffs PG_USED_FOR_ASSERTS_ONLY = &run->pages.cutoffs;
	BlockNumber all_visible;

	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, PROGRESS_VACUUM_PHASE_FINAL_CLEANUP);

	/*
	 * R7: relfrozenxid and relminmxid may advance to what was left unfrozen,
	 * unless pages were skipped that may hold older XIDs.  An aggressive run
	 * skips none, and has left nothing before its own limits.
	 */
	run->new_frozen = run->pages.carry;
	if (run->skipped_all_visible)
	{
		Assert(!run->pages.aggressive);
		run->new_frozen.xid = InvalidTransactionId;
		run->new_frozen.mxid = InvalidMultiXactId;
	}
	Assert(!run->pages.aggressive ||
		   (TransactionIdPrecedesOrEquals(cutoffs->freeze_limit, run->new_frozen.xid) &&
			MultiXactIdPrecedesOrEquals(cutoffs->multixact_cutoff, run->new_frozen.mxid)));

	/* the map can be longer than the table by now */
	run->new_rel_blocks = run->rel_blocks;
	visibilitymap_count(run->rel, &all_visible, NULL);
	all_visible = Min(all_visible, run->new_rel_blocks);

	server_update_relstats(run->rel, run->new_rel_blocks, run->new_live_tuples, all_visible,
						   run->nindexes > 0, &run->new_frozen,
						   &run->frozenxid_updated, &run->minmulti_updated);

	/*
	 * Line pointers that a bypass left dead are not reported as dead rows: it
	 * must not bring the next autovacuum about at once.
	 */
	server_report_vacuum(run->rel, Max(run->new_live_tuples, 0),
						 run->done.recently_dead_tuples + run->done.missed_dead_tuples);
}
