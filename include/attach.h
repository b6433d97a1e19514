/*
 * attach.h
 *	  How we get in front of the heap's VACUUM.
 */
#ifndef PGVR_ATTACH_H
#define PGVR_ATTACH_H

extern bool attach_to_heap(void);
extern void require_preloaded(void);

#endif							/* PGVR_ATTACH_H */
