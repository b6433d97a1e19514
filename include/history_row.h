/*
 * history_row.h
 *	  A run's entry in history.
 */
#ifndef PGVR_HISTORY_ROW_H
#define PGVR_HISTORY_ROW_H

#include "run.h"

extern void history_begin(VacuumRun *run);
extern RunRecord history_row(VacuumRun *run, CycleStop stop);
extern const RunRecord *history_killed_run(const CycleRecord *record);
extern void history_note_decision(VacuumRun *run);
extern double history_work_before_stop(Relation rel, bool limited);

#endif							/* PGVR_HISTORY_ROW_H */
