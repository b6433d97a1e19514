/*
 * estimate.c
 *	  What lies ahead of and behind a cycle's cursor.
 *
 * The visibility map tells how many pages a run would have to read on either
 * side, for two bits a page: that of a table of 1 TB has 32 MB, and is counted a
 * word at a time (vm.c).  How many dead rows these pages have is not known; the
 * server's statistics count them for the table as a whole.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/reloptions.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "postmaster/autovacuum.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "estimate.h"
#include "page.h"
#include "vm.h"

/*
 * Count the vacuumable pages in tail and head.  An aggressive run skips pages of
 * the tail that are all-frozen only, though there is nothing dead on those that are
 * all-visible; of the head it has seen all XIDs, and looks again at what is not
 * all-visible.  Gaps between these that are too short to be skipped are read, too.  The
 * caller has the table locked.
 */
void
estimate_pages(Relation rel, BlockNumber cursor, BlockNumber rel_blocks, bool aggressive,
			   Estimate *estimate)
{
	VmCounts	head;
	VmCounts	tail;

	cursor = Min(cursor, rel_blocks);
	head = vm_count(rel, 0, cursor, aggressive);
	tail = vm_count(rel, cursor, rel_blocks, aggressive);
	estimate->behind = head.not_visible;
	estimate->behind_gaps = head.gaps;
	estimate->ahead_gaps = tail.gaps;
	estimate->ahead_to_freeze = aggressive ? tail.not_frozen : 0;
	estimate->ahead = (int64) tail.not_visible + estimate->ahead_to_freeze;
}

/*
 * The options by which autovacuum treats the table, NULL if it has none.  Those of a
 * TOAST table without own ones are its table's, as in autovacuum; it carries the OID
 * of that in its name, which the server sees to.  Allocated in the current context.
 */
const AutoVacOpts *
estimate_autovacuum_options(Relation rel)
{
	StdRdOptions *options = (StdRdOptions *) rel->rd_options;
	HeapTuple	tuple;
	Relation	classes;
	Oid			owner;

	if (options != NULL || rel->rd_rel->relkind != RELKIND_TOASTVALUE ||
		sscanf(RelationGetRelationName(rel), "pg_toast_%u", &owner) != 1)
		return options != NULL ? &options->autovacuum : NULL;

	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(owner));
	if (!HeapTupleIsValid(tuple))
		return NULL;
	if (((Form_pg_class) GETSTRUCT(tuple))->reltoastrelid == RelationGetRelid(rel))
	{
		classes = table_open(RelationRelationId, AccessShareLock);
		options = (StdRdOptions *) extractRelOptions(tuple, RelationGetDescr(classes), NULL);
		table_close(classes, AccessShareLock);
	}
	ReleaseSysCache(tuple);
	return options != NULL ? &options->autovacuum : NULL;
}

/*
 * For how many dead rows autovacuum would come: by the table's own setting if it has
 * one, else the server's.  Looks into the catalog for a TOAST table's, and so is not for
 * a run that is being stopped: it could wait for a lock there.
 */
double
estimate_threshold(Relation rel)
{
	const AutoVacOpts *options = estimate_autovacuum_options(rel);
	double		base = autovacuum_vac_thresh;
	double		share = autovacuum_vac_scale;

	if (options != NULL && options->vacuum_threshold >= 0)
		base = options->vacuum_threshold;
	if (options != NULL && options->vacuum_scale_factor >= 0)
		share = options->vacuum_scale_factor;

	return base + share * Max(rel->rd_rel->reltuples, 0);
}

/*
 * Ask the statistics for the table's rows; fresh: not what this transaction has read
 * of them before.  The caller has the table locked.
 */
void
estimate_rows(Relation rel, bool fresh, Estimate *estimate)
{
	estimate->rows = server_row_counts(rel, fresh);
	estimate->live_rows = rel->rd_rel->reltuples;
}

/*
 * Measure the indexes, which the caller has opened and locked.  done says of each
 * whether it is done with the pending TIDs; NULL: none is.
 */
void
estimate_indexes(Relation *indexes, int nindexes, const bool *done, Estimate *estimate)
{
	estimate->index_pages = 0;
	estimate->index_pages_done = 0;
	for (int i = 0; i < nindexes; i++)
	{
		BlockNumber pages = RelationGetNumberOfBlocks(indexes[i]);

		estimate->index_pages += pages;
		if (done != NULL && done[i])
			estimate->index_pages_done += pages;
	}
}
