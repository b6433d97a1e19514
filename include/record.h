/*
 * record.h
 *	  What the store holds: the on-disk format.
 *
 * No server headers: the inspection tool shares it.  Every value begins with a
 * RecordHeader whose CRC covers the rest of it.  Numbers are in the machine's
 * byte order, for a store never moves to another machine; keys are big-endian,
 * so that a table's entries lie side by side.
 *
 * Change RECORD_FORMAT with any change here: a store of another format is set
 * aside and begun anew, which costs progress and nothing else.
 */
#ifndef PGVR_RECORD_H
#define PGVR_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dead_tids.h"
#include "decide.h"

#define RECORD_FORMAT 5

/* Named databases of the store */
#define STORE_CYCLES "cycle"
#define STORE_CHUNKS "dead"
#define STORE_INDEXES "index"
#define STORE_RUNS "history"
#define STORE_META "meta"
#define STORE_DATABASES 5

#define INSTANCE_ID_BYTES 16

typedef enum RecordKind
{
	RECORD_CYCLE = 1,
	RECORD_CHUNK,
	RECORD_INDEX,
	RECORD_RUN,
	RECORD_STAMP,
	RECORD_LAST_RUN
} RecordKind;

typedef struct RecordHeader
{
	uint32_t	crc;			/* CRC-32C of all that follows */
	uint16_t	format;			/* RECORD_FORMAT */
	uint16_t	kind;			/* RecordKind */
} RecordHeader;

/* Key of a table's cycle; chunks and indexes have one more number behind it. */
typedef struct TableKey
{
	uint32_t	database;
	uint32_t	relation;
} TableKey;

#define TABLE_KEY_BYTES 8
#define SUB_KEY_BYTES 12
#define RUN_KEY_BYTES 8			/* the run's number */

typedef enum CyclePhase
{
	CYCLE_SCANNING = 1,			/* first heap pass, tail or head */
	CYCLE_VACUUMING_INDEXES,	/* the set of pending TIDs is complete */
	CYCLE_REAPING,				/* all indexes are done */
	CYCLE_FINISHING				/* nothing pending, every block covered */
} CyclePhase;

/* How a run ended; CYCLE_RUNNING is also what a killed run leaves behind. */
typedef enum CycleStop
{
	CYCLE_RUNNING = 0,
	CYCLE_CANCELLED,
	CYCLE_TERMINATED,
	CYCLE_FAILED,
	CYCLE_OUT_OF_TIME,
	CYCLE_FINISHED				/* in history only: then there is no record any more */
} CycleStop;

/* Which table of which cluster, as it was when the record was made (R3) */
typedef struct TableIdentity
{
	uint64_t	system_identifier;
	uint32_t	timeline;
	uint32_t	tablespace;
	uint32_t	file_number;
	uint32_t	persistence;	/* pg_class.relpersistence */
} TableIdentity;

/* What all runs of the cycle have counted together */
typedef struct CycleCounters
{
	int64_t		scanned_pages;	/* first time in this cycle only */
	int64_t		rescanned_pages;	/* once more, in a wrap */
	int64_t		verified_pages; /* re-read to check pending TIDs (R4) */
	int64_t		dead_item_pages;
	int64_t		missed_dead_pages;
	int64_t		tuples_deleted;
	int64_t		dead_items;
	int64_t		live_tuples;
	int64_t		live_pages;		/* that these were counted on */
	int64_t		left_dead_tuples;	/* dead rows that no run could remove */
	int64_t		index_passes;
	int64_t		index_scans;	/* single indexes scanned */
} CycleCounters;

/*
 * Rows by range of blocks: a page that is scanned again counts as it is then, and
 * the live rows that it counted before are taken to be the average of its range's
 * pages that had dead line pointers, for it is most likely one of these.
 */
#define LIVE_RANGES 16

typedef struct LivePages
{
	float		tuples;			/* an estimate, and the record has to be small */
	float		pages;			/* scanned */
} LivePages;

typedef struct LiveRange
{
	LivePages	with_dead;
	LivePages	without_dead;
	float		left_dead_tuples;	/* dead rows that could not be removed */
} LiveRange;

/* R7: what an aggressive run has to freeze, as full XID and MXID; xid 0 if nothing */
typedef struct Promise
{
	uint64_t	xid;			/* its FreezeLimit ... */
	uint64_t	mxid;			/* ... and MultiXactCutoff, */
	uint32_t	xid_age;		/* and how far these lay before its OldestXmin */
	uint32_t	mxid_age;		/* and OldestMxact */
} Promise;

