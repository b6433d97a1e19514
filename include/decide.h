/*
 * decide.h
 *	  Whether to continue an earlier run's vacuum of a table, and how.
 *
 * Pure C: no server headers.  The extension decides by this, the inspection tool
 * explains by it, and the unit test asks it a million questions.  It allocates
 * nothing and cannot fail.  docs/decision.md tells where the formulas come from.
 */
#ifndef PGVR_DECIDE_H
#define PGVR_DECIDE_H

#include <stdbool.h>
#include <stdint.h>

/* The history keeps the numbers of plans and reasons: never change one, add new ones last. */
typedef enum VacuumPlan
{
	PLAN_RESTART,				/* a new cycle, from block 0 */
	PLAN_RESUME,				/* what is pending, and the tail */
	PLAN_RESUME_AND_WRAP		/* these, and the head once more */
} VacuumPlan;

#define VACUUM_PLANS 3

typedef enum DecideMode
{
	DECIDE_AUTO,
	DECIDE_RESUME,				/* never restart while there is something to continue */
	DECIDE_RESTART				/* always */
} DecideMode;

typedef enum DecideReason
{
	BECAUSE_NOTHING_TO_CONTINUE,
	BECAUSE_ASKED_TO_RESTART,
	BECAUSE_ASKED_TO_RESUME,
	BECAUSE_VACUUM_PROMISES_ALL,	/* R10, plain VACUUM */
	BECAUSE_HEAD_OVER_THRESHOLD,	/* R10, autovacuum and VACUUM (RESUME) */
	BECAUSE_OTHERS_VACUUMED,	/* R4: nobody knows what happened to the head */
	BECAUSE_NOTHING_AHEAD,
	BECAUSE_TAIL_PAYS_MORE,
	BECAUSE_HEAD_PAYS,
	BECAUSE_HEAD_OUT_OF_REACH,
	BECAUSE_CHECKING_COSTS_MORE,
	BECAUSE_GIVEN_UP_BEFORE,
	BECAUSE_RESUMING_KEEPS_MORE,
	BECAUSE_ONLY_PENDING,

	/* not decide()'s: there is a record, but it cannot be continued */
	BECAUSE_UNREADABLE,
	BECAUSE_OTHER_CLUSTER,
	BECAUSE_OTHER_TIMELINE,
	BECAUSE_LATER_STATE,
	BECAUSE_REWRITTEN,
	BECAUSE_PERSISTENCE_CHANGED,
	BECAUSE_MAY_BE_RESET,
	BECAUSE_FREEZING_UNPROVEN,
	BECAUSE_FREEZING_SKIPPED,
	BECAUSE_FREEZING_LESS,
	BECAUSE_EVERY_PAGE_ASKED_FOR,
	BECAUSE_SERVERS_OWN_CODE,
	BECAUSE_HEAD_MAY_BE_OVER,
	BECAUSE_AGGRESSIVE
} DecideReason;

#define DECIDE_REASONS (BECAUSE_AGGRESSIVE + 1)

/*
 * What is known when a run begins.  A page is vacuumable if the visibility map
 * does not let this run skip it; "then" is when the record was saved.
 */
typedef struct DecisionInput
{
	DecideMode	mode;
	bool		has_record;		/* is there one that this run may continue (R3, R7, options)? */
	bool		may_leave_head; /* R10: autovacuum, or VACUUM (RESUME on) */
	bool		restarted_before;	/* was the cycle before this one given up by a decision? */
	bool		aggressive;		/* is the run for the sake of the whole table? */

	/* the table, in pages; all but the first two are vacuumable ones */
	uint64_t	rel_blocks;
	uint64_t	next_block;		/* the cursor: head below, tail from here on */
	uint64_t	ahead;			/* in the tail, now */
	uint64_t	ahead_to_freeze;	/* of these, all-visible: an aggressive run reads them, too */
	uint64_t	ahead_appended; /* of ahead, not all-visible, on blocks that came since then */
	uint64_t	behind;			/* in the head, now, those that only wait for reaping included */
	uint64_t	ahead_at_save;	/* then */
	uint64_t	ahead_to_freeze_at_save;
	uint64_t	ahead_gaps;		/* not vacuumable, but read between those of the tail, now */
	uint64_t	behind_gaps;	/* likewise if a restart scans the head, now */
	uint64_t	ahead_gaps_at_save;
	uint64_t	behind_at_save;
	uint64_t	appended_blocks;	/* by which the table has grown since then, in the tail */
	uint64_t	scanned_pages;	/* by the cycle so far, each counted once; 0 = not known */

	/* what earlier runs collected and have not reaped */
	uint64_t	pending_pages;	/* pages of the head with pending TIDs */
	int64_t		pending_tids;
	bool		must_verify;	/* R4: these have to be read again, all indexes are to do */
	bool		set_complete;	/* the record has begun to remove them: nothing is added */
	bool		reaping;		/* all indexes are done with them */

	/* all indexes together, in pages; 0 = there are none */
	uint64_t	index_pages;
	uint64_t	index_pages_done;	/* of these, in indexes done with the pending TIDs */

	/* pg_stat's count of dead rows in the whole table; negative = not known */
	double		dead_at_start;	/* when the cycle began */
	double		dead_at_save;	/* then */
	double		dead_now;

	/* likewise, rows that were deleted, or updated by others than HOT, since ever */
	double		gone_at_start;
	double		gone_at_save;
	double		gone_now;

	double		removed_rows;	/* of dead_at_save, that the cycle has removed meanwhile */
	double		dead_left;		/* rows in the head that had died, but could not be removed yet */
	double		threshold;		/* dead rows that make the server vacuum this table */

	/*
	 * Work (see PlanEstimate) that runs on this table get done before they are
	 * stopped; 0 = they are not stopped, or it is not known
	 */
	double		expected_work;
} DecisionInput;

/*
 * What a plan would do.  Work is counted in pages of a first heap pass: one is
 * what it takes to read and prune one page.
 */
typedef struct PlanEstimate
{
	bool		possible;		/* may it be taken at all? */
	DecideReason reason;		/* why it is chosen, or is not */

	double		heap_pages;		/* to scan, a head page that is looked at again included */
	double		verified_pages; /* to read because of R4 */
	double		reaped_pages;
	double		index_pages;	/* to read in all index passes */
	int			index_passes;
	double		work;

	double		dead_rows_removed;	/* if it gets to its end */
	double		dead_rows_expected; /* by the time it is stopped (expected_work) */
	bool		reaches_end;	/* before it is stopped? */
} PlanEstimate;

typedef struct Decision
{
	VacuumPlan	plan;
	DecideReason reason;		/* of that plan */
	double		head_dead;		/* dead rows in the head, without pending TIDs */
	double		head_dead_at_most;	/* likewise, where it is not known which part new rows are in */
	double		tail_dead;		/* dead rows in the tail */
	double		head_share;		/* of rows that die from now on, how many in the head */
	double		fresh_behind;	/* vacuumable head pages without pending TIDs */
	bool		reread_pending; /* in a wrap, scan pages with pending TIDs in their turn too */
	PlanEstimate plans[VACUUM_PLANS];	/* by VacuumPlan */
} Decision;

extern void decide(const DecisionInput *input, Decision *decision);
extern double decide_rows_that_came(double dead_before, double dead_after, double gone_before,
									double gone_after);

extern const char *vacuum_plan_name(VacuumPlan plan);
extern const char *decide_reason_text(DecideReason reason);

#endif							/* PGVR_DECIDE_H */
