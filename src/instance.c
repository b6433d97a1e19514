/*
 * instance.c
 *	  The instance id (R12): did our library see every vacuum since?
 *
 * Pending TIDs may be taken as they are only as long as nobody but us can have
 * reaped line pointers.  A server without our library can.  So a random id
 * stands for "every server that ran on this data directory since had our
 * library", and each record carries the id that it was written under.
 *
 * The postmaster draws the id when it starts, unless it can prove that no other
 * server ran in between.  The proof is a small text file, the note, which is
 * compared with pg_control:
 *
 *	- After a clean stop, pg_control says "shut down", and its checkpoint is the
 *	  one that our postmaster noted as its very last act.  Any other server
 *	  would have left a later shutdown checkpoint.
 *	- After a crash, pg_control says "in production", and its redo location is
 *	  the one noted at the latest save.  Any other server would have ended its
 *	  recovery with a checkpoint before it let anybody in (checked in the source
 *	  of 15: a crash recovery ends with CHECKPOINT_END_OF_RECOVERY, waited for),
 *	  and so would have moved the redo location.
 *	- After the crash of a backend the postmaster still knows the id.
 *	- A server that recovers from a backup, or follows another one, proves nothing,
 *	  whatever its files say; its store is set aside unread.
 *
 * In every other case (a server without the library ran, a backup was restored,
 * pg_rewind, pg_resetwal, promotion) they do not match, and a new id is drawn.
 * Then pages of pending TIDs are read once more before these are used (R4), and the
 * carry is not used at all (R7): what was frozen may not be any more.
 *
 * Under one id, the generation counts the saves that failed.  A run whose save
 * failed goes on as the server's own would, and its record no longer tells the
 * truth; so no record of an older generation is trusted.  As memory does not
 * outlive a crash of the machine, the note has to go, too: see
 * instance_distrust().
 *
 * The note also tells which state of the store is the latest: the stamp of the
 * last change of it (store.c).  So it is written after each such change, before
 * anybody acts on it, and a crash in between leaves a store that is one change
 * ahead, which its own record of the stamp before shows.  An older copy that
 * somebody puts in the store's place, over the file or while the server is down,
 * does not pass for it.  Nor does an older note: it names its own inode and birth
 * time, which a copy does not have, and each note is a new file.
 *
 * The postmaster never opens the store.  All file access here reports failure
 * by its result; nothing throws.
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/xlog.h"
#include "catalog/pg_control.h"
#include "common/hashfn.h"
#include "common/file_perm.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "port/pg_crc32c.h"
#include "postmaster/bgwriter.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

#include "datafile.h"
#include "instance.h"

#define NOTE_PATH STORE_DIRECTORY "/instance"
#define NEW_NOTE_PATH NOTE_PATH ".new"
#define NOTE_FORMAT 2
#define CONTROL_PATH "global/pg_control"

/* For a note that may have any redo location */
#define UNKNOWN_REDO PG_UINT64_MAX

/* What the note says */
typedef struct Note
{
	uint8		id[INSTANCE_ID_BYTES];
	uint64		generation;
	uint64		boot;
	uint64		system_identifier;
	char		store_file[FILE_IDENTITY_BYTES];	/* that the id stands for */
	uint64		stamp;			/* of that file's latest state */
	bool		shut_down;		/* else: running */
	XLogRecPtr	lsn;			/* checkpoint if shut down, else redo location */
} Note;

/* Bits of the filter that tells which tables have no record */
#define FILTER_WORDS 128
#define FILTER_BITS (FILTER_WORDS * 64)

typedef struct InstanceShared
{
	LWLock	   *lock;			/* protects the note and the store's files */
	uint8		id[INSTANCE_ID_BYTES];	/* set once, before there are backends */
	pg_atomic_uint64 store_epoch;	/* changed under the lock */
	uint64		boot;			/* set once, likewise */
	bool		store_is_from_the_future;	/* until it is replaced, under the lock */
	bool		store_was_seen; /* there has been a store in this server's life */
	XLogRecPtr	noted_redo;		/* of our note that says running, if there is one */
	XLogRecPtr	missing_redo;	/* likewise of those that have been moved away */
	bool		records_known;	/* has the filter a bit for each record there is? */
	pg_atomic_uint64 filter[FILTER_WORDS];
} InstanceShared;

