/*
 * facts.h
 *	  From a record to the facts that a decision rests on.
 */
#ifndef PGVR_FACTS_H
#define PGVR_FACTS_H

#include "decide.h"
#include "record.h"

extern bool facts_same_count(const RowCounts *before, const RowCounts *after);
extern void facts_of_table(uint64_t rel_blocks, const Estimate *now, DecisionInput *input);
extern void facts_of_record(const CycleRecord *record, uint64_t rel_blocks, const Estimate *now,
							bool trusted, bool wraps_anew, DecisionInput *input);

#endif							/* PGVR_FACTS_H */
