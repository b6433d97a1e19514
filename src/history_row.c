/*
 * history_row.c
 *	  A run's entry in history.
 *
 * History has one entry for each run that was ours, but for those on temporary
 * tables.  It is written in the transaction that changes the table's record when
 * the run ends.  A run that is killed writes none; but each save keeps in the
 * record what the run has done so far, and the next run that finds it there, or
 * whoever removes the record, enters it into history.
 */
#include "postgres.h"

#include "access/transam.h"
#include "executor/instrument.h"
#include "utils/timestamp.h"

#include "cycle.h"
#include "history.h"
#include "history_row.h"
#include "store.h"

/*
 * Note what is known of a run when it begins.  Called once its cutoffs and extent
 * are known.
 */
void
history_begin(VacuumRun *run)
{
	RunRecord  *row = &run->history;
	RunDecision *decision = &row->decision;

	row->key = cycle_key(run->rel);
	row->started = GetCurrentTimestamp();
	row->autovacuum = server_is_autovacuum_worker();
	row->aggressive = run->pages.aggressive;
	row->rel_blocks = run->rel_blocks_at_start;
	row->frozenxid_before = cycle_full_xid(run->pages.cutoffs.relfrozenxid);
	strlcpy(row->schema_name, run->schema_name, sizeof(row->schema_name));
	strlcpy(row->table_name, run->table_name, sizeof(row->table_name));

	decision->plan = PLAN_RESTART;
	decision->reason = BECAUSE_NOTHING_TO_CONTINUE;
	decision->ahead = decision->behind = -1;
	decision->tail_dead = decision->head_dead = -1;
	for (int i = 0; i < VACUUM_PLANS; i++)
		decision->plans[i] = (PlanForecast) {-1, -1};
}

/* Note what was decided about an earlier run's record, and what for. */
void
history_note_decision(VacuumRun *run)
{
	const Decision *decided = &run->decision;
	RunDecision *decision = &run->history.decision;

	decision->plan = decided->plan;
	decision->reason = decided->reason;
	decision->ahead = run->facts.ahead;
	decision->behind = run->facts.behind;
	decision->tail_dead = decided->tail_dead;
	decision->head_dead = decided->head_dead;
	decision->expected_work = run->facts.expected_work;
	for (int i = 0; i < VACUUM_PLANS; i++)
		decision->plans[i] = (PlanForecast) {decided->plans[i].work,
			decided->plans[i].dead_rows_removed};
}

/* Pages of the index at work that were read so far. */
static BlockNumber
pages_of_index_at_work(VacuumRun *run)
{
	int64		accesses = pgBufferUsage.shared_blks_hit + pgBufferUsage.shared_blks_read -
	run->index_accesses;

	if (run->position.phase != RUN_VACUUMING_INDEX)
		return 0;
	return Min(accesses, run->index_blocks);
}

/*
 * The run's entry, as if it ended now; CYCLE_RUNNING for a save on the way.
 */
RunRecord
history_row(VacuumRun *run, CycleStop stop)
{
	const RunCounters *done = &run->done;
	RunRecord	row = run->history;

	row.ended = GetCurrentTimestamp();
	row.stop = stop;
	row.from_block = run->first_block;
	row.to_block = stop == CYCLE_FINISHED || run->scan.wrapping ?
		run->rel_blocks_at_start : run->scan.next_block;

	row.scanned_pages = done->scanned_pages - done->rescanned_pages;
	row.rescanned_pages = done->rescanned_pages;
	row.skipped_pages = Max((int64) row.to_block - row.from_block - row.scanned_pages, 0);
	row.verified_pages = done->verified_pages;
	row.reaped_pages = done->reaped_pages;
	row.index_pages = done->index_pages + pages_of_index_at_work(run);
	row.index_scans = done->index_scans;
	row.tuples_deleted = done->tuples_deleted;
	row.reaped_tids = done->reaped_tids;
	row.work = (double) row.scanned_pages + row.rescanned_pages + row.verified_pages +
		row.reaped_pages + row.index_pages;

	row.frozenxid_after = stop == CYCLE_FINISHED && run->frozenxid_updated ?
		cycle_full_xid(run->new_frozen.xid) : row.frozenxid_before;
	return row;
}

/*
 * The run that a record, which is sound and of a table that nobody vacuums now,
 * shows to have been killed; NULL if it has come to an end of its own, and so is
 * in history already.
 */
const RunRecord *
history_killed_run(const CycleRecord *record)
{
	return record->stop == CYCLE_RUNNING ? &record->run : NULL;
}

/*
 * How much work is a run on the table likely to get done before it is stopped, in
 * pages?  0 if no limit is known.  limited: it has a maximum duration.
 */
double
history_work_before_stop(Relation rel, bool limited)
{
	TableKey	key = cycle_key(rel);
	RunRecord  *runs;
	int			nruns;
	double		work = 0;

	if (store_last_runs(&key, &runs, &nruns, HISTORY_RUNS) == STORE_OK)
		work = history_expected_work(runs, history_that_counts(runs, nruns, limited));
	if (runs != NULL)
		pfree(runs);
	return work;
}