/* What the server's statistics count of a table; negative: unknown */
typedef struct RowCounts
{
	double		dead;			/* dead rows, less what was pruned; ANALYZE counts anew */
	double		gone;			/* rows deleted or updated by others than HOT; only grows */
	double		analyses;		/* how often the dead rows were counted anew */
} RowCounts;

/*
 * What the decision between resuming and starting over rests on, as it was when
 * the record was saved.
 */
typedef struct Estimate
{
	int64_t		ahead;			/* vacuumable pages in the tail ... */
	int64_t		ahead_to_freeze;	/* (of these, all-visible ones) */
	int64_t		behind;			/* ... and in the head */
	int64_t		ahead_gaps;		/* not vacuumable, but read between those ... */
	int64_t		behind_gaps;	/* ... likewise if the head is scanned as a tail is */
	int64_t		pending_tids;	/* not reaped yet */
	int64_t		pending_pages;	/* pages that have these */
	int64_t		index_pages;
	int64_t		index_pages_done;	/* of indexes that are done with the pending TIDs */
	RowCounts	rows;			/* as the server's statistics say */
	RowCounts	rows_at_start;	/* of the cycle, likewise */
	double		live_rows;		/* pg_class.reltuples */
	double		threshold;		/* dead rows that call autovacuum */
} Estimate;

/* What a plan was expected to take and to bring; negative: not estimated */
typedef struct PlanForecast
{
	double		work;
	double		dead_rows;
} PlanForecast;

/* What a run decided to do, and the estimates it had then; these are negative if it had none */
typedef struct RunDecision
{
	uint32_t	plan;			/* VacuumPlan */
	uint32_t	reason;			/* DecideReason */
	double		ahead;			/* vacuumable pages in the tail ... */
	double		behind;			/* ... and in the head */
	double		tail_dead;		/* dead rows there */
	double		head_dead;
	double		expected_work;	/* 0: no limit known */
	PlanForecast plans[VACUUM_PLANS];	/* by VacuumPlan */
} RunDecision;

/* A run, as history has it; also what the run under way has done until a save */
typedef struct RunRecord
{
	RecordHeader header;

	uint64_t	number;			/* one more than the run's before, of whatever table */
	TableKey	key;
	int64_t		started;		/* microseconds since 2000-01-01, as the server's */
	int64_t		ended;			/* of a killed run: its last save */
	uint32_t	stop;			/* CycleStop */
	uint32_t	autovacuum;		/* 0 or 1 */
	uint32_t	aggressive;		/* 0 or 1 */
	uint32_t	from_block;		/* where it began to scan */
	uint32_t	to_block;		/* the cursor when it ended */
	uint32_t	rel_blocks;		/* the table's size when it began */

	int64_t		scanned_pages;	/* for the first time in the cycle */
	int64_t		rescanned_pages;	/* once more, in a wrap */
	int64_t		skipped_pages;	/* between from_block and to_block */
	int64_t		verified_pages; /* re-read to check pending TIDs */
	int64_t		reaped_pages;	/* in a second heap pass */
	int64_t		index_pages;	/* read to remove entries */
	int64_t		index_scans;	/* single indexes completed */
	int64_t		tuples_deleted; /* by pruning */
	int64_t		reaped_tids;
	double		work;			/* in pages, see decide.h */

	uint64_t	frozenxid_before;	/* pg_class.relfrozenxid as full XID */
	uint64_t	frozenxid_after;
	RunDecision decision;

	char		schema_name[64];
	char		table_name[64];
} RunRecord;

