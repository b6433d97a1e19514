/*
 * store.c
 *	  The LMDB store below the data directory.
 *
 * A table of the server cannot hold our records: the transaction of a cancelled
 * vacuum rolls back whatever it wrote there.  LMDB's store survives just that,
 * is readable while the server is down, and a reader never waits for a writer.
 *
 * Each process opens the environment on first use, after it was forked, and
 * keeps it.  All transactions begin and end within one function here, with
 * interrupts held and without a call in between that could throw.
 *
 * Writers, and those who open or replace the store's files, take turns by an
 * LWLock.  Before each use the files are compared with those that were opened:
 * somebody may have removed or moved them under the running server.  LMDB would
 * go on with the old ones, whose records are no longer removed when they should
 * be; and two processes with different lock files would not even agree on the
 * number of the last transaction, which LMDB takes from there.  A store that was
 * lost like this costs all records their trust, for it may come back.
 *
 * Somebody may also have copied an older state of the store over its file.  Its
 * records would be believed, though line pointers have been reaped and reused
 * since.  So each change of what the store says of tables draws a random number,
 * the stamp, and writes it along; shared memory and the note (instance.c) say
 * which one was the last.  Whoever begins a transaction looks whether what he sees
 * has that stamp.  A writer looks once more when he is done, at the header pages,
 * of which LMDB has written one and not the other: had somebody else written to
 * the file meanwhile, they would not be of successive transactions.  What does not
 * concern tables needs no stamp of its own.
 *
 * A damaged store must not take the server with it (R2).  LMDB has no checksums
 * of its own; where its pages hold garbage it can follow a wild pointer or fail
 * an assertion.  So each operation is done under guard: a SIGSEGV, SIGBUS or
 * SIGABRT meanwhile ends the operation instead of the process, and the store is
 * set aside.  What LMDB had allocated is leaked then, and its lock stays with
 * the old files.
 *
 * A store that is not this directory's (R3, datafile.c), that is not as the latest
 * save left it, or that LMDB refuses is set aside (renamed, replacing an earlier one
 * that was set aside) and a new one made.  A process that still has the old one open
 * notices by the store epoch in shared memory.
 */
#include "postgres.h"

#include <fcntl.h>
#include <lmdb.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/xact.h"
#include "common/file_perm.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "utils/memutils.h"

#include "datafile.h"
#include "instance.h"
#include "settings.h"
#include "soundness.h"
#include "store.h"

/* Beyond vacuum_resume.store_size, for all but lists of row pointers */
#define RESERVED_BYTES ((size_t) 1024 * 1024)

/* History has at most this part of the store ... */
#define HISTORY_SHARE 8
/* ... and is shortened by at most so many runs at a time */
#define TRIM_RUNS 100
/* Room that must be left for history to grow */
#define RUN_ROOM ((size_t) 8 * 4096)
/* Runs, of whatever table, to look through for those of one table */
#define LOOK_BACK_RUNS 5000

typedef struct Store
{
	MDB_env    *env;			/* NULL: not open */
	pid_t		owner;			/* never to be used in a child */
	uint64		epoch;
	struct stat data_file;		/* as they were when the store was opened */
	struct stat lock_file;
	MDB_dbi		cycles;
	MDB_dbi		chunks;
	MDB_dbi		indexes;
	MDB_dbi		runs;
	MDB_dbi		meta;
} Store;

static Store store = {0};
static char last_error[256];
static char set_aside_reason[256];	/* to be logged once that is safe */
static bool found_damage;
static bool found_other_state;
static bool lost_store;
static bool dealt_with_damage;

/* What can go wrong with a transaction besides LMDB's own errors */
#define OUT_OF_STEP (-1)		/* the store does not hold what a change is to be added to */
#define OTHER_STATE (-2)		/* the store is not as the latest save left it */
#define NOT_NOTED (-3)			/* what is committed might not be known to be the latest */

/* What is asked of the store; which fields count depends on the verb. */
typedef struct Request
{
	StoreResult (*verb) (const struct Request *request);
	const TableKey *key;
	CycleRecord *cycle;
	StoredCycle *stored;
	const StoreChange *change;
	CycleRecord **cycles;
	int		   *ncycles;
	const RunRecord *run;
	RunRecord **runs;
	int		   *nruns;
	int			most;
} Request;

static const int guarded_signals[] = {SIGSEGV, SIGBUS, SIGABRT};
static sigjmp_buf fault;

/* What went wrong last, for an errdetail. */
const char *
store_error(void)
{
	return last_error;
}

/* Is this LMDB's way to say that it found what cannot be? */
static bool
is_damage(int error)
{
	return error == MDB_INVALID || error == MDB_VERSION_MISMATCH || error == MDB_CORRUPTED ||
		error == MDB_PAGE_NOTFOUND || error == MDB_PANIC || error == MDB_INCOMPATIBLE ||
		error == MDB_BAD_DBI || error == MDB_CURSOR_FULL;
}

static StoreResult
failed(const char *what, int error)
{
	found_damage |= is_damage(error);
	found_other_state |= error == OTHER_STATE;
	snprintf(last_error, sizeof(last_error), "%s: %s", what,
			 error == OTHER_STATE ? "it is not as the latest save left it" :
			 error == NOT_NOTED ? "the latest state could not be noted" : mdb_strerror(error));
	return error == MDB_MAP_FULL ? STORE_FULL : STORE_FAILED;
}

/*
 * Put a store that must not be read out of the way.  Whoever has it open will
 * notice by the epoch.
 */
static bool
set_aside(const char *why)
{
	bool		renamed = rename(DATA_PATH, SET_ASIDE_PATH) == 0;

	if (!renamed && errno != ENOENT)
	{
		snprintf(last_error, sizeof(last_error), "could not rename \"%s\": %s", DATA_PATH,
				 strerror(errno));
		return false;
	}
	(void) unlink(LOCK_PATH);
	(void) unlink(IDENTITY_PATH);
	instance_store_replaced();
	if (renamed)
		snprintf(set_aside_reason, sizeof(set_aside_reason), "%s", why);
	else
		lost_store = true;		/* somebody else moved it away */
	return true;
}

static void
close_store(void)
{
	/* a store inherited over fork is another process's; forget it only */
	if (store.env != NULL && store.owner == MyProcPid)
		mdb_env_close(store.env);
	store = (Store) {0};
}

