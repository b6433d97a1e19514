/*
 * decide.c
 *	  Unit test of the decision: cases computed by hand, and what must hold for
 *	  any input, shown on some hundred thousand of them.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "decide.h"
#include "tap.h"

static bool
near(double value, double expected)
{
	return fabs(value - expected) <= 1e-9 * (1 + fabs(expected));
}

static Decision
decision_on(DecisionInput input)
{
	Decision	decision;

	/* whatever was there before is overwritten */
	memset(&decision, 0xEE, sizeof(decision));
	decide(&input, &decision);
	return decision;
}

/*----------
 * Cases computed by hand
 *----------
 */

/* Does a plan do just this work? */
static bool
plan_is(const PlanEstimate *plan, double heap, double verified, double reaped, double index,
		int passes, double removed)
{
	bool		right = near(plan->heap_pages, heap) && near(plan->verified_pages, verified) &&
		near(plan->reaped_pages, reaped) && near(plan->index_pages, index) &&
		plan->index_passes == passes && near(plan->dead_rows_removed, removed) &&
		near(plan->work, heap + verified + reaped + index);

	if (!right)
		printf("# heap %g verified %g reaped %g index %g in %d, removed %g, work %g\n",
			   plan->heap_pages, plan->verified_pages, plan->reaped_pages,
			   plan->index_pages, plan->index_passes, plan->dead_rows_removed, plan->work);
	return right;
}

static bool
decision_is(const Decision *decision, VacuumPlan plan, DecideReason reason)
{
	bool		right = decision->plan == plan && decision->reason == reason;

	if (!right)
		printf("# %s because %s\n", vacuum_plan_name(decision->plan),
			   decide_reason_text(decision->reason));
	return right;
}

/*
 * 1000 pages with a dead row each and two TIDs pending on each of 200, stopped at
 * 70 % by a cancel; nobody has written to the table since.
 */
static const DecisionInput quiet = {
	.has_record = true, .may_leave_head = true,
	.rel_blocks = 1000, .next_block = 700,
	.ahead = 300, .behind = 200, .ahead_at_save = 300, .behind_at_save = 200,
	.scanned_pages = 700,
	.pending_pages = 200, .pending_tids = 400,
	.index_pages = 90,
	.dead_at_start = 1000, .dead_at_save = 1000, .dead_now = 1000, .threshold = 250
};

/*
 * Then 300 rows died.  A fifth of the head's 500 clean pages and no other became
 * vacuumable; the tail had none to tell from, so it is taken to be hit as often:
 * 70 % of the rows are in the head.
 */
static DecisionInput
busy(void)
{
	DecisionInput input = quiet;

	input.behind = 300;
	input.dead_now = 1300;
	input.threshold = 300;
	return input;
}

static void
test_quiet_table(void)
{
	DecisionInput input = quiet;
	Decision	d = decision_on(input);

	ok(near(d.tail_dead, 300) && d.head_dead == 0 && d.fresh_behind == 0,
	   "quiet table: the dead rows left are in the tail");
	ok(plan_is(&d.plans[PLAN_RESUME], 300, 0, 200 + 300, 90, 1, 400 + 300),
	   "quiet table: resume scans the tail, and reaps in head and tail");
	ok(plan_is(&d.plans[PLAN_RESUME_AND_WRAP], 300, 0, 500, 90, 1, 700),
	   "quiet table: a wrap finds nothing more to do");
	ok(plan_is(&d.plans[PLAN_RESTART], 500, 0, 500, 90, 1, 700),
	   "quiet table: a restart scans pages with pending TIDs again");
	ok(decision_is(&d, PLAN_RESUME, BECAUSE_TAIL_PAYS_MORE), "quiet table: resume");

	input.scanned_pages = 0;
	d = decision_on(input);
	ok(near(d.tail_dead, 1000 * 300 / 500),
	   "not known how much was scanned: at least what is vacuumable still");
	input = quiet;
	input.behind_at_save = 100;
	input.behind = 250;
	d = decision_on(input);
	ok(d.fresh_behind == 150, "pages of the head that became vacuumable are fresh");
}

static void
test_busy_table(void)
{
	DecisionInput input = busy();
	Decision	d = decision_on(input);

	ok(near(d.head_dead, 210) && near(d.tail_dead, 390) && d.fresh_behind == 100,
	   "busy table: new dead rows go by the growth of both parts");
	/* 140 of 210 rows on pages that wait: rather scan these 200 than look again at 140 */
	ok(d.reread_pending &&
	   plan_is(&d.plans[PLAN_RESUME_AND_WRAP], 300 + 300, 0, 200 + 300 + 70, 90, 1, 1000),
	   "busy table: the wrap scans pages with pending TIDs in their turn");
	ok(plan_is(&d.plans[PLAN_RESTART], 600, 0, 570, 90, 1, 1000),
	   "busy table: a restart is no more and no less");
	ok(plan_is(&d.plans[PLAN_RESUME], 300, 0, 500, 90, 1, 790) &&
	   decision_is(&d, PLAN_RESUME, BECAUSE_TAIL_PAYS_MORE),
	   "busy table: the tail pays more");

	/* without a clean page in the tail, all 300 new rows could be in the head */
	input.threshold = 300;
	d = decision_on(input);
	ok(d.plan == PLAN_RESUME, "the head may have as many dead rows as the threshold");
	input.threshold = 299;
	d = decision_on(input);
	ok(decision_is(&d, PLAN_RESUME_AND_WRAP, BECAUSE_HEAD_MAY_BE_OVER) &&
	   !d.plans[PLAN_RESUME].possible, "not even if it is not known which part they are in");
	input.threshold = 209;
	d = decision_on(input);
	ok(decision_is(&d, PLAN_RESUME_AND_WRAP, BECAUSE_HEAD_OVER_THRESHOLD) &&
	   !d.plans[PLAN_RESUME].possible, "the head may not have more");
	input.threshold = 250;
	input.may_leave_head = false;
	d = decision_on(input);
	ok(decision_is(&d, PLAN_RESUME_AND_WRAP, BECAUSE_VACUUM_PROMISES_ALL),
	   "VACUUM without options does not leave the head");

	/* no clean page in the head, ten of twenty in the tail: 70 % again */
	input = quiet;
	input.behind = input.behind_at_save = 700;
	input.pending_pages = 700;
	input.ahead_at_save = 280;
	input.ahead = 290;
	input.dead_now = 1100;
	d = decision_on(input);
	ok(near(d.head_dead, 70) && near(d.tail_dead, 1000 * 280 / 980.0 + 30),
	   "a head without clean pages is hit as often as the tail");
	/* none of twenty clean pages: by vacuumable pages */
	input.ahead = 280;
	d = decision_on(input);
	ok(near(d.head_dead, 100 * 700 / 980.0), "no clean page hit: by vacuumable pages");
	/* two clean pages of 300 do not tell much, hit or not */
	input.ahead_at_save = 298;
	input.ahead = 300;
	d = decision_on(input);
	ok(near(d.head_dead, 70), "hardly a clean page: by vacuumable pages");
}

