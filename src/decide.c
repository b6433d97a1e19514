/*
 * decide.c
 *	  Whether to continue an earlier run's vacuum of a table, and how.
 *
 * Three steps: where are the dead rows (estimate_rows), what would each plan
 * read and remove (estimate_restart, estimate_resume), and which plan to take
 * (choose_how_to_resume, reason_to_restart).  docs/decision.md gives reasons for
 * the formulas; what matters below is this:
 *
 *	- Resuming with a wrap removes what a restart would remove.  Since pending TIDs
 *	  are kept, giving up a cycle is right in two cases only: the head is in worse
 *	  need than the tail and the run is not going to get to it, or checking what is
 *	  pending costs more than collecting it anew.
 *	- Nothing speaks for restarting that grows with the tail: once it is right to
 *	  resume, it stays right however many pages become vacuumable there.  So
 *	  reason_to_restart() takes the tail's dead rows to lie on the pages that were
 *	  vacuumable at the save: its growth neither dilutes them nor puts the head
 *	  out of reach.
 *	- A head in which more pages become vacuumable never has fewer dead rows for it.
 *	  So where the head is over the threshold, it stays so, and only there is the
 *	  cycle given up for the head's sake: more pages behind cannot turn a restart
 *	  into leaving the head alone.
 *
 * All numbers are doubles that are finite and not negative: "as_amount" makes
 * them so, and they are only added, multiplied by shares of at most 1 or by page
 * counts, and subtracted by "excess".
 */
#include "decide.h"

/*
 * Work per page, in pages of a first heap pass.  All are read once and most are
 * written; differences between them are smaller than those between machines.
 */
#define WORK_PER_SCANNED_PAGE 1.0
#define WORK_PER_VERIFIED_PAGE 1.0
#define WORK_PER_REAPED_PAGE 1.0
#define WORK_PER_INDEX_PAGE 1.0

/* A vacuumable page of which nothing else is known. */
#define DEAD_ROWS_PER_PAGE 1.0

/*
 * How long a page of the head had been exposed to updates after it was scanned, at
 * the save: half the time of the scan, on average.
 */
#define EXPOSURE_AT_SAVE 0.5

/* Likewise a page that the table has grown by since the save, compared to the others. */
#define EXPOSURE_OF_APPENDED 0.5

/* So many line pointers fit on a page of 8 kB (the server's MaxHeapTuplesPerPage). */
#define MOST_DEAD_ROWS_PER_PAGE 291

/* Share of a part's pages that must have been clean to tell a rate from them. */
#define LEAST_CLEAN_SHARE 0.01

/*
 * Share of the table's pages from which on dead line pointers get an index pass:
 * the server's rule (BYPASS_THRESHOLD_PAGES).
 */
#define BYPASS_SHARE 0.02

/* Above any number of rows or pages there can be (2^64). */
#define MOST_ROWS 1.8446744073709552e19

/* The input, checked, and what follows from it. */
typedef struct Situation
{
	double		limit;			/* expected work, 0 = none */
	double		rel_blocks;
	double		head_blocks;
	double		tail_blocks;
	double		appended_blocks;	/* of the tail, since the save */
	double		ahead;
	double		behind;
	double		ahead_then;		/* at the save */
	double		behind_then;
	double		ahead_gaps;		/* pages that are read between these */
	double		behind_gaps;
	double		ahead_gaps_then;
	double		unclean;		/* of ahead, pages that can have dead rows: not all-visible */
	double		unclean_then;
	double		unclean_appended;
	double		growth_ahead;	/* of unclean since the save, apart from what was appended */
	double		growth_behind;
	double		pending_pages;
	double		pending_tids;
	double		fresh;			/* vacuumable head pages without pending TIDs */
	double		index_pages;
	double		index_pages_left;	/* for the pending set */
	bool		verify;			/* pending pages have to be read first */
	bool		complete;		/* the pending set is removed before anything is scanned */

	double		head_dead;
	double		head_dead_at_most;	/* where it is not known what part new rows are in */
	double		tail_dead;
	double		fresh_dead;		/* of head_dead, on fresh pages */
	double		again;			/* pages with pending TIDs that have other dead rows as well */
	bool		reread_pending; /* a wrap had better scan all of these in their turn */
} Situation;

