/*
 * drop.c
 *	  Forgetting tables that are dropped (R9).
 *
 * An object access hook takes note of dropped tables and databases; their
 * records are removed when the transaction has committed.  Not before: the drop
 * may be rolled back, and a vacuum that DROP DATABASE ends by force saves once
 * more.  A database that is created under an OID that another one had begins
 * without records as well: copied from the same template its tables could pass
 * for those of the other one.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "utils/memutils.h"

#include "drop.h"
#include "instance.h"
#include "store.h"

static object_access_hook_type previous_hook = NULL;

/* TableKeys dropped by this transaction, in TopTransactionContext */
static List *dropped = NIL;

/* What cannot be forgotten must not be trusted; failing is no reason to fail a DROP. */
static void
forget(const TableKey *key)
{
	if (store_remove(key) != STORE_OK)
		(void) instance_distrust(false);
}

static void
note_dropped(Oid database, Oid relation)
{
	MemoryContext context = MemoryContextSwitchTo(TopTransactionContext);
	TableKey   *key = palloc(sizeof(TableKey));

	*key = (TableKey) {.database = database, .relation = relation};
	dropped = lappend(dropped, key);
	MemoryContextSwitchTo(context);
}

static void
forget_at_commit(XactEvent event, void *arg)
{
	ListCell   *cell;

	switch (event)
	{
		case XACT_EVENT_COMMIT:
			foreach(cell, dropped)
				forget(lfirst(cell));
			dropped = NIL;
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			dropped = NIL;
			break;
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			break;
	}
}

static void
see_access(ObjectAccessType access, Oid class_id, Oid object_id, int sub_id, void *arg)
{
	CycleRecord record;
	TableKey	key;

	if (previous_hook)
		previous_hook(access, class_id, object_id, sub_id, arg);

	if (sub_id != 0 || (class_id != DatabaseRelationId && class_id != RelationRelationId))
		return;

	if (class_id == DatabaseRelationId)
	{
		key = (TableKey) {.database = object_id};
		if (access == OAT_POST_CREATE)
			forget(&key);
		else if (access == OAT_DROP)
			note_dropped(object_id, InvalidOid);
	}
	else if (access == OAT_DROP)
	{
		key = (TableKey) {.database = MyDatabaseId, .relation = object_id};
		if (store_find(&key, &record) != STORE_NOT_FOUND)
			note_dropped(MyDatabaseId, object_id);
	}
}

/* Install the hook in front of whoever is there; called in the postmaster. */
void
drop_install(void)
{
	previous_hook = object_access_hook;
	object_access_hook = see_access;
	RegisterXactCallback(forget_at_commit, NULL);
}
