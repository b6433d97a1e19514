/*
 * version.h
 *	  The one place that says which version this is.  No server headers: the
 *	  command-line tool shares it.
 */
#ifndef PGVR_VERSION_H
#define PGVR_VERSION_H

#define PGVR_VERSION "0.1"

#endif							/* PGVR_VERSION_H */