static void check_input(const DecisionInput *input, Situation *s);
static void estimate_rows(const DecisionInput *input, Situation *s);
static double new_rows_in_head(const Situation *s, double rows);
static double most_new_rows_in_head(const Situation *s, double rows);
static bool needs_index_pass(const Situation *s, double pages);
static bool rereading_is_cheaper(const Situation *s);
static void estimate_restart(const Situation *s, PlanEstimate *plan);
static void estimate_resume(const Situation *s, bool wrap, PlanEstimate *plan);
static bool reason_against_tail_only(const DecisionInput *input, const Situation *s,
									 DecideReason *reason);
static VacuumPlan choose_how_to_resume(const Situation *s, Decision *decision);
static bool reason_to_restart(const DecisionInput *input, const Situation *s,
							  DecideReason *reason);

/*
 * Decide what a run does about the record of an earlier one, and estimate what
 * each plan would do.  Sets all of *decision; any input will do.
 */
void
decide(const DecisionInput *input, Decision *decision)
{
	PlanEstimate *restart = &decision->plans[PLAN_RESTART];
	PlanEstimate *resume = &decision->plans[PLAN_RESUME];
	PlanEstimate *wrap = &decision->plans[PLAN_RESUME_AND_WRAP];
	Situation	s;
	DecideReason reason;

	*decision = (Decision) {.plan = PLAN_RESTART};
	check_input(input, &s);
	estimate_rows(input, &s);
	decision->head_dead = s.head_dead;
	decision->head_dead_at_most = s.head_dead_at_most;
	decision->tail_dead = s.tail_dead;
	decision->head_share = input->has_record ? new_rows_in_head(&s, 1) : 0;
	decision->fresh_behind = s.fresh;

	estimate_restart(&s, restart);
	restart->possible = true;
	if (input->has_record)
	{
		estimate_resume(&s, false, resume);
		estimate_resume(&s, true, wrap);
		decision->reread_pending = s.reread_pending;
	}
	if (!input->has_record || input->mode == DECIDE_RESTART)
	{
		decision->reason = input->has_record ? BECAUSE_ASKED_TO_RESTART :
			BECAUSE_NOTHING_TO_CONTINUE;
		restart->reason = resume->reason = wrap->reason = decision->reason;
		return;
	}

	wrap->possible = true;
	resume->possible = !reason_against_tail_only(input, &s, &resume->reason);
	decision->plan = choose_how_to_resume(&s, decision);

	if (input->mode == DECIDE_RESUME)
	{
		restart->possible = false;
		restart->reason = BECAUSE_ASKED_TO_RESUME;
	}
	else if (!reason_to_restart(input, &s, &reason))
		restart->reason = BECAUSE_RESUMING_KEEPS_MORE;
	else if (input->aggressive || input->restarted_before)
	{
		/* or a table whose runs are short would never be done */
		restart->possible = false;
		restart->reason = input->aggressive ? BECAUSE_AGGRESSIVE : BECAUSE_GIVEN_UP_BEFORE;
	}
	else
	{
		decision->plan = PLAN_RESTART;
		restart->reason = wrap->reason = reason;
		if (resume->possible)
			resume->reason = reason;
	}
	decision->reason = decision->plans[decision->plan].reason;
}

/* What the plan is called, as in "the vacuum will resume and wrap". */
const char *
vacuum_plan_name(VacuumPlan plan)
{
	switch (plan)
	{
		case PLAN_RESTART:
			return "restart";
		case PLAN_RESUME:
			return "resume";
		case PLAN_RESUME_AND_WRAP:
			return "resume and wrap";
	}
	return "unknown";			/* a number from a damaged or newer history */
}

