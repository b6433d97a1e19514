/*
 * forget.c
 *	  Making the next vacuum of a table start over.
 *
 * Only the server writes to the store: it keeps a note of each change, and sets a
 * store aside that anybody else has changed (see store.c).  So it is asked to.
 */
#include "postgres_fe.h"

#include "forget.h"
#include "output.h"
#include "server.h"

static void
complain(const CycleRecord *cycle, const char *problem, const char *what_to_do)
{
	fprintf(stderr, "pg_vacuum_resume: could not forget the vacuum of %s.%s: %s\n",
			output_visible(cycle->schema_name), output_visible(cycle->table_name), problem);
	if (what_to_do != NULL)
		fprintf(stderr, "%s\n", what_to_do);
}

static void
complain_of_no_server(const char *data_directory, const CycleRecord *cycle, const char *problem)
{
	complain(cycle, problem, "Only the server can forget it: start it, and see that it lets you in.");
	fprintf(stderr, "If all interrupted vacuums may start over, and the history may be lost, remove the\n"
			"directory \"%s/pg_vacuum_resume\" instead, but only while the server is down.\n",
			data_directory);
}

static bool
failed_with(const PGresult *result, const char *sqlstate)
{
	const char *found = PQresultErrorField(result, PG_DIAG_SQLSTATE);

	return found != NULL && strcmp(found, sqlstate) == 0;
}

/* Why the server could not, as far as it is known, and what helps. */
static void
complain_of_refusal(PGconn *connection, const PGresult *result, const CycleRecord *cycle)
{
	char	   *message = server_message(connection);

	if (failed_with(result, "55P03"))
		complain(cycle, "a vacuum of it is under way, or something else has locked it",
				 "Stop that first, or try again when it is over.");
	else
		complain(cycle, message, NULL);
}

/*
 * Is the table gone?  Then the server removes what it kept of it when it lists its
 * records.
 */
static bool
remove_dropped(PGconn *connection, const CycleRecord *cycle)
{
	PGresult   *result = PQexec(connection, "SELECT FROM vacuum_resume.cycles() LIMIT 1");
	bool		removed = PQresultStatus(result) == PGRES_TUPLES_OK;

	if (!removed)
		complain_of_refusal(connection, result, cycle);
	PQclear(result);
	return removed;
}

/*
 * Forget the record of a table, whose database has this name; NULL if no server tells
 * it, for the reason in problem.  Says on standard output what was forgotten; if
 * nothing was, says why not, and returns false.
 */
bool
forget_table(const char *data_directory, const char *database, const char *problem,
			 const CycleRecord *cycle)
{
	PGconn	   *connection = database == NULL ? NULL :
		server_connect(data_directory, database, &problem);
	PGresult   *result;
	char		oid[16];
	const char *const values[] = {oid};
	const char *why = "";
	bool		forgotten = false;

	if (connection == NULL)
	{
		complain_of_no_server(data_directory, cycle, problem);
		return false;
	}

	if (!server_has_function(connection, "vacuum_resume.forget(regclass)") ||
		!server_has_function(connection, "vacuum_resume.cycles()"))
	{
		complain(cycle, "the extension has not been created in this database",
				 "CREATE EXTENSION pg_vacuum_resume there; or let VACUUM (RESUME off) start over.");
		PQfinish(connection);
		return false;
	}

	snprintf(oid, sizeof(oid), "%u", cycle->key.relation);
	result = PQexecParams(connection, "SELECT vacuum_resume.forget($1::pg_catalog.regclass)",
						  1, NULL, values, NULL, NULL, 0);
	if (PQresultStatus(result) == PGRES_TUPLES_OK)
	{
		forgotten = strcmp(PQgetvalue(result, 0, 0), "t") == 0;
		if (!forgotten)
			complain(cycle, "there is nothing to forget any more", NULL);
	}
	else if (failed_with(result, "42P01"))
	{
		forgotten = remove_dropped(connection, cycle);
		why = ", a table that has been dropped";
	}
	else
		complain_of_refusal(connection, result, cycle);

	if (forgotten)
		printf("forgot the vacuum of %s.%s (%s%s, table %u)%s, which had got to block %u of %u\n",
			   output_visible(cycle->schema_name), output_visible(cycle->table_name),
			   cycle->key.database == 0 ? "shared" : "database ",
			   cycle->key.database == 0 ? "" : output_visible(database),
			   cycle->key.relation, why, cycle->next_block, cycle->rel_blocks);
	PQclear(result);
	PQfinish(connection);
	return forgotten;
}
