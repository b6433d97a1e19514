/*
 * forget.h
 *	  Making the next vacuum of a table start over.
 */
#ifndef PGVR_FORGET_H
#define PGVR_FORGET_H

#include <stdbool.h>

#include "record.h"

extern bool forget_table(const char *data_directory, const char *database,
						 const char *problem, const CycleRecord *cycle);

#endif							/* PGVR_FORGET_H */