/* A clause that fits behind "because". */
const char *
decide_reason_text(DecideReason reason)
{
	switch (reason)
	{
		case BECAUSE_NOTHING_TO_CONTINUE:
			return "there is nothing to continue";
		case BECAUSE_ASKED_TO_RESTART:
			return "it was asked to start over";
		case BECAUSE_ASKED_TO_RESUME:
			return "it was asked to resume";
		case BECAUSE_VACUUM_PROMISES_ALL:
			return "what is dead in the head has to be removed as well";
		case BECAUSE_HEAD_OVER_THRESHOLD:
			return "the head has more dead rows than the vacuum threshold";
		case BECAUSE_OTHERS_VACUUMED:
			return "the table may have been vacuumed by others meanwhile";
		case BECAUSE_NOTHING_AHEAD:
			return "nothing is left to do in the tail";
		case BECAUSE_TAIL_PAYS_MORE:
			return "the tail alone is worth at least as much per page";
		case BECAUSE_HEAD_PAYS:
			return "the head is worth its pages";
		case BECAUSE_HEAD_OUT_OF_REACH:
			return "the head is worth more per page and would not be reached";
		case BECAUSE_CHECKING_COSTS_MORE:
			return "checking what is pending costs more than starting over";
		case BECAUSE_GIVEN_UP_BEFORE:
			return "the cycle before has been given up already";
		case BECAUSE_RESUMING_KEEPS_MORE:
			return "resuming keeps what has been done";
		case BECAUSE_ONLY_PENDING:
			return "only pending row pointers are left to remove";
		case BECAUSE_UNREADABLE:
			return "the record cannot be read";
		case BECAUSE_OTHER_CLUSTER:
			return "it is of another cluster";
		case BECAUSE_OTHER_TIMELINE:
			return "it is of another timeline";
		case BECAUSE_LATER_STATE:
			return "it was written by a later state of this cluster";
		case BECAUSE_REWRITTEN:
			return "the table has been rewritten";
		case BECAUSE_PERSISTENCE_CHANGED:
			return "the table's persistence has been changed";
		case BECAUSE_MAY_BE_RESET:
			return "an unlogged table may have been reset";
		case BECAUSE_FREEZING_UNPROVEN:
			return "an aggressive vacuum cannot rely on what was frozen before";
		case BECAUSE_FREEZING_SKIPPED:
			return "an aggressive vacuum has to scan pages that were skipped";
		case BECAUSE_FREEZING_LESS:
			return "an aggressive vacuum has to freeze more than was frozen";
		case BECAUSE_EVERY_PAGE_ASKED_FOR:
			return "DISABLE_PAGE_SKIPPING asks for every page";
		case BECAUSE_SERVERS_OWN_CODE:
			return "the table is vacuumed by the server's own code";
		case BECAUSE_HEAD_MAY_BE_OVER:
			return "the head may have more dead rows than the vacuum threshold";
		case BECAUSE_AGGRESSIVE:
			return "an aggressive vacuum has to get through the whole table";
	}
	return "unknown";
}

/*----------
 * Arithmetic that cannot go wrong
 *----------
 */

static double
least(double a, double b)
{
	return a < b ? a : b;
}

static double
most(double a, double b)
{
	return a > b ? a : b;
}

/* By how much a is more than b. */
static double
excess(double a, double b)
{
	return a > b ? a - b : 0;
}

/* What of a whole that consists of part and rest the part is. */
static double
share(double part, double rest)
{
	return part > 0 ? part / (part + rest) : 0;
}

/* False for negative numbers and NaN. */
static bool
is_known(double amount)
{
	return amount >= 0;
}

static double
as_amount(double amount)
{
	return is_known(amount) ? least(amount, MOST_ROWS) : 0;
}

