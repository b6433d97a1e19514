/*
 * reader.c
 *	  Reading a data directory's store, whether its server is up or down.
 *
 * Never creates a file, so that nothing of another owner is left in the data
 * directory: LMDB's lock file is used if it is there and may be written to,
 * which is how a running server learns of us.  If not, the store is read
 * without it; pages can then change under us, which the CRCs tell, and the
 * caller tries again.
 */
#include "postgres_fe.h"

#include <fcntl.h>
#include <lmdb.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/controldata_utils.h"

#include "reader.h"
#include "soundness.h"

#define CHECK_ATTEMPTS 5

#define STORE_DIRECTORY "pg_vacuum_resume"

static MDB_env *env = NULL;

static void
report_error(ProblemReport report, void *arg, const char *what, int error)
{
	char		problem[512];

	snprintf(problem, sizeof(problem), "%s: %s", what, mdb_strerror(error));
	report(problem, NULL, arg);
}

/* Why the data file is not the one that the identity file was written for (R3); NULL if it is. */
static const char *
foreign_data_file(const char *directory)
{
	static const char *const foreign =
	"the store is not that of this data directory; the server will set it aside";
	char		path[MAXPGPATH];
	char		expected[256];
	char		found[256] = {0};
	struct statx file;
	FILE	   *identity;
	size_t		bytes;
	int			format;

	snprintf(path, sizeof(path), "%s/data.mdb", directory);
	if (statx(AT_FDCWD, path, 0, STATX_INO | STATX_BTIME, &file) != 0)
		return foreign;
	snprintf(expected, sizeof(expected),
			 "pg_vacuum_resume store, format %d\ninode %llu born %lld.%09u\n",
			 RECORD_FORMAT, (unsigned long long) file.stx_ino,
			 (file.stx_mask & STATX_BTIME) ? (long long) file.stx_btime.tv_sec : 0,
			 (file.stx_mask & STATX_BTIME) ? file.stx_btime.tv_nsec : 0);

	snprintf(path, sizeof(path), "%s/identity", directory);
	if ((identity = fopen(path, "r")) == NULL)
		return foreign;
	bytes = fread(found, 1, sizeof(found) - 1, identity);
	fclose(identity);
	if (bytes == strlen(expected) && memcmp(found, expected, bytes) == 0)
		return NULL;
	if (sscanf(found, "pg_vacuum_resume store, format %d", &format) == 1 && format != RECORD_FORMAT)
		return "the store is of another version of pg_vacuum_resume; the server of this one will set it aside";
	return foreign;
}

/*
 * Open the store of a data directory.  Returns false if there is none, or none
 * that can be read; only the latter is reported.
 */
bool
reader_open(const char *data_directory, ProblemReport report, void *arg)
{
	char		directory[MAXPGPATH];
	char		path[MAXPGPATH];
	struct stat file;
	MDB_envinfo info;
	MDB_stat	stats;
	mdb_filehandle_t descriptor;
	unsigned int flags = MDB_RDONLY | MDB_NOTLS;
	const char *problem;
	int			error;

	snprintf(directory, sizeof(directory), "%s/%s", data_directory, STORE_DIRECTORY);
	snprintf(path, sizeof(path), "%s/data.mdb", directory);
	if (stat(path, &file) != 0)
	{
		if (errno != ENOENT)
			report_error(report, arg, "could not look at the store", errno);
		return false;
	}
	problem = foreign_data_file(directory);
	if (file.st_size == 0)
	{
		/* for the server it is new; its identity is written once it holds something */
		if (problem == NULL)
			report("the store's file has been emptied; the server will begin a new one", NULL, arg);
		return false;
	}
	if (problem != NULL)
	{
		report(problem, NULL, arg);
		return false;
	}

	for (int attempt = 1; (problem = store_file_problem(path)) != NULL; attempt++)
	{
		/* a server may be writing to it */
		if (attempt == CHECK_ATTEMPTS)
		{
			char		text[256];

			snprintf(text, sizeof(text), "the store is damaged: %s", problem);
			report(text, NULL, arg);
			return false;
		}
		pg_usleep(10000);
	}

	snprintf(path, sizeof(path), "%s/lock.mdb", directory);
	if (access(path, R_OK | W_OK) != 0)
		flags |= MDB_NOLOCK;

	if ((error = mdb_env_create(&env)) != 0 ||
		(error = mdb_env_set_maxdbs(env, STORE_DATABASES)) != 0 ||
		(error = mdb_env_open(env, directory, flags, 0600)) != 0)
	{
		report_error(report, arg, "could not open the store", error);
		return false;
	}

	/* LMDB would run into a bus error; a server may have made the file longer meanwhile */
	if (mdb_env_info(env, &info) != 0 || mdb_env_stat(env, &stats) != 0 ||
		mdb_env_get_fd(env, &descriptor) != 0 || fstat(descriptor, &file) != 0 ||
		((uint64) info.me_last_pgno + 1) * stats.ms_psize > (uint64) file.st_size)
	{
		report("the store's file is too short", NULL, arg);
		return false;
	}
	return true;
}

