/*
 * vm.h
 *	  Reading the visibility map many blocks at a time.
 */
#ifndef PGVR_VM_H
#define PGVR_VM_H

#include "storage/block.h"
#include "storage/buf.h"
#include "utils/rel.h"

extern BlockNumber vm_skippable_end(Buffer vmbuffer, BlockNumber from, BlockNumber to,
									bool frozen_only, bool *skips_unfrozen);
extern BlockNumber vm_count_unskippable(Relation rel, BlockNumber from, BlockNumber to,
										bool frozen_only);

#endif							/* PGVR_VM_H */
