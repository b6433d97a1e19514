/*
 * server.h
 *	  Asking the server of a data directory.
 */
#ifndef PGVR_SERVER_H
#define PGVR_SERVER_H

#include <libpq-fe.h>

extern bool server_is_down(const char *data_directory);
extern PGconn *server_connect(const char *data_directory, const char *database,
							  const char **problem);
extern bool server_has_function(PGconn *connection, const char *signature);
extern char *server_message(PGconn *connection);

#endif							/* PGVR_SERVER_H */
