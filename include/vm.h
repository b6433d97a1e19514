/*
 * vm.h
 *	  Reading the visibility map many blocks at a time.
 */
#ifndef PGVR_VM_H
#define PGVR_VM_H

#include "storage/block.h"
#include "storage/buf.h"
#include "utils/rel.h"

/* How many blocks of a range are not ... */
typedef struct VmCounts
{
	BlockNumber not_visible;	/* all-visible */
	BlockNumber not_frozen;		/* all-frozen, but all-visible */
	BlockNumber gaps;			/* skippable, but too few in a row to be skipped */
} VmCounts;

/*
 * A first pass skips no fewer pages than these in a row, for reading on is faster than
 * that: the server's rule (SKIP_PAGES_THRESHOLD).
 */
#define MIN_SKIPPED_BLOCKS 32

extern BlockNumber vm_skippable_end(Buffer vmbuffer, BlockNumber from, BlockNumber to,
									bool frozen_only, bool *skips_unfrozen);
extern VmCounts vm_count(Relation rel, BlockNumber from, BlockNumber to, bool frozen_only);

#endif							/* PGVR_VM_H */
