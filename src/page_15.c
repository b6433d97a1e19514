/*
 * page_15.c
 *	  All that depends on the server's major version, for PostgreSQL 15.
 *
 * First the work on one heap page, then the server calls whose shape changed
 * between majors.  See page.h for who needs what.
 *
 * Two ideas carry the page functions.  Most rows of most pages are plain: the
 * inserter is known to have committed and nobody has deleted, updated or locked
 * the row.  For those the answers of HeapTupleSatisfiesVacuum() and
 * heap_prepare_freeze_tuple() follow from the tuple header alone, so they are
 * given here without a call; everything else goes to the server's functions.
 * And a page on which all rows are plain has nothing to prune, so that
 * heap_page_prune(), which looks at every row twice, is not called for it.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/heapam_xlog.h"
#include "access/multixact.h"
#include "access/transam.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "commands/progress.h"
#include "commands/vacuum.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/autovacuum.h"
#include "storage/bufmgr.h"
#include "utils/acl.h"
#include "utils/snapmgr.h"

#include "page.h"

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 160000
#error "page_15.c is for PostgreSQL 15"
#endif

StaticAssertDecl(sizeof(DeadTid) == sizeof(ItemPointerData) &&
				 offsetof(DeadTid, offset) == offsetof(ItemPointerData, ip_posid),
				 "DeadTid must be laid out like ItemPointerData");

/*----------
 * One heap page
 *----------
 */

/* Nobody has deleted, updated or locked the row, and its inserter has committed. */
static inline bool
is_plain_tuple(HeapTupleHeader tuple)
{
	return (tuple->t_infomask & HEAP_XMIN_COMMITTED) && (tuple->t_infomask & HEAP_XMAX_INVALID);
}

/*
 * Could heap_page_prune() change anything on this page?
 *
 * It removes dead rows and shortens HOT chains, and it corrects pd_prune_xid
 * and the page-is-full hint.  Without a redirected line pointer and with plain
 * rows only there are no chains and nothing dead (checked in the source of
 * 15.x: plain rows are HEAPTUPLE_LIVE to it, for which it does nothing).
 */
static bool
is_prunable(Page page)
{
	OffsetNumber max = PageGetMaxOffsetNumber(page);

	if (TransactionIdIsValid(((PageHeader) page)->pd_prune_xid) || PageIsFull(page))
		return true;

	for (OffsetNumber offset = FirstOffsetNumber; offset <= max; offset++)
	{
		ItemId		item = PageGetItemId(page, offset);

		if (ItemIdIsRedirected(item))
			return true;
		if (ItemIdIsNormal(item) && !is_plain_tuple((HeapTupleHeader) PageGetItem(page, item)))
			return true;
	}
	return false;
}

/* heap_page_prune() as it is called for a vacuum; returns the rows removed. */
static int
prune(PageContext *context, Buffer buf)
{
	int			new_dead;

	if (!is_prunable(BufferGetPage(buf)))
		return 0;

	return heap_page_prune(context->rel, buf,
#if PG_VERSION_NUM >= 150008
						   context->cutoffs.oldest_xmin,
#endif
						   context->vistest, InvalidTransactionId, 0,
						   &new_dead, context->error_offset);
}

/* HeapTupleSatisfiesVacuum(), without the call where the header says it all. */
static inline HTSV_Result
tuple_state(PageContext *context, Buffer buf, HeapTuple tuple)
{
	if (is_plain_tuple(tuple->t_data))
		return HEAPTUPLE_LIVE;
	return HeapTupleSatisfiesVacuum(tuple, context->cutoffs.oldest_xmin, buf);
}

/* Make a HeapTuple of the row at a normal line pointer. */
static inline void
fetch_tuple(PageContext *context, Page page, BlockNumber block, OffsetNumber offset,
			HeapTuple tuple)
{
	ItemId		item = PageGetItemId(page, offset);

	Assert(ItemIdIsNormal(item));
	ItemPointerSet(&tuple->t_self, block, offset);
	tuple->t_data = (HeapTupleHeader) PageGetItem(page, item);
	tuple->t_len = ItemIdGetLength(item);
	tuple->t_tableOid = RelationGetRelid(context->rel);
}

