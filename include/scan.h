/*
 * scan.h
 *	  The first heap pass.
 */
#ifndef PGVR_SCAN_H
#define PGVR_SCAN_H

#include "run.h"

extern void scan_begin(VacuumRun *run, BlockNumber first, BlockNumber end, bool wrapping);
extern StepResult scan_heap(VacuumRun *run);
extern void scan_again(VacuumRun *run, BlockNumber block);
extern void scan_end(VacuumRun *run);
extern void scan_vacuum_free_space_map(VacuumRun *run);

#endif							/* PGVR_SCAN_H */