/* Pages between vacuumable ones are read as well, but by a wrap. */
static void
test_gaps(void)
{
	DecisionInput input = quiet;
	Decision	d;

	input.rel_blocks = 20000;
	input.next_block = 5000;
	input.ahead_gaps = input.ahead_gaps_at_save = 9000;
	input.behind = 300;
	input.behind_gaps = 4000;
	input.scanned_pages = 4700;
	d = decision_on(input);
	ok(near(d.plans[PLAN_RESTART].heap_pages, 300 + 4000 + 300 + 9000) &&
	   near(d.plans[PLAN_RESUME].heap_pages, 300 + 9000) &&
	   near(d.plans[PLAN_RESUME_AND_WRAP].heap_pages, 300 + 9000 + 100),
	   "gaps are read but in a wrap");
	ok(near(d.tail_dead, 1000 * 9300 / (9300 + 4700.0)),
	   "what was scanned had them in it as well");

	/* no more than there are pages */
	input.ahead_gaps = input.behind_gaps = UINT64_MAX;
	d = decision_on(input);
	ok(near(d.plans[PLAN_RESTART].heap_pages, 20000), "a table has no more pages than it has");
}

/* An index pass larger than all of the table makes the head worth its few pages. */
static void
test_head_pays(void)
{
	DecisionInput input = busy();
	Decision	d;

	input.pending_pages = 0;
	input.pending_tids = 0;
	input.behind_at_save = 0;
	input.behind = 100;
	input.index_pages = 5000;
	d = decision_on(input);

	/* a seventh of the clean head pages, and so the tail: again 70 % */
	ok(near(d.head_dead, 210) && near(d.tail_dead, 390) &&
	   plan_is(&d.plans[PLAN_RESUME], 300, 0, 300, 5000, 1, 390) &&
	   plan_is(&d.plans[PLAN_RESUME_AND_WRAP], 400, 0, 400, 5000, 1, 600),
	   "nothing pending: the wrap costs 200 and brings 210");
	ok(decision_is(&d, PLAN_RESUME_AND_WRAP, BECAUSE_HEAD_PAYS), "the head is worth its pages");

	/* 327 rows for 690, or 390 for 853, of which 690 may be done and bring all */
	input.index_pages = 90;
	input.dead_now = 1000 + 90;
	d = decision_on(input);
	ok(near(d.plans[PLAN_RESUME].work, 690) && near(d.plans[PLAN_RESUME_AND_WRAP].work, 853) &&
	   d.plan == PLAN_RESUME, "a small index pass: the head does not pay");
	input.expected_work = 690;
	d = decision_on(input);
	ok(near(d.plans[PLAN_RESUME_AND_WRAP].dead_rows_expected, 390) &&
	   d.plan == PLAN_RESUME_AND_WRAP, "what the run is not going to do costs nothing");

	/* 400 pending TIDs, nothing ahead, and nothing that came */
	input = quiet;
	input.ahead = input.ahead_at_save = 0;
	d = decision_on(input);
	ok(decision_is(&d, PLAN_RESUME, BECAUSE_ONLY_PENDING), "only what is pending is left");

	/* an index pass for 400 pending TIDs and nothing ahead */
	input = busy();
	input.index_pages = 5000;
	input.ahead = input.ahead_at_save = 0;
	input.threshold = 250;
	d = decision_on(input);
	ok(near(d.head_dead, 300) && decision_is(&d, PLAN_RESUME_AND_WRAP, BECAUSE_HEAD_OVER_THRESHOLD),
	   "nothing ahead: the head has all that came");
	input.threshold = 300;
	d = decision_on(input);
	ok(decision_is(&d, PLAN_RESUME_AND_WRAP, BECAUSE_HEAD_PAYS),
	   "something pending: the index pass serves the head as well");
}

/* A wrap that leaves pending pages alone looks again at few, without an index pass. */
static void
test_looking_again(void)
{
	DecisionInput input = busy();
	Decision	d;

	input.dead_now = 1000 + 15;
	d = decision_on(input);
	/* 10.5 rows in the head, 7 of them on pages with pending TIDs, of 1000 pages */
	ok(near(d.head_dead, 10.5) && !d.reread_pending &&
	   plan_is(&d.plans[PLAN_RESUME_AND_WRAP], 300 + 100 + 7, 0, 200 + 300 + 3.5, 90, 1,
			   400 + 300 + 15), "few new rows: look again at some pages");

	/* 2 % of the table or more need an index pass, still less than 700 pages */
	input = quiet;
	input.behind = input.behind_at_save = input.pending_pages = 700;
	input.pending_tids = 1400;
	input.dead_now = 1000 + 30;
	d = decision_on(input);
	ok(near(d.head_dead, 21) && !d.reread_pending &&
	   plan_is(&d.plans[PLAN_RESUME_AND_WRAP], 300 + 21, 0, 700 + 300 + 21, 90 + 90, 2,
			   1400 + 309 + 21), "more new rows: look again, and vacuum indexes again");
	ok(plan_is(&d.plans[PLAN_RESTART], 1000, 0, 1000, 90, 1, 1400 + 309 + 21) &&
	   d.plans[PLAN_RESTART].work > d.plans[PLAN_RESUME_AND_WRAP].work,
	   "more new rows: a restart is more work still");

	input = busy();
	input.dead_now = 1000 + 15;
	input.index_pages = 0;
	d = decision_on(input);
	ok(near(d.head_dead, 400 + 10.5) && d.fresh_behind == 300 &&
	   plan_is(&d.plans[PLAN_RESUME_AND_WRAP], 600, 0, 0, 0, 0, 400 + 300 + 15),
	   "no index: pages with pending TIDs are scanned, and reaped at once");
}