static InstanceShared *shared = NULL;
static shmem_request_hook_type previous_request_hook = NULL;
static shmem_startup_hook_type previous_startup_hook = NULL;

/* The postmaster's own copy outlives shared memory when a backend crashes. */
static bool have_own_id = false;
static uint8 own_id[INSTANCE_ID_BYTES];

/*
 * So has what the postmaster needs for its last note, when shared memory is gone:
 * it lies in a small shared mapping of its own, made by the postmaster and
 * inherited by all.  Changed under the lock.
 */
typedef struct Enduring
{
	pg_atomic_uint64 generation;
	pg_atomic_uint64 stamp;		/* of the store's latest state; 0: there is none */
} Enduring;

static Enduring *enduring = NULL;

/*
 * Read pg_control.  Its writer replaces it by a single write, which a reader
 * can still see half of, hence the retries.
 */
static bool
read_control(ControlFileData *control)
{
	for (int attempt = 0; attempt < 10; attempt++)
	{
		int			fd = BasicOpenFile(CONTROL_PATH, O_RDONLY | PG_BINARY);
		ssize_t		bytes;
		pg_crc32c	crc;

		if (fd < 0)
			return false;
		bytes = read(fd, control, sizeof(*control));
		close(fd);
		if (bytes != sizeof(*control))
			return false;

		INIT_CRC32C(crc);
		COMP_CRC32C(crc, control, offsetof(ControlFileData, crc));
		FIN_CRC32C(crc);
		if (EQ_CRC32C(crc, control->crc))
			return true;

		pg_usleep(1000L);
	}
	return false;
}

/*
 * Text of the note less its last line, which is the text's CRC; path is the file
 * that it is written to.
 */
static int
format_note(const Note *note, const char *path, char *text, size_t size)
{
	char		id[2 * INSTANCE_ID_BYTES + 1];
	char		own_file[FILE_IDENTITY_BYTES];

	file_identity(path, own_file);

	for (int i = 0; i < INSTANCE_ID_BYTES; i++)
		snprintf(id + 2 * i, 3, "%02x", note->id[i]);

	return snprintf(text, size,
					"pg_vacuum_resume instance note, format %d\n"
					"file: %s\n"
					"id: %s\n"
					"generation: " UINT64_FORMAT "\n"
					"boot: " UINT64_FORMAT "\n"
					"system: " UINT64_FORMAT "\n"
					"store: %s\n"
					"stamp: " UINT64_FORMAT "\n"
					"state: %s\n"
					"lsn: %X/%X\n",
					NOTE_FORMAT, own_file, id, note->generation, note->boot, note->system_identifier,
					note->store_file, note->stamp, note->shut_down ? "shut down" : "running",
					LSN_FORMAT_ARGS(note->lsn));
}

static uint32
text_crc(const char *text, size_t length)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, text, length);
	FIN_CRC32C(crc);
	return crc;
}

/* Read the note; false if there is none that can be believed. */
static bool
read_note(Note *note)
{
	char		text[1024];
	char		id[2 * INSTANCE_ID_BYTES + 1];
	char		state[16];
	char		own_file[FILE_IDENTITY_BYTES];
	char		noted_file[FILE_IDENTITY_BYTES];
	unsigned long long generation,
				boot,
				system_identifier,
				stamp;
	unsigned int lsn_high,
				lsn_low,
				crc;
	int			format;
	int			crc_at = 0;
	ssize_t		bytes;
	int			fd = BasicOpenFile(NOTE_PATH, O_RDONLY | PG_BINARY);

	if (fd < 0)
		return false;
	bytes = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (bytes <= 0)
		return false;
	text[bytes] = '\0';

	if (sscanf(text,
			   "pg_vacuum_resume instance note, format %d\n"
			   "file: %127[a-z0-9. ]\n"
			   "id: %32[0-9a-f]\n"
			   "generation: %llu\n"
			   "boot: %llu\n"
			   "system: %llu\n"
			   "store: %127[a-z0-9. ]\n"
			   "stamp: %llu\n"
			   "state: %15[a-z ]\n"
			   "lsn: %X/%X\n"
			   "%n"
			   "crc: %x",
			   &format, noted_file, id, &generation, &boot, &system_identifier,
			   note->store_file, &stamp, state, &lsn_high, &lsn_low, &crc_at, &crc) != 12)
		return false;
	file_identity(NOTE_PATH, own_file);
	if (strcmp(noted_file, own_file) != 0 ||
		format != NOTE_FORMAT || strlen(id) != 2 * INSTANCE_ID_BYTES ||
		crc != text_crc(text, crc_at))
		return false;

	for (int i = 0; i < INSTANCE_ID_BYTES; i++)
	{
		unsigned int byte;

		sscanf(id + 2 * i, "%2x", &byte);
		note->id[i] = byte;
	}
	note->generation = generation;
	note->boot = boot;
	note->system_identifier = system_identifier;
	note->stamp = stamp;
	note->shut_down = strcmp(state, "shut down") == 0;
	note->lsn = ((uint64) lsn_high << 32) | lsn_low;
	return true;
}