/*
 * Do all transactions, now and later, see this live row?
 *
 * The inserter must not only have committed: with asynchronous commit its
 * commit may not be on disk yet, and an all-visible page must not survive a
 * crash that the commit does not.  The hint bit is set only once it is.
 *
 * Moves *newest_xid forward to the row's inserter if the answer is yes.
 */
static inline bool
is_visible_to_all(PageContext *context, HeapTupleHeader tuple, TransactionId *newest_xid)
{
	TransactionId xmin;

	if (!HeapTupleHeaderXminCommitted(tuple))
		return false;

	xmin = HeapTupleHeaderGetXmin(tuple);
	if (!TransactionIdPrecedes(xmin, context->cutoffs.oldest_xmin))
		return false;

	if (TransactionIdFollows(xmin, *newest_xid))
		*newest_xid = xmin;
	return true;
}

/*
 * heap_prepare_freeze_tuple(), without the call for a row that has no xmax and
 * whose inserter is frozen already or too young to be.
 *
 * Returns true if the row has to be frozen as *frozen says.  *totally_frozen
 * tells whether it holds no XID then; *carry is moved back by XIDs that stay.
 */
static inline bool
prepare_freeze(PageContext *context, HeapTupleHeader tuple, xl_heap_freeze_tuple *frozen,
			   bool *totally_frozen, Carry *carry)
{
	const Cutoffs *cutoffs = &context->cutoffs;
	uint16		infomask = tuple->t_infomask;

	if ((infomask & HEAP_XMAX_INVALID) && !(infomask & (HEAP_XMAX_IS_MULTI | HEAP_MOVED)) &&
		HeapTupleHeaderGetRawXmax(tuple) == InvalidTransactionId)
	{
		TransactionId xmin = HeapTupleHeaderGetXmin(tuple);

		if (!TransactionIdIsNormal(xmin))
		{
			*totally_frozen = true;
			return false;
		}
		if (!TransactionIdPrecedes(xmin, cutoffs->freeze_limit) &&
			!TransactionIdPrecedes(xmin, cutoffs->relfrozenxid))
		{
			if (TransactionIdPrecedes(xmin, carry->xid))
				carry->xid = xmin;
			*totally_frozen = false;
			return false;
		}
	}

	return heap_prepare_freeze_tuple(tuple, cutoffs->relfrozenxid, cutoffs->relminmxid,
									 cutoffs->freeze_limit, cutoffs->multixact_cutoff,
									 frozen, totally_frozen, &carry->xid, &carry->mxid);
}

/* Freeze rows as planned, and log it. */
static void
freeze(PageContext *context, Buffer buf, xl_heap_freeze_tuple *frozen, int nfrozen)
{
	Page		page = BufferGetPage(buf);

	START_CRIT_SECTION();

	MarkBufferDirty(buf);
	for (int i = 0; i < nfrozen; i++)
	{
		ItemId		item = PageGetItemId(page, frozen[i].offset);

		heap_execute_freeze_tuple((HeapTupleHeader) PageGetItem(page, item), &frozen[i]);
	}
	if (RelationNeedsWAL(context->rel))
	{
		XLogRecPtr	lsn = log_heap_freeze(context->rel, buf, context->cutoffs.freeze_limit,
										  frozen, nfrozen);

		PageSetLSN(page, lsn);	/* a macro that evaluates it twice */
	}

	END_CRIT_SECTION();
}

/* Count a row that stays, and say what it means for the page's visibility. */
static inline void
count_tuple(PageContext *context, HTSV_Result state, HeapTupleHeader tuple,
			PageOutcome *outcome)
{
	/*
	 * The counting agrees with ANALYZE's: rows of a running insertion are not
	 * live yet and rows of a running deletion still are, as their transactions
	 * will correct the statistics when they end, which is after us.
	 */
	switch (state)
	{
		case HEAPTUPLE_LIVE:
			outcome->live_tuples++;
			if (outcome->all_visible)
				outcome->all_visible = is_visible_to_all(context, tuple,
														 &outcome->visibility_cutoff);
			break;
		case HEAPTUPLE_DELETE_IN_PROGRESS:
			outcome->live_tuples++;
			outcome->all_visible = false;
			break;
		case HEAPTUPLE_RECENTLY_DEAD:
			outcome->recently_dead_tuples++;
			outcome->all_visible = false;
			break;
		case HEAPTUPLE_DEAD:
			outcome->missed_dead_tuples++;
			outcome->all_visible = false;
			break;
		case HEAPTUPLE_INSERT_IN_PROGRESS:
			outcome->all_visible = false;
			break;
	}
}