/* While indexes are being vacuumed, what is pending comes first. */
static void
test_complete_set(void)
{
	DecisionInput input = busy();
	Decision	d;

	input.set_complete = true;
	input.index_pages_done = 60;
	d = decision_on(input);
	ok(plan_is(&d.plans[PLAN_RESUME], 300, 0, 200 + 300, 30 + 90, 2, 790) &&
	   plan_is(&d.plans[PLAN_RESUME_AND_WRAP], 300 + 100 + 140, 0,
			   200 + 300 + 70 + 140, 30 + 90, 2, 1000),
	   "complete set: the rest of one index pass, and another");

	input.set_complete = false;
	input.reaping = true;
	d = decision_on(input);
	ok(plan_is(&d.plans[PLAN_RESUME], 300, 0, 500, 90, 1, 790), "reaping: no index is left");

	input.dead_now = input.dead_at_save = input.dead_at_start = 0;
	d = decision_on(input);
	ok(plan_is(&d.plans[PLAN_RESUME], 300, 0, 200, 0, 0, 400), "no dead rows: no index pass");
	input.pending_tids = 0;
	d = decision_on(input);
	ok(plan_is(&d.plans[PLAN_RESTART], 600, 0, 0, 0, 0, 0) &&
	   plan_is(&d.plans[PLAN_RESUME_AND_WRAP], 600, 0, 0, 0, 0, 0),
	   "nor for a restart, if nothing is pending");

	/* stopped after 1.5 of what is left of the indexes and half the reaping */
	input = busy();
	input.set_complete = true;
	input.index_pages_done = 60;
	input.expected_work = 115;
	d = decision_on(input);
	ok(near(d.plans[PLAN_RESUME].dead_rows_expected, 200) &&
	   near(d.plans[PLAN_RESUME_AND_WRAP].dead_rows_expected, 200) &&
	   !d.plans[PLAN_RESUME].reaches_end,
	   "half of the removal counts as half of the pending TIDs");
}

/* Others may have vacuumed (R4): the head is not left, checking may cost too much. */
static void
test_verification(void)
{
	DecisionInput input = quiet;
	Decision	d;

	input.must_verify = true;
	d = decision_on(input);
	ok(plan_is(&d.plans[PLAN_RESUME_AND_WRAP], 300, 200, 500, 90, 1, 700) &&
	   d.plans[PLAN_RESUME_AND_WRAP].work == d.plans[PLAN_RESTART].work &&
	   decision_is(&d, PLAN_RESUME_AND_WRAP, BECAUSE_OTHERS_VACUUMED),
	   "verifying costs what scanning costs: resume, but do not leave the head");

	input.behind = 199;
	d = decision_on(input);
	ok(decision_is(&d, PLAN_RESTART, BECAUSE_CHECKING_COSTS_MORE),
	   "others have reaped a page: restart");
	input.restarted_before = true;
	d = decision_on(input);
	ok(decision_is(&d, PLAN_RESUME_AND_WRAP, BECAUSE_OTHERS_VACUUMED) &&
	   d.plans[PLAN_RESTART].reason == BECAUSE_GIVEN_UP_BEFORE, "but not twice in a row");

	input = quiet;
	input.must_verify = true;
	input.set_complete = true;
	input.index_pages_done = 60;
	d = decision_on(input);
	ok(plan_is(&d.plans[PLAN_RESUME_AND_WRAP], 300, 200, 500, 180, 2, 700) &&
	   decision_is(&d, PLAN_RESTART, BECAUSE_CHECKING_COSTS_MORE),
	   "a complete set to verify has an index pass of its own: restart");

	input.behind = 400;
	input.expected_work = 350;
	d = decision_on(input);
	ok(d.plan == PLAN_RESUME_AND_WRAP, "but not if the run does not get through the head");
	input = quiet;
	input.must_verify = true;

	/* reaping: the list is dropped, what it had is dead in the head */
	input.reaping = true;
	d = decision_on(input);
	ok(near(d.head_dead, 400) && d.fresh_behind == 200 &&
	   plan_is(&d.plans[PLAN_RESUME_AND_WRAP], 500, 0, 500, 90, 1, 700) &&
	   decision_is(&d, PLAN_RESUME_AND_WRAP, BECAUSE_OTHERS_VACUUMED),
	   "reaping that others may have done too: scan these pages");
}

/*
 * Runs on this table are stopped after 200 units of work, the tail takes 300.  Its
 * rows: 1000 * 300 / 1000 = 300, one a page.
 */
static DecisionInput
head_hot(void)
{
	DecisionInput input = quiet;

	input.behind = 400;
	input.ahead = input.ahead_at_save = 290;	/* ten clean pages tell: not hit */
	input.ahead_at_save = 290;
	input.dead_at_start = input.dead_at_save = 990;
	input.dead_now = 990 + 410;
	input.expected_work = 200;
	return input;
}

static void
test_limited_run(void)
{
	DecisionInput input = head_hot();
	Decision	d = decision_on(input);

	ok(near(d.head_dead, 410) && near(d.tail_dead, 290), "head-hot: all new rows in the head");
	/* 200 of 400 head pages, against 200 of 290 tail pages */
	ok(near(d.plans[PLAN_RESTART].dead_rows_expected, 205) &&
	   near(d.plans[PLAN_RESUME_AND_WRAP].dead_rows_expected, 200) &&
	   decision_is(&d, PLAN_RESTART, BECAUSE_HEAD_OUT_OF_REACH),
	   "head-hot, short runs: restart");

	input.dead_now = 990 + 400;
	d = decision_on(input);
	ok(decision_is(&d, PLAN_RESUME_AND_WRAP, BECAUSE_HEAD_OVER_THRESHOLD),
	   "the tail has as many per page: resume");

	input.dead_now = 990 + 410;
	input.restarted_before = true;
	d = decision_on(input);
	ok(d.plan == PLAN_RESUME_AND_WRAP && !d.plans[PLAN_RESTART].possible &&
	   d.plans[PLAN_RESTART].reason == BECAUSE_GIVEN_UP_BEFORE,
	   "given up before: resume this time");
	input.aggressive = true;
	d = decision_on(input);
	ok(d.plan == PLAN_RESUME_AND_WRAP && d.plans[PLAN_RESTART].reason == BECAUSE_AGGRESSIVE,
	   "an aggressive run does not give up");
	input.restarted_before = false;
	d = decision_on(input);
	ok(d.plan == PLAN_RESUME_AND_WRAP && !d.plans[PLAN_RESTART].possible,
	   "  whether one has been given up or not");

	/* 215 rows on 210 pages and 70 of the tail, against 280 of the tail */
	input = head_hot();
	input.behind = 210;
	input.dead_now = 990 + 215;
	input.threshold = 214;
	input.expected_work = 280;
	d = decision_on(input);
	ok(near(d.plans[PLAN_RESTART].dead_rows_expected, 285) && d.plan == PLAN_RESTART,
	   "what a restart gets to in the tail counts");

	/*
	 * ten of the tail's twenty clean pages and 200 of the head's 500 became vacuumable:
	 * of 700 rows 0.4 * 700 : 0.5 * 310, 451 in the head
	 */
	input = head_hot();
	input.rel_blocks = 1010;
	input.ahead = 300;
	input.dead_now = 990 + 700;
	d = decision_on(input);
	ok(near(d.head_dead, 700 * 280 / 435.0) && d.plan == PLAN_RESUME_AND_WRAP,
	   "new dead rows in the tail count");

	/* counted by another measure then, the tail is within reach now */
	input = head_hot();
	input.ahead = 50;
	d = decision_on(input);
	ok(near(d.tail_dead, 50) && near(d.head_dead, 410) && d.plan == PLAN_RESUME_AND_WRAP,
	   "a tail with fewer vacuumable pages than at the save");

	input = head_hot();
	input.expected_work = 291;
	d = decision_on(input);
	ok(d.plan == PLAN_RESUME_AND_WRAP, "the head is within reach: resume");

	input = head_hot();
	input.threshold = 410;
	d = decision_on(input);
	ok(d.plan == PLAN_RESUME, "a head that can wait is no reason to restart");

	input = head_hot();
	input.set_complete = true;
	d = decision_on(input);
	ok(d.plan == PLAN_RESUME_AND_WRAP, "what indexes are being vacuumed for is not given up");

	input = head_hot();
	input.expected_work = 0;
	d = decision_on(input);
	ok(d.plan == PLAN_RESUME_AND_WRAP, "nobody stops it: resume");

	input = head_hot();
	input.expected_work = 100;
	input.dead_at_save = input.dead_at_start = 0;
	input.dead_now = 410;
	input.index_pages = 0;
	input.pending_pages = 0;
	input.pending_tids = 0;
	d = decision_on(input);
	ok(near(d.plans[PLAN_RESTART].dead_rows_expected, 102.5) && d.plan == PLAN_RESTART,
	   "nothing dead ahead: restart");
}