/* Have the names in the store's directory on disk as they are. */
static bool
sync_directory(void)
{
	int			fd = BasicOpenFile(STORE_DIRECTORY, O_RDONLY | PG_BINARY);
	bool		synced;

	if (fd < 0)
		return false;
	synced = pg_fsync(fd) == 0;
	close(fd);
	return synced;
}

/* Write the note, atomically and synced.  A half-written new one is harmless. */
static bool
write_note(const Note *note)
{
	char		text[1024];
	int			length;
	bool		written;
	int			fd;

	/* not to be written into a file that was there, see above */
	(void) unlink(NEW_NOTE_PATH);
	fd = BasicOpenFile(NEW_NOTE_PATH, O_WRONLY | O_CREAT | O_EXCL | PG_BINARY);
	if (fd < 0)
		return false;
	length = format_note(note, NEW_NOTE_PATH, text, sizeof(text));
	length += snprintf(text + length, sizeof(text) - length, "crc: %08x\n",
					   text_crc(text, length));
	written = write(fd, text, length) == length && pg_fsync(fd) == 0;
	if (close(fd) != 0)
		written = false;

	if (!written || rename(NEW_NOTE_PATH, NOTE_PATH) != 0)
	{
		(void) unlink(NEW_NOTE_PATH);
		return false;
	}
	return sync_directory();
}

/* Could a note that says running, with this redo location, be proof after a crash? */
static bool
can_be_proof(XLogRecPtr redo)
{
	ControlFileData control;

	return !XLogRecPtrIsInvalid(redo) &&
		(redo == UNKNOWN_REDO || !read_control(&control) || control.checkPointCopy.redo == redo);
}

/*
 * Make sure that no note can be believed any more, whatever it takes.  Returns
 * whether that is certain; if not, it is once the redo location has moved.  Called
 * with the store lock.
 */
static bool
destroy_note(void)
{
	int			fd;
	bool		gone = false;

	if (unlink(NOTE_PATH) == 0)
	{
		/* the name must be gone for good before anything rests on it */
		gone = true;
		if (!sync_directory())
			shared->missing_redo = shared->noted_redo;
	}
	else if (errno == ENOENT)
	{
		/* one that we wrote has been moved away, and can come back */
		gone = true;
		if (!XLogRecPtrIsInvalid(shared->noted_redo))
			shared->missing_redo = shared->noted_redo;
	}
	/* a directory that cannot be written to may still have a file that can */
	else if ((fd = BasicOpenFile(NOTE_PATH, O_WRONLY | O_TRUNC | PG_BINARY)) >= 0)
	{
		gone = pg_fsync(fd) == 0;
		close(fd);
	}

	if (gone)
		shared->noted_redo = InvalidXLogRecPtr;
	return !can_be_proof(shared->noted_redo) && !can_be_proof(shared->missing_redo);
}

/* Is the store that the note stands for at its place? */
static bool
is_store_of(const Note *note)
{
	char		store_file[FILE_IDENTITY_BYTES];

	file_identity(DATA_PATH, store_file);
	return strcmp(store_file, note->store_file) == 0;
}

/* Does the note prove that no other server ran on this directory since? */
static bool
note_is_proof(const Note *note, const ControlFileData *control)
{
	/* a store that was away may have missed a vacuum of our own */
	if (!is_store_of(note))
		return false;

	if (control->system_identifier != note->system_identifier)
		return false;

	if (note->shut_down)
		return control->state == DB_SHUTDOWNED && control->checkPoint == note->lsn;
	else
		return control->state == DB_IN_PRODUCTION && control->checkPointCopy.redo == note->lsn;
}