static inline void
reset_outcome(PageOutcome *outcome)
{
	outcome->live_tuples = 0;
	outcome->recently_dead_tuples = 0;
	outcome->missed_dead_tuples = 0;
	outcome->prevents_truncation = false;
	outcome->all_visible = true;
	outcome->all_frozen = true;
	outcome->visibility_cutoff = InvalidTransactionId;
	outcome->ndead = 0;
}

/*
 * Look at every line pointer of a pruned page: fill in the outcome, plan the
 * freezing, and move *carry back by what will stay unfrozen.
 *
 * Returns false if a row has died since the page was pruned (its inserter has
 * aborted meanwhile); the page has to be pruned again then.
 */
static bool
inspect_pruned(PageContext *context, Buffer buf, PageOutcome *outcome,
			   xl_heap_freeze_tuple *frozen, int *nfrozen, Carry *carry)
{
	Page		page = BufferGetPage(buf);
	BlockNumber block = BufferGetBlockNumber(buf);
	OffsetNumber max = PageGetMaxOffsetNumber(page);

	reset_outcome(outcome);
	*nfrozen = 0;

	for (OffsetNumber offset = FirstOffsetNumber; offset <= max; offset++)
	{
		ItemId		item = PageGetItemId(page, offset);
		HeapTupleData tuple;
		HTSV_Result state;
		bool		totally_frozen;

		*context->error_offset = offset;

		if (!ItemIdIsUsed(item))
			continue;

		/*
		 * A dead line pointer does not prevent truncation: we expect to have
		 * reaped it before truncation looks at the page again.
		 */
		if (ItemIdIsDead(item))
		{
			outcome->dead[outcome->ndead++] = offset;
			outcome->all_visible = false;
			continue;
		}

		outcome->prevents_truncation = true;
		if (ItemIdIsRedirected(item))
			continue;

		fetch_tuple(context, page, block, offset, &tuple);
		state = tuple_state(context, buf, &tuple);
		if (unlikely(state == HEAPTUPLE_DEAD))
			return false;
		count_tuple(context, state, tuple.t_data, outcome);

		if (prepare_freeze(context, tuple.t_data, &frozen[*nfrozen], &totally_frozen, carry))
			frozen[(*nfrozen)++].offset = offset;
		if (!totally_frozen)
			outcome->all_frozen = false;
	}

	*context->error_offset = InvalidOffsetNumber;
	return true;
}

/*
 * Prune a page, freeze what is old enough, and tell what is left.
 *
 * The caller holds the page's cleanup lock; the page is neither new nor empty.
 * Moves the context's carry back.  Throws ERROR for rows that contradict the
 * table's relfrozenxid or relminmxid.
 */
void
page_prune_and_freeze(PageContext *context, Buffer buf, PageOutcome *outcome)
{
	xl_heap_freeze_tuple frozen[MaxHeapTuplesPerPage];
	int			nfrozen;
	Carry		carry;

	outcome->tuples_deleted = 0;
	do
	{
		outcome->tuples_deleted += prune(context, buf);
		carry = context->carry;
	} while (!inspect_pruned(context, buf, outcome, frozen, &nfrozen, &carry));

	context->carry = carry;
	if (nfrozen > 0)
		freeze(context, buf, frozen, nfrozen);
}

/*
 * Tell what is on a page without pruning or freezing it.
 *
 * The caller holds the page's share lock; the page is neither new nor empty.
 * Moves the context's carry back by all that stays unfrozen.
 *
 * Returns false, and changes nothing, if the run is an aggressive one and the
 * page holds XIDs that such a run must not leave.
 */
