/*
 * run.h
 *	  The state of one run: one VACUUM of one table.
 */
#ifndef PGVR_RUN_H
#define PGVR_RUN_H

#include "access/genam.h"
#include "access/xlogdefs.h"
#include "commands/vacuum.h"
#include "executor/instrument.h"
#include "portability/instr_time.h"
#include "storage/buf.h"
#include "utils/pg_rusage.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "dead_tids.h"
#include "decide.h"
#include "page.h"
#include "record.h"

/* What a run is doing, as far as an error message tells. */
typedef enum RunPhase
{
	RUN_STARTING,
	RUN_SCANNING,
	RUN_VACUUMING_INDEX,
	RUN_REAPING,
	RUN_CLEANING_UP_INDEX,
	RUN_TRUNCATING
} RunPhase;

typedef struct RunPosition
{
	RunPhase	phase;
	BlockNumber block;			/* InvalidBlockNumber if no particular one */
	OffsetNumber offset;		/* InvalidOffsetNumber likewise */
	const char *index_name;
} RunPosition;

/* Why a step came back to its caller. */
typedef enum StepResult
{
	STEP_DONE,
	STEP_MEMORY_FULL,			/* no room for the next page's dead TIDs */
	STEP_OUT_OF_TIME			/* the run's time is over; its state is saved */
} StepResult;

/* Where the first heap pass is. */
typedef struct HeapPass
{
	BlockNumber next_block;		/* first block not scanned (nor skipped) yet */
	BlockNumber end_block;		/* scan up to here */
	bool		wrapping;		/* these blocks were covered by this cycle before */
	BlockNumber first_block;	/* where this range begins */
	int64		complete_tids;	/* dead TIDs of pages that are scanned completely */

	/* what the visibility map says of the blocks from next_block on */
	BlockNumber unskippable;	/* first one that has to be scanned */
	bool		unskippable_all_visible;	/* the map's bit for that one */
	bool		skipping;		/* is the range before it long enough to be skipped? */
	Buffer		vmbuffer;		/* pinned page of the visibility map, or InvalidBuffer */

	BlockNumber failsafe_checked;	/* block at which the failsafe was considered last */
	BlockNumber fsm_vacuumed;	/* upper levels of the free space map are right below */
} HeapPass;

/* What the run has done so far; pages in blocks of this table. */
typedef struct RunCounters
{
	BlockNumber scanned_pages;
	BlockNumber rescanned_pages;	/* of these, in a wrap */
	BlockNumber vacuumable_pages;	/* of these, in the tail and not all-visible before */
	BlockNumber to_freeze_pages;	/* likewise all-visible, but not to be skipped */
	BlockNumber verified_pages; /* read to check pending TIDs (R4) */
	BlockNumber removed_pages;
	BlockNumber dead_item_pages;
	BlockNumber missed_dead_pages;
	BlockNumber nonempty_pages; /* last page that prevents truncation + 1 */
	bool		last_page_scanned;
	int			index_passes;
	int			index_scans;	/* single indexes vacuumed */
	int64		tuples_deleted;
	int64		dead_items;
	int64		reaped_tids;
	BlockNumber reaped_pages;	/* in a second heap pass */
	int64		left_items;		/* dead TIDs that are not to be reaped by this run */
	BlockNumber left_pages;
	int64		index_pages;	/* of the indexes vacuumed, each time */
	int64		live_tuples;
	int64		recently_dead_tuples;
	int64		missed_dead_tuples;
	int64_t		live_with_dead[LIVE_RANGES];	/* live rows, and pages, by range of blocks: */
	int64_t		live_without_dead[LIVE_RANGES]; /* with dead line pointers and without */
	BlockNumber pages_with_dead[LIVE_RANGES];
	BlockNumber pages_without_dead[LIVE_RANGES];
	BlockNumber pages_again[LIVE_RANGES];	/* of these pages, scanned in a wrap */
	int64_t		left_dead[LIVE_RANGES]; /* dead rows that could not be removed */
	int64		taken_over_items;	/* pending TIDs of earlier runs */
	BlockNumber taken_over_pages;
} RunCounters;

/* The cycle that the run belongs to, and its record in the store. */
typedef struct CycleState
{
	bool		keeps_record;	/* does this run save at all? */
	bool		recorded;		/* is there a record of this cycle in the store? */
	bool		resumed;		/* does the run continue an earlier one's cycle? */
	bool		killed_run_pending; /* that one may have been killed: not in history yet */
	bool		may_reap;		/* R6: the store cannot contradict what we reap */
	bool		loaded;			/* is what the run has in memory what a record can be made of? */
	int64		unsafe_tids;	/* pending ones that may have been reaped already (R6) */
	bool		gave_up;		/* was the cycle begun by giving up one that could go on? */
	bool		warned;			/* about the store, once a run is enough */
	CycleRecord base;			/* what earlier runs did; zero in a new cycle */
	Promise		promise;		/* of the cycle's first run */
	BlockNumber range_blocks;	/* length of a range of live rows */
	CycleRecord record;			/* as it was saved last */

	CyclePhase	phase;
	uint64		set_number;
	BlockNumber set_pages;		/* pages with TIDs in the set */
	int64		saved_tids;		/* of the set, how many are in the store */
	int64		chunked_tids;	/* how many its chunks hold, duplicates included */
	uint32		chunks;
	bool		rewrite_chunks; /* those in the store are not ours to add to */
	bool		drop_indexes;	/* finished indexes in the store are not to be trusted */
	bool		pending_lost;	/* no room for the set in the store */
	int64		dropped_tids;	/* from earlier runs' sets, to be found again in a wrap */
	uint64		store_epoch;

	BlockNumber set_reaped_pages;	/* of the set, what this run has reaped */
	int64		set_reaped_tids;
	BlockNumber reaped_below;	/* R6: reaping has got to this block */
	BlockNumber reap_until;		/* ... and may go to here before the next save */
	int64		reap_stretch;	/* dead TIDs to announce in the next save */

	Estimate	estimate;		/* as it was taken last, if counted ... */
	bool		counted;
	BlockNumber counted_vacuumable; /* ... and the run's counters then */
	BlockNumber counted_to_freeze;
	BlockNumber counted_dead_item;
	BlockNumber counted_reaped;

	IndexRecord *indexes;		/* parallel to the run's indexes */
	XLogRecPtr	lsn;			/* R1: what we know rests on WAL up to here */
	bool		cutoffs_flushed;	/* is WAL on disk up to when the cutoffs were taken? */
	instr_time	last_save;
	instr_time	started;
	int			max_duration;	/* milliseconds, 0 = no limit */
	size_t		saved_bytes;	/* by the last save */
	uint32		clock_skipped;	/* pages since the clock was read */
} CycleState;