/*----------
 * Where the dead rows are
 *----------
 */

/* Bring the input into shape: counts fit into their parts, and what has no use is dropped. */
static void
check_input(const DecisionInput *input, Situation *s)
{
	*s = (Situation) {.limit = input->expected_work < MOST_ROWS ?
		as_amount(input->expected_work) : 0};

	s->rel_blocks = (double) input->rel_blocks;
	s->head_blocks = input->has_record ? least((double) input->next_block, s->rel_blocks) : 0;
	s->tail_blocks = s->rel_blocks - s->head_blocks;
	s->index_pages = (double) input->index_pages;
	if (!input->has_record)
	{
		s->ahead = least((double) input->ahead + (double) input->behind, s->rel_blocks);
		s->unclean = excess(s->ahead, (double) input->ahead_to_freeze);
		s->ahead_gaps = least((double) input->ahead_gaps, s->rel_blocks - s->ahead);
		return;
	}

	s->ahead = least((double) input->ahead, s->tail_blocks);
	s->behind = least((double) input->behind, s->head_blocks);
	s->ahead_then = least((double) input->ahead_at_save, s->tail_blocks);
	s->behind_then = least((double) input->behind_at_save, s->head_blocks);
	s->appended_blocks = least((double) input->appended_blocks, s->tail_blocks);
	s->unclean = excess(s->ahead, (double) input->ahead_to_freeze);
	s->unclean_then = excess(s->ahead_then, (double) input->ahead_to_freeze_at_save);
	s->unclean_appended = least(least((double) input->ahead_appended, s->appended_blocks),
								s->unclean);
	s->growth_ahead = excess(s->unclean - s->unclean_appended, s->unclean_then);
	s->growth_behind = excess(s->behind, s->behind_then);
	s->ahead_gaps = least((double) input->ahead_gaps, s->tail_blocks - s->ahead);
	s->behind_gaps = least((double) input->behind_gaps, s->head_blocks - s->behind);
	s->ahead_gaps_then = least((double) input->ahead_gaps_at_save, s->tail_blocks - s->ahead_then);

	/*
	 * Pending TIDs are dropped if another server's vacuum may have been reaping
	 * them too (R6), or if there is no index left that has entries for them: then
	 * their pages are scanned like any other.
	 */
	if (input->pending_tids > 0 && s->index_pages > 0 &&
		!(input->reaping && input->must_verify))
	{
		s->pending_tids = (double) input->pending_tids;
		s->pending_pages = least((double) input->pending_pages, s->head_blocks);
		s->verify = input->must_verify;
		s->complete = input->set_complete || input->reaping;
		s->index_pages_left = s->verify ? s->index_pages : input->reaping ? 0 :
			excess(s->index_pages, (double) input->index_pages_done);
	}
	s->fresh = most(excess(s->behind, s->pending_pages), s->growth_behind);
}

/*
 * How many rows died between two moments, at least?  The count of dead rows tells, as
 * long as it goes on; it does not where ANALYZE or a crash has had it begun anew, and too
 * few where queries have pruned others meanwhile.  Then rows that were deleted or updated
 * do, but for those that were updated by HOT.  If that count began anew, too, all that both
 * say has come since.
 */
double
decide_rows_that_came(double dead_before, double dead_after, double gone_before, double gone_after)
{
	double		came = 0;

	if (is_known(dead_before) && is_known(dead_after))
		came = excess(as_amount(dead_after), as_amount(dead_before));
	if (is_known(gone_before) && is_known(gone_after))
	{
		if (gone_after < gone_before)
			return most(as_amount(dead_after), as_amount(gone_after));
		came = most(came, excess(as_amount(gone_after), as_amount(gone_before)));
	}
	return came;
}

/*
 * Estimate how many dead rows head and tail have, pending TIDs apart.
 *
 * What pg_stat knows counts rows that the cycle's runs have removed meanwhile:
 * a vacuum corrects it at its end only.
 */
