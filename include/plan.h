/*
 * plan.h
 *	  What a run is going to do.
 */
#ifndef PGVR_PLAN_H
#define PGVR_PLAN_H

#include "run.h"

extern void plan_take_cutoffs(VacuumRun *run);
extern void plan_work(VacuumRun *run);
extern void plan_decide(VacuumRun *run, const CycleRecord *record);
extern bool plan_wraps_anew(VacuumRun *run);
extern double plan_dead_rows_left(VacuumRun *run);

extern DecideMode plan_mode(void);
extern void plan_facts(Relation rel, Relation *indexes, int nindexes, BlockNumber rel_blocks,
					   const CycleRecord *record, bool aggressive, bool fresh,
					   bool wraps_anew, DecisionInput *input);

#endif							/* PGVR_PLAN_H */
