/*
 * attach.h
 *	  How we get in front of the heap's VACUUM.
 */
#ifndef PGVR_ATTACH_H
#define PGVR_ATTACH_H

#include "utils/rel.h"

extern bool attach_to_heap(void);
extern bool attach_is_ours(Relation rel);
extern void require_preloaded(void);

#endif							/* PGVR_ATTACH_H */