/* What came while the head was scanned is in the head as well, half of its share. */
static void
test_rows_during_scan(void)
{
	DecisionInput input = quiet;
	Decision	d;

	input.dead_at_start = 500;
	d = decision_on(input);
	/* 500 rows came: 0.5 * 200 / (200 + 300) of them to the head; of the rest 30 % ahead */
	ok(near(d.head_dead, 100) && near(d.tail_dead, 900 * 0.3),
	   "rows that died during the scan");

	input.behind = input.behind_at_save = 320;
	d = decision_on(input);
	/* 120 fresh pages, a row each, are more than 0.5 * 320 / 620 of 200 */
	input.dead_at_start = 800;
	d = decision_on(input);
	ok(near(d.head_dead, 120) && near(d.tail_dead, 880 * 0.3),
	   "a fresh page has a dead row");
	input.behind = 240;
	input.ahead = 100;
	d = decision_on(input);
	ok(near(d.head_dead, 120 * 0.75) && near(d.tail_dead, 880 * 0.1),
	   "pages that are vacuumable no more took theirs along");
	input.behind = 320;
	input.ahead = 300;
	input.dead_at_start = 970;
	d = decision_on(input);
	ok(near(d.head_dead, 30), "but there are no more than came");

	/* of the 120 fresh pages 50 have rows that had to stay */
	input.dead_at_start = 800;
	input.dead_left = 50;
	d = decision_on(input);
	ok(near(d.head_dead, 70 + 50) && near(d.tail_dead, 880 * 0.3),
	   "rows that the scan could not remove");
	input.dead_at_start = 1000;
	input.dead_left = 300;
	d = decision_on(input);
	ok(near(d.head_dead, 300) && decision_is(&d, PLAN_RESUME_AND_WRAP, BECAUSE_HEAD_OVER_THRESHOLD),
	   "so many that the head is over the threshold");
}

/*
 * The count of dead rows goes down where queries prune pages, and can hide that other rows
 * have died.  Rows that are gone, by DELETE or an UPDATE that is not HOT, stay.
 */
static void
test_rows_that_are_gone(void)
{
	DecisionInput input = busy();
	Decision	d;

	/* 1000 died while the head was scanned, and 1000 since, but as many were pruned */
	input.gone_at_start = 500;
	input.gone_at_save = 1500;
	input.gone_now = 2500;
	d = decision_on(input);
	ok(near(d.head_dead, 700 + 0.5 * 0.4 * 1000) && near(d.tail_dead, 800 * 0.3 + 300),
	   "rows that are gone have died, whatever the count says");
	input.dead_now = 3;
	d = decision_on(input);
	ok(near(d.head_dead, 700 + 200) && near(d.tail_dead, 800 * 0.3 + 300),
	   "also where it was counted anew");
	input.gone_now = 1560;
	d = decision_on(input);
	ok(near(d.head_dead, 100 + 200) && near(d.tail_dead, 800 * 0.3 + 18),
	   "but then each page that became vacuumable has one at least");
	input.gone_now = 20;
	d = decision_on(input);
	ok(near(d.head_dead, 100 + 200) && near(d.tail_dead, 800 * 0.3 + 6),
	   "a number that went down began anew, and tells what came since");

	/* the cycle began with 400; wraps have removed most of what came: 150 are left of all */
	input = quiet;
	input.dead_at_start = 400;
	input.dead_at_save = input.dead_now = 1000;
	input.behind = input.behind_at_save = 320;
	input.removed_rows = 850;
	d = decision_on(input);
	ok(near(d.head_dead, 150), "there are no more in the head than are left of all");
	input.dead_left = 60;
	d = decision_on(input);
	ok(near(d.head_dead, 150), "those that could not be removed among them");
	input.removed_rows = 1e300;
	d = decision_on(input);
	ok(near(d.head_dead, 60), "which are there for sure");
}

/*
 * An aggressive run reads all-visible pages as well, two of three in this tail.  There
 * is nothing dead on them, and those that were not hit since the save tell as much.
 */
