/*
 * history.c
 *	  Unit test of what history tells: how much work a run gets done before it is
 *	  stopped.
 */
#include <stdio.h>

#include "history.h"
#include "tap.h"

/* A run by how it ended and its work */
typedef struct Past
{
	CycleStop	stop;
	double		work;
} Past;

#define MOST_RUNS 64

#define DONE(work) {CYCLE_FINISHED, work}
#define CANCELLED(work) {CYCLE_CANCELLED, work}
#define KILLED(work) {CYCLE_RUNNING, work}

static void
expect(const Past *past, int nruns, double expected, const char *name)
{
	RunRecord	runs[MOST_RUNS] = {0};
	double		found;

	for (int i = 0; i < nruns; i++)
	{
		runs[i].stop = past[i].stop;
		runs[i].work = past[i].work;
	}
	found = history_expected_work(runs, nruns);
	if (!ok(found == expected, name))
		printf("# expected %g, found %g\n", expected, found);
}

#define EXPECT(expected, name, ...) \
	do { \
		const Past	past[] = {__VA_ARGS__}; \
		expect(past, sizeof(past) / sizeof(past[0]), expected, name); \
	} while (0)

/* Slices tell how long a run may last that is one, but not about others. */
static void
test_what_counts(void)
{
	RunRecord	runs[4] = {
		{.stop = CYCLE_OUT_OF_TIME, .work = 31}, {.stop = CYCLE_CANCELLED, .work = 500},
		{.stop = CYCLE_OUT_OF_TIME, .work = 32}, {.stop = CYCLE_FINISHED, .work = 7}};

	ok(history_that_counts(runs, 4, true) == 4 && runs[2].work == 32,
	   "to a run with a maximum duration all others count");
	ok(history_that_counts(runs, 4, false) == 2 && runs[0].work == 500 && runs[1].work == 7,
	   "to one without, those that had one do not");
}

int
main(void)
{
	/* newest first */
	expect(NULL, 0, 0, "without history no limit is known");
	EXPECT(0, "nor if nothing was ever stopped", DONE(10), DONE(20));
	EXPECT(7, "one stopped run is its own median", CANCELLED(7));
	EXPECT(20, "an odd number has one in the middle", CANCELLED(90), CANCELLED(10), CANCELLED(20));
	EXPECT(25, "an even number has two", CANCELLED(30), CANCELLED(90), CANCELLED(20), CANCELLED(10));
	EXPECT(0, "stopped before anything was done", CANCELLED(0), CANCELLED(0), CANCELLED(5));

	EXPECT(30, "every way to be stopped counts",
		   KILLED(10), CANCELLED(20), {CYCLE_TERMINATED, 30}, {CYCLE_FAILED, 40}, {CYCLE_OUT_OF_TIME, 50});

	EXPECT(45, "of eight stopped runs and no more",
		   CANCELLED(10), CANCELLED(20), CANCELLED(30), CANCELLED(40),
		   CANCELLED(50), CANCELLED(60), CANCELLED(70), CANCELLED(80),
		   CANCELLED(1000), CANCELLED(1000), CANCELLED(1000), CANCELLED(1000), CANCELLED(1000));
	EXPECT(45, "runs that got to their end in between do not count as any",
		   CANCELLED(10), DONE(1000), CANCELLED(20), DONE(1), CANCELLED(30), DONE(1), DONE(1), DONE(1),
		   CANCELLED(40), CANCELLED(50), CANCELLED(60), DONE(1), CANCELLED(70), CANCELLED(80),
		   CANCELLED(1000), CANCELLED(1000), CANCELLED(1000));

	EXPECT(20, "a short one since does not tell more", DONE(5), CANCELLED(20));
	EXPECT(50, "a longer one does", DONE(50), CANCELLED(20));
	EXPECT(50, "the longest of two", DONE(30), DONE(50), CANCELLED(20));
	EXPECT(20, "but not one before the last stop", CANCELLED(20), DONE(50), CANCELLED(20));
	EXPECT(20, "two short ones do not tell more either", DONE(5), DONE(6), CANCELLED(20));
	EXPECT(0, "three in a row, and nothing stops runs any more",
		   DONE(5), DONE(6), DONE(7), CANCELLED(20), CANCELLED(20));
	EXPECT(20, "until the next stop", CANCELLED(20), DONE(5), DONE(6), DONE(7), CANCELLED(20));

	EXPECT(1e308, "numbers that overflow if added", CANCELLED(1e308), CANCELLED(1e308));

	test_what_counts();

	return done_testing();
}
