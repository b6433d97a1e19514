/*
 * reader.h
 *	  Reading a data directory's store, whether its server is up or down.
 */
#ifndef PGVR_READER_H
#define PGVR_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "record.h"

/* All that the store holds, of one moment */
typedef struct StoreContent
{
	CycleRecord *cycles;
	int			ncycles;
	IndexRecord *indexes;
	TableKey   *index_tables;	/* whose index, parallel to indexes */
	int			nindexes;
	RunRecord  *runs;			/* newest first */
	int			nruns;
} StoreContent;

/* Told of everything that is wrong; table is NULL if it is the store itself. */
typedef void (*ProblemReport) (const char *problem, const TableKey *table, void *arg);

extern bool reader_open(const char *data_directory, ProblemReport report, void *arg);
extern bool reader_read(StoreContent *content, ProblemReport report, void *arg);
extern bool reader_system_identifier(const char *data_directory, uint64_t *identifier);

#endif							/* PGVR_READER_H */