bool
page_inspect_unpruned(PageContext *context, Buffer buf, PageOutcome *outcome)
{
	const Cutoffs *cutoffs = &context->cutoffs;
	Page		page = BufferGetPage(buf);
	BlockNumber block = BufferGetBlockNumber(buf);
	OffsetNumber max = PageGetMaxOffsetNumber(page);
	Carry		carry = context->carry;

	reset_outcome(outcome);
	outcome->tuples_deleted = 0;

	for (OffsetNumber offset = FirstOffsetNumber; offset <= max; offset++)
	{
		ItemId		item = PageGetItemId(page, offset);
		HeapTupleData tuple;

		*context->error_offset = offset;

		if (!ItemIdIsUsed(item))
			continue;

		if (ItemIdIsDead(item))
		{
			outcome->dead[outcome->ndead++] = offset;
			continue;
		}

		outcome->prevents_truncation = true;
		if (ItemIdIsRedirected(item))
			continue;

		fetch_tuple(context, page, block, offset, &tuple);
		if (heap_tuple_would_freeze(tuple.t_data, cutoffs->freeze_limit,
									cutoffs->multixact_cutoff, &carry.xid, &carry.mxid) &&
			context->aggressive)
		{
			*context->error_offset = InvalidOffsetNumber;
			return false;
		}

		count_tuple(context, tuple_state(context, buf, &tuple), tuple.t_data, outcome);
	}

	*context->error_offset = InvalidOffsetNumber;
	context->carry = carry;
	return true;
}

/*
 * Set a page's dead line pointers (ascending offsets) unused, shorten its line
 * pointer array if that leaves unused ones at the end, and log it.
 *
 * The caller holds the page's exclusive lock, and no index has an entry for any
 * of them.  Returns false, and changes nothing, if one of them is not dead: its
 * row would be lost.
 */
bool
page_reap(PageContext *context, Buffer buf, const OffsetNumber *dead, int ndead)
{
	Page		page = BufferGetPage(buf);
	OffsetNumber max = PageIsNew(page) ? InvalidOffsetNumber : PageGetMaxOffsetNumber(page);

	Assert(ndead > 0);
	for (int i = 0; i < ndead; i++)
	{
		ItemId		item = PageGetItemId(page, dead[i]);

		if (dead[i] > max || !ItemIdIsDead(item) || ItemIdHasStorage(item))
			return false;
	}

	START_CRIT_SECTION();

	for (int i = 0; i < ndead; i++)
		ItemIdSetUnused(PageGetItemId(page, dead[i]));
	PageTruncateLinePointerArray(page);
	MarkBufferDirty(buf);

	if (RelationNeedsWAL(context->rel))
	{
		xl_heap_vacuum record = {.nunused = ndead};
		XLogRecPtr	lsn;

		XLogBeginInsert();
		XLogRegisterData((char *) &record, SizeOfHeapVacuum);
		XLogRegisterBuffer(0, buf, REGBUF_STANDARD);
		XLogRegisterBufData(0, (char *) dead, ndead * sizeof(OffsetNumber));
		lsn = XLogInsert(RM_HEAP2_ID, XLOG_HEAP2_VACUUM);
		PageSetLSN(page, lsn);
	}

	END_CRIT_SECTION();
	return true;
}

/*
 * Is every row of the page visible to all transactions, now and later?  The
 * caller holds at least the page's share lock.
 *
 * If so, *visibility_cutoff is the newest of their XIDs, and *all_frozen tells
 * if none of them has to be frozen, ever.
 */
bool
page_is_all_visible(PageContext *context, Buffer buf,
					TransactionId *visibility_cutoff, bool *all_frozen)
{
	Page		page = BufferGetPage(buf);
	BlockNumber block = BufferGetBlockNumber(buf);
	OffsetNumber max = PageGetMaxOffsetNumber(page);
	bool		all_visible = true;

	*visibility_cutoff = InvalidTransactionId;
	*all_frozen = true;

	for (OffsetNumber offset = FirstOffsetNumber; offset <= max && all_visible; offset++)
	{
		ItemId		item = PageGetItemId(page, offset);
		HeapTupleData tuple;

		*context->error_offset = offset;

		if (!ItemIdIsUsed(item) || ItemIdIsRedirected(item))
			continue;
		if (ItemIdIsDead(item))
		{
			all_visible = false;
			continue;
		}

		fetch_tuple(context, page, block, offset, &tuple);
		all_visible = tuple_state(context, buf, &tuple) == HEAPTUPLE_LIVE &&
			is_visible_to_all(context, tuple.t_data, visibility_cutoff);
		if (all_visible && *all_frozen && heap_tuple_needs_eventual_freeze(tuple.t_data))
			*all_frozen = false;
	}

	*context->error_offset = InvalidOffsetNumber;
	if (!all_visible)
		*all_frozen = false;
	return all_visible;
}

