/*
 * functions.h
 *	  What the SQL functions share.
 */
#ifndef PGVR_FUNCTIONS_H
#define PGVR_FUNCTIONS_H

extern void no_such_table(Oid relid);

#endif							/* PGVR_FUNCTIONS_H */
