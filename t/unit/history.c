/*
 * history.c
 *	  Unit test of what history tells: how much work a run gets done before it is
 *	  stopped.
 */
#include <stdio.h>

#include "history.h"

static int	tests;
static int	failures;

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
	bool		passed;

	for (int i = 0; i < nruns; i++)
	{
		runs[i].stop = past[i].stop;
		runs[i].work = past[i].work;
	}
	found = history_expected_work(runs, nruns);
	passed = found == expected;
	printf("%sok %d - %s\n", passed ? "" : "not ", ++tests, name);
	if (!passed)
		printf("# expected %g, found %g\n", expected, found);
	failures += !passed;
}

#define EXPECT(expected, name, ...) \
	do { \
		const Past	past[] = {__VA_ARGS__}; \
		expect(past, sizeof(past) / sizeof(past[0]), expected, name); \
	} while (0)

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

	printf("1..%d\n", tests);
	return failures != 0;
}