/*----------
 * Parallel index passes
 *----------
 */

struct IndexWorkers
{
	ParallelVacuumState *state;
	VacDeadItems *shared;		/* the dead TIDs, in memory shared with the workers */
};

/*
 * Get ready for index passes by parallel workers, if the table's indexes are
 * worth any.  requested is the number asked for, 0 for the server's choice;
 * elevel is for the message that says how many are started.
 *
 * Returns NULL if there are to be none.  Otherwise *dead is initialized in
 * memory that the workers share, with room for max_tids, and parallel mode is
 * on until server_stop_index_workers().
 */
IndexWorkers *
server_start_index_workers(Relation rel, Relation *indexes, int nindexes, int requested,
						   int64 max_tids, int elevel, BufferAccessStrategy strategy,
						   DeadTids *dead)
{
	ParallelVacuumState *state = parallel_vacuum_init(rel, indexes, nindexes, requested,
													  (int) max_tids, elevel, strategy);
	IndexWorkers *workers;

	if (state == NULL)
		return NULL;

	workers = palloc(sizeof(IndexWorkers));
	workers->state = state;
	workers->shared = parallel_vacuum_get_dead_items(state);
	dead_tids_init(dead, (DeadTid *) workers->shared->items, workers->shared->max_items);
	return workers;
}

/*
 * Remove the dead TIDs, which lie in shared memory, from all indexes.
 * passes_done is the number of passes before this one.
 */
void
server_bulk_delete_in_parallel(IndexWorkers *workers, const DeadTids *dead,
							   double table_tuples, int passes_done)
{
	workers->shared->num_items = (int) dead->count;
	parallel_vacuum_bulkdel_all_indexes(workers->state, (long) table_tuples, passes_done);
}

void
server_clean_up_in_parallel(IndexWorkers *workers, double table_tuples,
							int passes_done, bool estimated)
{
	parallel_vacuum_cleanup_all_indexes(workers->state, (long) table_tuples, passes_done,
										estimated);
}

/*
 * End parallel mode and copy each index's result to the caller's array.  The
 * memory of the dead TIDs is gone afterwards.
 */
void
server_stop_index_workers(IndexWorkers *workers, IndexBulkDeleteResult **results)
{
	parallel_vacuum_end(workers->state, results);
	pfree(workers);
}

/*
 * Fill in what an index access method is told when it vacuums an index of rel.
 */
void
server_init_index_info(IndexVacuumInfo *info, Relation index, Relation rel,
					   double table_tuples, bool estimated, BufferAccessStrategy strategy)
{
	memset(info, 0, sizeof(*info));
	info->index = index;
	info->estimated_count = estimated;
	info->message_level = DEBUG2;
	info->num_heap_tuples = table_tuples;
	info->strategy = strategy;
}

/*----------
 * The rest
 *----------
 */

/* The number of the file that holds a table or an index; rewriting changes it. */
uint32
server_file_number(Relation rel)
{
	return rel->rd_node.relNode;
}

/* R3: which table of which cluster is it?  Not in recovery. */
void
server_table_identity(Relation rel, TableIdentity *identity)
{
	identity->system_identifier = GetSystemIdentifier();
	identity->timeline = GetWALInsertionTimeLine();
	identity->tablespace = rel->rd_node.spcNode;
	identity->file_number = rel->rd_node.relNode;
	identity->persistence = rel->rd_rel->relpersistence;
}

bool
server_is_autovacuum_worker(void)
{
	return IsAutoVacuumWorkerProcess();
}

/*
 * Dead TIDs that fit into so much memory, by the server's own reckoning: runs
 * of ours have as many index passes as the server's.
 */