/* Clocks and counters as they were when the run began, for its report. */
typedef struct RunStart
{
	bool		reporting;		/* will there be a report at all? */
	PGRUsage	rusage;
	TimestampTz time;
	int64		read_time;		/* microseconds */
	int64		write_time;
	WalUsage	wal;
	BufferUsage buffers;
} RunStart;

typedef struct VacuumRun
{
	/* the table, its indexes, and their names (safe to use while failing) */
	Relation	rel;
	Relation   *indexes;
	int			nindexes;
	char	   *schema_name;
	char	   *table_name;
	char	  **index_names;

	MemoryContext context;		/* lives as long as the run */

	/* the command */
	VacuumParams *params;
	BufferAccessStrategy strategy;
	bool		verbose;

	/* the plan: what this run will do */
	bool		decided;		/* was there a record to decide about? */
	DecisionInput facts;
	Decision	decision;
	BlockNumber first_block;	/* where the scan begins */
	bool		wraps;			/* is the head scanned once more? */
	BlockNumber wrap_from;		/* where the wrap begins, below that */
	bool		reread_pending; /* shall a wrap read pages that have pending TIDs? */
	bool		wrapped_from_there; /* has the wrap got from there to first_block? */
	BlockNumber rel_blocks;		/* size when the cutoffs were taken, less what was truncated */
	BlockNumber rel_blocks_at_start;
	double		old_live_tuples;	/* pg_class.reltuples before */
	bool		skip_with_map;	/* may pages be skipped at all? */
	bool		may_bypass_indexes; /* may a few dead TIDs be left for next time? */
	bool		vacuum_indexes;
	bool		clean_up_indexes;
	bool		truncate;
	bool		failsafe;		/* wraparound is near: only freeze */

	/* the work */
	RunPosition position;
	PageContext pages;
	HeapPass	scan;
	DeadTids	dead;
	IndexWorkers *index_workers;	/* NULL if index passes are not parallel */
	int			parallel_passes;	/* by the workers of this run */
	IndexBulkDeleteResult **index_results;
	IndexBulkDeleteResult **earlier_results;	/* of earlier runs of the cycle, or NULL */
	BlockNumber index_blocks;	/* of the index at work */
	int64		index_accesses; /* buffers that this process had accessed when it began */

	/* what came of it */
	RunCounters done;
	bool		out_of_time;	/* stopped before its end */
	bool		skipped_all_visible;	/* skipped a page that may hold unfrozen XIDs */
	BlockNumber *look_again;	/* head pages left alone, as their pending TIDs are to be reaped */
	BlockNumber nlook_again;
	BlockNumber nlooked;		/* of these, looked at again */
	bool		waiting_reaped; /* these TIDs are pending no more */
	BlockNumber cycle_scanned_pages;	/* by all runs of the cycle, in whatever pass */
	double		new_live_tuples;
	double		new_rel_tuples;
	BlockNumber new_rel_blocks;
	Carry		new_frozen;		/* values for pg_class; invalid if they cannot advance */
	bool		frozenxid_updated;
	bool		minmulti_updated;

	CycleState	cycle;
	RunRecord	history;		/* what is known of the run from its beginning */
	RunStart	start;
} VacuumRun;

extern void vacuum_run(Relation rel, struct VacuumParams *params,
					   BufferAccessStrategy strategy);
extern bool run_check_failsafe(VacuumRun *run);

/*
 * The last page known to prevent truncation + 1.  A scan to the end tells by the
 * last page, which is always read; a run that has not been there goes by earlier
 * ones.
 */
static inline BlockNumber
run_nonempty_pages(const VacuumRun *run)
{
	if (run->done.last_page_scanned)
		return run->done.nonempty_pages;
	return Min(Max(run->done.nonempty_pages, run->cycle.base.nonempty_pages), run->rel_blocks);
}

/* Enter a phase; returns the position to go back to. */
static inline RunPosition
run_enter(VacuumRun *run, RunPhase phase, BlockNumber block)
{
	RunPosition previous = run->position;

	run->position.phase = phase;
	run->position.block = block;
	run->position.offset = InvalidOffsetNumber;
	return previous;
}

#endif							/* PGVR_RUN_H */