/* Are the files at the store's place those that we have open? */
static bool
files_are_the_same(const Store *opened)
{
	struct stat file;

	return stat(DATA_PATH, &file) == 0 && file.st_dev == opened->data_file.st_dev &&
		file.st_ino == opened->data_file.st_ino &&
		stat(LOCK_PATH, &file) == 0 && file.st_dev == opened->lock_file.st_dev &&
		file.st_ino == opened->lock_file.st_ino;
}

/* Have we got the store open, and is it still the store? */
static bool
is_open(void)
{
	if (store.env == NULL || store.owner != MyProcPid || store.epoch != instance_store_epoch())
		return false;
	if (files_are_the_same(&store))
		return true;
	lost_store = true;
	return false;
}

/*
 * LMDB maps the file without looking at its length; a page beyond its end would
 * be a bus error.
 */
static bool
data_file_is_complete(MDB_env *env)
{
	MDB_envinfo info;
	MDB_stat	stats;
	struct stat file;

	if (mdb_env_info(env, &info) != 0 || mdb_env_stat(env, &stats) != 0 ||
		stat(DATA_PATH, &file) != 0)
		return false;
	return ((uint64) info.me_last_pgno + 1) * stats.ms_psize <= (uint64) file.st_size;
}

static MDB_val
value_of(const void *data, size_t bytes)
{
	return (MDB_val) {.mv_size = bytes, .mv_data = (void *) data};
}

/*
 * Note the state that has been committed.  A store that has just been moved away has
 * to be made anew, as one that was missed from the start.
 */
static int
note_state(void)
{
	if (instance_note())
		return 0;
	return data_file_exists() ? NOT_NOTED : OTHER_STATE;
}

/*
 * Commit a change of what the store says of tables, with a stamp of its own, and
 * note that this is the latest state now.  Ends the transaction.  Called with the
 * store lock.
 */
static int
commit(Store *opened, MDB_txn *txn)
{
	StampRecord stamp = {.previous = instance_store_stamp()};
	MDB_val		key = value_of(STAMP_KEY, strlen(STAMP_KEY));
	MDB_val		data = value_of(&stamp, sizeof(stamp));
	size_t		number = mdb_txn_id(txn);
	mdb_filehandle_t file;
	int			error;

	if (!pg_strong_random(&stamp.stamp, sizeof(stamp.stamp)))
	{
		mdb_txn_abort(txn);
		return EAGAIN;
	}
	record_seal(&stamp, sizeof(stamp), RECORD_STAMP);
	if ((error = mdb_put(txn, opened->meta, &key, &data, 0)) != 0)
	{
		mdb_txn_abort(txn);
		return error;
	}
	if ((error = mdb_txn_commit(txn)) != 0)
		return error;

	instance_store_is_at(stamp.stamp);
	if (mdb_env_get_fd(opened->env, &file) == 0 && !store_file_is_at(file, number))
		return OTHER_STATE;
	return note_state();
}

/* Open the named databases; if the store is new, make them and give it a stamp. */
static int
open_databases(Store *opening, bool is_new)
{
	MDB_txn    *txn;
	int			error = mdb_txn_begin(opening->env, NULL, 0, &txn);

	if (error == 0)
	{
		error = mdb_dbi_open(txn, STORE_CYCLES, MDB_CREATE, &opening->cycles);
		if (error == 0)
			error = mdb_dbi_open(txn, STORE_CHUNKS, MDB_CREATE, &opening->chunks);
		if (error == 0)
			error = mdb_dbi_open(txn, STORE_INDEXES, MDB_CREATE, &opening->indexes);
		if (error == 0)
			error = mdb_dbi_open(txn, STORE_RUNS, MDB_CREATE, &opening->runs);
		if (error == 0)
			error = mdb_dbi_open(txn, STORE_META, MDB_CREATE, &opening->meta);
		if (error == 0)
			error = is_new ? commit(opening, txn) : mdb_txn_commit(txn);
		else
			mdb_txn_abort(txn);
	}
	return error;
}

/*
 * Note of which tables there are records from an earlier server's life.  Called with
 * the store lock, so that none is added meanwhile.
 */
static void
note_records(void)
{
	MDB_txn    *txn;
	MDB_cursor *cursor;
	MDB_val		key,
				data;
	int			error = mdb_txn_begin(store.env, NULL, MDB_RDONLY, &txn);

	if (error != 0)
		return;
	if ((error = mdb_cursor_open(txn, store.cycles, &cursor)) == 0)
	{
		while ((error = mdb_cursor_get(cursor, &key, &data, MDB_NEXT)) == 0)
		{
			TableKey	table;

			if (key.mv_size != TABLE_KEY_BYTES)
				break;
			table = table_key_decode(key.mv_data);
			instance_note_record(&table);
		}
		mdb_cursor_close(cursor);
	}
	mdb_txn_abort(txn);
	if (error == MDB_NOTFOUND)
		instance_all_records_noted();
}

/*
 * Open what is at the store's place, or make it.  *damaged is set if it is there
 * but must not be read.
 */
static StoreResult
open_environment(bool *damaged)
{
	Store		opening = {.owner = MyProcPid, .epoch = instance_store_epoch()};
	const char *problem;
	struct stat file;
	bool		is_new = stat(DATA_PATH, &file) != 0 || file.st_size == 0;
	int			error;
	int			dead_readers;

	*damaged = false;
	if ((problem = store_file_problem(DATA_PATH)) != NULL)
	{
		*damaged = true;
		snprintf(last_error, sizeof(last_error), "%s", problem);
		return STORE_FAILED;
	}
	if ((error = mdb_env_create(&opening.env)) != 0)
		return failed("could not create an environment", error);

	if ((error = mdb_env_set_mapsize(opening.env,
									 (size_t) setting_store_size * 1024 + RESERVED_BYTES)) != 0 ||
		(error = mdb_env_set_maxdbs(opening.env, STORE_DATABASES)) != 0 ||
		(error = mdb_env_set_maxreaders(opening.env, MaxBackends + 16)) != 0 ||
		(error = mdb_env_open(opening.env, STORE_DIRECTORY,
							  MDB_NOTLS | (enableFsync ? 0 : MDB_NOSYNC),
							  pg_file_create_mode)) != 0)
	{
		mdb_env_close(opening.env);
		*damaged = is_damage(error);
		return failed("could not open the store", error);
	}

	/* slots of processes that were killed */
	(void) mdb_reader_check(opening.env, &dead_readers);

	if (!data_file_is_complete(opening.env))
	{
		mdb_env_close(opening.env);
		*damaged = true;
		snprintf(last_error, sizeof(last_error), "the store's file is too short");
		return STORE_FAILED;
	}

	if ((error = open_databases(&opening, is_new)) != 0)
	{
		mdb_env_close(opening.env);
		*damaged = is_damage(error);
		return failed("could not open the store", error);
	}

	if (stat(DATA_PATH, &opening.data_file) != 0 || stat(LOCK_PATH, &opening.lock_file) != 0)
	{
		mdb_env_close(opening.env);
		return failed("could not look at the store", errno);
	}
	instance_store_seen();
	store = opening;
	return STORE_OK;
}

