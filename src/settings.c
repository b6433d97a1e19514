/*
 * settings.c
 *	  The vacuum_resume.* settings, all in one place.
 */
#include "postgres.h"

#include <limits.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_database.h"
#include "catalog/pg_db_role_setting.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/rel.h"
#include "utils/syscache.h"

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

/* The settings that decide on a vacuum and can be others in each session */
static const struct
{
	const char *name;
	bool		is_freeze_age;
}			deciding[] = {
	{"vacuum_freeze_min_age", true},
	{"vacuum_freeze_table_age", true},
	{"vacuum_multixact_freeze_min_age", true},
	{"vacuum_multixact_freeze_table_age", true},
	{"vacuum_resume.enabled", false},
	{"vacuum_resume.min_table_size", false},
	{"vacuum_resume.mode", false},
	{"vacuum_resume.max_duration", false}
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

/* Give a setting a value until the nest level ends; one that the server refuses is ignored. */
static void
set_for_now(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_SUSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, DEBUG1,
							 false);
}

/* The same, if it is one of those that decide. */
static void
set_if_it_decides(const char *name, const char *value)
{
	for (int i = 0; i < lengthof(deciding); i++)
		if (pg_strcasecmp(name, deciding[i].name) == 0)
			set_for_now(name, value);
}

/*
 * Set what ALTER DATABASE or ALTER ROLE say of a database and a role, either of which
 * can be invalid: all of them.
 */
static void
set_from_catalog(Relation catalog, Oid database, Oid role)
{
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&keys[0], Anum_pg_db_role_setting_setdatabase, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(database));
	ScanKeyInit(&keys[1], Anum_pg_db_role_setting_setrole, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(role));
	scan = systable_beginscan(catalog, DbRoleSettingDatidRolidIndexId, true, NULL, 2, keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		isnull;
		Datum		array = heap_getattr(tuple, Anum_pg_db_role_setting_setconfig,
										 RelationGetDescr(catalog), &isnull);
		Datum	   *settings;
		int			nsettings = 0;

		if (!isnull)
			deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false, TYPALIGN_INT,
							  &settings, NULL, &nsettings);
		for (int i = 0; i < nsettings; i++)
		{
			char	   *setting = TextDatumGetCString(settings[i]);
			char	   *value = strchr(setting, '=');

			if (value == NULL)
				continue;
			*value++ = '\0';
			set_if_it_decides(setting, value);
		}
	}
	systable_endscan(scan);
}

/* Does autovacuum freeze all it can in this database? */
static bool
freezes_eagerly(void)
{
	HeapTuple	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(MyDatabaseId));
	Form_pg_database database;
	bool		eagerly;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for database %u", MyDatabaseId);
	database = (Form_pg_database) GETSTRUCT(tuple);
	eagerly = database->datistemplate || !database->datallowconn;
	ReleaseSysCache(tuple);
	return eagerly;
}

/*
 * Let this session have the settings that decide on a vacuum as an autovacuum worker
 * that began now in its database would have them.  Returns what
 * settings_end_as_worker() has to be given; an error ends it, too.
 *
 * A worker has what the configuration says, and over it, in this order, what ALTER ROLE
 * ALL, ALTER DATABASE, ALTER ROLE and ALTER ROLE IN DATABASE have set; its role is the
 * bootstrap superuser (InitPostgres).  It never has a client's options.  In a template
 * database, and in one that takes no connections, it takes all freeze ages for 0
 * (do_autovacuum).  What else it forces (search_path, zero_damaged_pages, timeouts,
 * isolation level, synchronous_commit, stats_fetch_consistency) decides on no vacuum; and
 * the autovacuum_* settings are the same everywhere, but for a table's own options.
 *
 * The configuration's value is what RESET would give, unless the session was begun with
 * another one: by its client's options, by settings of its role, or by some of its
 * database's that are gone now.  The server does not tell what is behind those.
 */
int
settings_begin_as_worker(void)
{
	int			nest_level = NewGUCNestLevel();
	Relation	catalog;

	for (int i = 0; i < lengthof(deciding); i++)
		set_for_now(deciding[i].name, GetConfigOptionResetString(deciding[i].name));

	catalog = table_open(DbRoleSettingRelationId, AccessShareLock);
	set_from_catalog(catalog, InvalidOid, InvalidOid);
	set_from_catalog(catalog, MyDatabaseId, InvalidOid);
	set_from_catalog(catalog, InvalidOid, BOOTSTRAP_SUPERUSERID);
	set_from_catalog(catalog, MyDatabaseId, BOOTSTRAP_SUPERUSERID);
	table_close(catalog, AccessShareLock);

	if (freezes_eagerly())
		for (int i = 0; i < lengthof(deciding); i++)
			if (deciding[i].is_freeze_age)
				set_for_now(deciding[i].name, "0");
	return nest_level;
}

/* The session's own settings again. */
void
settings_end_as_worker(int nest_level)
{
	AtEOXact_GUC(false, nest_level);
}
