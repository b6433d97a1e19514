/*
 * drop.c
 *	  Forgetting tables that are dropped (R9).
 *
 * An object access hook takes note of dropped tables and databases; their
 * records are removed when the transaction has committed.  Not before: the drop
 * may be rolled back, and a vacuum that DROP DATABASE ends by force saves once
 * more.  One that is prepared counts as committed, for nobody will tell us the list
 * again when it really is; if it is rolled back, the table has lost progress.
 *
 * What is left when the server crashes between the two is harmless, as a new table
 * has another file, and is removed when somebody looks at the records.
 *
 * A database that is created under an OID that another one had begins
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
#include "utils/syscache.h"

#include "drop.h"
#include "instance.h"
#include "store.h"

static object_access_hook_type previous_hook = NULL;

/* Something dropped by this transaction */
typedef struct Dropped
{
	TableKey	key;
	int			nest_level;		/* of the subtransaction that counts for it */
} Dropped;

/* All of these, in TopTransactionContext */
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
	Dropped    *drop = palloc(sizeof(Dropped));

	*drop = (Dropped) {.key = {.database = database, .relation = relation},
	.nest_level = GetCurrentTransactionNestLevel()};
	dropped = lappend(dropped, drop);
	MemoryContextSwitchTo(context);
}

static void
forget_at_commit(XactEvent event, void *arg)
{
	ListCell   *cell;

	switch (event)
	{
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
			foreach(cell, dropped)
				forget(&((Dropped *) lfirst(cell))->key);
			dropped = NIL;
			break;
		case XACT_EVENT_ABORT:
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

/* A subtransaction's drops become its parent's, or are undone. */
static void
follow_subtransaction(SubXactEvent event, SubTransactionId subid, SubTransactionId parent, void *arg)
{
	int			level = GetCurrentTransactionNestLevel();
	ListCell   *cell;

	if (event != SUBXACT_EVENT_COMMIT_SUB && event != SUBXACT_EVENT_ABORT_SUB)
		return;
	foreach(cell, dropped)
	{
		Dropped    *drop = lfirst(cell);

		if (drop->nest_level < level)
			continue;
		if (event == SUBXACT_EVENT_COMMIT_SUB)
			drop->nest_level = level - 1;
		else
			dropped = foreach_delete_current(dropped, cell);
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
		if (instance_may_have_record(&key) && store_find(&key, &record) != STORE_NOT_FOUND)
			note_dropped(MyDatabaseId, object_id);
	}
}

/*
 * Is the table of a record gone, or its database, as far as this session can tell?
 * Then the record is removed, in the latter case all of that database.  No lock is
 * needed: nobody vacuums it any more, and a new table or database with this OID would
 * lose no more than progress.
 */
bool
drop_was_missed(const TableKey *key)
{
	TableKey	gone = *key;

	if (key->database == MyDatabaseId)
	{
		if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(key->relation)))
			return false;
	}
	else
	{
		if (key->database == InvalidOid ||
			SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(key->database)))
			return false;
		gone.relation = InvalidOid;
	}

	/* this transaction's own drop may still be rolled back */
	if (dropped == NIL)
		forget(&gone);
	return true;
}

/* Install the hook in front of whoever is there; called in the postmaster. */
void
drop_install(void)
{
	previous_hook = object_access_hook;
	object_access_hook = see_access;
	RegisterXactCallback(forget_at_commit, NULL);
	RegisterSubXactCallback(follow_subtransaction, NULL);
}