static TableKey
key_table(const MDB_val *key)
{
	TableKey	table = {0};

	if (key->mv_size >= TABLE_KEY_BYTES)
		table = table_key_decode(key->mv_data);
	return table;
}

static bool
same_table(const TableKey *a, const TableKey *b)
{
	return a->database == b->database && a->relation == b->relation;
}

/* A cursor on one named database, NULL if there is none, and how many entries it has. */
static int
open_cursor(MDB_txn *txn, const char *name, MDB_cursor **cursor, size_t *entries)
{
	MDB_dbi		dbi;
	MDB_stat	stats;
	int			error = mdb_dbi_open(txn, name, 0, &dbi);

	*cursor = NULL;
	*entries = 0;
	if (error != 0)
		return error == MDB_NOTFOUND ? 0 : error;
	if ((error = mdb_stat(txn, dbi, &stats)) == 0)
		error = mdb_cursor_open(txn, dbi, cursor);
	*entries = stats.ms_entries;
	return error;
}

/* Read one named database into an array of values of one size. */
static int
read_values(MDB_txn *txn, const char *name, RecordKind kind, size_t bytes,
			void **values, TableKey **tables, int *nvalues,
			ProblemReport report, void *arg)
{
	MDB_cursor *cursor;
	MDB_val		key,
				data;
	size_t		entries;
	int			error = open_cursor(txn, name, &cursor, &entries);

	*nvalues = 0;
	if (cursor == NULL)
		return error;
	*values = pg_malloc0((entries + 1) * bytes);
	*tables = pg_malloc0((entries + 1) * sizeof(TableKey));
	while ((error = mdb_cursor_get(cursor, &key, &data, MDB_NEXT)) == 0)
	{
		TableKey	table = key_table(&key);

		if (data.mv_size != bytes || !record_is_sound(data.mv_data, data.mv_size, kind, bytes))
		{
			report(kind == RECORD_CYCLE ? "the record is damaged" :
				   "the record of a finished index is damaged", &table, arg);
			continue;
		}
		memcpy((char *) *values + *nvalues * bytes, data.mv_data, bytes);
		(*tables)[(*nvalues)++] = table;
	}
	mdb_cursor_close(cursor);
	return error == MDB_NOTFOUND ? 0 : error;
}

/* Read history, newest run first. */
static int
read_runs(MDB_txn *txn, StoreContent *content, ProblemReport report, void *arg)
{
	MDB_cursor *cursor;
	MDB_val		key,
				data;
	size_t		entries;
	int			error = open_cursor(txn, STORE_RUNS, &cursor, &entries);

	if (cursor == NULL)
		return error;
	content->runs = pg_malloc0((entries + 1) * sizeof(RunRecord));
	for (error = mdb_cursor_get(cursor, &key, &data, MDB_LAST);
		 error == 0 && content->nruns < (int) entries;
		 error = mdb_cursor_get(cursor, &key, &data, MDB_PREV))
	{
		RunRecord  *run = &content->runs[content->nruns];
		bool		sound = key.mv_size == RUN_KEY_BYTES && data.mv_size == sizeof(RunRecord) &&
		record_is_sound(data.mv_data, data.mv_size, RECORD_RUN, sizeof(RunRecord));

		if (sound)
			memcpy(run, data.mv_data, sizeof(RunRecord));
		if (sound && run->number == run_key_decode(key.mv_data))
			content->nruns++;
		else
			report("a run in the history is damaged", NULL, arg);
	}
	mdb_cursor_close(cursor);
	return error == MDB_NOTFOUND ? 0 : error;
}