static void
estimate_rows(const DecisionInput *input, Situation *s)
{
	double		dead_then = as_amount(input->dead_at_save);
	double		dead_now = as_amount(input->dead_now);
	double		left = as_amount(input->dead_left);
	double		fresh_then;
	double		head;
	double		tail;
	double		came;
	double		unknown;

	if (!input->has_record)
	{
		if (s->unclean > 0)
			s->tail_dead = is_known(input->dead_now) ? dead_now : s->unclean * DEAD_ROWS_PER_PAGE;
		return;
	}

	/*
	 * Old rows: the tail was not touched, the head is clean but for what could not be
	 * removed, and what came later and was not removed by a wrap.
	 */
	fresh_then = excess(excess(s->behind_then, s->pending_pages), left);
	if (is_known(input->dead_at_save))
	{
		came = decide_rows_that_came(input->dead_at_start, input->dead_at_save,
									 input->gone_at_start, input->gone_at_save);
		if (!is_known(input->dead_at_start))
			came = dead_then;
		head = most(fresh_then * DEAD_ROWS_PER_PAGE, is_known(input->dead_at_start) ?
					came * EXPOSURE_AT_SAVE * share(s->behind_then, s->unclean_then) : 0);
		head = least(head, came);
		head = least(head, excess(excess(dead_then, as_amount(input->removed_rows)), left)) + left;

		/* what was scanned had all-visible pages in it if the tail has: compare like with like */
		tail = s->unclean_then == 0 ? 0 : excess(dead_then, head) *
			share(s->ahead_then + s->ahead_gaps_then,
				  most(s->behind_then, (double) input->scanned_pages));
	}
	else
	{
		head = fresh_then * DEAD_ROWS_PER_PAGE + left;
		tail = s->unclean_then * DEAD_ROWS_PER_PAGE;
	}

	/* pages that are vacuumable no more have lost their dead rows */
	if (s->behind_then > s->behind)
		head *= s->behind / s->behind_then;
	if (s->unclean_then > s->unclean - s->unclean_appended)
		tail *= (s->unclean - s->unclean_appended) / s->unclean_then;

	/* new rows; a count that went down (ANALYZE counts anew) does not tell how many */
	came = decide_rows_that_came(input->dead_at_save, input->dead_now, input->gone_at_save,
								 input->gone_now);
	if (is_known(input->dead_at_save) && is_known(input->dead_now) && dead_now >= dead_then)
	{
		double		in_head = new_rows_in_head(s, came);

		unknown = most_new_rows_in_head(s, came) - in_head;
		head += in_head;
		tail += came - in_head;
	}
	else
	{
		double		per_page = DEAD_ROWS_PER_PAGE;
		double		in_head = new_rows_in_head(s, came);

		/* if it was counted anew, what is dead in all is dead on these pages */
		if (is_known(input->dead_now) && s->fresh + s->unclean > 0)
			per_page = most(per_page, excess(dead_now, s->pending_tids) / (s->fresh + s->unclean));
		tail += most(came - in_head, (s->growth_ahead + s->unclean_appended) * per_page);
		in_head = most(in_head, s->growth_behind * per_page);
		unknown = excess(most_new_rows_in_head(s, came), in_head);
		head += in_head;
	}

	/* pending TIDs that are dropped are dead rows of the head again */
	if (s->pending_tids == 0 && input->pending_tids > 0)
		head += (double) input->pending_tids;

	/* a dead row makes its page vacuumable */
	s->head_dead = s->behind > 0 ? head : 0;
	s->head_dead_at_most = s->behind > 0 ? head + unknown : 0;
	s->tail_dead = s->unclean > 0 ? tail : 0;

	if (s->behind > 0)
	{
		s->fresh_dead = s->head_dead * (s->fresh / s->behind);
		s->again = least(s->behind - s->fresh, s->head_dead - s->fresh_dead);
		s->reread_pending = rereading_is_cheaper(s);
	}
}

