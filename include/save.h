/*
 * save.h
 *	  Saving the state of a run.
 */
#ifndef PGVR_SAVE_H
#define PGVR_SAVE_H

#include "run.h"

extern void save_progress(VacuumRun *run, CycleStop stop);
extern void save_give_up(VacuumRun *run, bool may_wait);
extern void save_warn_once(VacuumRun *run, const char *what, bool too_small);

#endif							/* PGVR_SAVE_H */
