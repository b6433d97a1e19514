/*
 * drop.h
 *	  Forgetting tables that are dropped.
 */
#ifndef PGVR_DROP_H
#define PGVR_DROP_H

extern void drop_install(void);

#endif							/* PGVR_DROP_H */
