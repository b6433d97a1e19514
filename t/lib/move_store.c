/*
 * move_store.c
 *	  To be preloaded into a server: moves the store's directory away in the middle of
 *	  a save, between its commit and its note, if there is a file "move_store" in the
 *	  data directory.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int
unlink(const char *path)
{
	int			(*next) (const char *) = (int (*) (const char *)) dlsym(RTLD_NEXT, "unlink");

	/* which our library removes before it writes it */
	if (strcmp(path, "pg_vacuum_resume/instance.new") == 0 && next("move_store") == 0)
		rename("pg_vacuum_resume", "../away");
	return next(path);
}