/* The store's directory, with the data directory's mode; may be there. */
static bool
make_directory(void)
{
	if (MakePGDirectory(STORE_DIRECTORY) == 0 || errno == EEXIST)
		return true;
	snprintf(last_error, sizeof(last_error), "could not create directory \"%s\": %s",
			 STORE_DIRECTORY, strerror(errno));
	return false;
}

/*
 * Open the store if it is not open; create says if it may be made.  Called
 * without the store lock.
 */
static StoreResult
open_store(bool create)
{
	StoreResult result;
	struct stat file;
	bool		damaged;

	if (is_open())
		return STORE_OK;
	close_store();

	/* nothing there, nothing to be found: the common case until a first vacuum stops */
	if (!data_file_exists())
	{
		lost_store |= instance_store_was_seen();
		if (!create)
			return STORE_NOT_FOUND;
	}

	LWLockAcquire(instance_store_lock(), LW_EXCLUSIVE);

	if (!make_directory())
		result = STORE_FAILED;
	else if (stat(DATA_PATH, &file) == 0 &&
			 ((!data_file_is_own() && !set_aside(data_file_is_of_another_version() ?
												 "it is of another version of pg_vacuum_resume" :
												 "it is not the store of this data directory")) ||
			  (instance_store_is_from_the_future() &&
			   !set_aside("it was written by a later state of this cluster"))))
		result = STORE_FAILED;
	else
	{
		result = open_environment(&damaged);
		if (damaged && set_aside("it is damaged"))
		{
			found_damage = true;
			result = open_environment(&damaged);
			dealt_with_damage = true;
		}
		if (result == STORE_OK && !data_file_is_own() && !data_file_write_identity())
		{
			close_store();
			snprintf(last_error, sizeof(last_error), "could not write \"%s\"", IDENTITY_PATH);
			result = STORE_FAILED;
		}
		if (result == STORE_OK && !instance_records_are_known())
			note_records();
	}

	LWLockRelease(instance_store_lock());
	return result;
}

/*
 * Begin a transaction, of whatever is there.  Slots of readers that were killed
 * are freed when they are in the way: they also keep old pages from being used
 * again.
 */
static int
begin_unchecked(unsigned int flags, MDB_txn **txn)
{
	int			error = mdb_txn_begin(store.env, NULL, flags, txn);
	int			dead_readers;

	if (error == MDB_READERS_FULL && mdb_reader_check(store.env, &dead_readers) == 0)
		error = mdb_txn_begin(store.env, NULL, flags, txn);
	return error;
}

/*
 * Read the stamp of what a transaction sees; false if there is none to be seen.
 *
 * LMDB takes the number of the last transaction from its lock file, and what it
 * did from the data file.  Where the former is ahead, the latter is another one.
 */
static bool
read_stamp(MDB_txn *txn, bool writing, StampRecord *stamp)
{
	MDB_val		key = value_of(STAMP_KEY, strlen(STAMP_KEY));
	MDB_val		data;
	MDB_envinfo info;

	if (mdb_env_info(store.env, &info) != 0 || info.me_last_txnid < mdb_txn_id(txn) - writing ||
		mdb_get(txn, store.meta, &key, &data) != 0 || data.mv_size != sizeof(*stamp) ||
		!record_is_sound(data.mv_data, data.mv_size, RECORD_STAMP, sizeof(*stamp)))
		return false;
	memcpy(stamp, data.mv_data, sizeof(*stamp));
	return true;
}

/*
 * Begin a transaction, provided that what it sees is as the latest save left it.
 *
 * A reader without the store lock can see what a writer has committed but not
 * said yet, so he looks again with the lock before he believes that it is not.  A
 * writer that was killed there has left the store one change ahead of what is
 * known; nobody has acted on that change yet, as it becomes known first.
 */
static int
begin(unsigned int flags, MDB_txn **txn)
{
	LWLock	   *lock = instance_store_lock();
	bool		writing = (flags & MDB_RDONLY) == 0;
	bool		had_lock = LWLockHeldByMe(lock);
	StampRecord found;
	int			error;

	if ((error = begin_unchecked(flags, txn)) != 0)
		return error;
	if (read_stamp(*txn, writing, &found) && found.stamp == instance_store_stamp())
		return 0;
	mdb_txn_abort(*txn);

	if (!had_lock)
		LWLockAcquire(lock, LW_EXCLUSIVE);
	if ((error = begin_unchecked(flags, txn)) == 0)
	{
		if (!read_stamp(*txn, writing, &found))
			error = OTHER_STATE;
		else if (found.stamp != instance_store_stamp())
		{
			if (found.previous != instance_store_stamp())
				error = OTHER_STATE;
			else
			{
				instance_store_is_at(found.stamp);
				error = note_state();
			}
		}
		if (error != 0)
			mdb_txn_abort(*txn);
	}
	if (!had_lock)
		LWLockRelease(lock);
	return error;
}

static void
on_fault(int signal)
{
	siglongjmp(fault, 1);
}

/*
 * Do what is asked with interrupts held and under guard.
 */
