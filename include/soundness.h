/*
 * soundness.h
 *	  Can LMDB be let loose on this file?
 */
#ifndef PGVR_SOUNDNESS_H
#define PGVR_SOUNDNESS_H

#include <stddef.h>

extern const char *store_file_problem(const char *path);

#endif							/* PGVR_SOUNDNESS_H */
