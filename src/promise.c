/*
 * promise.c
 *	  What an aggressive vacuum has to freeze (R7).
 */
#include "postgres.h"

#include "access/multixact.h"

#include "cycle.h"
#include "promise.h"

/* What a run with these cutoffs has to freeze if it is aggressive. */
Promise
promise_of(const Cutoffs *cutoffs)
{
	return (Promise) {.xid = cycle_full_xid(cutoffs->freeze_limit),
		.mxid = cutoffs->multixact_cutoff,
		.xid_age = cutoffs->oldest_xmin - cutoffs->freeze_limit,
		.mxid_age = cutoffs->oldest_mxid - cutoffs->multixact_cutoff};
}

/* Is there nothing left that is older than what was promised to be frozen? */
static bool
satisfies(uint64 carry_xid, MultiXactId carry_mxid, const Promise *promise)
{
	return carry_xid >= promise->xid &&
		!MultiXactIdPrecedes(carry_mxid, (MultiXactId) promise->mxid);
}

/*
 * R7: does the record not let a run keep an aggressive vacuum's promise?  Then says
 * why not.
 *
 * The promise of a vacuum that takes many runs is the one it began with, as that
 * of an uninterrupted one is: with a limit that moved on from run to run, no cycle
 * would ever be completed on a server where XIDs are used up meanwhile.  But this
 * run must not have been asked to freeze younger rows than the first was.
 */
bool
promise_broken(const Cutoffs *cutoffs, bool aggressive, const CycleRecord *record,
			   DecideReason *why)
{
	const Promise *first = &record->promise;
	Promise		own = promise_of(cutoffs);

	if (!aggressive)
		return false;
	if (record->skipped_all_visible)
	{
		*why = BECAUSE_FREEZING_SKIPPED;
		return true;
	}
	if (satisfies(record->carry_xid, record->carry_mxid, &own))
		return false;
	if (first->xid != 0 && satisfies(record->carry_xid, record->carry_mxid, first) &&
		first->xid_age <= own.xid_age && first->mxid_age <= own.mxid_age)
		return false;
	*why = BECAUSE_FREEZING_LESS;
	return true;
}

/*
 * R7: has a complete cycle frozen what its first or its last run had to?  Both are
 * aggressive.
 */
bool
promise_is_kept(VacuumRun *run)
{
	const Carry *carry = &run->pages.carry;
	Promise		own = promise_of(&run->pages.cutoffs);

	return satisfies(cycle_full_xid(carry->xid), carry->mxid, &own) ||
		(run->cycle.promise.xid != 0 &&
		 satisfies(cycle_full_xid(carry->xid), carry->mxid, &run->cycle.promise));
}
