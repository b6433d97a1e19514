/*
 * drop.h
 *	  Forgetting tables that are dropped.
 */
#ifndef PGVR_DROP_H
#define PGVR_DROP_H

#include <stdbool.h>

#include "record.h"

extern void drop_install(void);
extern bool drop_was_missed(const TableKey *key);

#endif							/* PGVR_DROP_H */
