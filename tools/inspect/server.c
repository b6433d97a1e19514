/*
 * server.c
 *	  Asking the server of a data directory.
 *
 * Its address is in postmaster.pid: line 3 the time of its start, line 4 the port,
 * line 5 the socket's place.  Somebody else than the server's user is likely to be
 * turned away, which the server's log would show, and so tries only with PGUSER set.
 *
 * Names come as the very bytes that the server has, whatever the encoding of their
 * database: client_encoding SQL_ASCII converts nothing.  So they can be compared with
 * those in the store, and be connected to.
 *
 * Whoever runs the tool is a superuser as a rule, and in the databases there may be
 * people who are not, and would like to be: nothing of theirs must run here.  Hence the
 * empty search path, and hence functions are called only that are the extension's, with
 * arguments of exactly its types.
 */
#include "postgres_fe.h"

#include <sys/stat.h>
#include <unistd.h>

#include "common/connect.h"
#include "lib/stringinfo.h"

#include "output.h"
#include "reader.h"
#include "server.h"

/* A vacuum that is under way, or whatever else has locked a table, can take hours. */
#define LONGEST_WAIT "10s"

/* Longest time from the start of the postmaster to when it calls itself started, in seconds */
#define LONGEST_START 600

/* What libpq says, in one line and fit for a terminal. */
char *
server_message(PGconn *connection)
{
	StringInfoData text;

	initStringInfo(&text);
	for (const char *c = PQerrorMessage(connection); *c != '\0'; c++)
	{
		if (*c != '\n')
			appendStringInfoChar(&text, *c);
		else if (c[strspn(c, "\n\t ")] != '\0')
		{
			c += strspn(c, "\n\t ") - 1;
			appendStringInfoChar(&text, ' ');
		}
	}
	return output_visible(text.data);
}

/*
 * Is it the server of this data directory that answers?  What postmaster.pid says
 * may be left over from a crash, and another server have that address now.
 */
static bool
is_of_directory(PGconn *connection, const char *data_directory, const char *started)
{
	uint64_t	identifier;
	PGresult   *result;
	bool		same = false;

	if (!reader_system_identifier(data_directory, &identifier))
		return false;
	result = PQexec(connection,
					"SELECT system_identifier,"
					" extract(epoch FROM pg_catalog.pg_postmaster_start_time())::bigint"
					" FROM pg_catalog.pg_control_system()");
	if (PQresultStatus(result) == PGRES_TUPLES_OK)
	{
		int64_t		took = strtoll(PQgetvalue(result, 0, 1), NULL, 10) - strtoll(started, NULL, 10);

		/* system identifiers are shown as signed numbers */
		same = (uint64_t) strtoll(PQgetvalue(result, 0, 0), NULL, 10) == identifier &&
			took >= -1 && took <= LONGEST_START;
	}
	PQclear(result);
	return same;
}

/* Is there certainly no server?  One that was killed leaves its postmaster.pid behind. */
bool
server_is_down(const char *data_directory)
{
	char		path[MAXPGPATH];

	snprintf(path, sizeof(path), "%s/postmaster.pid", data_directory);
	return access(path, F_OK) != 0 && errno == ENOENT;
}

/* Let no name and no operator be anybody's but the server's own, and no lock last for hours. */
static bool
settle(PGconn *connection)
{
	PGresult   *result = PQexec(connection, ALWAYS_SECURE_SEARCH_PATH_SQL);
	bool		done = PQresultStatus(result) == PGRES_TUPLES_OK;

	PQclear(result);
	PQclear(PQexec(connection, "SET lock_timeout = '" LONGEST_WAIT "'"));
	return done;
}

/*
 * Has this database a function of our extension with this signature?  One of the same
 * name may be anybody's, where the extension has not been created.
 */
bool
server_has_function(PGconn *connection, const char *signature)
{
	const char *const values[] = {signature};
	PGresult   *result;
	bool		found;

	result = PQexecParams(connection,
						  "SELECT FROM pg_catalog.pg_depend AS d"
						  " JOIN pg_catalog.pg_extension AS e ON e.oid = d.refobjid"
						  " WHERE d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass"
						  " AND d.objid = pg_catalog.to_regprocedure($1)"
						  " AND d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass"
						  " AND d.deptype = 'e' AND e.extname = 'pg_vacuum_resume'",
						  1, NULL, values, NULL, NULL, 0);
	found = PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1;
	PQclear(result);
	return found;
}

/*
 * Connect to a database of the server.  Returns NULL if there is no server, or none
 * that lets us in, and sets *problem (unless that is NULL) to why.
 */
PGconn *
server_connect(const char *data_directory, const char *database, const char **problem)
{
	char		path[MAXPGPATH];
	char		lines[5][MAXPGPATH] = {0};
	struct stat owner;
	FILE	   *file;
	PGconn	   *connection;
	const char *ignored;

	if (problem == NULL)
		problem = &ignored;
	snprintf(path, sizeof(path), "%s/postmaster.pid", data_directory);
	if ((file = fopen(path, "r")) == NULL)
	{
		*problem = errno == ENOENT ? "the server is not running" : strerror(errno);
		return NULL;
	}
	for (int i = 0; i < 5 && fgets(lines[i], MAXPGPATH, file) != NULL; i++)
		lines[i][strcspn(lines[i], "\n")] = '\0';
	fclose(file);
	if (lines[4][0] == '\0')
	{
		*problem = "the server has no socket that could be connected to";
		return NULL;
	}
	if (getenv("PGUSER") == NULL &&
		(stat(data_directory, &owner) != 0 || owner.st_uid != geteuid()))
	{
		*problem = "you are not the server's user, and PGUSER does not say who you are to the server";
		return NULL;
	}

	{
		const char *const keywords[] = {"host", "port", "dbname", "connect_timeout",
		"client_encoding", "fallback_application_name", NULL};
		const char *const values[] = {lines[4], lines[3], database, "3",
		"SQL_ASCII", "pg_vacuum_resume", NULL};

		connection = PQconnectdbParams(keywords, values, 0);
	}
	if (PQstatus(connection) != CONNECTION_OK)
		*problem = server_message(connection);
	else if (!settle(connection))
		*problem = server_message(connection);
	else if (!is_of_directory(connection, data_directory, lines[2]))
		*problem = "the server that answers is not that of this data directory";
	else
		return connection;
	PQfinish(connection);
	return NULL;
}
