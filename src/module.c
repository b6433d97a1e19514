/*
 * module.c
 *	  Entry point of the library.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/guc.h"

#include "attach.h"
#include "command.h"
#include "drop.h"
#include "instance.h"
#include "settings.h"

/* The server release that we are compiled for; tests pretend another one. */
#ifndef PGVR_BUILT_VERSION_NUM
#define PGVR_BUILT_VERSION_NUM PG_VERSION_NUM
#endif

/* PGDLLEXPORT is empty before server 16; everything else of ours is hidden. */
#pragma GCC visibility push(default)
PG_MODULE_MAGIC;
void		_PG_init(void);
#pragma GCC visibility pop

/*
 * Refuse a server whose functions may not be those that we were compiled for.
 *
 * The server's own check (PG_MODULE_MAGIC) compares majors only.  Yet within
 * 15.x heap_page_prune() got one more parameter (15.8), so a library built for
 * the one and loaded into the other would call it with garbage.  An older
 * server may always lack what we use; a newer one is fine, but for crossing a
 * change that we know of.
 */
static void
refuse_foreign_server(void)
{
	int			running = atoi(GetConfigOption("server_version_num", false, false));
	int			built = PGVR_BUILT_VERSION_NUM;
	bool		crosses_change = running / 10000 == 15 && built < 150008 && running >= 150008;

	if (running >= built && !crosses_change)
		return;

	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("pg_vacuum_resume was built for server version %d.%d and cannot be loaded into version %d.%d",
					built / 10000, built % 10000, running / 10000, running % 10000),
			 errhint("Install a pg_vacuum_resume that is built for this server version, or remove it from shared_preload_libraries.")));
}

void
_PG_init(void)
{
	refuse_foreign_server();
	settings_define();

	/* R12: a server whose vacuums we do not see must not look as if we did */
	if (process_shared_preload_libraries_in_progress && attach_to_heap())
	{
		instance_install();
		drop_install();
	}
	command_install();
}
