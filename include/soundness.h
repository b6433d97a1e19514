/*
 * soundness.h
 *	  Can LMDB be let loose on this file?
 */
#ifndef PGVR_SOUNDNESS_H
#define PGVR_SOUNDNESS_H

#include <stdbool.h>
#include <stdint.h>

extern const char *store_file_problem(const char *path);
extern bool store_file_is_at(int fd, uint64_t transaction);

#endif							/* PGVR_SOUNDNESS_H */