typedef struct CycleRecord
{
	RecordHeader header;

	TableKey	key;
	TableIdentity identity;

	/* who may trust it (R4, R12) */
	uint8_t		instance[INSTANCE_ID_BYTES];
	uint64_t	generation;
	uint64_t	boot;			/* changes with every crash recovery (R8) */
	uint64_t	saved_lsn;		/* end of WAL on disk when it was saved */

	/* where the cycle is */
	uint32_t	phase;			/* CyclePhase */
	uint32_t	stop;			/* CycleStop */
	uint32_t	next_block;		/* the cursor */
	uint32_t	rel_blocks;		/* size when the last run took its cutoffs */
	uint32_t	nonempty_pages; /* last page seen in use + 1 */
	uint32_t	skipped_all_visible;	/* 0 or 1 (R7) */
	uint32_t	wrapping;		/* 1: the last run was in a wrap */
	uint32_t	wrap_next_block;	/* up to here runs have wrapped ... */
	uint32_t	wrap_waits;		/* 1: ... but for pages that have pending TIDs */

	/* the carry (R7); full XID, MXID with the epoch of its own wraparounds */
	uint64_t	carry_xid;
	uint64_t	carry_mxid;

	Promise		promise;		/* of the cycle's first run (R7) */

	/* pending TIDs */
	uint64_t	set_number;		/* counts the sets of this cycle (R11) */
	int64_t		pending_tids;	/* of the list in the store, reaped ones included */
	uint32_t	pending_lost;	/* 1: the store was full, the list is not kept */
	uint32_t	chunks;
	int64_t		lost_tids;		/* dead line pointers that were dropped from the list, or not kept */
	uint32_t	reap_next_block;	/* TIDs of lower blocks have been reaped (R6) */
	uint32_t	reap_until_block;	/* those from here on have not */
	uint32_t	indexes_done;	/* with the set as it is */
	uint32_t	indexes;

	Estimate	estimate;

	CycleCounters counters;
	LiveRange	live[LIVE_RANGES];
	uint32_t	range_blocks;	/* how long such a range is; the last one has no end */
	uint32_t	gave_up;		/* 1: this cycle was begun by giving up one that could go on */
	uint32_t	runs;
	uint32_t	interruptions;
	int64_t		cycle_started;	/* microseconds since 2000-01-01, as the server's */
	int64_t		last_saved;
	RunRecord	run;			/* the last one; not sealed by itself */
	char		schema_name[64];	/* for reading without a server */
	char		table_name[64];
} CycleRecord;

/* An index that is done with a set of pending TIDs, and what it counted */
typedef struct IndexRecord
{
	RecordHeader header;

	uint32_t	index;			/* OID */
	uint32_t	file_number;	/* REINDEX changes it */
	uint64_t	set_number;		/* of the last set it is done with */
	int64_t		set_tids;		/* how large that set was (R11) */

	/* the access method's result (IndexBulkDeleteResult), if it can be kept */
	uint32_t	has_result;
	uint32_t	num_pages;
	uint32_t	estimated_count;
	uint32_t	pages_newly_deleted;
	uint32_t	pages_deleted;
	uint32_t	pages_free;
	double		num_index_tuples;
	double		tuples_removed;
} IndexRecord;

/*
 * A chunk of pending TIDs: a ChunkRecord, followed by 16-bit numbers; for each
 * page the block's low and high half, the number of offsets, and the offsets.
 */
typedef struct ChunkRecord
{
	RecordHeader header;
	uint64_t	set_number;
	uint32_t	number;			/* place among the chunks of its set */
	uint32_t	tids;
} ChunkRecord;

/*
 * Which state of the store this is: each change of what it says of tables puts a
 * number of its own here, drawn at random.
 */
typedef struct StampRecord
{
	RecordHeader header;
	uint64_t	stamp;
	uint64_t	previous;		/* of the state that was changed */
} StampRecord;

#define STAMP_KEY "stamp"

/*
 * The number of the last run that history had when it was emptied, so that numbers go
 * on from there.  Does not count while history has a run.  None: 0.
 */
typedef struct LastRunRecord
{
	RecordHeader header;
	uint64_t	number;
} LastRunRecord;

#define LAST_RUN_KEY "last run"

extern void record_seal(void *record, size_t bytes, RecordKind kind);
extern bool record_is_sound(const void *record, size_t bytes, RecordKind kind,
							size_t least_bytes);

/* How many TIDs are pending that are known one by one, and are not reaped yet? */
static inline int64_t
cycle_pending_tids(const CycleRecord *record)
{
	return record->pending_lost ? 0 : record->estimate.pending_tids;
}

extern const char *cycle_phase_name(uint32_t phase);
extern const char *cycle_stop_name(uint32_t stop);
extern const char *run_end_name(uint32_t stop);

extern void table_key_encode(const TableKey *key, uint8_t *bytes);
extern TableKey table_key_decode(const uint8_t *bytes);
extern void sub_key_encode(const TableKey *key, uint32_t number, uint8_t *bytes);
extern void run_key_encode(uint64_t number, uint8_t *bytes);
extern uint64_t run_key_decode(const uint8_t *bytes);

extern size_t chunk_max_bytes(int64_t tids);
extern size_t chunk_encode(ChunkRecord *chunk, const DeadTid *tids, int64_t ntids);
extern int64_t chunk_decode(const ChunkRecord *chunk, size_t bytes,
							DeadTid *tids, int64_t room);

#endif							/* PGVR_RECORD_H */
