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
} VmCounts;

extern BlockNumber vm_skippable_end(Buffer vmbuffer, BlockNumber from, BlockNumber to,
									bool frozen_only, bool *skips_unfrozen);
extern VmCounts vm_count(Relation rel, BlockNumber from, BlockNumber to);

#endif							/* PGVR_VM_H */
