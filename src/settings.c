/*
 * settings.c
 *	  The vacuum_resume.* settings, all in one place.
 */
#include "postgres.h"

#include <limits.h>

#include "utils/guc.h"

#include "settings.h"

bool		setting_enabled = true;
int			setting_min_table_size = 64 * 1024 * 1024 / BLCKSZ;

/*
 * Define all settings.  Called once, from _PG_init.
 */
void
settings_define(void)
{
	DefineCustomBoolVariable("vacuum_resume.enabled",
							 "Lets heap tables be vacuumed by pg_vacuum_resume.",
							 "When off, every table is vacuumed by the server's own code.",
							 &setting_enabled,
							 true,
							 PGC_SUSET, 0,
							 NULL, NULL, NULL);

	DefineCustomIntVariable("vacuum_resume.min_table_size",
							"Sets the size from which on tables are vacuumed by pg_vacuum_resume.",
							"Smaller tables are vacuumed by the server's own code. 0 means every table.",
							&setting_min_table_size,
							64 * 1024 * 1024 / BLCKSZ, 0, INT_MAX,
							PGC_SUSET, GUC_UNIT_BLOCKS,
							NULL, NULL, NULL);

	MarkGUCPrefixReserved("vacuum_resume");
}
