/*
 * reap.h
 *	  The second heap pass.
 */
#ifndef PGVR_REAP_H
#define PGVR_REAP_H

#include "run.h"

extern StepResult reap_heap(VacuumRun *run);
extern void reap_page(VacuumRun *run, Buffer buf, BlockNumber block,
					  const OffsetNumber *dead, int ndead, Buffer *vmbuffer);

#endif							/* PGVR_REAP_H */
