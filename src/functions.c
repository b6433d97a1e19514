/*
 * functions.c
 *	  The SQL functions of schema vacuum_resume.
 */
#include "postgres.h"

#include <math.h>

#include "access/relation.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "attach.h"
#include "cycle.h"
#include "drop.h"
#include "estimate.h"
#include "functions.h"
#include "history_row.h"
#include "store.h"
#include "version.h"

/* PGDLLEXPORT is empty before server 16; everything else of ours is hidden. */
#pragma GCC visibility push(default)
PG_FUNCTION_INFO_V1(pgvr_version);
PG_FUNCTION_INFO_V1(pgvr_cycles);
PG_FUNCTION_INFO_V1(pgvr_runs);
PG_FUNCTION_INFO_V1(pgvr_forget);
#pragma GCC visibility pop

/*
 * vacuum_resume.version() returns text
 *
 * Errors out when the library is in this session only: then no vacuum goes
 * through it, and a version number would suggest otherwise.
 */
Datum
pgvr_version(PG_FUNCTION_ARGS)
{
	require_preloaded();
	PG_RETURN_TEXT_P(cstring_to_text(PGVR_VERSION));
}

/*
 * Count the pages of a table that a vacuum cannot skip, on either side of a
 * record's cursor.  Returns false for a table that is not of this database, is
 * gone or locked, or is not what it was.
 */
static bool
count_pages(const CycleRecord *record, BlockNumber *ahead, BlockNumber *behind)
{
	Oid			relid = record->key.relation;
	Relation	rel;
	bool		counted = false;

	if (record->key.database != MyDatabaseId && record->key.database != InvalidOid)
		return false;
	if (!ConditionalLockRelationOid(relid, AccessShareLock))
		return false;

	rel = try_relation_open(relid, NoLock);
	if (rel == NULL)
	{
		UnlockRelationOid(relid, AccessShareLock);
		return false;
	}
	if (server_file_number(rel) == record->identity.file_number &&
		(rel->rd_rel->relkind == RELKIND_RELATION || rel->rd_rel->relkind == RELKIND_TOASTVALUE ||
		 rel->rd_rel->relkind == RELKIND_MATVIEW))
	{
		Estimate	estimate = {0};

		estimate_pages(rel, record->next_block, RelationGetNumberOfBlocks(rel), false, &estimate);
		*behind = estimate.behind;
		*ahead = estimate.ahead;
		counted = true;
	}
	relation_close(rel, AccessShareLock);
	return counted;
}

/*
 * vacuum_resume.cycles() returns setof record, behind the view progress
 */
Datum
pgvr_cycles(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	CycleRecord *records;
	int			nrecords;
	StoreResult result;

	require_preloaded();
	InitMaterializedSRF(fcinfo, 0);

	result = store_list(&records, &nrecords);
	if (result != STORE_OK)
		ereport(WARNING,
				(errmsg("could not read all of the saved progress of vacuums"),
				 errdetail_internal("%s", store_error())));

	for (int i = 0; i < nrecords; i++)
	{
		const CycleRecord *record = &records[i];
		const char *stop = cycle_stop_name(record->stop);
		BlockNumber ahead = 0,
					behind = 0;
		Datum		values[23];
		bool		nulls[23] = {0};
		int			n = 0;

		if (drop_was_missed(&record->key))
			continue;

		values[n++] = ObjectIdGetDatum(record->key.database);
		values[n++] = ObjectIdGetDatum(record->key.relation);
		values[n++] = CStringGetTextDatum(record->schema_name);
		values[n++] = CStringGetTextDatum(record->table_name);
		values[n++] = CStringGetTextDatum(cycle_phase_name(record->phase));
		values[n++] = Int64GetDatum(record->next_block);
		values[n++] = Int64GetDatum(record->rel_blocks);
		nulls[n] = nulls[n + 1] = !count_pages(record, &ahead, &behind);
		values[n++] = Int64GetDatum(ahead);
		values[n++] = Int64GetDatum(behind);
		values[n++] = Int64GetDatum(cycle_pending_tids(record));
		values[n++] = Int64GetDatum(record->phase == CYCLE_REAPING ? record->reap_next_block : 0);
		values[n++] = Int32GetDatum(record->indexes_done);
		values[n++] = Int32GetDatum(record->indexes);
		values[n++] = Int64GetDatum(record->counters.scanned_pages);
		values[n++] = Int64GetDatum(record->counters.rescanned_pages);
		values[n++] = Int64GetDatum(record->counters.verified_pages);
		values[n++] = Int64GetDatum(record->counters.index_scans);
		values[n++] = Int64GetDatum(record->counters.tuples_deleted);
		values[n++] = Int32GetDatum(record->runs);
		values[n++] = Int32GetDatum(record->interruptions);
		nulls[n] = stop == NULL;
		values[n++] = stop == NULL ? (Datum) 0 : CStringGetTextDatum(stop);
		values[n++] = TimestampTzGetDatum(record->cycle_started);
		values[n++] = TimestampTzGetDatum(record->last_saved);
		Assert(n == lengthof(values));

		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}

	return (Datum) 0;
}