static void
test_pages_to_freeze(void)
{
	DecisionInput input = busy();
	Decision	d;

	input.ahead_to_freeze = input.ahead_to_freeze_at_save = 200;
	d = decision_on(input);
	ok(near(d.head_dead, 300) && near(d.tail_dead, 300),
	   "none of the tail's 200 clean pages was hit: all that came is in the head");
	ok(plan_is(&d.plans[PLAN_RESUME], 300, 0, 200 + 100, 90, 1, 400 + 300),
	   "all of the tail is read, but no more pages reaped than can have dead rows");
	ok(plan_is(&d.plans[PLAN_RESTART], 600, 0, 200 + 100 + 100, 90, 1, 400 + 600),
	   "nor by a restart");

	input.ahead_to_freeze = 190;
	d = decision_on(input);
	ok(near(d.head_dead, 300 * 140 / (140 + 0.05 * 300)),
	   "one of twenty of these was hit, and one of five in the head");

	/* the cycle's runs were plain ones so far, which skipped such pages */
	input.ahead_to_freeze = 200;
	input.ahead_at_save = 100;
	input.ahead_to_freeze_at_save = 0;
	d = decision_on(input);
	ok(near(d.head_dead, 300) && near(d.tail_dead, 1000 * 100 / 800.0),
	   "a tail that was counted by another measure has not grown");

	/* 500 rows came while the head was scanned, 0.5 * 200 / (200 + 100) of them to it */
	input = quiet;
	input.ahead_to_freeze = input.ahead_to_freeze_at_save = 200;
	input.dead_at_start = 500;
	d = decision_on(input);
	ok(near(d.head_dead, 500 / 3.0) && near(d.tail_dead, (1000 - 500 / 3.0) * 0.3),
	   "rows that died during the scan are not on all-visible pages");

	/* 400 TIDs are pending; 4 rows on each of 100 + 100 unclean pages */
	input = busy();
	input.ahead_to_freeze = input.ahead_to_freeze_at_save = 200;
	input.dead_now = 400 + 4 * 200;
	d = decision_on(input);
	ok(near(d.head_dead, 200) && d.fresh_behind == 100, "what came is where clean pages were hit");
	input.dead_at_start = input.dead_at_save = 5000;
	d = decision_on(input);
	ok(near(d.head_dead, 100 * 4), "counted anew, what there is is on unclean pages");

	input.dead_at_start = input.dead_at_save = input.dead_now = -1;
	d = decision_on(input);
	ok(near(d.head_dead, 100) && near(d.tail_dead, 100), "unknown: a dead row an unclean page");
	input.has_record = false;
	d = decision_on(input);
	ok(near(d.tail_dead, 400) && near(d.plans[PLAN_RESTART].heap_pages, 600),
	   "likewise where there is nothing to continue");

	input = busy();
	input.ahead_to_freeze = input.ahead_to_freeze_at_save = 300;
	d = decision_on(input);
	ok(d.tail_dead == 0 && d.plans[PLAN_RESUME].heap_pages == 300,
	   "a tail that is all-visible has no dead row");
	input.ahead_to_freeze_at_save = 200;
	input.behind = 200;
	d = decision_on(input);
	ok(d.tail_dead == 0, "not even if it had some");
	input.ahead_to_freeze_at_save = 300;
	input.ahead_to_freeze = 240;
	input.behind = 300;
	d = decision_on(input);
	ok(near(d.tail_dead, 300 * 60 / 200.0), "or else those that came since");
	input.ahead_to_freeze = 300;
	input.behind = 0;
	input.has_record = false;
	d = decision_on(input);
	ok(d.tail_dead == 0 && near(d.plans[PLAN_RESTART].heap_pages, 300),
	   "nor has such a table where there is nothing to continue");
}

/*
 * The table has grown by 200 pages of new rows.  They are vacuumable, but do not show
 * that the tail was hit.
 */
static void
test_appended_pages(void)
{
	DecisionInput input = busy();
	Decision	d;

	input.rel_blocks = 1200;
	input.appended_blocks = input.ahead_appended = 200;
	input.ahead = 500;
	d = decision_on(input);
	ok(near(d.head_dead, 300 * 700 / 1100.0) && near(d.tail_dead, 300 + 300 * 400 / 1100.0),
	   "new pages are hit as often as the others, for half the time");

	input.ahead_at_save = 200;
	input.ahead = 410;
	d = decision_on(input);
	ok(near(d.head_dead, 300 * 140 / 180.0),
	   "a tenth of the old tail's clean pages was hit, and a fifth of the head's");

	input.ahead_at_save = 300;
	input.ahead = 500;
	input.behind = 200;
	d = decision_on(input);
	ok(near(d.head_dead, 300 * 200 / 600.0), "no clean page hit: new pages count as half a page");

	input.behind = 300;
	input.dead_now = 3;
	d = decision_on(input);
	ok(near(d.head_dead, 100) && near(d.tail_dead, 300 + 200),
	   "counted anew: a dead row for each new page as well");

	/* half of the old tail's pages are vacuumable no more */
	input.dead_now = 1000;
	input.ahead = 150 + 200;
	d = decision_on(input);
	ok(near(d.tail_dead, 150), "new pages do not stand for old ones that are clean now");
}

static void
test_unknown_statistics(void)
{
	DecisionInput input = busy();
	Decision	d;

	input.dead_at_start = input.dead_at_save = input.dead_now = -1;
	input.ahead = 305;
	input.rel_blocks = 1005;
	d = decision_on(input);
	ok(near(d.head_dead, 100) && near(d.tail_dead, 305), "unknown: a dead row a page");
	input.dead_at_start = input.dead_at_save = input.dead_now = (double) NAN;
	d = decision_on(input);
	ok(near(d.head_dead, 100) && near(d.tail_dead, 305), "not a number: as unknown");

	input = busy();
	input.dead_now = 3;
	d = decision_on(input);
	ok(near(d.head_dead, 100) && near(d.tail_dead, 300), "counted anew: a dead row a page came");

	input = busy();
	input.ahead = input.ahead_at_save = 0;
	d = decision_on(input);
	ok(d.tail_dead == 0 && d.head_dead > 0, "no vacuumable page, no dead row");
	input.behind = input.behind_at_save = 0;
	d = decision_on(input);
	ok(d.tail_dead == 0 && d.head_dead == 0, "no vacuumable page at all, no dead row");
	input.behind = 1000000;
	d = decision_on(input);
	ok(d.fresh_behind == 700 && d.plans[PLAN_RESTART].heap_pages == 700,
	   "no more vacuumable pages than pages");

	input = quiet;
	input.threshold = -1;
	d = decision_on(input);
	ok(d.plan == PLAN_RESUME, "unknown threshold, clean head: resume");
	input = busy();
	input.threshold = -1;
	d = decision_on(input);
	ok(d.plan == PLAN_RESUME_AND_WRAP, "unknown threshold, dead rows in the head: wrap");
}

