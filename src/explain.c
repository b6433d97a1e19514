/*
 * explain.c
 *	  What the next vacuum of a table would do, and why: vacuum_resume.decide().
 *
 * The question is put as a run would put it (plan.c), with the record and the
 * visibility map as they are now.
 */
#include "postgres.h"

#include <math.h>

#include "access/heapam.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "commands/vacuum.h"
#include "fmgr.h"
#include "funcapi.h"
#include "storage/bufmgr.h"
#include "utils/builtins.h"
#include "utils/rel.h"

#include "attach.h"
#include "cycle.h"
#include "estimate.h"
#include "functions.h"
#include "history_row.h"
#include "plan.h"
#include "settings.h"
#include "store.h"

/* PGDLLEXPORT is empty before server 16; everything else of ours is hidden. */
#pragma GCC visibility push(default)
PG_FUNCTION_INFO_V1(pgvr_decide);
#pragma GCC visibility pop

/* Who asks for the decision: the next vacuum is autovacuum's, or one of these commands. */
typedef enum Asker
{
	ASKER_AUTOVACUUM,
	ASKER_VACUUM,
	ASKER_VACUUM_RESUME
} Asker;

static Asker
parse_asker(const char *word)
{
	if (strcmp(word, "autovacuum") == 0)
		return ASKER_AUTOVACUUM;
	if (pg_strcasecmp(word, "VACUUM") == 0)
		return ASKER_VACUUM;
	if (pg_strcasecmp(word, "VACUUM (RESUME)") == 0)
		return ASKER_VACUUM_RESUME;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unrecognized kind of vacuum: \"%s\"", word),
			 errhint("Available kinds: \"autovacuum\", \"VACUUM\", \"VACUUM (RESUME)\".")));
}

/* The freezing that a vacuum by default, or autovacuum of this table, would do. */
static bool
take_cutoffs(Relation rel, Asker asker, Cutoffs *cutoffs)
{
	const AutoVacOpts *options = estimate_autovacuum_options(rel);
	VacuumParams params = {0};

	params.freeze_min_age = params.freeze_table_age = -1;
	params.multixact_freeze_min_age = params.multixact_freeze_table_age = -1;
	if (asker == ASKER_AUTOVACUUM && options != NULL)
	{
		params.freeze_min_age = options->freeze_min_age;
		params.freeze_table_age = options->freeze_table_age;
		params.multixact_freeze_min_age = options->multixact_freeze_min_age;
		params.multixact_freeze_table_age = options->multixact_freeze_table_age;
	}
	return server_take_cutoffs(rel, &params, cutoffs);
}

/*
 * Decide as the next vacuum would that has the settings that we have now.  Returns true if
 * there is a record that it could not continue, and says why not.  The table is locked.
 */
static bool
ask(Relation rel, Asker asker, DecisionInput *input, Decision *decision, DecideReason *obstacle)
{
	BlockNumber rel_blocks = RelationGetNumberOfBlocks(rel);
	TableKey	key = cycle_key(rel);
	CycleRecord record;
	Relation   *indexes;
	int			nindexes;
	Cutoffs		cutoffs = {0};
	bool		aggressive = take_cutoffs(rel, asker, &cutoffs);
	bool		obstructed = false;
	StoreResult result;

	result = store_find(&key, &record);
	if (result == STORE_OK)
		obstructed = cycle_is_over(rel, &cutoffs, aggressive, &record, obstacle);
	else if (result != STORE_NOT_FOUND)
	{
		*obstacle = BECAUSE_UNREADABLE;
		obstructed = true;
	}

	vac_open_indexes(rel, AccessShareLock, &nindexes, &indexes);
	plan_facts(rel, indexes, nindexes, rel_blocks, result == STORE_OK && !obstructed ? &record : NULL,
			   aggressive, false, asker != ASKER_AUTOVACUUM && setting_max_duration == 0, input);
	input->expected_work = history_work_before_stop(rel, setting_max_duration != 0);
	vac_close_indexes(nindexes, indexes, NoLock);

	input->mode = asker == ASKER_VACUUM_RESUME ? DECIDE_RESUME : plan_mode();
	input->may_leave_head = asker != ASKER_VACUUM;
	decide(input, decision);
	return obstructed;
}

