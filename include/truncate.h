/*
 * truncate.h
 *	  Giving an empty tail back to the operating system.
 */
#ifndef PGVR_TRUNCATE_H
#define PGVR_TRUNCATE_H

#include "run.h"

extern bool truncate_is_worthwhile(VacuumRun *run);
extern void truncate_heap(VacuumRun *run);

#endif							/* PGVR_TRUNCATE_H */
