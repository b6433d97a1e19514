/*
 * datafile.c
 *	  Which file is the store?
 *
 * R3: a store that was copied along with a data directory may be torn, and its
 * records are of another cluster.  So the inode and birth time of its data file
 * are kept in the file "identity".  Not the device number, which changes over
 * reboots and remounts.
 *
 * All of this reports failure by its result; nothing throws.
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/fd.h"

#include "datafile.h"
#include "record.h"

/* Is there anything at the store's place, as far as one can tell? */
bool
data_file_exists(void)
{
	struct stat file;

	return stat(DATA_PATH, &file) == 0 || errno != ENOENT;
}

/*
 * Inode and birth time of a file, "none" if there is no such file, as text of at
 * most FILE_IDENTITY_BYTES and without a line feed.  If it cannot be told, a text
 * that no file has twice.
 */
void
file_identity(const char *path, char *text)
{
	struct statx file;

	if (statx(AT_FDCWD, path, 0, STATX_INO | STATX_BTIME, &file) != 0)
	{
		uint64		nonce = 0;

		if (errno == ENOENT)
			snprintf(text, FILE_IDENTITY_BYTES, "none");
		else
		{
			/* refused (older container runtimes do): it is not known to be any file */
			(void) pg_strong_random(&nonce, sizeof(nonce));
			snprintf(text, FILE_IDENTITY_BYTES, "unknown " UINT64_FORMAT, nonce);
		}
	}
	else
		snprintf(text, FILE_IDENTITY_BYTES, "inode %llu born %lld.%09u",
				 (unsigned long long) file.stx_ino,
				 (file.stx_mask & STATX_BTIME) ? (long long) file.stx_btime.tv_sec : 0,
				 (file.stx_mask & STATX_BTIME) ? file.stx_btime.tv_nsec : 0);
}

static int
identity_file_text(char *text, size_t size)
{
	char		identity[FILE_IDENTITY_BYTES];

	file_identity(DATA_PATH, identity);
	return snprintf(text, size, "pg_vacuum_resume store, format %d\n%s\n", RECORD_FORMAT,
					identity);
}

/* Is the data file the one that the identity file was written for? */
bool
data_file_is_own(void)
{
	char		expected[256];
	char		found[256];
	int			length = identity_file_text(expected, sizeof(expected));
	ssize_t		bytes;
	int			fd = BasicOpenFile(IDENTITY_PATH, O_RDONLY | PG_BINARY);

	if (fd < 0)
		return false;
	bytes = read(fd, found, sizeof(found));
	close(fd);
	return bytes == length && memcmp(found, expected, length) == 0;
}

/* If the data file is not ours: is it one that another version has made? */
bool
data_file_is_of_another_version(void)
{
	char		found[256] = {0};
	int			format;
	ssize_t		bytes;
	int			fd = BasicOpenFile(IDENTITY_PATH, O_RDONLY | PG_BINARY);

	if (fd < 0)
		return false;
	bytes = read(fd, found, sizeof(found) - 1);
	close(fd);
	return bytes > 0 && sscanf(found, "pg_vacuum_resume store, format %d", &format) == 1 &&
		format != RECORD_FORMAT;
}

/* Make the data file ours. */
bool
data_file_write_identity(void)
{
	char		text[256];
	int			length = identity_file_text(text, sizeof(text));
	bool		written;
	int			fd = BasicOpenFile(IDENTITY_PATH ".new", O_WRONLY | O_CREAT | O_TRUNC | PG_BINARY);

	if (fd < 0)
		return false;
	written = write(fd, text, length) == length && pg_fsync(fd) == 0;
	if (close(fd) != 0)
		written = false;
	return written && durable_rename(IDENTITY_PATH ".new", IDENTITY_PATH, LOG) == 0;
}
