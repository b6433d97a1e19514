/*
 * datafile.h
 *	  Which file is the store?
 */
#ifndef PGVR_DATAFILE_H
#define PGVR_DATAFILE_H

#include <stdbool.h>
#include <stddef.h>

#define STORE_DIRECTORY "pg_vacuum_resume"
#define DATA_PATH STORE_DIRECTORY "/data.mdb"
#define LOCK_PATH STORE_DIRECTORY "/lock.mdb"
#define IDENTITY_PATH STORE_DIRECTORY "/identity"
#define SET_ASIDE_PATH STORE_DIRECTORY "/data.mdb.set-aside"

#define FILE_IDENTITY_BYTES 128

extern bool data_file_exists(void);
extern void file_identity(const char *path, char *text);
extern bool data_file_is_own(void);
extern bool data_file_is_of_another_version(void);
extern bool data_file_write_identity(void);

#endif							/* PGVR_DATAFILE_H */
