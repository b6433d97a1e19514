/*
 * elapsed.h
 *	  How long ago something was.
 */
#ifndef PGVR_ELAPSED_H
#define PGVR_ELAPSED_H

#include "portability/instr_time.h"

static inline int64
elapsed_us(instr_time since)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, since);
	return INSTR_TIME_GET_MICROSEC(now);
}

static inline int64
elapsed_ms(instr_time since)
{
	return elapsed_us(since) / 1000;
}

#endif							/* PGVR_ELAPSED_H */