static void
test_modes(void)
{
	DecisionInput input = head_hot();
	Decision	d;

	input.mode = DECIDE_RESUME;
	d = decision_on(input);
	ok(d.plan == PLAN_RESUME_AND_WRAP && !d.plans[PLAN_RESTART].possible &&
	   d.plans[PLAN_RESTART].reason == BECAUSE_ASKED_TO_RESUME, "asked to resume");

	input.mode = DECIDE_RESTART;
	input.restarted_before = true;
	d = decision_on(input);
	ok(decision_is(&d, PLAN_RESTART, BECAUSE_ASKED_TO_RESTART) && !d.plans[PLAN_RESUME].possible,
	   "asked to start over");

	input = (DecisionInput) {.rel_blocks = 1000, .ahead = 480, .behind = 20, .index_pages = 90,
		.dead_at_save = -1, .dead_now = 700, .mode = DECIDE_RESUME};
	d = decision_on(input);
	ok(decision_is(&d, PLAN_RESTART, BECAUSE_NOTHING_TO_CONTINUE) &&
	   plan_is(&d.plans[PLAN_RESTART], 500, 0, 500, 90, 1, 700), "nothing to continue");

	input = quiet;
	input.ahead = input.pending_pages = 0;
	input.pending_tids = 0;
	input.dead_now = 1100;
	d = decision_on(input);
	ok(d.head_dead > 0 && decision_is(&d, PLAN_RESUME, BECAUSE_NOTHING_AHEAD) &&
	   d.plans[PLAN_RESUME].work == 0, "nothing left ahead: the cycle ends at once");
}

static void
test_names(void)
{
	bool		right = true;

	ok(strcmp(vacuum_plan_name(PLAN_RESTART), "restart") == 0 &&
	   strcmp(vacuum_plan_name(PLAN_RESUME), "resume") == 0 &&
	   strcmp(vacuum_plan_name(PLAN_RESUME_AND_WRAP), "resume and wrap") == 0 &&
	   strcmp(vacuum_plan_name((VacuumPlan) 77), "unknown") == 0, "names of plans");

	for (int a = 0; a < DECIDE_REASONS; a++)
	{
		const char *text = decide_reason_text((DecideReason) a);

		right &= ((text[0] >= 'a' && text[0] <= 'z') || strncmp(text, "DISABLE", 7) == 0) && text[strlen(text) - 1] != '.' &&
			strcmp(text, "unknown") != 0;
		for (int b = 0; b < a; b++)
			right &= strcmp(text, decide_reason_text((DecideReason) b)) != 0;
	}
	ok(right && strcmp(decide_reason_text((DecideReason) 77), "unknown") == 0,
	   "each reason has a text of its own");
}

/*----------
 * The experiment of the pgsql-hackers thread on resuming vacuum (2019)
 *----------
 */

/*
 * 100,000 pages of 100 rows, made dirty by uniformly random updates until 6 % of the
 * rows were dead, three indexes of 30,000 pages each, updates going on: while the
 * whole table is scanned 3 more rows a page die.  Stopped at a share of the scan,
 * and run again at once.
 */
static DecisionInput
uniform_updates(double stopped_at)
{
	DecisionInput input = {
		.has_record = true, .may_leave_head = true,
		.rel_blocks = 100000, .index_pages = 90000,
		.dead_at_start = 600000, .threshold = 50 + 0.2 * 1e7
	};

	input.next_block = (uint64_t) (stopped_at * 100000);
	input.scanned_pages = input.behind = input.behind_at_save = input.next_block;
	input.pending_pages = input.next_block;
	input.pending_tids = (int64_t) (stopped_at * 600000);
	input.ahead = input.ahead_at_save = 100000 - input.next_block;
	input.dead_at_save = input.dead_now = 600000 + stopped_at * 300000;
	return input;
}

static double
rows_per_work(const Decision *decision, VacuumPlan plan)
{
	return decision->plans[plan].dead_rows_removed / decision->plans[plan].work;
}

static void
test_uniform_updates(void)
{
	const double stopped_at[] = {0.2, 0.4, 0.7};
	bool		resumes = true;
	bool		better = true;
	bool		wraps = true;

	printf("# uniform updates: dead rows removed per unit of work\n");
	for (int i = 0; i < 3; i++)
	{
		DecisionInput input = uniform_updates(stopped_at[i]);
		Decision	d = decision_on(input);

		printf("# stopped at %.0f %%: head %.0f tail %.0f; restart %.2f, resume %.2f, "
			   "resume and wrap %.2f: %s\n", stopped_at[i] * 100, d.head_dead, d.tail_dead,
			   rows_per_work(&d, PLAN_RESTART), rows_per_work(&d, PLAN_RESUME),
			   rows_per_work(&d, PLAN_RESUME_AND_WRAP), vacuum_plan_name(d.plan));
		resumes &= d.plan != PLAN_RESTART;
		better &= rows_per_work(&d, d.plan) >= rows_per_work(&d, PLAN_RESTART) &&
			rows_per_work(&d, d.plan) >= rows_per_work(&d, PLAN_RESUME);

		input.may_leave_head = false;
		d = decision_on(input);
		wraps &= d.plan == PLAN_RESUME_AND_WRAP &&
			rows_per_work(&d, d.plan) >= rows_per_work(&d, PLAN_RESTART);
	}
	ok(resumes, "stopped at 20, 40, 70 % under uniform updates: never restart");
	ok(better, "... and what is chosen pays no less than the other two");
	ok(wraps, "... nor does VACUUM without options, which has to wrap");
}

/*----------
 * Whatever the input
 *----------
 */

#define ROUNDS 300000

/* xorshift64*, S. Vigna 2016: the same inputs on every machine */
static uint64_t seed = 20;

static uint64_t
random_number(void)
{
	seed ^= seed >> 12;
	seed ^= seed << 25;
	seed ^= seed >> 27;
	return seed * UINT64_C(2685821657736338717);
}

static uint64_t
random_below(uint64_t limit)
{
	return limit == 0 ? 0 : random_number() % limit;
}

static bool
one_in(uint64_t n)
{
	return random_below(n) == 0;
}

/* Pages, up to so many: often none, one, or all, and of any magnitude. */
static uint64_t
random_pages(uint64_t most)
{
	switch (random_below(6))
	{
		case 0:
			return 0;
		case 1:
			return most > 0;
		case 2:
			return most;
		case 3:
			return most > 0 ? random_below(most) >> random_below(32) : 0;
		default:
			return random_below(most + 1);
	}
}

static double
random_rows(double pages)
{
	const double strange[] = {0, -1, (double) NAN, (double) INFINITY, -(double) INFINITY,
		(double) INT64_MAX, 1, 1e-300, 1e300, 0.5};

	if (one_in(20))
		return strange[random_below(sizeof(strange) / sizeof(strange[0]))];
	return pages * (double) random_below(1000) / 200;
}

