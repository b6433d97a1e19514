/*
 * plan.c
 *	  What a run is going to do: cutoffs, extent, which steps, and whether it
 *	  continues an earlier one.
 */
#include "postgres.h"

#include "storage/bufmgr.h"
#include "utils/snapmgr.h"

#include "command.h"
#include "cycle.h"
#include "estimate.h"
#include "facts.h"
#include "instance.h"
#include "history_row.h"
#include "plan.h"
#include "report.h"
#include "settings.h"
#include "vm.h"

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
	(void) cycle_take_up(run);
	run->scan.next_block = run->first_block;
}

/*
 * Gather what the decision rests on, but for who asks (mode, may_leave_head) and how
 * long that is likely to last (expected_work); wraps_anew: see facts_of_record().
 * record is what there is to continue, or NULL; rel_blocks the table's size.  fresh:
 * statistics as they are now, not as this transaction has read them before.  The
 * table and its indexes are locked; reading the map may throw.
 */
void
plan_facts(Relation rel, Relation *indexes, int nindexes, BlockNumber rel_blocks,
		   const CycleRecord *record, bool aggressive, bool fresh, bool wraps_anew,
		   DecisionInput *input)
{
	BlockNumber cursor = record != NULL ? record->next_block : 0;
	Estimate	now = {0};

	estimate_pages(rel, cursor, rel_blocks, aggressive, &now);
	estimate_rows(rel, fresh, &now);
	now.threshold = estimate_threshold(rel);
	estimate_indexes(indexes, nindexes, NULL, &now);
	if (record != NULL)
	{
		facts_of_record(record, rel_blocks, &now, instance_vouches_for(record), wraps_anew, input);
		input->ahead_appended = vm_count(rel, record->rel_blocks, rel_blocks, false).not_visible;
	}
	else
		facts_of_table(rel_blocks, &now, input);

	input->aggressive = aggressive;
}

/* What the setting asks for. */
DecideMode
plan_mode(void)
{
	switch ((ResumeMode) setting_mode)
	{
		case RESUME_MODE_AUTO:
			return DECIDE_AUTO;
		case RESUME_MODE_RESUME:
			return DECIDE_RESUME;
		case RESUME_MODE_RESTART:
			return DECIDE_RESTART;
	}
	pg_unreachable();
}

/* What was asked for: VACUUM's option goes before the setting. */
static DecideMode
mode_asked_for(void)
{
	const VacuumCommandOptions *options = command_options();

	if (options->resume_given)
		switch (options->resume)
		{
			case RESUME_OPTION_AUTO:
				return DECIDE_AUTO;
			case RESUME_OPTION_ON:
				return DECIDE_RESUME;
			case RESUME_OPTION_OFF:
				return DECIDE_RESTART;
		}
	return plan_mode();
}

/*
 * Decide what to do about the record of a cycle that this run could continue, and
 * say so.
 *
 * R10: a plain VACUUM leaves nothing behind that was dead when it began.
 * Autovacuum has not promised that, nor has VACUUM (RESUME).
 */
void
plan_decide(VacuumRun *run, const CycleRecord *record)
{
	const VacuumCommandOptions *options = command_options();
	DecisionInput *facts = &run->facts;

	plan_facts(run->rel, run->indexes, run->nindexes, run->rel_blocks, record,
			   run->pages.aggressive, true, plan_wraps_anew(run), facts);
	facts->expected_work = history_work_before_stop(run->rel, run->cycle.max_duration != 0);
	facts->mode = mode_asked_for();
	facts->may_leave_head = server_is_autovacuum_worker() ||
		(options->resume_given && options->resume == RESUME_OPTION_ON);

	run->decided = true;
	decide(facts, &run->decision);
	history_note_decision(run);
	report_decision(run, record);
}

/*
 * Does a wrap that an earlier run has begun have to begin anew?  VACUUM's promise
 * (R10) holds from when it began; autovacuum has made none, nor has a VACUUM that may
 * take a certain time only.
 */
bool
plan_wraps_anew(VacuumRun *run)
{
	return !server_is_autovacuum_worker() && run->cycle.max_duration == 0;
}

/* Up to which block has the run left the head to a later one? */
static BlockNumber
left_below(VacuumRun *run)
{
	if (!run->cycle.resumed)
		return 0;
	if (!run->wraps)
		return Min(run->first_block, run->rel_blocks);
	return plan_wraps_anew(run) ? 0 : Min(run->wrap_from, run->rel_blocks);
}

/*
 * While pg_stat's count of dead rows goes on, it counts what the cycle has removed as well
 * as what is left, so the rest is left.  The rows that row pointers stood for which were
 * dead before they were collected may have been removed in that sense or may not: hence
 * there is a least and a most.
 * Those that are reported elsewhere are not meant.  pages: that have a dead row at least.
 */
static double
within_what_is_counted(const VacuumRun *run, const RowCounts *now, double rows, double pages)
{
	const CycleCounters *before = &run->cycle.base.counters;
	double		removed = (double) before->tuples_deleted + run->done.tuples_deleted;
	double		collected = (double) before->dead_items + run->done.dead_items;
	double		counted = now->dead - Max(run->new_rel_tuples - Max(run->new_live_tuples, 0), 0);

	if (!facts_same_count(&run->cycle.base.estimate.rows_at_start, now))
		return rows;

	/* if more is removed than that, there are rows of which it does not know, as after a crash */
	if (counted >= removed)
		rows = Min(rows, Max(counted - removed, pages));
	return Max(rows, counted - Max(removed, collected));
}

/*
 * How many dead rows a run that has left the head to a later one, or the part that an
 * earlier run's wrap has been to, has left there: what was estimated when that was
 * decided, and its share of those that died since.  Those that the cycle's scan could
 * not remove are counted elsewhere.
 */
double
plan_dead_rows_left(VacuumRun *run)
{
	const Decision *decision = &run->decision;
	BlockNumber end = left_below(run);
	double		dead_then = run->facts.dead_now;
	RowCounts	now;
	double		pages;
	double		share = 1;
	double		least = 0;
	double		rows = decision->head_dead - run->cycle.base.counters.left_dead_tuples;

	if (end == 0 || (pages = vm_count(run->rel, 0, end, false).not_visible) == 0)
		return 0;				/* what was taken for the head's is elsewhere */
	/*
	 * Of the pages with such rows, the wrap has been to some; the others have one at least,
	 * but for those whose dead line pointers stay.
	 */
	if (run->wraps)
	{
		share = pages / (pages + run->done.rescanned_pages);
		least = Max(pages - (run->vacuum_indexes ? 0 : run->done.left_pages) -
					run->cycle.base.counters.left_dead_tuples, 0);
	}

	now = server_row_counts(run->rel, true);
	rows += decision->head_share *
		decide_rows_that_came(dead_then, now.dead, run->facts.gone_now, now.gone);
	if (dead_then < 0 || now.dead < dead_then)
	{
		/* the count does not tell: one for each page, but for those whose pending TIDs stay */
		if (!run->vacuum_indexes)
			pages -= Min(run->cycle.base.estimate.pending_pages, run->done.left_pages);
		rows = Max(rows, pages);
	}
	return within_what_is_counted(run, &now, Max(rows * share, least),
								  run->wraps ? least : pages - run->done.left_pages);
}