static StoreResult
perform(const Request *request)
{
	static struct sigaction previous[lengthof(guarded_signals)];
	struct sigaction guard = {.sa_handler = on_fault};
	volatile StoreResult result;
	volatile bool faulty = false;
	bool		replaced_meanwhile;
	bool		can_wait;
	uint64		epoch;

	HOLD_INTERRUPTS();
	set_aside_reason[0] = '\0';
	found_damage = false;
	found_other_state = false;
	lost_store = false;
	dealt_with_damage = false;
	sigemptyset(&guard.sa_mask);
	if (sigsetjmp(fault, 1) == 0)
	{
		for (int i = 0; i < lengthof(guarded_signals); i++)
			sigaction(guarded_signals[i], &guard, &previous[i]);
		result = request->verb(request);
		for (int i = 0; i < lengthof(guarded_signals); i++)
			sigaction(guarded_signals[i], &previous[i], NULL);
	}
	else
	{
		for (int i = 0; i < lengthof(guarded_signals); i++)
			sigaction(guarded_signals[i], &previous[i], NULL);
		faulty = true;
		snprintf(last_error, sizeof(last_error), "the store is damaged");
		result = STORE_FAILED;
	}

	if (faulty || found_other_state || (found_damage && !dealt_with_damage))
	{
		epoch = store.epoch;
		/* after a fault not to be closed: who knows what it holds */
		if (faulty)
			store = (Store) {0};
		else
			close_store();
		if (!LWLockHeldByMe(instance_store_lock()))
			LWLockAcquire(instance_store_lock(), LW_EXCLUSIVE);
		/* somebody else may have found the same, and there is a new store already */
		replaced_meanwhile = epoch != 0 && epoch != instance_store_epoch();
		result = replaced_meanwhile || set_aside(faulty || found_damage ? "it is damaged" :
												 "it is not as the latest save left it") ?
			STORE_REPLACED : STORE_FAILED;
		LWLockRelease(instance_store_lock());
	}
	RESUME_INTERRUPTS();

	if (set_aside_reason[0] != '\0')
	{
		bool		damaged = faulty || found_damage;

		ereport(damaged ? WARNING : LOG,
				(errmsg("pg_vacuum_resume set its store aside and begins a new one: %s",
						set_aside_reason),
				 errdetail("The old one was renamed to \"%s\". Interrupted vacuums have to start over.",
						   SET_ASIDE_PATH),
				 damaged ? errhint("If this happens again, check the storage of the data directory.") : 0));
	}

	/* an error can be thrown; not so at exit, or while a transaction commits */
	can_wait = !proc_exit_inprogress && IsTransactionState();

	/* what is gone may come back, with records of what has happened otherwise since */
	if (lost_store)
	{
		ereport(LOG,
				(errmsg("pg_vacuum_resume's store was removed or replaced while the server was running"),
				 errdetail("No saved progress is trusted any more.")));
		instance_store_lost();
		(void) instance_distrust(can_wait);
	}
	else if (can_wait)
		instance_outlive_lost_store();
	return result;
}

/* Does an entry's key belong to the table (or, with relation 0, to the database)? */
static bool
is_key_of(const MDB_val *key, const TableKey *table)
{
	uint8_t		prefix[TABLE_KEY_BYTES];
	size_t		bytes = table->relation != 0 ? TABLE_KEY_BYTES : TABLE_KEY_BYTES / 2;

	table_key_encode(table, prefix);
	return key->mv_size >= bytes && memcmp(key->mv_data, prefix, bytes) == 0;
}

/* Has a table (relation 0: a database) entries in one database? */
static bool
has_entries(MDB_txn *txn, MDB_dbi dbi, const TableKey *table)
{
	uint8_t		prefix[TABLE_KEY_BYTES];
	MDB_val		key = value_of(prefix, sizeof(prefix));
	MDB_val		data;
	MDB_cursor *cursor;
	bool		found;

	if (mdb_cursor_open(txn, dbi, &cursor) != 0)
		return true;			/* removing them will tell */
	table_key_encode(table, prefix);
	found = mdb_cursor_get(cursor, &key, &data, MDB_SET_RANGE) == 0 && is_key_of(&key, table);
	mdb_cursor_close(cursor);
	return found;
}

/* Remove all entries of a table (relation 0: of a database) from one database. */
static int
remove_entries(MDB_txn *txn, MDB_dbi dbi, const TableKey *table)
{
	uint8_t		prefix[TABLE_KEY_BYTES];
	MDB_val		key = value_of(prefix, sizeof(prefix));
	MDB_val		data;
	MDB_cursor *cursor;
	int			error = mdb_cursor_open(txn, dbi, &cursor);

	if (error != 0)
		return error;
	table_key_encode(table, prefix);
	for (error = mdb_cursor_get(cursor, &key, &data, MDB_SET_RANGE);
		 error == 0 && is_key_of(&key, table);
		 error = mdb_cursor_get(cursor, &key, &data, MDB_NEXT))
	{
		if ((error = mdb_cursor_del(cursor, 0)) != 0)
			break;
	}
	mdb_cursor_close(cursor);
	return error == MDB_NOTFOUND ? 0 : error;
}

/* Read a table's cycle record within a transaction. */
static StoreResult
read_cycle(MDB_txn *txn, const TableKey *table, CycleRecord *cycle)
{
	uint8_t		bytes[TABLE_KEY_BYTES];
	MDB_val		key = value_of(bytes, sizeof(bytes));
	MDB_val		data;
	int			error;

	table_key_encode(table, bytes);
	error = mdb_get(txn, store.cycles, &key, &data);
	if (error == MDB_NOTFOUND)
		return STORE_NOT_FOUND;
	if (error != 0)
		return failed("could not read the store", error);
	if (data.mv_size != sizeof(CycleRecord) ||
		!record_is_sound(data.mv_data, data.mv_size, RECORD_CYCLE, sizeof(CycleRecord)))
	{
		snprintf(last_error, sizeof(last_error), "a record is damaged");
		return STORE_DAMAGED;
	}
	memcpy(cycle, data.mv_data, sizeof(CycleRecord));
	return STORE_OK;
}

static StoreResult
find(const Request *request)
{
	StoreResult result;
	MDB_txn    *txn;
	int			error;

	result = open_store(false);
	if (result == STORE_OK)
	{
		error = begin(MDB_RDONLY, &txn);
		if (error == 0)
		{
			result = read_cycle(txn, request->key, request->cycle);
			mdb_txn_abort(txn);
		}
		else
			result = failed("could not read the store", error);
	}
	return result;
}

/* Memory that is had or not, but never thrown about. */
static void *
allocate(size_t bytes)
{
	return MemoryContextAllocExtended(CurrentMemoryContext, Max(bytes, 1),
									  MCXT_ALLOC_NO_OOM | MCXT_ALLOC_HUGE);
}

static StoreResult
damaged_entry(const char *what)
{
	snprintf(last_error, sizeof(last_error), "%s is damaged", what);
	return STORE_DAMAGED;
}

