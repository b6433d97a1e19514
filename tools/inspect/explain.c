/*
 * explain.c
 *	  What the next vacuum of a table would do, and why.
 *
 * If the server answers, it is asked: it counts pages now, and knows who may trust
 * the record.  If not, the decision is made here, by the same function, with the
 * estimates that were saved.
 */
#include "postgres_fe.h"

#include "explain.h"
#include "facts.h"
#include "history.h"
#include "server.h"

static const char *const names[] = {"plan", "chosen", "possible", "from block#", "heap pages#",
	"index pages#", "index passes#", "work#", "dead rows removed#", "dead rows expected#",
"reason", "estimates"};

/* People read in the title where the numbers come from, programs in the last column. */
static OutputTable *
plan_table(OutputFormat format)
{
	return output_table(names, lengthof(names) - (format == OUTPUT_ALIGNED));
}

/* Is this a vacuum that can be asked about?  As vacuum_resume.decide() has it. */
bool
explain_knows_kind(const char *by)
{
	return strcmp(by, "autovacuum") == 0 || pg_strcasecmp(by, "VACUUM") == 0 ||
		pg_strcasecmp(by, "VACUUM (RESUME)") == 0;
}

static void
print_title(const CycleRecord *cycle, const char *by, const char *source, OutputFormat format)
{
	if (format == OUTPUT_ALIGNED)
		printf("Next vacuum of %s.%s, by %s; %s\n", output_visible(cycle->schema_name),
			   output_visible(cycle->table_name), by, source);
}

/* Ask the server; returns false if it does not answer, or has not got the extension there. */
static bool
print_live(const char *data_directory, const char *database, const CycleRecord *cycle,
		   const char *by, OutputFormat format)
{
	PGconn	   *connection = database == NULL ? NULL :
		server_connect(data_directory, database, NULL);
	OutputTable *table;
	PGresult   *result;
	char		oid[16];
	const char *const values[] = {oid, by};

	if (connection == NULL)
		return false;
	if (!server_has_function(connection, "vacuum_resume.decide(regclass, text)"))
	{
		fprintf(stderr, "pg_vacuum_resume: the server could not be asked: the extension has not been created in this database\n");
		PQfinish(connection);
		return false;
	}
	snprintf(oid, sizeof(oid), "%u", cycle->key.relation);
	result = PQexecParams(connection,
						  "SELECT plan, CASE WHEN chosen THEN 'yes' ELSE 'no' END,"
						  " CASE WHEN possible THEN 'yes' ELSE 'no' END, from_block,"
						  " pg_catalog.round(heap_pages), pg_catalog.round(index_pages), index_passes,"
						  " pg_catalog.round(work), pg_catalog.round(dead_rows_removed),"
						  " pg_catalog.round(dead_rows_expected), reason"
						  " FROM vacuum_resume.decide($1::pg_catalog.regclass, $2::pg_catalog.text)",
						  2, NULL, values, NULL, NULL, 0);
	if (PQresultStatus(result) != PGRES_TUPLES_OK)
	{
		fprintf(stderr, "pg_vacuum_resume: the server could not be asked: %s\n",
				server_message(connection));
		PQclear(result);
		PQfinish(connection);
		return false;
	}

	print_title(cycle, by, "pages are counted now", format);
	table = plan_table(format);
	for (int row = 0; row < PQntuples(result); row++)
	{
		for (int column = 0; column < PQnfields(result); column++)
			output_text(table, PQgetisnull(result, row, column) ? NULL :
						PQgetvalue(result, row, column));
		if (format != OUTPUT_ALIGNED)
			output_text(table, "now");
	}
	output_print(table, format);
	PQclear(result);
	PQfinish(connection);
	return true;
}

static void
output_amount(OutputTable *table, double amount)
{
	char		text[400];

	snprintf(text, sizeof(text), "%.0f", amount);
	output_text(table, text);
}

/* Decide as the server would, had nothing changed since the save. */
static void
print_saved(const CycleRecord *cycle, const RunRecord *runs, int nruns, const char *by,
			OutputFormat format)
{
	OutputTable *table = plan_table(format);
	RunRecord  *own = pg_malloc(HISTORY_RUNS * sizeof(RunRecord));
	int			nown = 0;
	DecisionInput input;
	Decision	decision;

	for (int i = 0; i < nruns && nown < HISTORY_RUNS; i++)
		if (runs[i].key.database == cycle->key.database &&
			runs[i].key.relation == cycle->key.relation)
			own[nown++] = runs[i];

	facts_of_record(cycle, cycle->rel_blocks, &cycle->estimate, true,
					strcmp(by, "autovacuum") != 0, &input);
	input.expected_work = history_expected_work(own, history_that_counts(own, nown, false));
	input.may_leave_head = pg_strcasecmp(by, "VACUUM") != 0;
	input.mode = pg_strcasecmp(by, "VACUUM (RESUME)") == 0 ? DECIDE_RESUME : DECIDE_AUTO;
	decide(&input, &decision);
	pg_free(own);

	print_title(cycle, by, "the server does not tell, these are the estimates that were saved, for mode auto",
				format);
	for (int plan = 0; plan < VACUUM_PLANS; plan++)
	{
		const PlanEstimate *estimate = &decision.plans[plan];

		output_text(table, vacuum_plan_name(plan));
		output_text(table, decision.plan == plan ? "yes" : "no");
		output_text(table, estimate->possible ? "yes" : "no");
		output_number(table, plan == PLAN_RESTART ? 0 : cycle->next_block);
		output_amount(table, estimate->heap_pages);
		output_amount(table, estimate->index_pages);
		output_number(table, estimate->index_passes);
		output_amount(table, estimate->work);
		output_amount(table, estimate->dead_rows_removed);
		output_amount(table, estimate->dead_rows_expected);
		output_text(table, decide_reason_text(estimate->reason));
		if (format != OUTPUT_ALIGNED)
			output_text(table, "saved");
	}
	output_print(table, format);
}

/*
 * Print what the next vacuum of the record's table would do: by autovacuum, VACUUM or
 * VACUUM (RESUME).  database is the name of the table's, NULL if no server tells.
 */
void
explain_print(const char *data_directory, const char *database, const CycleRecord *cycle,
			  const RunRecord *runs, int nruns, const char *by, OutputFormat format)
{
	if (!print_live(data_directory, database, cycle, by, format))
		print_saved(cycle, runs, nruns, by, format);
}
