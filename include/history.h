/*
 * history.h
 *	  What history tells of runs.
 *
 * No server headers: the inspection tool and a unit test share it.
 */
#ifndef PGVR_HISTORY_H
#define PGVR_HISTORY_H

#include "record.h"

/* Runs of a table that are worth asking history_expected_work() about */
#define HISTORY_RUNS 32

extern double history_expected_work(const RunRecord *runs, int nruns);

extern int	history_that_counts(RunRecord *runs, int nruns, bool limited);

#endif							/* PGVR_HISTORY_H */
