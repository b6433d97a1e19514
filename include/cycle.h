/*
 * cycle.h
 *	  The course of a run, as its record has it, and continuing an earlier run's.
 *
 * The steps of a run call cycle_enter() when they change phase and
 * cycle_between_pages() where nothing is locked; the rest they need not know.
 */
#ifndef PGVR_CYCLE_H
#define PGVR_CYCLE_H

#include "access/xlogdefs.h"
#include "run.h"

extern bool cycle_take_up(VacuumRun *run);
extern void cycle_load_pending(VacuumRun *run);
extern void cycle_begin(VacuumRun *run);
extern void cycle_enter(VacuumRun *run, CyclePhase phase);
extern void cycle_begin_new_set(VacuumRun *run);
extern void cycle_set_emptied(VacuumRun *run);
extern void cycle_index_done(VacuumRun *run, int i);
extern bool cycle_index_is_done(VacuumRun *run, int i);
extern bool cycle_between_pages(VacuumRun *run);
extern bool cycle_between_indexes(VacuumRun *run);
extern bool cycle_may_reap(VacuumRun *run, BlockNumber block);
extern void cycle_distrust_pending(VacuumRun *run);
extern CycleCounters cycle_counters(VacuumRun *run);
extern void cycle_stopped(VacuumRun *run, CycleStop stop);
extern void cycle_finished(VacuumRun *run);

extern TableKey cycle_key(Relation rel);
extern bool cycle_is_over(Relation rel, const Cutoffs *cutoffs, bool aggressive,
						  const CycleRecord *record, DecideReason *why);
extern uint64 cycle_full_xid(TransactionId xid);
extern void cycle_forget(Relation rel, const char *why);

/*
 * R1: what we know of a page rests on WAL up to its LSN, whoever wrote it.
 * Called with the page locked, or pinned for a page of the visibility map.
 */
static inline void
cycle_rests_on(VacuumRun *run, XLogRecPtr lsn)
{
	if (lsn > run->cycle.lsn)
		run->cycle.lsn = lsn;
}

#endif							/* PGVR_CYCLE_H */