/* Read a table's chunks; they have to add up to what its record says. */
static StoreResult
read_chunks(MDB_txn *txn, StoredCycle *stored)
{
	const CycleRecord *cycle = &stored->cycle;

	if (cycle->pending_tids < 0 || cycle->pending_tids > PG_UINT32_MAX)
		return damaged_entry("a record");
	stored->tids = allocate(cycle->pending_tids * sizeof(DeadTid));
	if (stored->tids == NULL)
	{
		snprintf(last_error, sizeof(last_error), "out of memory");
		return STORE_FAILED;
	}

	for (uint32 number = 0; number < cycle->chunks; number++)
	{
		uint8_t		bytes[SUB_KEY_BYTES];
		MDB_val		key = value_of(bytes, sizeof(bytes));
		MDB_val		data;
		ChunkRecord *chunk;
		int64_t		ntids;

		sub_key_encode(&cycle->key, number, bytes);
		if (mdb_get(txn, store.chunks, &key, &data) != 0 ||
			!record_is_sound(data.mv_data, data.mv_size, RECORD_CHUNK, sizeof(ChunkRecord)))
			return damaged_entry("a list of pending row pointers");

		/* LMDB aligns its values to two bytes only */
		chunk = allocate(data.mv_size);
		if (chunk == NULL)
		{
			snprintf(last_error, sizeof(last_error), "out of memory");
			return STORE_FAILED;
		}
		memcpy(chunk, data.mv_data, data.mv_size);
		ntids = -1;
		if (chunk->set_number == cycle->set_number && chunk->number == number)
			ntids = chunk_decode(chunk, data.mv_size, stored->tids + stored->ntids,
								 cycle->pending_tids - stored->ntids);
		pfree(chunk);
		if (ntids < 0)
			return damaged_entry("a list of pending row pointers");
		stored->ntids += ntids;
	}
	if (stored->ntids != cycle->pending_tids)
		return damaged_entry("a list of pending row pointers");
	return STORE_OK;
}

/* Read a table's finished indexes. */
static StoreResult
read_indexes(MDB_txn *txn, StoredCycle *stored)
{
	uint8_t		prefix[TABLE_KEY_BYTES];
	MDB_val		key = value_of(prefix, sizeof(prefix));
	MDB_val		data;
	MDB_cursor *cursor;
	MDB_stat	stats;
	StoreResult result = STORE_OK;
	int			error;

	/* room for all that there are, of whatever table */
	if ((error = mdb_stat(txn, store.indexes, &stats)) != 0 ||
		(error = mdb_cursor_open(txn, store.indexes, &cursor)) != 0)
		return failed("could not read the store", error);
	stored->indexes = allocate(stats.ms_entries * sizeof(IndexRecord));
	if (stored->indexes == NULL)
	{
		mdb_cursor_close(cursor);
		snprintf(last_error, sizeof(last_error), "out of memory");
		return STORE_FAILED;
	}

	table_key_encode(&stored->cycle.key, prefix);
	for (error = mdb_cursor_get(cursor, &key, &data, MDB_SET_RANGE);
		 error == 0 && result == STORE_OK && is_key_of(&key, &stored->cycle.key);
		 error = mdb_cursor_get(cursor, &key, &data, MDB_NEXT))
	{
		if (data.mv_size != sizeof(IndexRecord) ||
			!record_is_sound(data.mv_data, data.mv_size, RECORD_INDEX, sizeof(IndexRecord)))
			result = damaged_entry("the record of a finished index");
		else
			memcpy(&stored->indexes[stored->nindexes++], data.mv_data, sizeof(IndexRecord));
	}
	mdb_cursor_close(cursor);
	if (error != 0 && error != MDB_NOTFOUND)
		return failed("could not read the store", error);
	return result;
}

static StoreResult
load(const Request *request)
{
	StoredCycle *stored = request->stored;
	StoreResult result;
	MDB_txn    *txn;
	int			error;

	result = open_store(false);
	if (result == STORE_OK)
	{
		error = begin(MDB_RDONLY, &txn);
		if (error == 0)
		{
			result = read_cycle(txn, request->key, &stored->cycle);
			if (result == STORE_OK)
				result = read_chunks(txn, stored);
			if (result == STORE_OK)
				result = read_indexes(txn, stored);
			mdb_txn_abort(txn);
		}
		else
			result = failed("could not read the store", error);
	}
	return result;
}

/*
 * Are the table's chunks in the store those that a change adds to?  Somebody may
 * have removed them, with the record or with the store.
 */
static bool
continues_list(MDB_txn *txn, const StoreChange *change)
{
	uint32		chunks_before = change->cycle->chunks - (change->chunk != NULL);
	CycleRecord stored;

	if (change->drop_chunks || chunks_before == 0)
		return true;
	return read_cycle(txn, &change->cycle->key, &stored) == STORE_OK &&
		stored.set_number == change->cycle->set_number && stored.chunks == chunks_before;
}

/*
 * Bytes of the store that are in use.  Called outside of a transaction.  Returns
 * 0 if that cannot be told: writing will tell.
 */
static size_t
bytes_in_use(void)
{
	MDB_txn    *txn;
	MDB_dbi		free_list = 0;	/* LMDB's own, always open */
	MDB_envinfo info;
	MDB_stat	stats;
	MDB_cursor *cursor;
	MDB_val		key,
				data;
	size_t		free_pages = 0;

	if (mdb_env_info(store.env, &info) != 0 || mdb_env_stat(store.env, &stats) != 0 ||
		begin_unchecked(MDB_RDONLY, &txn) != 0)
		return 0;
	if (mdb_cursor_open(txn, free_list, &cursor) == 0)
	{
		while (mdb_cursor_get(cursor, &key, &data, MDB_NEXT) == 0)
		{
			size_t		pages;

			memcpy(&pages, data.mv_data, sizeof(pages));
			free_pages += pages;
		}
		mdb_cursor_close(cursor);
	}
	mdb_txn_abort(txn);
	return (info.me_last_pgno + 1 - free_pages) * stats.ms_psize;
}

/*
 * Is there room for so much more?  The last part of the store is reserved for
 * what is small, and for removing: LMDB cannot even do that without a few pages.
 */
static bool
has_room(size_t bytes)
{
	return bytes_in_use() + bytes <= (size_t) setting_store_size * 1024;
}

/*----------
 * History: one entry for each run, under ascending numbers
 *----------
 */