/* Has a part enough clean pages to tell how often it is hit? */
static bool
tells(double clean, double blocks)
{
	return clean > blocks * LEAST_CLEAN_SHARE;
}

/*
 * Of the rows that died since the save, how many in the head?
 *
 * Clean pages tell: of those that a part had at the save, so many have become
 * vacuumable, and the part's other pages were hit as often.  Where a part had too
 * few clean pages to tell, the other part's rate is taken for its.  Where no clean
 * page was hit, the rows are taken to be where the vacuumable pages are.
 *
 * Pages that the table has grown by are no evidence, for it is new rows that made them
 * vacuumable.  Those that are not all-visible are taken to be hit like the rest of the
 * tail since they are there.
 */
static double
new_rows_in_head(const Situation *s, double rows)
{
	double		old_tail = s->tail_blocks - s->appended_blocks;
	double		old_unclean = most(s->unclean - s->unclean_appended, s->unclean_then);
	double		clean_head = s->head_blocks - s->behind_then;
	double		new_tail = s->unclean_appended * EXPOSURE_OF_APPENDED;
	double		clean_tail = excess(old_tail, s->unclean_then);
	double		head_rate = tells(clean_head, s->head_blocks) ? s->growth_behind / clean_head : 0;
	double		tail_rate = tells(clean_tail, old_tail) ? s->growth_ahead / clean_tail : 0;

	if (!tells(clean_head, s->head_blocks))
		head_rate = tail_rate;
	if (!tells(clean_tail, old_tail))
		tail_rate = head_rate;
	if (head_rate == 0 && tail_rate == 0)
		return rows * share(most(s->behind, s->behind_then), old_unclean + new_tail);
	return rows * share(head_rate * s->head_blocks, tail_rate * (old_tail + new_tail));
}

/*
 * Of the rows that died since the save, how many could be in the head?
 *
 * Where one part does not tell how often it was hit, all of them, but for what does not
 * fit on the pages of the head that were hit, as far as the head tells that.
 */
static double
most_new_rows_in_head(const Situation *s, double rows)
{
	double		old_tail = s->tail_blocks - s->appended_blocks;
	double		clean_head = s->head_blocks - s->behind_then;
	double		likely = new_rows_in_head(s, rows);

	if (!tells(clean_head, s->head_blocks))
		return rows;
	if (tells(excess(old_tail, s->unclean_then), old_tail))
		return likely;
	return most(likely, least(rows, s->growth_behind / clean_head * s->head_blocks *
							  MOST_DEAD_ROWS_PER_PAGE));
}

/*----------
 * What a plan does
 *----------
 */

/*
 * Add a step to a plan: so much work, so many rows removed by it.  What is done
 * of it when the run is stopped stays done, so rows count in proportion.
 */
static void
add_step(PlanEstimate *plan, const Situation *s, double work, double rows)
{
	double		left = s->limit > 0 ? excess(s->limit, plan->work) : work;

	plan->work += work;
	plan->dead_rows_removed += rows;
	plan->reaches_end = s->limit == 0 || plan->work <= s->limit;
	if (work <= left)
		plan->dead_rows_expected += rows;
	else
		plan->dead_rows_expected += rows * (left / work);
}

static void
add_scan(PlanEstimate *plan, const Situation *s, double pages, double rows)
{
	plan->heap_pages += pages;
	add_step(plan, s, pages * WORK_PER_SCANNED_PAGE, rows);
}

/* An index pass, and the reaping of what it was for. */
static void
add_removal(PlanEstimate *plan, const Situation *s, double index_pages, double reaped_pages,
			double rows)
{
	plan->index_pages += index_pages;
	plan->index_passes += index_pages > 0;
	plan->reaped_pages += reaped_pages;
	add_step(plan, s, index_pages * WORK_PER_INDEX_PAGE + reaped_pages * WORK_PER_REAPED_PAGE,
			 rows);
}

