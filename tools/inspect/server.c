/*
 * server.c
 *	  Asking the server of a data directory.
 *
 * Its address is in postmaster.pid: line 4 the port, line 5 the socket's place.
 * Somebody else than the server's user is likely to be turned away, which the
 * server's log would show, and so tries only with PGUSER set.
 */
#include "postgres_fe.h"

#include <sys/stat.h>
#include <unistd.h>

#include "server.h"

/*
 * Connect to a database of the server.  Returns NULL if there is no server, or none
 * that lets us in.
 */
PGconn *
server_connect(const char *data_directory, const char *database)
{
	char		path[MAXPGPATH];
	char		lines[5][MAXPGPATH] = {0};
	struct stat owner;
	FILE	   *file;
	PGconn	   *connection;

	if (getenv("PGUSER") == NULL &&
		(stat(data_directory, &owner) != 0 || owner.st_uid != geteuid()))
		return NULL;
	snprintf(path, sizeof(path), "%s/postmaster.pid", data_directory);
	if ((file = fopen(path, "r")) == NULL)
		return NULL;
	for (int i = 0; i < 5 && fgets(lines[i], MAXPGPATH, file) != NULL; i++)
		lines[i][strcspn(lines[i], "\n")] = '\0';
	fclose(file);
	if (lines[4][0] == '\0')
		return NULL;

	{
		const char *const keywords[] = {"host", "port", "dbname", "connect_timeout",
		"fallback_application_name", NULL};
		const char *const values[] = {lines[4], lines[3], database, "3",
		"pg_vacuum_resume", NULL};

		connection = PQconnectdbParams(keywords, values, 0);
	}
	if (PQstatus(connection) == CONNECTION_OK)
		return connection;
	PQfinish(connection);
	return NULL;
}
