/*
 * promise.h
 *	  What an aggressive vacuum has to freeze (R7).
 */
#ifndef PGVR_PROMISE_H
#define PGVR_PROMISE_H

#include "run.h"

extern Promise promise_of(const Cutoffs *cutoffs);
extern bool promise_broken(const Cutoffs *cutoffs, bool aggressive, const CycleRecord *record,
						   DecideReason *why);
extern bool promise_is_kept(VacuumRun *run);

#endif							/* PGVR_PROMISE_H */