/* Head and tail in this order, then one index pass. */
static void
estimate_restart(const Situation *s, PlanEstimate *plan)
{
	double		reaped = least(s->behind, s->pending_pages + least(s->fresh, s->fresh_dead)) +
		least(s->unclean, s->tail_dead);

	plan->reaches_end = true;
	add_scan(plan, s, s->behind + s->behind_gaps, s->head_dead);
	add_scan(plan, s, s->ahead + s->ahead_gaps, s->tail_dead);

	/* without indexes the scan reaps */
	if (s->index_pages > 0 && (reaped > 0 || s->pending_tids > 0))
		add_removal(plan, s, s->index_pages, reaped, s->pending_tids);
}

/*
 * A wrap leaves pages alone that wait for being reaped, and looks again at those
 * that are not all-visible afterwards.  If there are many, what they bring needs an
 * index pass of its own; it can be less work to scan all of them before the first.
 */
static bool
rereading_is_cheaper(const Situation *s)
{
	double		reread = (s->behind - s->fresh) * WORK_PER_SCANNED_PAGE;
	double		look_again = s->again * WORK_PER_SCANNED_PAGE;

	if (s->complete)
		return false;			/* reaped before the wrap */
	if (needs_index_pass(s, s->again))
		look_again += s->index_pages * WORK_PER_INDEX_PAGE + s->again * WORK_PER_REAPED_PAGE;
	return reread < look_again;
}

/* Is what pages hold that were looked at again worth an index pass? */
static bool
needs_index_pass(const Situation *s, double pages)
{
	return s->index_pages > 0 && pages > 0 && pages >= s->rel_blocks * BYPASS_SHARE;
}

/*
 * What is pending, the tail, and in a wrap the head.  See cover_table() for the
 * order: a complete set is removed first; an incomplete one together with what is
 * found.
 */
static void
estimate_resume(const Situation *s, bool wrap, PlanEstimate *plan)
{
	double		reaped = least(s->unclean, s->tail_dead);
	double		pending_tids = 0;

	plan->reaches_end = true;
	if (s->verify)
	{
		plan->verified_pages = s->pending_pages;
		add_step(plan, s, s->pending_pages * WORK_PER_VERIFIED_PAGE, 0);
	}
	if (s->complete)
		add_removal(plan, s, s->index_pages_left, s->pending_pages, s->pending_tids);
	else
	{
		reaped += s->pending_pages;
		pending_tids = s->pending_tids;
	}

	add_scan(plan, s, s->ahead + s->ahead_gaps, s->tail_dead);
	if (wrap)
	{
		reaped += least(s->fresh, s->fresh_dead);
		if (s->reread_pending)
			add_scan(plan, s, s->behind, s->head_dead);
		else if (s->complete)
		{
			reaped += s->again;
			add_scan(plan, s, s->fresh + s->again, s->head_dead);
		}
		else
			add_scan(plan, s, s->fresh, s->fresh_dead);
	}
	if (s->index_pages > 0 && (reaped > 0 || pending_tids > 0))
		add_removal(plan, s, s->index_pages, reaped, pending_tids);

	if (wrap && !s->complete && !s->reread_pending && s->again > 0)
	{
		add_scan(plan, s, s->again, s->head_dead - s->fresh_dead);
		if (needs_index_pass(s, s->again))
			add_removal(plan, s, s->index_pages, s->again, 0);
	}
}

/*----------
 * Which plan to take
 *----------
 */

/* Does one plan remove more dead rows per page of work, as far as the run gets? */
static bool
pays_more(const Situation *s, const PlanEstimate *one, const PlanEstimate *other)
{
	double		one_work = s->limit > 0 ? least(one->work, s->limit) : one->work;
	double		other_work = s->limit > 0 ? least(other->work, s->limit) : other->work;

	return one->dead_rows_expected * other_work > other->dead_rows_expected * one_work;
}

