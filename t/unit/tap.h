/*
 * tap.h
 *	  What the unit tests have in common: they speak TAP.
 */
#ifndef PGVR_TAP_H
#define PGVR_TAP_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static int	tests;
static int	failures;

static inline bool
ok(bool passed, const char *name)
{
	printf("%sok %d - %s\n", passed ? "" : "not ", ++tests, name);
	failures += !passed;
	return passed;
}

/* The last line, and the exit status. */
static inline int
done_testing(void)
{
	printf("1..%d\n", tests);
	return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif							/* PGVR_TAP_H */
