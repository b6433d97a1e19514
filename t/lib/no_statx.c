/*
 * no_statx.c
 *	  To be preloaded: statx() is refused, as older container runtimes do.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/stat.h>

int
statx(int dirfd, const char *path, int flags, unsigned int mask, struct statx *status)
{
	errno = EPERM;
	return -1;
}