/* Open what VACUUM takes, and our code: a sequence is of the same access method. */
static Relation
open_table(Oid relid)
{
	Relation	rel = try_table_open(relid, AccessShareLock);

	if (rel == NULL)
		no_such_table(relid);
	if (rel->rd_tableam != GetHeapamTableAmRoutine() ||
		(rel->rd_rel->relkind != RELKIND_RELATION && rel->rd_rel->relkind != RELKIND_TOASTVALUE &&
		 rel->rd_rel->relkind != RELKIND_MATVIEW))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a heap table", RelationGetRelationName(rel)),
				 rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE ?
				 errhint("Ask about each of its partitions; they are vacuumed one by one.") : 0));
	return rel;
}

/* Put an estimate into the next column, null if there is none. */
static void
put_estimate(double estimate, bool estimated, Datum *values, bool *nulls, int *n)
{
	nulls[*n] = !estimated;
	values[(*n)++] = Float8GetDatum(rint(estimate));
}

/*
 * vacuum_resume.decide(regclass, text) returns setof record
 *
 * One row for each plan.  Takes no lock that a vacuum would have to wait for.
 */
Datum
pgvr_decide(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Asker		asker = parse_asker(text_to_cstring(PG_GETARG_TEXT_PP(1)));
	Relation	rel;
	DecideReason obstacle;
	bool		obstructed;
	DecisionInput input;
	Decision	decision;
	bool		ours;
	int			nest_level = 0;

	require_preloaded();
	InitMaterializedSRF(fcinfo, 0);
	rel = open_table(PG_GETARG_OID(0));

	/* a command has the settings of the session that gives it */
	if (asker == ASKER_AUTOVACUUM)
		nest_level = settings_begin_as_worker();
	obstructed = ask(rel, asker, &input, &decision, &obstacle);
	ours = attach_is_ours(rel);
	if (asker == ASKER_AUTOVACUUM)
		settings_end_as_worker(nest_level);

	if (!ours)
	{
		obstacle = BECAUSE_SERVERS_OWN_CODE;
		obstructed = true;
		decision.plan = PLAN_RESTART;
		for (int plan = 0; plan < VACUUM_PLANS; plan++)
			decision.plans[plan].possible = plan == PLAN_RESTART;
	}
	for (int plan = 0; plan < VACUUM_PLANS; plan++)
	{
		const PlanEstimate *estimate = &decision.plans[plan];
		bool		estimated = plan == PLAN_RESTART || input.has_record;
		Datum		values[18];
		bool		nulls[18] = {0};
		int			n = 0;

		values[n++] = CStringGetTextDatum(vacuum_plan_name(plan));
		values[n++] = BoolGetDatum(decision.plan == plan);
		values[n++] = BoolGetDatum(estimate->possible);
		values[n++] = CStringGetTextDatum(decide_reason_text(obstructed ? obstacle :
															 estimate->reason));
		values[n++] = Int64GetDatum(plan == PLAN_RESTART ? 0 : (int64) input.next_block);
		put_estimate(estimate->heap_pages, estimated, values, nulls, &n);
		put_estimate(estimate->verified_pages, estimated, values, nulls, &n);
		put_estimate(estimate->reaped_pages, estimated, values, nulls, &n);
		put_estimate(estimate->index_pages, estimated, values, nulls, &n);
		nulls[n] = !estimated;
		values[n++] = Int32GetDatum(estimate->index_passes);
		put_estimate(estimate->work, estimated, values, nulls, &n);
		put_estimate(estimate->dead_rows_removed, estimated, values, nulls, &n);
		put_estimate(estimate->dead_rows_expected, estimated, values, nulls, &n);
		values[n++] = Int64GetDatum((int64) input.ahead);
		values[n++] = Int64GetDatum((int64) input.behind);
		put_estimate(decision.tail_dead, true, values, nulls, &n);
		put_estimate(decision.head_dead, true, values, nulls, &n);
		put_estimate(input.expected_work, input.expected_work > 0, values, nulls, &n);
		Assert(n == lengthof(values));

		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}

	table_close(rel, NoLock);
	return (Datum) 0;
}