/* May the head be left alone (R10)?  If not, returns true and says why. */
static bool
reason_against_tail_only(const DecisionInput *input, const Situation *s, DecideReason *reason)
{
	if (!input->may_leave_head)
		*reason = BECAUSE_VACUUM_PROMISES_ALL;
	else if (input->must_verify)
		*reason = BECAUSE_OTHERS_VACUUMED;
	else if (s->head_dead > as_amount(input->threshold))
		*reason = BECAUSE_HEAD_OVER_THRESHOLD;
	else if (s->head_dead_at_most > as_amount(input->threshold))
		*reason = BECAUSE_HEAD_MAY_BE_OVER;
	else
		return false;
	return true;
}

/* Tail only, or the head as well?  Sets the reasons of both. */
static VacuumPlan
choose_how_to_resume(const Situation *s, Decision *decision)
{
	PlanEstimate *resume = &decision->plans[PLAN_RESUME];
	PlanEstimate *wrap = &decision->plans[PLAN_RESUME_AND_WRAP];

	if (!resume->possible)
	{
		wrap->reason = resume->reason;
		return PLAN_RESUME_AND_WRAP;
	}

	/* nothing left to do for what the cycle is about, and the head can wait */
	if (s->ahead == 0 && s->pending_tids == 0)
	{
		resume->reason = wrap->reason = BECAUSE_NOTHING_AHEAD;
		return PLAN_RESUME;
	}
	if (pays_more(s, wrap, resume))
	{
		resume->reason = wrap->reason = BECAUSE_HEAD_PAYS;
		return PLAN_RESUME_AND_WRAP;
	}
	resume->reason = wrap->reason = s->ahead > 0 ? BECAUSE_TAIL_PAYS_MORE : BECAUSE_ONLY_PENDING;
	return PLAN_RESUME;
}

/*
 * Is there a reason to give up a cycle that could be continued?
 *
 * Growth of the tail must not be one (see the top): its pages count as they were
 * at the save, its dead rows as they are.
 */
static bool
reason_to_restart(const DecisionInput *input, const Situation *s, DecideReason *reason)
{
	double		check = s->verify ? s->pending_pages * WORK_PER_VERIFIED_PAGE : 0;
	double		head = (s->behind + s->behind_gaps) * WORK_PER_SCANNED_PAGE;
	double		tail = (least(s->ahead, s->ahead_then) + s->ahead_gaps_then) *
		WORK_PER_SCANNED_PAGE;
	double		by_restart;
	double		by_resuming;

	/*
	 * Pending TIDs that have to be verified: their pages are read either way, but
	 * a set that is complete has an index pass of its own, and where others have
	 * reaped it a restart finds less to read.
	 */
	if (s->verify)
	{
		double		removal = s->complete ? s->index_pages * WORK_PER_INDEX_PAGE : 0;

		if (check + s->fresh * WORK_PER_SCANNED_PAGE + removal > head &&
			(s->limit == 0 || head <= check + removal))
		{
			*reason = BECAUSE_CHECKING_COSTS_MORE;
			return true;
		}
	}

	/* for the head's sake: it needs a vacuum, and resuming does not get there */
	if (s->complete || s->limit == 0 || s->limit > check + tail ||
		s->head_dead <= as_amount(input->threshold))
		return false;
	by_restart = s->head_dead * least(1, s->limit / head);
	by_resuming = 0;
	if (tail > 0)
	{
		by_restart += s->tail_dead * least(1, excess(s->limit, head) / tail);
		by_resuming = s->tail_dead * (excess(s->limit, check) / tail);
	}
	*reason = BECAUSE_HEAD_OUT_OF_REACH;

	/* where both are as good, rounding must not decide */
	return by_restart > by_resuming * (1 + 1e-9);
}
