/*
 * store.h
 *	  The LMDB store below the data directory.
 *
 * Verbs return codes and never throw (R2); what is behind the last failure,
 * store_error() says in words.  Results are allocated in the current memory
 * context.
 */
#ifndef PGVR_STORE_H
#define PGVR_STORE_H

#include "record.h"

typedef enum StoreResult
{
	STORE_OK,
	STORE_NOT_FOUND,
	STORE_FULL,					/* nothing was written */
	STORE_DAMAGED,				/* an entry's check failed; the store itself is sound */
	STORE_REPLACED,				/* what was saved before is not there; nothing was written */
	STORE_FAILED				/* nothing was written or read */
} StoreResult;

/* A table's record with all that belongs to it */
typedef struct StoredCycle
{
	CycleRecord cycle;
	DeadTid    *tids;			/* in the order they were saved in; not sorted */
	int64_t		ntids;
	IndexRecord *indexes;
	int			nindexes;
} StoredCycle;

/* What one save changes; one transaction */
typedef struct StoreChange
{
	const CycleRecord *cycle;
	bool		drop_chunks;	/* first remove the table's chunks ... */
	bool		drop_indexes;	/* ... and its finished indexes */
	const ChunkRecord *chunk;	/* one more chunk, or NULL */
	size_t		chunk_bytes;
	const IndexRecord *indexes; /* finished indexes to add or replace, but for index 0 */
	int			nindexes;
	const RunRecord *run;		/* to add to history, or NULL */
} StoreChange;

extern StoreResult store_find(const TableKey *key, CycleRecord *cycle);
extern StoreResult store_load(const TableKey *key, StoredCycle *stored);
extern StoreResult store_write(const StoreChange *change);
extern StoreResult store_remove(const TableKey *key);
extern StoreResult store_finish(const TableKey *key, const RunRecord *run);
extern StoreResult store_list(CycleRecord **cycles, int *ncycles);
extern StoreResult store_list_runs(RunRecord **runs, int *nruns);
extern StoreResult store_last_runs(const TableKey *key, RunRecord **runs, int *nruns, int most);
extern const char *store_error(void);

#endif							/* PGVR_STORE_H */