/* Check one chunk by itself; returns its row pointers, 0 if it is damaged. */
static int64_t
check_chunk(const MDB_val *data, const TableKey *table, ProblemReport report, void *arg)
{
	ChunkRecord *chunk;
	DeadTid    *tids;
	int64_t		ntids = -1;

	if (record_is_sound(data->mv_data, data->mv_size, RECORD_CHUNK, sizeof(ChunkRecord)))
	{
		/* values are not aligned */
		chunk = pg_malloc(data->mv_size);
		memcpy(chunk, data->mv_data, data->mv_size);
		tids = pg_malloc((chunk->tids + 1) * sizeof(DeadTid));
		ntids = chunk_decode(chunk, data->mv_size, tids, chunk->tids);
		pg_free(tids);
		pg_free(chunk);
	}
	if (ntids < 0)
		report("a list of pending row pointers is damaged", table, arg);
	return Max(ntids, 0);
}

/* Check all chunks, and that each record has just those that it says. */
static int
check_chunks(MDB_txn *txn, const StoreContent *content, ProblemReport report, void *arg)
{
	int64_t    *found = pg_malloc0((content->ncycles + 1) * sizeof(int64_t));
	MDB_cursor *cursor;
	MDB_val		key,
				data;
	size_t		entries;
	int			error = open_cursor(txn, STORE_CHUNKS, &cursor, &entries);

	if (cursor == NULL)
		return error;
	while ((error = mdb_cursor_get(cursor, &key, &data, MDB_NEXT)) == 0)
	{
		TableKey	table = key_table(&key);
		int64_t		ntids = check_chunk(&data, &table, report, arg);
		bool		owned = false;

		for (int i = 0; i < content->ncycles; i++)
			if (same_table(&content->cycles[i].key, &table))
			{
				found[i] += ntids;
				owned = true;
			}
		if (!owned)
			report("a list of pending row pointers belongs to no record", &table, arg);
	}
	mdb_cursor_close(cursor);

	for (int i = 0; i < content->ncycles; i++)
		if (found[i] != content->cycles[i].pending_tids)
			report("the list of pending row pointers is not complete",
				   &content->cycles[i].key, arg);
	pg_free(found);
	return error == MDB_NOTFOUND ? 0 : error;
}

/*
 * Read all that the store holds, and report whatever is wrong with it.  Returns
 * false if it could not be read at all.
 */
bool
reader_read(StoreContent *content, ProblemReport report, void *arg)
{
	MDB_txn    *txn;
	TableKey   *cycle_tables = NULL;
	int			error;

	memset(content, 0, sizeof(*content));
	if ((error = mdb_txn_begin(env, NULL, MDB_RDONLY, &txn)) == 0)
	{
		error = read_values(txn, STORE_CYCLES, RECORD_CYCLE, sizeof(CycleRecord),
							(void **) &content->cycles, &cycle_tables, &content->ncycles,
							report, arg);
		if (error == 0)
			error = read_values(txn, STORE_INDEXES, RECORD_INDEX, sizeof(IndexRecord),
								(void **) &content->indexes, &content->index_tables,
								&content->nindexes, report, arg);
		if (error == 0)
			error = read_runs(txn, content, report, arg);
		if (error == 0)
			error = check_chunks(txn, content, report, arg);
		mdb_txn_abort(txn);
	}
	if (error != 0)
		report_error(report, arg, "could not read the store", error);
	return error == 0;
}

/* The cluster's system identifier, from pg_control. */
bool
reader_system_identifier(const char *data_directory, uint64_t *identifier)
{
	char		path[MAXPGPATH];
	ControlFileData *control;
	bool		crc_ok;

	/* get_controlfile() would end the program */
	snprintf(path, sizeof(path), "%s/global/pg_control", data_directory);
	if (access(path, R_OK) != 0)
		return false;

	control = get_controlfile(data_directory, &crc_ok);
	*identifier = control->system_identifier;
	pg_free(control);
	return crc_ok;
}
