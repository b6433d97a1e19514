/*
 * instance.h
 *	  The instance id: did our library see every vacuum since?
 */
#ifndef PGVR_INSTANCE_H
#define PGVR_INSTANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "record.h"
#include "storage/lwlock.h"

extern void instance_install(void);

extern void instance_mark(CycleRecord *record);
extern bool instance_vouches_for(const CycleRecord *record);
extern bool instance_no_crash_since(const CycleRecord *record);
extern bool instance_note(void);
extern bool instance_distrust(bool may_wait);

/* Serializes writing to the store, and opening and replacing it. */
extern LWLock *instance_store_lock(void);
extern uint64_t instance_store_epoch(void);
extern void instance_store_replaced(void);
extern uint64_t instance_store_stamp(void);
extern void instance_store_is_at(uint64_t stamp);
extern void instance_store_seen(void);
extern void instance_store_lost(void);
extern void instance_outlive_lost_store(void);
extern bool instance_store_was_seen(void);
extern bool instance_store_is_from_the_future(void);

/* Which tables have no record, without a look into the store. */
extern bool instance_may_have_record(const TableKey *key);
extern void instance_note_record(const TableKey *key);
extern bool instance_records_are_known(void);
extern void instance_all_records_noted(void);

#endif							/* PGVR_INSTANCE_H */