/* Take over a run from its entry; returns false if that is damaged. */
static bool
read_run(const MDB_val *data, RunRecord *run)
{
	if (data->mv_size != sizeof(RunRecord) ||
		!record_is_sound(data->mv_data, data->mv_size, RECORD_RUN, sizeof(RunRecord)))
		return false;
	memcpy(run, data->mv_data, sizeof(RunRecord));
	return true;
}

/* Is this the entry of a run of the table?  Only then is it worth a closer look. */
static bool
is_run_of(const MDB_val *data, const TableKey *table)
{
	return data->mv_size == sizeof(RunRecord) &&
		memcmp((char *) data->mv_data + offsetof(RunRecord, key), table, sizeof(TableKey)) == 0;
}

/*
 * Read a table's last runs within a transaction, newest first, into room for so
 * many.  Looks back only so far.
 */
static int
read_last_runs(MDB_txn *txn, const TableKey *table, RunRecord *runs, int *nruns, int most)
{
	MDB_cursor *cursor;
	MDB_val		key,
				data;
	int			error = mdb_cursor_open(txn, store.runs, &cursor);
	int			looked_at = 0;

	*nruns = 0;
	if (error != 0)
		return error;
	for (error = mdb_cursor_get(cursor, &key, &data, MDB_LAST);
		 error == 0 && *nruns < most && looked_at < LOOK_BACK_RUNS;
		 error = mdb_cursor_get(cursor, &key, &data, MDB_PREV))
	{
		if (is_run_of(&data, table) && read_run(&data, &runs[*nruns]))
			(*nruns)++;
		looked_at++;
	}
	mdb_cursor_close(cursor);
	return error == MDB_NOTFOUND ? 0 : error;
}

static size_t
bytes_of(const MDB_stat *stats)
{
	return (stats->ms_branch_pages + stats->ms_leaf_pages + stats->ms_overflow_pages) *
		(size_t) stats->ms_psize;
}

/* The number of the last run that history has or had, 0 if it never had any. */
static int
last_run_number(MDB_txn *txn, uint64 *number)
{
	LastRunRecord last = {.number = 0};
	MDB_cursor *cursor;
	MDB_val		key,
				data;
	int			error = mdb_cursor_open(txn, store.runs, &cursor);

	if (error != 0)
		return error;
	error = mdb_cursor_get(cursor, &key, &data, MDB_LAST);
	if (error == 0 && key.mv_size == RUN_KEY_BYTES)
		last.number = run_key_decode(key.mv_data);
	else if (error == 0)
		error = MDB_CORRUPTED;
	mdb_cursor_close(cursor);

	if (error == MDB_NOTFOUND)
	{
		key = value_of(LAST_RUN_KEY, strlen(LAST_RUN_KEY));
		error = mdb_get(txn, store.meta, &key, &data);
		if (error == 0 && data.mv_size == sizeof(last) &&
			record_is_sound(data.mv_data, data.mv_size, RECORD_LAST_RUN, sizeof(last)))
			memcpy(&last, data.mv_data, sizeof(last));
	}
	*number = last.number;
	return error == MDB_NOTFOUND ? 0 : error;
}

/* Keep the number of the last run while history has none. */
static int
keep_last_run_number(MDB_txn *txn, uint64 number)
{
	LastRunRecord last = {.number = number};
	MDB_val		key = value_of(LAST_RUN_KEY, strlen(LAST_RUN_KEY));
	MDB_val		data = value_of(&last, sizeof(last));

	record_seal(&last, sizeof(last), RECORD_LAST_RUN);
	return mdb_put(txn, store.meta, &key, &data, 0);
}

/* Delete so many of the oldest runs, or all there are. */
static int
delete_oldest_runs(MDB_txn *txn, size_t count)
{
	uint64		last;
	MDB_cursor *cursor;
	MDB_stat	stats;
	MDB_val		key,
				data;
	int			error = last_run_number(txn, &last);

	if (error != 0 || (error = mdb_cursor_open(txn, store.runs, &cursor)) != 0)
		return error;
	while (count-- > 0 && (error = mdb_cursor_get(cursor, &key, &data, MDB_FIRST)) == 0)
		if ((error = mdb_cursor_del(cursor, 0)) != 0)
			break;
	mdb_cursor_close(cursor);

	if (error == 0 || error == MDB_NOTFOUND)
		error = mdb_stat(txn, store.runs, &stats);
	if (error == 0 && stats.ms_entries == 0)
		error = keep_last_run_number(txn, last);
	return error;
}

/* Shorten history to what the settings allow, or at least some way there. */
static int
trim_history(MDB_txn *txn)
{
	size_t		share = (size_t) setting_store_size * 1024 / HISTORY_SHARE;
	size_t		surplus = 0;
	MDB_stat	stats;
	int			error = mdb_stat(txn, store.runs, &stats);

	if (error != 0)
		return error;
	if (stats.ms_entries > (size_t) setting_history_size)
		surplus = stats.ms_entries - setting_history_size;
	if (bytes_of(&stats) > share)
		surplus = Max(surplus, stats.ms_entries -
					  (size_t) ((double) stats.ms_entries * share / bytes_of(&stats)));
	return surplus > 0 ? delete_oldest_runs(txn, Min(surplus, TRIM_RUNS)) : 0;
}

/*
 * Add a run to history within a transaction, if history is kept.  Where has_room
 * said before that there is no room for history to grow, the oldest run makes way;
 * if there is none, this one takes a page of what is reserved.
 */
static int
add_run(MDB_txn *txn, const RunRecord *run, bool room)
{
	uint8_t		bytes[RUN_KEY_BYTES];
	MDB_val		key = value_of(bytes, sizeof(bytes));
	MDB_val		data;
	RunRecord	record = *run;
	int			error = 0;

	if (setting_history_size > 0)
	{
		if (!room)
			error = delete_oldest_runs(txn, 1);
		if (error == 0)
			error = last_run_number(txn, &record.number);
		record.number++;
		record_seal(&record, sizeof(record), RECORD_RUN);
		run_key_encode(record.number, bytes);
		data = value_of(&record, sizeof(record));
		if (error == 0)
			error = mdb_put(txn, store.runs, &key, &data, MDB_APPEND);
	}
	return error == 0 ? trim_history(txn) : error;
}

/*
 * Let so many of the oldest runs go that there is room for a change, if that is
 * what it takes: for its part of a list, or else for what is small, which has all of
 * the store.
 */
