/*
 * server.h
 *	  Asking the server of a data directory.
 */
#ifndef PGVR_SERVER_H
#define PGVR_SERVER_H

#include <libpq-fe.h>

extern PGconn *server_connect(const char *data_directory, const char *database);

#endif							/* PGVR_SERVER_H */