/* A table as it can be, but for strange statistics. */
static DecisionInput
random_input(void)
{
	const uint64_t sizes[] = {0, 1, 2, 1000, 100000, 0xFFFFFFFE};
	DecisionInput input = {0};
	uint64_t	tail;
	double		pages;

	input.mode = one_in(10) ? DECIDE_RESTART : one_in(10) ? DECIDE_RESUME : DECIDE_AUTO;
	input.has_record = !one_in(20);
	input.may_leave_head = !one_in(3);
	input.restarted_before = one_in(5);
	input.aggressive = one_in(5);
	input.must_verify = one_in(5);
	input.set_complete = one_in(4);
	input.reaping = input.set_complete && one_in(3);

	input.rel_blocks = one_in(8) ? sizes[random_below(6)] : random_below(5000);
	input.next_block = random_pages(input.rel_blocks);
	tail = input.rel_blocks - input.next_block;
	input.ahead_at_save = random_pages(tail);
	input.ahead = input.ahead_at_save +
		(one_in(2) ? random_pages(tail - input.ahead_at_save) : 0);
	if (one_in(4))
	{
		input.ahead_to_freeze = random_pages(input.ahead);
		input.ahead_to_freeze_at_save = one_in(2) ? random_pages(input.ahead_at_save) : 0;
	}
	if (one_in(4))
	{
		input.appended_blocks = random_pages(tail);
		input.ahead_appended = random_pages(input.appended_blocks);
	}
	input.behind_at_save = random_pages(input.next_block);
	input.behind = input.behind_at_save +
		(one_in(2) ? random_pages(input.next_block - input.behind_at_save) : 0);
	input.scanned_pages = random_pages(input.next_block);
	if (one_in(2))
	{
		input.ahead_gaps = random_pages(31 * input.ahead);
		input.behind_gaps = random_pages(31 * input.behind);
		input.ahead_gaps_at_save = random_pages(31 * input.ahead_at_save);
	}
	input.pending_pages = random_pages(input.behind_at_save);
	input.pending_tids = (int64_t) (input.pending_pages * (1 + random_below(290)));
	input.index_pages = random_pages(input.rel_blocks);
	input.index_pages_done = input.set_complete ? random_pages(input.index_pages) : 0;

	/* others have vacuumed the head */
	if (input.must_verify && one_in(2))
		input.behind = random_pages(input.behind);

	pages = (double) input.rel_blocks;
	input.dead_at_start = random_rows(pages);
	input.dead_at_save = input.dead_at_start + random_rows(pages / 2);
	input.dead_left = one_in(3) ? random_rows(pages / 2) : 0;
	input.dead_now = input.dead_at_save + random_rows(one_in(2) ? pages : pages * 10);
	if (one_in(2))
	{
		input.gone_at_start = random_rows(pages);
		input.gone_at_save = input.gone_at_start + random_rows(pages / 2);
		input.gone_now = input.gone_at_save + random_rows(pages);
	}
	input.removed_rows = one_in(2) ? random_rows(pages) : 0;
	input.threshold = one_in(3) ? 0 : random_rows(pages / 4);
	input.expected_work = one_in(3) ? 0 : one_in(2) ? random_rows(pages / 2) :
		(double) random_pages(input.rel_blocks);

	/* and as it cannot be */
	if (one_in(50))
		input.behind = random_number();
	if (one_in(50))
		input.ahead_to_freeze = random_number();
	if (one_in(50))
		input.appended_blocks = input.ahead_appended = random_number();
	if (one_in(50))
		input.pending_pages = random_number();
	if (one_in(50))
		input.pending_tids = one_in(2) ? INT64_MAX : INT64_MIN;
	if (one_in(50))
		input.index_pages = UINT64_MAX;
	if (one_in(50))
		input.next_block = random_number();
	if (one_in(50))
		input.scanned_pages = input.behind_at_save = UINT64_MAX;
	return input;
}

static bool
is_amount(double value)
{
	return isfinite(value) && value >= 0;
}

static bool
estimate_is_sane(const DecisionInput *input, const PlanEstimate *plan)
{
	bool		limited = input->expected_work > 0 && isfinite(input->expected_work);

	return is_amount(plan->heap_pages) && is_amount(plan->verified_pages) &&
		is_amount(plan->reaped_pages) && is_amount(plan->index_pages) &&
		plan->index_passes >= 0 && plan->index_passes <= 2 &&
		is_amount(plan->dead_rows_removed) && is_amount(plan->dead_rows_expected) &&
		plan->dead_rows_expected <= plan->dead_rows_removed * (1 + 1e-9) &&
		near(plan->work, plan->heap_pages + plan->verified_pages + plan->reaped_pages +
			 plan->index_pages) &&
		(!plan->reaches_end || plan->dead_rows_expected == plan->dead_rows_removed) &&
		(limited || plan->reaches_end);
}

static bool
is_sane(const DecisionInput *input, const Decision *d)
{
	bool		sane = is_amount(d->head_dead) && is_amount(d->tail_dead) &&
		is_amount(d->head_dead_at_most) && d->head_dead_at_most >= d->head_dead &&
		is_amount(d->fresh_behind) && d->plan <= PLAN_RESUME_AND_WRAP &&
		d->plans[d->plan].possible && d->plans[d->plan].reason == d->reason;

	for (int i = 0; i < VACUUM_PLANS; i++)
		sane &= !(input->has_record || i == PLAN_RESTART) || estimate_is_sane(input, &d->plans[i]);
	return sane;
}

/* How often each plan and reason came up: what holds of nothing is not shown. */
static long plan_count[VACUUM_PLANS];
static long reason_count[DECIDE_REASONS];

/* What failed, by name; the first input of each is shown. */
static void
must(bool holds, bool *all, const char *what, const DecisionInput *input)
{
	if (!holds && *all)
		printf("# %s: mode %d leave %d before %d verify %d complete %d reaping %d rel %llu "
			   "next %llu appended %llu/%llu ahead %llu/%llu then %llu/%llu behind %llu then %llu scanned %llu pending %llu "
			   "tids %lld index %llu done %llu dead %g %g %g threshold %g work %g\n",
			   what, input->mode, input->may_leave_head, input->restarted_before,
			   input->must_verify, input->set_complete, input->reaping,
			   (unsigned long long) input->rel_blocks, (unsigned long long) input->next_block,
			   (unsigned long long) input->ahead_appended,
			   (unsigned long long) input->appended_blocks,
			   (unsigned long long) input->ahead_to_freeze, (unsigned long long) input->ahead,
			   (unsigned long long) input->ahead_to_freeze_at_save,
			   (unsigned long long) input->ahead_at_save,
			   (unsigned long long) input->behind, (unsigned long long) input->behind_at_save,
			   (unsigned long long) input->scanned_pages,
			   (unsigned long long) input->pending_pages, (long long) input->pending_tids,
			   (unsigned long long) input->index_pages,
			   (unsigned long long) input->index_pages_done, input->dead_at_start,
			   input->dead_at_save, input->dead_now, input->threshold, input->expected_work);
	*all &= holds;
}

