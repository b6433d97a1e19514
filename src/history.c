/*
 * history.c
 *	  What history tells of runs.
 *
 * No server headers: the inspection tool and a unit test share it.
 */
#include "history.h"

/* Stopped runs that count */
#define STOPPED_RUNS 8

/* So many runs in a row that got to their end, and earlier ones do not count any more */
#define FINISHED_RUNS 3

/* Insert a value into an ascending array that has room for it. */
static void
insert_ascending(double *values, int nvalues, double value)
{
	int			place = nvalues;

	for (; place > 0 && values[place - 1] > value; place--)
		values[place] = values[place - 1];
	values[place] = value;
}

/* Of ascending values; 0 if there is none. */
static double
median(const double *values, int nvalues)
{
	if (nvalues == 0)
		return 0;
	return values[(nvalues - 1) / 2] / 2 + values[nvalues / 2] / 2;
}

/*
 * How much work (in pages, see decide.h) is a run on this table likely to get
 * done before it is stopped?  From the table's last runs, newest first; 0 if no
 * limit is known.
 *
 * It is the median of what the last 8 runs did that were stopped, in whatever
 * way.  Runs that got to their end in between do not count, for they tell how much
 * there was to do rather than how much could have been done.  But one since the
 * last stop shows that a run may get as far as it did, and so is a lower bound;
 * and after three of them nothing seems to stop runs any more.
 */
double
history_expected_work(const RunRecord *runs, int nruns)
{
	double		stopped[STOPPED_RUNS];
	double		finished = 0;
	double		expected;
	int			nstopped = 0;
	int			nfinished = 0;	/* since the last stop */

	for (int i = 0; i < nruns && nstopped < STOPPED_RUNS; i++)
	{
		const double work = runs[i].work;

		if (runs[i].stop != CYCLE_FINISHED)
			insert_ascending(stopped, nstopped++, work);
		else if (nstopped == 0)
		{
			nfinished++;
			finished = work > finished ? work : finished;
		}
	}
	if (nstopped == 0 || nfinished >= FINISHED_RUNS)
		return 0;
	expected = median(stopped, nstopped);
	return expected > finished ? expected : finished;
}

/*
 * Keep of these runs those that tell how long one may last: those that ended by their
 * maximum duration only if the one in question has one, too (limited).  Returns how
 * many are left.
 */
int
history_that_counts(RunRecord *runs, int nruns, bool limited)
{
	int			kept = 0;

	for (int i = 0; i < nruns; i++)
		if (limited || runs[i].stop != CYCLE_OUT_OF_TIME)
			runs[kept++] = runs[i];
	return kept;
}
