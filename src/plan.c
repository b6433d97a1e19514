/*
 * plan.c
 *	  What a run is going to do: cutoffs, extent, and which steps.
 */
#include "postgres.h"

#include "storage/bufmgr.h"
#include "utils/snapmgr.h"

#include "cycle.h"
#include "history_row.h"
#include "plan.h"

/*
 * Decide what the run may remove and has to freeze, and whether it is an
 * aggressive one.
 */
void
plan_take_cutoffs(VacuumRun *run)
{
	VacuumParams *params = run->params;
	PageContext *pages = &run->pages;

	pages->rel = run->rel;
	pages->error_offset = &run->position.offset;
	pages->aggressive = server_take_cutoffs(run->rel, params, &pages->cutoffs);

	run->skip_with_map = true;
	if (params->options & VACOPT_DISABLE_PAGE_SKIPPING)
	{
		pages->aggressive = true;
		run->skip_with_map = false;
	}
}

/*
 * Decide on extent and steps, and whether the run continues an earlier one's
 * cycle.
 *
 * The size is taken after the cutoffs: a row with an XID before oldest_xmin
 * was on disk by then, so no page beyond this size can hold one.
 */
void
plan_work(VacuumRun *run)
{
	VacuumParams *params = run->params;
	PageContext *pages = &run->pages;

	run->may_bypass_indexes = true;
	run->vacuum_indexes = true;
	run->clean_up_indexes = true;
	run->truncate = params->truncate != VACOPTVALUE_DISABLED;
	switch (params->index_cleanup)
	{
		case VACOPTVALUE_DISABLED:
			run->vacuum_indexes = false;
			run->clean_up_indexes = false;
			break;
		case VACOPTVALUE_ENABLED:
			run->may_bypass_indexes = false;
			break;
		case VACOPTVALUE_AUTO:
		case VACOPTVALUE_UNSPECIFIED:
			break;
	}

	run->old_live_tuples = run->rel->rd_rel->reltuples;
	run->first_block = 0;
	run->rel_blocks = run->rel_blocks_at_start = RelationGetNumberOfBlocks(run->rel);

	pages->vistest = GlobalVisTestFor(run->rel);
	pages->carry.xid = pages->cutoffs.oldest_xmin;
	pages->carry.mxid = pages->cutoffs.oldest_mxid;

	history_begin(run);

	/* from here on, what an earlier run has done */
	run->history.decision.plan = cycle_take_up(run) ? 2 : 0;
	run->history.decision.reason = run->cycle.resumed;
	run->scan.next_block = run->first_block;
}
