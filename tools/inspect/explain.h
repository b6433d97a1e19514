/*
 * explain.h
 *	  What the next vacuum of a table would do, and why.
 */
#ifndef PGVR_EXPLAIN_H
#define PGVR_EXPLAIN_H

#include "output.h"
#include "record.h"

extern bool explain_knows_kind(const char *by);
extern void explain_print(const char *data_directory, const char *database,
						  const CycleRecord *cycle, const RunRecord *runs, int nruns,
						  const char *by, OutputFormat format);

#endif							/* PGVR_EXPLAIN_H */
