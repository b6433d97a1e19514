/*
 * estimate.h
 *	  What lies ahead of and behind a cycle's cursor.
 */
#ifndef PGVR_ESTIMATE_H
#define PGVR_ESTIMATE_H

#include "storage/block.h"
#include "utils/rel.h"

#include "record.h"

extern void estimate_pages(Relation rel, BlockNumber cursor, BlockNumber rel_blocks,
						   bool aggressive, Estimate *estimate);
extern double estimate_threshold(Relation rel);
extern void estimate_rows(Relation rel, bool fresh, Estimate *estimate);
extern const AutoVacOpts *estimate_autovacuum_options(Relation rel);
extern void estimate_indexes(Relation *indexes, int nindexes, const bool *done,
							 Estimate *estimate);

#endif							/* PGVR_ESTIMATE_H */
