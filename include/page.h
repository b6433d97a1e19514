/*
 * page.h
 *	  All that depends on the server's major version.
 *
 * One page_<major>.c implements this for each major; no other file has a
 * version number in it.  page_* functions work on one heap page, server_*
 * functions are calls whose shape changed between majors.
 */
#ifndef PGVR_PAGE_H
#define PGVR_PAGE_H

#include "access/genam.h"
#include "access/htup_details.h"
#include "commands/vacuum.h"
#include "storage/buf.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "dead_tids.h"
#include "record.h"

/* What a run may remove and has to freeze; taken once, when it starts. */
typedef struct Cutoffs
{
	/* the table's values when the cutoffs were taken */
	TransactionId relfrozenxid;
	MultiXactId relminmxid;

	/* rows deleted before oldest_xmin are dead to everybody */
	TransactionId oldest_xmin;
	MultiXactId oldest_mxid;

	/* older XIDs and MXIDs are frozen; an aggressive run must leave none */
	TransactionId freeze_limit;
	MultiXactId multixact_cutoff;
} Cutoffs;

/* The oldest XID and MXID that were left unfrozen so far. */
typedef struct Carry
{
	TransactionId xid;
	MultiXactId mxid;
} Carry;

/* What the page functions need to know of the run. */
typedef struct PageContext
{
	Relation	rel;
	bool		aggressive;
	Cutoffs		cutoffs;
	GlobalVisState *vistest;
	Carry		carry;			/* moved back by each page that leaves older XIDs */
	OffsetNumber *error_offset; /* line pointer at work, for error messages */
} PageContext;

/* What is left on a page. */
typedef struct PageOutcome
{
	int			tuples_deleted; /* removed by pruning */
	int			live_tuples;
	int			recently_dead_tuples;
	int			missed_dead_tuples; /* dead, but not removed for lack of a cleanup lock */
	bool		prevents_truncation;	/* holds something besides dead line pointers */

	/* visibility map bits that the page deserves; frozen counts only if visible */
	bool		all_visible;
	bool		all_frozen;
	TransactionId visibility_cutoff;	/* newest XID among an all-visible page's rows */

	int			ndead;			/* LP_DEAD line pointers, in ascending order */
	OffsetNumber dead[MaxHeapTuplesPerPage];
} PageOutcome;

extern void page_prune_and_freeze(PageContext *context, Buffer buf, PageOutcome *outcome);
extern bool page_inspect_unpruned(PageContext *context, Buffer buf, PageOutcome *outcome);
extern bool page_reap(PageContext *context, Buffer buf, const OffsetNumber *dead, int ndead);
extern bool page_is_all_visible(PageContext *context, Buffer buf,
								TransactionId *visibility_cutoff, bool *all_frozen);

/* Index passes that share their work with parallel workers. */
typedef struct IndexWorkers IndexWorkers;

extern IndexWorkers *server_start_index_workers(Relation rel, Relation *indexes, int nindexes,
												int requested, int64 max_tids, int elevel,
												BufferAccessStrategy strategy,
												DeadTids *dead);
extern void server_bulk_delete_in_parallel(IndexWorkers *workers, const DeadTids *dead,
										   double table_tuples, int passes_done);
extern void server_clean_up_in_parallel(IndexWorkers *workers, double table_tuples,
										int passes_done, bool estimated);
extern void server_stop_index_workers(IndexWorkers *workers, IndexBulkDeleteResult **results);
extern void server_init_index_info(IndexVacuumInfo *info, Relation index, Relation rel,
								   double table_tuples, bool estimated,
								   BufferAccessStrategy strategy);

extern void server_table_identity(Relation rel, TableIdentity *identity);
extern uint32 server_file_number(Relation rel);
extern bool server_is_autovacuum_worker(void);
extern int64 server_max_dead_tids(size_t bytes);
extern bool server_take_cutoffs(Relation rel, VacuumParams *params, Cutoffs *cutoffs);
extern bool server_needs_failsafe(const Cutoffs *cutoffs);
extern void server_lift_cost_limits(void);
extern void server_pause_point(void);
extern bool server_forbids_truncation(void);
extern void server_update_relstats(Relation rel, BlockNumber pages, double tuples,
								   BlockNumber all_visible_pages, bool has_index,
								   const Carry *frozen,
								   bool *frozenxid_updated, bool *minmulti_updated);
extern bool server_user_owns(Oid relid);
extern RowCounts server_row_counts(Relation rel, bool fresh);
extern void server_report_vacuum(Relation rel, double live_tuples, int64 dead_tuples);
extern void server_progress_max_dead_tids(int64 max_tids);
extern void server_progress_dead_tids(int64 tids);

#endif							/* PGVR_PAGE_H */