int64
server_max_dead_tids(size_t bytes)
{
	return MAXDEADITEMS(bytes);
}

/*
 * Take the cutoffs of a run.  Returns true if it has to be an aggressive one.
 */
bool
server_take_cutoffs(Relation rel, VacuumParams *params, Cutoffs *cutoffs)
{
	cutoffs->relfrozenxid = rel->rd_rel->relfrozenxid;
	cutoffs->relminmxid = rel->rd_rel->relminmxid;
	return vacuum_set_xid_limits(rel,
								 params->freeze_min_age, params->freeze_table_age,
								 params->multixact_freeze_min_age,
								 params->multixact_freeze_table_age,
								 &cutoffs->oldest_xmin, &cutoffs->oldest_mxid,
								 &cutoffs->freeze_limit, &cutoffs->multixact_cutoff);
}

/* Is the table so old that only freezing matters? */
bool
server_needs_failsafe(const Cutoffs *cutoffs)
{
	return vacuum_xid_failsafe_check(cutoffs->relfrozenxid, cutoffs->relminmxid);
}

/* No more cost-based delay in this vacuum. */
void
server_lift_cost_limits(void)
{
	VacuumCostActive = false;
	VacuumCostBalance = 0;
}

/* Take interrupts, and sleep if cost-based delay says so. */
void
server_pause_point(void)
{
	vacuum_delay_point();
}

/*
 * With old_snapshot_threshold, a scan needs a removed page's LSN to tell that
 * its snapshot is too old; a truncated page has none.
 */
bool
server_forbids_truncation(void)
{
	return old_snapshot_threshold >= 0;
}

/*
 * Update pg_class for a table or an index.  Sizes in blocks; invalid XIDs in
 * *frozen leave the old ones.  The flags tell which of them advanced and may be
 * NULL.
 */
void
server_update_relstats(Relation rel, BlockNumber pages, double tuples,
					   BlockNumber all_visible_pages, bool has_index, const Carry *frozen,
					   bool *frozenxid_updated, bool *minmulti_updated)
{
	vac_update_relstats(rel, pages, tuples, all_visible_pages, has_index,
						frozen->xid, frozen->mxid, frozenxid_updated, minmulti_updated, false);
}

/* Is the current user the relation's owner, or as good as that? */
bool
server_user_owns(Oid relid)
{
	return pg_class_ownercheck(relid, GetUserId());
}

/*
 * What the statistics count of the table, all negative if they know nothing of it.  What
 * this transaction has read of them before can be hours old; fresh asks anew.
 *
 * The count of dead rows goes down when a query prunes a page (heap_page_prune_opt), by
 * those that leave no dead line pointer: rows updated by HOT.  Other rows are dead, in
 * this or that form, until a vacuum removes them.
 */
RowCounts
server_row_counts(Relation rel, bool fresh)
{
	const PgStat_StatTabEntry *entry;

	if (fresh)
		pgstat_clear_snapshot();
	entry = pgstat_fetch_stat_tabentry_ext(rel->rd_rel->relisshared, RelationGetRelid(rel));
	if (entry == NULL)
		return (RowCounts) {.dead = -1, .gone = -1, .analyses = -1};
	return (RowCounts) {.dead = entry->n_dead_tuples,
		.gone = entry->tuples_deleted + entry->tuples_updated - entry->tuples_hot_updated,
		.analyses = entry->analyze_count + entry->autovac_analyze_count};
}

/* Report the finished vacuum to the statistics; counts in rows. */
void
server_report_vacuum(Relation rel, double live_tuples, int64 dead_tuples)
{
	pgstat_report_vacuum(RelationGetRelid(rel), rel->rd_rel->relisshared,
						 live_tuples, dead_tuples);
}

/* pg_stat_progress_vacuum's columns for dead TIDs. */
void
server_progress_max_dead_tids(int64 max_tids)
{
	pgstat_progress_update_param(PROGRESS_VACUUM_MAX_DEAD_TUPLES, max_tids);
}

void
server_progress_dead_tids(int64 tids)
{
	pgstat_progress_update_param(PROGRESS_VACUUM_NUM_DEAD_TUPLES, tids);
}
