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
extern void history_look_back(Relation rel, double *work_before_stop, bool *gave_up);

#endif							/* PGVR_HISTORY_ROW_H */