static void
test_any_input(void)
{
	bool		sane = true,
				modes = true,
				leaves = true,
				twice = true,
				unlimited = true,
				complete = true,
				cheaper = true,
				all_counted = true;

	for (int round = 0; round < ROUNDS; round++)
	{
		DecisionInput input = random_input();
		Decision	d = decision_on(input);
		double		threshold = input.threshold >= 0 ? input.threshold : 0;
		bool		in_auto = input.has_record && input.mode == DECIDE_AUTO;
		bool		limited = input.expected_work > 0 && isfinite(input.expected_work);
		const PlanEstimate *restart = &d.plans[PLAN_RESTART];
		const PlanEstimate *wrap = &d.plans[PLAN_RESUME_AND_WRAP];

		must(is_sane(&input, &d), &sane, "not sane", &input);
		must(input.has_record ? input.mode != DECIDE_RESTART || d.plan == PLAN_RESTART :
			 d.plan == PLAN_RESTART && d.reason == BECAUSE_NOTHING_TO_CONTINUE,
			 &modes, "restart not obeyed", &input);
		must(!input.has_record || input.mode != DECIDE_RESUME || d.plan != PLAN_RESTART,
			 &modes, "resume not obeyed", &input);
		must(d.plan != PLAN_RESUME ||
			 (input.may_leave_head && !input.must_verify && d.head_dead_at_most <= threshold),
			 &leaves, "leaves the head", &input);
		must(!in_auto || !(input.restarted_before || input.aggressive) || d.plan != PLAN_RESTART,
			 &twice, "restart twice", &input);
		must(!in_auto || limited || input.must_verify || d.plan != PLAN_RESTART,
			 &unlimited, "restart without need", &input);
		must(!input.has_record || near(restart->dead_rows_removed, wrap->dead_rows_removed),
			 &complete, "wrap removes something else", &input);
		must(!input.has_record || input.set_complete || input.must_verify ||
			 input.pending_pages > input.behind || input.pending_pages > input.next_block ||
			 input.behind_at_save < input.pending_pages ||
			 wrap->work <= restart->work * (1 + 1e-9), &cheaper, "wrap is more work", &input);

		plan_count[d.plan]++;
		reason_count[d.reason]++;
	}
	ok(sane, "any input: estimates are finite, not negative, and add up");
	ok(modes, "any input: modes are obeyed, and nothing is continued that is not there");
	ok(leaves, "any input: the head is left alone only when it may be");
	ok(twice, "any input: no cycle is given up after one that was");
	ok(unlimited, "any input: no cycle is given up if it can be completed");
	ok(complete, "any input: a wrap removes what a restart removes");
	ok(cheaper, "any input: while scanning, a wrap is no more work than a restart");

	for (int i = 0; i < VACUUM_PLANS; i++)
	{
		printf("# %s: %ld\n", vacuum_plan_name((VacuumPlan) i), plan_count[i]);
		all_counted &= plan_count[i] > ROUNDS / 100;
	}
	for (int i = 0; i < BECAUSE_UNREADABLE; i++)
	{
		/* these are reasons not to restart, and never those of the plan taken */
		if (i == BECAUSE_ASKED_TO_RESUME || i == BECAUSE_GIVEN_UP_BEFORE ||
			i == BECAUSE_RESUMING_KEEPS_MORE)
			continue;
		printf("# %s: %ld\n", decide_reason_text((DecideReason) i), reason_count[i]);
		all_counted &= reason_count[i] > ROUNDS / 1000;
	}
	ok(all_counted, "any input: all plans were taken, for all reasons");
}

/* The same, with ever more pages in the tail, or in the head. */
static void
test_more_pages(void)
{
	bool		ahead = true,
				behind = true,
				rows = true;
	long		turned = 0;

	for (int round = 0; round < ROUNDS; round++)
	{
		const DecisionInput input = random_input();
		uint64_t	most = input.rel_blocks - input.next_block;
		Decision	before = decision_on(input);
		DecisionInput more = input;

		for (int step = 0; step < 6 && input.next_block < input.rel_blocks; step++)
		{
			Decision	d;

			more.ahead += step == 0 ? 1 : (most > more.ahead ? (most - more.ahead + 1) / 2 : 0);
			d = decision_on(more);
			must(before.plan == PLAN_RESTART || d.plan != PLAN_RESTART,
				 &ahead, "more ahead, restart", &more);
			must(d.head_dead <= before.head_dead * (1 + 1e-12),
				 &rows, "more ahead, more dead in the head", &more);
			turned += before.plan == PLAN_RESTART && d.plan != PLAN_RESTART;
			before = d;
		}

		before = decision_on(input);
		more = input;
		for (int step = 0; step < 6; step++)
		{
			Decision	d;

			if (more.behind > UINT64_MAX / 4)
				break;
			more.behind += step == 0 ? 1 : more.behind / 3 + 1;
			d = decision_on(more);
			must(before.plan != PLAN_RESTART || d.plan != PLAN_RESUME,
				 &behind, "more behind, tail only", &more);
			must(d.head_dead >= before.head_dead * (1 - 1e-12) &&
				 d.head_dead_at_most >= before.head_dead_at_most * (1 - 1e-12),
				 &rows, "more behind, fewer dead in the head", &more);
			turned += before.plan == PLAN_RESUME && d.plan == PLAN_RESUME_AND_WRAP;
			before = d;
		}
	}
	ok(ahead, "more ahead never turns resume into restart");
	ok(behind, "more behind never turns restart into tail only");
	ok(rows, "dead rows of the head: no fewer with more behind, no more with more ahead");
	ok(turned > ROUNDS / 100, "and pages more or less do turn decisions");
	printf("# turned %ld\n", turned);
}

int
main(void)
{
	test_quiet_table();
	test_busy_table();
	test_gaps();
	test_head_pays();
	test_looking_again();
	test_complete_set();
	test_verification();
	test_limited_run();
	test_rows_during_scan();
	test_rows_that_are_gone();
	test_pages_to_freeze();
	test_appended_pages();
	test_unknown_statistics();
	test_modes();
	test_names();
	test_uniform_updates();
	test_any_input();
	test_more_pages();

	return done_testing();
}