/*
 * Is the cluster older than the note?  Then an earlier state of it was restored
 * around a store that stayed, and what the store says of tables (the carry,
 * above all) has not happened.
 */
static bool
is_from_the_future(const Note *note, const ControlFileData *control)
{
	return note->lsn > (note->shut_down ? control->checkPoint : control->checkPointCopy.redo);
}

/*
 * Is the server about to recover from a backup, or to follow another one?  What
 * proves that nothing happened meanwhile may be in that backup, while the WAL to
 * be replayed tells what did; and its copy of the store may be torn, even if it
 * was copied over the old file and so has the old inode.
 */
static bool
is_restored(void)
{
	static const char *const signs[] = {"backup_label", "recovery.signal", "standby.signal"};
	struct stat file;

	for (int i = 0; i < lengthof(signs); i++)
		if (stat(signs[i], &file) == 0 || errno != ENOENT)
			return true;
	return false;
}

static void
draw_random(void *bytes, size_t nbytes)
{
	if (!pg_strong_random(bytes, nbytes))
		ereport(FATAL,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values for pg_vacuum_resume")));
}

/*
 * Choose the id under which this postmaster's servers run.  After the crash of
 * a backend we are here again with shared memory made anew.
 */
static void
choose_id(void)
{
	ControlFileData control;
	Note		note = {0};
	bool		noted = read_note(&note);
	bool		keep = false;
	bool		after_clean_stop = false;
	const char *why = "it was written by a later state of this cluster";

	/* without a note nothing tells whether the store is older or newer than the cluster */
	if (!have_own_id && (is_restored() || !noted))
	{
		shared->store_is_from_the_future = true;
		why = is_restored() ? "the cluster was restored from a backup or follows another one" :
			"there is no valid note of what it has to be";
	}
	else if (noted && have_own_id)
	{
		/* the same goes for one that is away while a backend's crash is dealt with */
		keep = memcmp(note.id, own_id, INSTANCE_ID_BYTES) == 0 && is_store_of(&note);
	}
	else if (noted && read_control(&control))
	{
		/* the latest state is this one, whoever ran since */
		pg_atomic_write_u64(&enduring->stamp, note.stamp);
		keep = note_is_proof(&note, &control);
		if (keep)
			pg_atomic_write_u64(&enduring->generation, note.generation);
		after_clean_stop = keep && note.shut_down;
		shared->store_is_from_the_future = is_from_the_future(&note, &control);
	}

	/*
	 * Now, not when it is first opened: by then the cluster's WAL may have come
	 * as far as the store believes it is, or this be forgotten in a crash.
	 */
	if (shared->store_is_from_the_future)
	{
		bool		exists = data_file_exists();

		/* what is made there from now on is of the present */
		if (!exists || rename(DATA_PATH, SET_ASIDE_PATH) == 0)
			shared->store_is_from_the_future = false;
		if (exists && !shared->store_is_from_the_future)
			ereport(LOG,
					(errmsg("pg_vacuum_resume set its store aside: %s", why)));
		(void) unlink(IDENTITY_PATH);
	}

	if (keep)
		memcpy(own_id, note.id, INSTANCE_ID_BYTES);
	else
		draw_random(own_id, INSTANCE_ID_BYTES);
	have_own_id = true;

	shared->store_was_seen = data_file_exists();

	/* where there has never been a store, none can come back */
	shared->records_known = !shared->store_was_seen && pg_atomic_read_u64(&enduring->stamp) == 0;

	if (after_clean_stop)
		shared->boot = note.boot;
	else
		draw_random(&shared->boot, sizeof(shared->boot));

	memcpy(shared->id, own_id, INSTANCE_ID_BYTES);
	if (keep && !note.shut_down)
		shared->noted_redo = note.lsn;
}

static void
request_shared_memory(void)
{
	if (previous_request_hook)
		previous_request_hook();

	RequestAddinShmemSpace(MAXALIGN(sizeof(InstanceShared)));
	RequestNamedLWLockTranche("pg_vacuum_resume", 1);
}

static void
initialize_shared_memory(void)
{
	bool		found;

	if (previous_startup_hook)
		previous_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	shared = ShmemInitStruct("pg_vacuum_resume", sizeof(InstanceShared), &found);
	if (!found)
	{
		memset(shared, 0, sizeof(*shared));
		shared->lock = &GetNamedLWLockTranche("pg_vacuum_resume")->lock;
		for (int i = 0; i < FILTER_WORDS; i++)
			pg_atomic_init_u64(&shared->filter[i], 0);
		pg_atomic_init_u64(&shared->store_epoch, 1);
		choose_id();
	}
	LWLockRelease(AddinShmemInitLock);
}

/*
 * The postmaster's very last act: note the shutdown checkpoint, if there was
 * one.  A note that is not there, or not of our id, stays away: no record rests
 * on it.
 */
static void
note_shutdown(int code, Datum arg)
{
	ControlFileData control;
	Note		note;

	if (IsUnderPostmaster || !have_own_id)
		return;
	if (!read_note(&note) || memcmp(note.id, own_id, INSTANCE_ID_BYTES) != 0)
		return;
	if (!read_control(&control) || control.state != DB_SHUTDOWNED)
		return;

	note.generation = pg_atomic_read_u64(&enduring->generation);
	note.stamp = pg_atomic_read_u64(&enduring->stamp);
	note.shut_down = true;
	note.lsn = control.checkPoint;
	(void) write_note(&note);
}

/*
 * Get ready, in the postmaster while it loads shared_preload_libraries.
 */
void
instance_install(void)
{
	enduring = mmap(NULL, sizeof(*enduring), PROT_READ | PROT_WRITE,
					MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (enduring == MAP_FAILED)
		ereport(FATAL,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("could not map shared memory for pg_vacuum_resume: %m")));
	pg_atomic_init_u64(&enduring->generation, 1);
	pg_atomic_init_u64(&enduring->stamp, 0);

	previous_request_hook = shmem_request_hook;
	shmem_request_hook = request_shared_memory;
	previous_startup_hook = shmem_startup_hook;
	shmem_startup_hook = initialize_shared_memory;
	on_proc_exit(note_shutdown, 0);
}

/* Put the id and generation of now on a record. */
void
instance_mark(CycleRecord *record)
{
	memcpy(record->instance, shared->id, INSTANCE_ID_BYTES);
	record->generation = pg_atomic_read_u64(&enduring->generation);
	record->boot = shared->boot;
}

/*
 * R4: may the record's pending TIDs and finished indexes be taken as they are?
 */
bool
instance_vouches_for(const CycleRecord *record)
{
	return memcmp(record->instance, shared->id, INSTANCE_ID_BYTES) == 0 &&
		record->generation == pg_atomic_read_u64(&enduring->generation);
}

/*
 * R8: has there been no crash recovery since the record was written?  One resets
 * unlogged tables.
 */
bool
instance_no_crash_since(const CycleRecord *record)
{
	return record->boot == shared->boot;
}

/*
 * Note that we are running, and which state of the store is the latest, so that
 * a crash before the next checkpoint costs no trust.  Called with the store lock
 * held exclusively, after each change of the store and before anybody acts on it.
 *
 * If that cannot be, there must not be any note, which costs the trust, and is
 * safe.  Returns false if there may be an older one: then an older state of the
 * store may be taken for the latest after a crash.
 */
bool
instance_note(void)
{
	ControlFileData control;
	Note		note;

	Assert(LWLockHeldByMeInMode(shared->lock, LW_EXCLUSIVE));

	if (read_control(&control))
	{
		memcpy(note.id, shared->id, INSTANCE_ID_BYTES);
		note.generation = pg_atomic_read_u64(&enduring->generation);
		note.boot = shared->boot;
		note.system_identifier = control.system_identifier;
		file_identity(DATA_PATH, note.store_file);
		note.stamp = pg_atomic_read_u64(&enduring->stamp);
		note.shut_down = false;
		note.lsn = control.checkPointCopy.redo;
		/* even if this fails it may be there, only not for good */
		shared->noted_redo = note.lsn;
		if (write_note(&note))
			return true;
	}
	return destroy_note();
}

/*
 * Wait until no note that has been moved away, or could not be removed, can be
 * believed any more: it proves nothing once the redo location has moved.  (After a
 * clean stop the generation tells.)  Throws if the checkpoint fails.
 */
static void
outlive_notes(void)
{
	XLogRecPtr	missing = shared->missing_redo;

	RequestCheckpoint(CHECKPOINT_FORCE | CHECKPOINT_IMMEDIATE | CHECKPOINT_WAIT);

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	/* or else more has been lost meanwhile */
	if (shared->missing_redo == missing)
		shared->missing_redo = InvalidXLogRecPtr;
	LWLockRelease(shared->lock);
}

/*
 * The store has been moved away, with a note or without.  Whoever noticed may have
 * had to go at once; so who comes next and can wait has to call instance_outlive_lost_store().
 */
void
instance_store_lost(void)
{
	ControlFileData control;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	shared->missing_redo = read_control(&control) ? control.checkPointCopy.redo : UNKNOWN_REDO;
	shared->store_was_seen = false;
	LWLockRelease(shared->lock);
}

/*
 * Make sure that a lost store will not be believed if it comes back: to be called
 * before anything is done to a table that it may have a record of.  Can take a
 * checkpoint, which may throw.
 */
void
instance_outlive_lost_store(void)
{
	if (!XLogRecPtrIsInvalid(shared->missing_redo))
		outlive_notes();
}

/*
 * From now on no record that is in the store is trusted.  Called when a record
 * could not be brought in line with what is about to happen.
 *
 * Returns true if that is certain to hold after a crash as well.  If not, the
 * caller must not do what the record does not allow for.  Takes the store lock.
 * With may_wait it can take a checkpoint, which may throw; without, it does not
 * throw.
 */
bool
instance_distrust(bool may_wait)
{
	bool		certain;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	pg_atomic_fetch_add_u64(&enduring->generation, 1);
	certain = destroy_note();
	LWLockRelease(shared->lock);

	if (!certain && may_wait)
	{
		outlive_notes();
		certain = true;
	}
	return certain;
}

LWLock *
instance_store_lock(void)
{
	return shared->lock;
}

/* Changes whenever the store's files are replaced by new ones. */
uint64_t
instance_store_epoch(void)
{
	return pg_atomic_read_u64(&shared->store_epoch);
}

void
instance_store_replaced(void)
{
	Assert(LWLockHeldByMeInMode(shared->lock, LW_EXCLUSIVE));
	pg_atomic_fetch_add_u64(&shared->store_epoch, 1);
	shared->store_is_from_the_future = false;
	shared->store_was_seen = false;
}

/* The stamp of the store's latest state; 0 if there is no store of this server. */
uint64_t
instance_store_stamp(void)
{
	return pg_atomic_read_u64(&enduring->stamp);
}

/* Say that it is this one now, with the store lock held exclusively. */
void
instance_store_is_at(uint64_t stamp)
{
	Assert(LWLockHeldByMeInMode(shared->lock, LW_EXCLUSIVE));
	pg_atomic_write_u64(&enduring->stamp, stamp);
}

/* Say that the store has been opened. */
void
instance_store_seen(void)
{
	shared->store_was_seen = true;
}

/* Has there been a store in this server's life that nobody has missed yet? */
bool
instance_store_was_seen(void)
{
	return shared->store_was_seen;
}

/* Was the store written by a later state of this cluster than it is in now? */
bool
instance_store_is_from_the_future(void)
{
	return shared->store_is_from_the_future;
}

/*
 * Which tables may have a record is told by a small filter in shared memory, so that
 * vacuuming the many that have none (R5) costs no look into the store.  A bit stands
 * for all tables of one hash value.  None is ever cleared: a record that is gone
 * costs others a look.
 */
static uint32
filter_bit(const TableKey *key)
{
	return hash_combine(murmurhash32(key->database), murmurhash32(key->relation)) % FILTER_BITS;
}

/*
 * May the table have a record?  Takes no lock.  Right about a table of which the
 * caller holds the ShareUpdateExclusiveLock, under which records are written (R9).
 */
bool
instance_may_have_record(const TableKey *key)
{
	uint32		bit = filter_bit(key);

	return !shared->records_known ||
		(pg_atomic_read_u64(&shared->filter[bit / 64]) & (UINT64CONST(1) << (bit % 64))) != 0;
}

/* The table has a record, or is about to have one. */
void
instance_note_record(const TableKey *key)
{
	uint32		bit = filter_bit(key);

	pg_atomic_fetch_or_u64(&shared->filter[bit / 64], UINT64CONST(1) << (bit % 64));
}

/* Is every record noted, or have those of an earlier server's life to be yet? */
bool
instance_records_are_known(void)
{
	return shared->records_known;
}

/* All records that the store has are noted.  Called with the store lock held. */
void
instance_all_records_noted(void)
{
	pg_memory_barrier();
	shared->records_known = true;
}