static StoreResult
shorten_history(const Request *request)
{
	bool		has_chunk = request->change != NULL && request->change->chunk != NULL;
	size_t		wanted = has_chunk ? request->change->chunk_bytes : RUN_ROOM;
	size_t		limit = (size_t) setting_store_size * 1024 + (has_chunk ? 0 : RESERVED_BYTES);
	StoreResult result;
	MDB_stat	stats;
	MDB_txn    *txn;
	int			error;

	result = open_store(false);
	if (result != STORE_OK)
		return result;
	LWLockAcquire(instance_store_lock(), LW_EXCLUSIVE);
	if (!is_open())
	{
		LWLockRelease(instance_store_lock());
		return STORE_REPLACED;
	}
	wanted += bytes_in_use();
	error = begin(0, &txn);
	if (error == 0)
	{
		error = mdb_stat(txn, store.runs, &stats);
		if (error == 0 && (wanted <= limit || stats.ms_entries == 0 ||
						   (has_chunk && wanted - limit > bytes_of(&stats))))
			error = MDB_MAP_FULL;	/* it is not history that is in the way */
		if (error == 0)
		{
			/* a page at either end may not become free */
			double		share = (double) (wanted - limit + 2 * stats.ms_psize) / bytes_of(&stats);

			error = delete_oldest_runs(txn, (size_t) ceil(share * stats.ms_entries));
		}
		if (error == 0)
			error = mdb_txn_commit(txn);
		else
			mdb_txn_abort(txn);
	}
	LWLockRelease(instance_store_lock());
	return error == 0 ? STORE_OK : failed("could not write to the store", error);
}

/* Make one save's changes within a transaction. */
static int
apply_change(MDB_txn *txn, const StoreChange *change)
{
	const TableKey *table = &change->cycle->key;
	uint8_t		bytes[SUB_KEY_BYTES];
	MDB_val		key;
	MDB_val		data;
	int			error = 0;

	if (!continues_list(txn, change))
		return OUT_OF_STEP;

	if (change->drop_chunks)
		error = remove_entries(txn, store.chunks, table);
	if (error == 0 && change->drop_indexes)
		error = remove_entries(txn, store.indexes, table);

	if (error == 0 && change->chunk != NULL)
	{
		sub_key_encode(table, change->chunk->number, bytes);
		key = value_of(bytes, SUB_KEY_BYTES);
		data = value_of(change->chunk, change->chunk_bytes);
		error = mdb_put(txn, store.chunks, &key, &data, 0);
	}
	for (int i = 0; error == 0 && i < change->nindexes; i++)
	{
		if (change->indexes[i].index == 0)
			continue;
		sub_key_encode(table, change->indexes[i].index, bytes);
		key = value_of(bytes, SUB_KEY_BYTES);
		data = value_of(&change->indexes[i], sizeof(IndexRecord));
		error = mdb_put(txn, store.indexes, &key, &data, 0);
	}
	if (error == 0)
	{
		table_key_encode(table, bytes);
		key = value_of(bytes, TABLE_KEY_BYTES);
		data = value_of(change->cycle, sizeof(CycleRecord));
		error = mdb_put(txn, store.cycles, &key, &data, 0);
	}
	return error;
}

static StoreResult
write_change(const Request *request)
{
	const StoreChange *change = request->change;
	StoreResult result;
	MDB_txn    *txn;
	bool		room;
	int			error;

	result = open_store(true);
	if (result == STORE_OK)
	{
		LWLockAcquire(instance_store_lock(), LW_EXCLUSIVE);
		if (!is_open())
		{
			LWLockRelease(instance_store_lock());
			return STORE_REPLACED;
		}
		instance_note_record(&change->cycle->key);
		room = change->run != NULL && has_room(change->chunk_bytes + RUN_ROOM);
		error = change->chunk == NULL || has_room(change->chunk_bytes) ?
			begin(0, &txn) : MDB_MAP_FULL;
		if (error == 0)
		{
			error = apply_change(txn, change);
			if (error == 0 && change->run != NULL)
				error = add_run(txn, change->run, room);
			if (error == 0)
				error = commit(&store, txn);
			else
				mdb_txn_abort(txn);
		}
		LWLockRelease(instance_store_lock());
		if (error == OUT_OF_STEP)
			result = STORE_REPLACED;
		else if (error != 0)
			result = failed("could not write to the store", error);
	}
	return result;
}

static StoreResult
remove_table(const Request *request)
{
	StoreResult result;
	MDB_txn    *txn;
	bool		room;
	bool		has_record;
	int			error;

	/* a run that left no record may be the first that history has */
	result = open_store(request->run != NULL && setting_history_size > 0);
	if (result == STORE_OK)
	{
		LWLockAcquire(instance_store_lock(), LW_EXCLUSIVE);
		if (!is_open())
		{
			LWLockRelease(instance_store_lock());
			return STORE_REPLACED;
		}
		room = request->run != NULL && has_room(RUN_ROOM);
		error = begin(0, &txn);
		if (error == 0)
		{
			has_record = has_entries(txn, store.cycles, request->key);
			error = remove_entries(txn, store.cycles, request->key);
			if (error == 0)
				error = remove_entries(txn, store.chunks, request->key);
			if (error == 0)
				error = remove_entries(txn, store.indexes, request->key);
			if (error == 0 && request->run != NULL)
				error = add_run(txn, request->run, room);

			/* no record rests on history: that is not worth a note */
			if (error == 0)
				error = has_record ? commit(&store, txn) : mdb_txn_commit(txn);
			else
				mdb_txn_abort(txn);
		}
		LWLockRelease(instance_store_lock());
		if (error != 0)
			result = failed("could not write to the store", error);
	}
	return result;
}

/*
 * Read all entries of one database of the store, of one kind and size, into a new
 * array; backwards from the last one.  Damaged ones are left out.
 */
