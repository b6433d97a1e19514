/*
 * settings.c
 *	  The vacuum_resume.* settings, all in one place.
 */
#include "postgres.h"

#include <limits.h>

#include "miscadmin.h"
#include "utils/guc.h"

#include "settings.h"

bool		setting_enabled = true;
int			setting_min_table_size = 64 * 1024 * 1024 / BLCKSZ;

int			setting_mode = RESUME_MODE_AUTO;
int			setting_save_interval = 10 * 1000;
int			setting_max_duration = 0;
bool		setting_log_decisions = true;
int			setting_store_size = 256 * 1024;
int			setting_history_size = 10000;

static const struct config_enum_entry modes[] = {
	{"auto", RESUME_MODE_AUTO, false},
	{"resume", RESUME_MODE_RESUME, false},
	{"restart", RESUME_MODE_RESTART, false},
	{NULL, 0, false}
};

/*
 * Define all settings.  Called once, from _PG_init.
 */
void
settings_define(void)
{
	/* in a session the server takes no setting that needs a restart */
	bool		preloading = process_shared_preload_libraries_in_progress;

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

	DefineCustomEnumVariable("vacuum_resume.mode",
							 "Selects what a vacuum does that finds an interrupted one of the same table.",
							 NULL,
							 &setting_mode,
							 RESUME_MODE_AUTO, modes,
							 PGC_USERSET, 0,
							 NULL, NULL, NULL);

	DefineCustomIntVariable("vacuum_resume.save_interval",
							"Sets the time between two saves of a running vacuum's state.",
							"After a crash a vacuum goes on from its last save.",
							&setting_save_interval,
							10 * 1000, 10, INT_MAX,
							PGC_SUSET, GUC_UNIT_MS,
							NULL, NULL, NULL);

	DefineCustomIntVariable("vacuum_resume.max_duration",
							"Sets the time after which a vacuum of a table stops and leaves the rest to the next one.",
							"0 means no limit.",
							&setting_max_duration,
							0, 0, INT_MAX,
							PGC_USERSET, GUC_UNIT_MS,
							NULL, NULL, NULL);

	DefineCustomBoolVariable("vacuum_resume.log_decisions",
							 "Logs whether an interrupted vacuum is continued, and why.",
							 NULL,
							 &setting_log_decisions,
							 true,
							 PGC_SUSET, 0,
							 NULL, NULL, NULL);

	DefineCustomIntVariable("vacuum_resume.store_size",
							"Sets the largest size of the store of interrupted vacuums.",
							NULL,
							&setting_store_size,
							256 * 1024, 128, INT_MAX,
							preloading ? PGC_POSTMASTER : PGC_SUSET, GUC_UNIT_KB,
							NULL, NULL, NULL);

	DefineCustomIntVariable("vacuum_resume.history_size",
							"Sets the number of vacuums that are kept in the history.",
							"0 means none.",
							&setting_history_size,
							10000, 0, INT_MAX,
							PGC_SIGHUP, 0,
							NULL, NULL, NULL);

	MarkGUCPrefixReserved("vacuum_resume");
}
