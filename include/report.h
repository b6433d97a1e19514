/*
 * report.h
 *	  What a run tells people.
 */
#ifndef PGVR_REPORT_H
#define PGVR_REPORT_H

#include "run.h"

extern void report_begin(VacuumRun *run);
extern void report_started(VacuumRun *run);
extern void report_decision(VacuumRun *run, const CycleRecord *record);
extern void report_interrupted(VacuumRun *run);
extern void report_out_of_time(VacuumRun *run);
extern void report_finished(VacuumRun *run);
extern void report_error_context(void *arg);

#endif							/* PGVR_REPORT_H */
