/*
 * facts.c
 *	  From a record to the facts that a decision rests on.
 *
 * No server headers: the extension gives the estimate that it has just taken, the
 * inspection tool, when the server is down, the one that was saved.
 */
#include "facts.h"

static int64_t
not_negative(int64_t pages)
{
	return pages > 0 ? pages : 0;
}

/* Has the count of dead rows gone on from one moment to the other? */
bool
facts_same_count(const RowCounts *before, const RowCounts *after)
{
	return before->dead >= 0 && after->dead >= 0 && before->analyses == after->analyses &&
		before->gone <= after->gone;
}

/*
 * Which share of the pending TIDs is to be collected again, because a run that was
 * killed while it reaped may have reaped these already (R6)?  By blocks, for the list
 * itself is not at hand.
 */
static double
share_to_collect_again(const CycleRecord *record)
{
	uint32_t	until = record->reap_until_block < record->next_block ?
		record->reap_until_block : record->next_block;

	if (record->phase != CYCLE_REAPING || record->stop != CYCLE_RUNNING ||
		record->reap_next_block >= until)
		return 0;
	return (double) (until - record->reap_next_block) /
		(record->next_block - record->reap_next_block);
}

/*
 * The facts about a table of which there is no record, or none to be continued:
 * all of its vacuumable pages lie ahead.
 */
void
facts_of_table(uint64_t rel_blocks, const Estimate *now, DecisionInput *input)
{
	*input = (DecisionInput) {0};
	input->rel_blocks = rel_blocks;
	input->ahead = not_negative(now->ahead) + not_negative(now->behind);
	input->ahead_to_freeze = not_negative(now->ahead_to_freeze);
	input->ahead_gaps = not_negative(now->ahead_gaps) + not_negative(now->behind_gaps);
	input->index_pages = not_negative(now->index_pages);
	input->dead_at_start = input->dead_at_save = input->dead_now = now->rows.dead;
	input->gone_at_start = input->gone_at_save = input->gone_now = now->rows.gone;
	input->threshold = now->threshold;
}

/*
 * The facts about a table with a record that can be continued.  trusted: pending
 * TIDs and finished indexes can be taken as they are (R4).  wraps_anew: whoever asks
 * has promised what a plain VACUUM does.  What else depends on who asks (mode,
 * may_leave_head), on history, and on the map of what the table has grown by is left
 * at nothing.
 */
void
facts_of_record(const CycleRecord *record, uint64_t rel_blocks, const Estimate *now,
				bool trusted, bool wraps_anew, DecisionInput *input)
{
	const Estimate *then = &record->estimate;
	double		again = share_to_collect_again(record);
	int64_t		tids_again = 0;

	facts_of_table(rel_blocks, now, input);
	input->has_record = true;
	input->next_block = record->next_block < rel_blocks ? record->next_block : rel_blocks;
	input->ahead = not_negative(now->ahead);
	input->behind = not_negative(now->behind);
	input->ahead_gaps = not_negative(now->ahead_gaps);
	input->behind_gaps = not_negative(now->behind_gaps);
	input->ahead_at_save = not_negative(then->ahead);
	input->ahead_gaps_at_save = not_negative(then->ahead_gaps);
	input->ahead_to_freeze_at_save = not_negative(then->ahead_to_freeze);
	if (rel_blocks > record->rel_blocks)
		input->appended_blocks = rel_blocks - record->rel_blocks;
	input->behind_at_save = not_negative(then->behind);
	input->scanned_pages = not_negative(record->counters.scanned_pages);
	if (!record->pending_lost)
	{
		tids_again = not_negative(then->pending_tids) * again;
		input->pending_pages = not_negative(then->pending_pages) * (1 - again);
		input->pending_tids = not_negative(then->pending_tids) - tids_again;
	}
	input->must_verify = !trusted;
	/* when they are removed before anything is scanned: see cycle_load_pending() */
	input->set_complete = record->phase == CYCLE_REAPING ||
		(trusted && (record->phase == CYCLE_VACUUMING_INDEXES || (record->wrapping && wraps_anew)));
	input->reaping = record->phase == CYCLE_REAPING;
	if (trusted)
		input->index_pages_done = not_negative(then->index_pages_done);
	input->dead_at_start = then->rows_at_start.dead;
	input->dead_at_save = then->rows.dead;
	input->gone_at_start = then->rows_at_start.gone;
	input->gone_at_save = then->rows.gone;
	/* those that queries had pruned before are counted when they are collected, once if none is lost */
	if (facts_same_count(&then->rows_at_start, &then->rows))
	{
		input->removed_rows = not_negative(record->counters.tuples_deleted);
		if (record->lost_tids == 0 && record->counters.dead_items > input->removed_rows)
			input->removed_rows = record->counters.dead_items;
	}
	input->dead_left = not_negative(record->counters.left_dead_tuples) +
		not_negative(record->lost_tids) + tids_again;
	input->restarted_before = record->gave_up != 0;
}
