/*
 * plan.h
 *	  What a run is going to do.
 */
#ifndef PGVR_PLAN_H
#define PGVR_PLAN_H

#include "run.h"

extern void plan_take_cutoffs(VacuumRun *run);
extern void plan_work(VacuumRun *run);

#endif							/* PGVR_PLAN_H */
