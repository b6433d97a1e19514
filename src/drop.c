/*
 * drop.c
 *	  Forgetting tables that are dropped (R9).
 *
 * A record of a dropped table would do no harm, for its identity fits no other
 * table, but it would stay forever.  So an object access hook removes it with
 * the table, or all of a database's with the database.  If the transaction is
 * rolled back after all, a table has lost progress and nothing else.
 */
#include "postgres.h"

#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "miscadmin.h"

#include "drop.h"
#include "store.h"

static object_access_hook_type previous_hook = NULL;

static void
forget_dropped(ObjectAccessType access, Oid class_id, Oid object_id, int sub_id, void *arg)
{
	CycleRecord record;
	TableKey	key;

	if (previous_hook)
		previous_hook(access, class_id, object_id, sub_id, arg);

	if (access != OAT_DROP || sub_id != 0)
		return;

	/* failing to forget is no reason to fail a DROP */
	if (class_id == DatabaseRelationId)
	{
		key = (TableKey) {.database = object_id};
		(void) store_remove(&key);
	}
	else if (class_id == RelationRelationId)
	{
		key = (TableKey) {.database = MyDatabaseId, .relation = object_id};
		if (store_find(&key, &record) != STORE_NOT_FOUND)
			(void) store_remove(&key);
	}
}

/* Install the hook in front of whoever is there; called in the postmaster. */
void
drop_install(void)
{
	previous_hook = object_access_hook;
	object_access_hook = forget_dropped;
}