/* Put an estimate into the next column, null if there was none. */
static void
put_estimate(double estimate, Datum *values, bool *nulls, int *n)
{
	nulls[*n] = estimate < 0;
	values[(*n)++] = Float8GetDatum(rint(estimate));
}

/*
 * vacuum_resume.runs() returns setof record, behind the view history
 */
Datum
pgvr_runs(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	RunRecord  *runs;
	int			nruns;
	StoreResult result;

	require_preloaded();
	InitMaterializedSRF(fcinfo, 0);

	result = store_list_runs(&runs, &nruns);
	if (result != STORE_OK)
		ereport(WARNING,
				(errmsg("could not read all of the history of vacuums"),
				 errdetail_internal("%s", store_error())));

	for (int i = 0; i < nruns; i++)
	{
		const RunRecord *run = &runs[i];
		const RunDecision *decision = &run->decision;
		Datum		values[38];
		bool		nulls[38] = {0};
		int			n = 0;

		values[n++] = Int64GetDatum((int64) run->number);
		values[n++] = ObjectIdGetDatum(run->key.database);
		values[n++] = ObjectIdGetDatum(run->key.relation);
		values[n++] = CStringGetTextDatum(run->schema_name);
		values[n++] = CStringGetTextDatum(run->table_name);
		values[n++] = TimestampTzGetDatum(run->started);
		values[n++] = TimestampTzGetDatum(run->ended);
		values[n++] = CStringGetTextDatum(vacuum_plan_name(decision->plan));
		values[n++] = CStringGetTextDatum(decide_reason_text(decision->reason));
		values[n++] = CStringGetTextDatum(run_end_name(run->stop));
		values[n++] = BoolGetDatum(run->autovacuum != 0);
		values[n++] = BoolGetDatum(run->aggressive != 0);
		values[n++] = Int64GetDatum(run->from_block);
		values[n++] = Int64GetDatum(run->to_block);
		values[n++] = Int64GetDatum(run->rel_blocks);
		values[n++] = Int64GetDatum(run->scanned_pages);
		values[n++] = Int64GetDatum(run->rescanned_pages);
		values[n++] = Int64GetDatum(run->skipped_pages);
		values[n++] = Int64GetDatum(run->verified_pages);
		values[n++] = Int64GetDatum(run->reaped_pages);
		values[n++] = Int64GetDatum(run->index_pages);
		values[n++] = Int64GetDatum(run->index_scans);
		values[n++] = Int64GetDatum(run->tuples_deleted);
		values[n++] = Int64GetDatum(run->reaped_tids);
		values[n++] = Float8GetDatum(run->work);
		values[n++] = UInt64GetDatum(run->frozenxid_before);
		values[n++] = UInt64GetDatum(run->frozenxid_after);
		put_estimate(decision->ahead, values, nulls, &n);
		put_estimate(decision->behind, values, nulls, &n);
		put_estimate(decision->tail_dead, values, nulls, &n);
		put_estimate(decision->head_dead, values, nulls, &n);
		put_estimate(decision->expected_work > 0 ? decision->expected_work : -1, values, nulls, &n);
		for (int plan = 0; plan < VACUUM_PLANS; plan++)
		{
			put_estimate(decision->plans[plan].work, values, nulls, &n);
			put_estimate(decision->plans[plan].dead_rows, values, nulls, &n);
		}
		Assert(n == lengthof(values));

		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}

	return (Datum) 0;
}

/* Raise the error for a relation that has been dropped. */
void
no_such_table(Oid relid)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_TABLE),
			 errmsg("relation with OID %u does not exist", relid)));
}

/*
 * vacuum_resume.forget(regclass) returns boolean
 *
 * Waits for a vacuum of the table that is under way, as that would save again.
 */
Datum
pgvr_forget(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	CycleRecord record;
	TableKey	key;
	Relation	rel;
	StoreResult result;
	char		relkind;
	bool		found;

	require_preloaded();

	relkind = get_rel_relkind(relid);
	if (relkind == '\0')
		no_such_table(relid);

	/* nobody else may make an autovacuum of the table give way to the lock */
	if (!server_user_owns(relid))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(relkind),
					   get_rel_name(relid));
	PreventCommandDuringRecovery("vacuum_resume.forget()");
	rel = try_relation_open(relid, ShareUpdateExclusiveLock);
	if (rel == NULL)
		no_such_table(relid);

	key = cycle_key(rel);
	result = store_find(&key, &record);
	found = result != STORE_NOT_FOUND;
	if (found && store_finish(&key, result == STORE_OK ? history_killed_run(&record) : NULL) != STORE_OK)
		ereport(ERROR,
				(errcode(ERRCODE_IO_ERROR),
				 errmsg("could not forget the saved progress of the vacuum of table \"%s\"",
						RelationGetRelationName(rel)),
				 errdetail_internal("%s", store_error())));

	relation_close(rel, ShareUpdateExclusiveLock);
	PG_RETURN_BOOL(found);
}