static StoreResult
list_entries(const MDB_dbi *dbi, RecordKind kind, size_t bytes, bool backwards,
			 const char *what, void **entries, int *nentries)
{
	MDB_cursor_op first = backwards ? MDB_LAST : MDB_FIRST;
	MDB_cursor_op next = backwards ? MDB_PREV : MDB_NEXT;
	StoreResult result;
	MDB_txn    *txn;
	MDB_cursor *cursor;
	MDB_stat	stats;
	MDB_val		key,
				data;
	int			error;

	result = open_store(false);
	if (result != STORE_OK)
		return result;
	error = begin(MDB_RDONLY, &txn);
	if (error == 0)
	{
		if ((error = mdb_stat(txn, *dbi, &stats)) == 0 &&
			(error = mdb_cursor_open(txn, *dbi, &cursor)) == 0)
		{
			*entries = allocate(stats.ms_entries * bytes);
			for (error = *entries == NULL ? ENOMEM : mdb_cursor_get(cursor, &key, &data, first);
				 error == 0;
				 error = mdb_cursor_get(cursor, &key, &data, next))
			{
				if (data.mv_size == bytes && record_is_sound(data.mv_data, bytes, kind, bytes))
					memcpy((char *) *entries + (*nentries)++ * bytes, data.mv_data, bytes);
				else
					result = damaged_entry(what);
			}
			mdb_cursor_close(cursor);
		}
		mdb_txn_abort(txn);
	}
	if (error != 0 && error != MDB_NOTFOUND)
		result = failed("could not read the store", error);
	return result;
}

static StoreResult
list(const Request *request)
{
	return list_entries(&store.cycles, RECORD_CYCLE, sizeof(CycleRecord), false, "a record",
						(void **) request->cycles, request->ncycles);
}

static StoreResult
list_runs(const Request *request)
{
	return list_entries(&store.runs, RECORD_RUN, sizeof(RunRecord), true,
						"a run in the history", (void **) request->runs, request->nruns);
}

static StoreResult
last_runs(const Request *request)
{
	StoreResult result;
	MDB_txn    *txn;
	int			error;

	result = open_store(false);
	if (result != STORE_OK)
		return result;
	*request->runs = allocate(request->most * sizeof(RunRecord));
	error = *request->runs == NULL ? ENOMEM : begin(MDB_RDONLY, &txn);
	if (error == 0)
	{
		error = read_last_runs(txn, request->key, *request->runs, request->nruns, request->most);
		mdb_txn_abort(txn);
	}
	return error == 0 ? STORE_OK : failed("could not read the store", error);
}

/* A store that was replaced by a new one has nothing to be found or removed. */
static StoreResult
none_if_replaced(StoreResult result)
{
	return result == STORE_REPLACED ? STORE_NOT_FOUND : result;
}

/*
 * Read a table's record.  Cheap when there is no store or no such record.
 */
StoreResult
store_find(const TableKey *key, CycleRecord *cycle)
{
	return none_if_replaced(perform(&(Request) {.verb = find, .key = key, .cycle = cycle}));
}

/*
 * Read a table's record with its pending TIDs and finished indexes, all of one
 * moment.
 */
StoreResult
store_load(const TableKey *key, StoredCycle *stored)
{
	memset(stored, 0, sizeof(*stored));
	return none_if_replaced(perform(&(Request) {.verb = load, .key = key, .stored = stored}));
}

/*
 * Change the store.  Where there is no room, history is the first to go: the oldest
 * runs, and at last the run to be added.
 */
static StoreResult
perform_change(Request request)
{
	StoreResult result = perform(&request);
	const RunRecord *run = request.change != NULL ? request.change->run : request.run;
	StoreChange change;

	if (result == STORE_FULL &&
		perform(&(Request) {.verb = shorten_history, .change = request.change}) == STORE_OK)
		result = perform(&request);
	if (result == STORE_FULL && run != NULL)
	{
		if (request.change != NULL)
		{
			change = *request.change;
			change.run = NULL;
			request.change = &change;
		}
		request.run = NULL;
		result = perform(&request);
		if (result == STORE_OK && setting_history_size > 0)
			ereport(LOG,
					(errmsg("could not add the vacuum of table \"%s.%s\" to the history of vacuums",
							run->schema_name, run->table_name),
					 errdetail("There is no room for it in the store.")));
	}
	return result;
}

/*
 * Make a save durable.  The caller has flushed WAL (R1) and sealed the records,
 * but for the run to be added to history.
 */
StoreResult
store_write(const StoreChange *change)
{
	return perform_change((Request) {.verb = write_change, .change = change});
}

/*
 * Remove all that is known of a table, or with relation 0 of a database; history
 * stays.  STORE_OK also if there was nothing.
 */
StoreResult
store_remove(const TableKey *key)
{
	return store_finish(key, NULL);
}

/*
 * The same, adding a run of the table to history in one transaction, unless it is
 * NULL.  It need not be sealed.  That there was no room for it is no failure.
 */
StoreResult
store_finish(const TableKey *key, const RunRecord *run)
{
	const Request request = {.verb = remove_table, .key = key, .run = run};
	StoreResult result = perform_change(request);

	/* a new store has no record, and no history yet */
	if (result == STORE_REPLACED && run != NULL)
		result = perform_change(request);
	result = none_if_replaced(result);
	return result == STORE_NOT_FOUND ? STORE_OK : result;
}

/*
 * Read the records of all tables.  Damaged ones are left out, and make the
 * result STORE_DAMAGED.
 */
StoreResult
store_list(CycleRecord **cycles, int *ncycles)
{
	StoreResult result;

	*cycles = NULL;
	*ncycles = 0;
	result = none_if_replaced(perform(&(Request) {.verb = list, .cycles = cycles,
							  .ncycles = ncycles}));
	return result == STORE_NOT_FOUND ? STORE_OK : result;
}

/*
 * Read all of history, newest run first.  Damaged runs are left out, and make the
 * result STORE_DAMAGED.
 */
StoreResult
store_list_runs(RunRecord **runs, int *nruns)
{
	StoreResult result;

	*runs = NULL;
	*nruns = 0;
	result = none_if_replaced(perform(&(Request) {.verb = list_runs, .runs = runs,
							  .nruns = nruns}));
	return result == STORE_NOT_FOUND ? STORE_OK : result;
}

/*
 * Read a table's last runs, newest first, up to so many, as far as they are among
 * the last LOOK_BACK_RUNS of all tables.  Damaged ones are left out.
 */
StoreResult
store_last_runs(const TableKey *key, RunRecord **runs, int *nruns, int most)
{
	StoreResult result;

	*runs = NULL;
	*nruns = 0;
	result = none_if_replaced(perform(&(Request) {.verb = last_runs, .key = key, .runs = runs,
							  .nruns = nruns, .most = most}));
	return result == STORE_NOT_FOUND ? STORE_OK : result;
}
