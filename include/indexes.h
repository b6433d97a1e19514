/*
 * indexes.h
 *	  Index passes: removing dead TIDs from indexes, and cleaning indexes up.
 */
#ifndef PGVR_INDEXES_H
#define PGVR_INDEXES_H

#include "run.h"

typedef enum IndexPass
{
	INDEX_PASS_COMPLETE,
	INDEX_PASS_FAILSAFE,
	INDEX_PASS_OUT_OF_TIME
} IndexPass;

extern void indexes_open(VacuumRun *run);
extern void indexes_prepare(VacuumRun *run);
extern IndexPass indexes_vacuum(VacuumRun *run);
extern void indexes_clean_up(VacuumRun *run);
extern void indexes_close(VacuumRun *run);

#endif							/* PGVR_INDEXES_H */
