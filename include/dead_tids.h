/*
 * dead_tids.h
 *	  The sorted set of dead TIDs that indexes are vacuumed with.
 *
 * Pure C: no server headers, so that the unit tests and later the tool compile
 * it by itself.  Nothing here allocates; storage belongs to the caller and has
 * to outlive the set.
 */
#ifndef PGVR_DEAD_TIDS_H
#define PGVR_DEAD_TIDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Laid out like the server's ItemPointerData, which page_<major>.c asserts. */
typedef struct DeadTid
{
	uint16_t	block_high;
	uint16_t	block_low;
	uint16_t	offset;
} DeadTid;

typedef struct DeadTids
{
	DeadTid    *tids;			/* ascending, no duplicates (but see lower_from) */
	int64_t		count;
	int64_t		capacity;
	int64_t		lower_from;		/* the first ascending run ends here, if < count */
	int64_t		ascending_from; /* the last ascending run begins here */

	/* directory for dead_tids_contain(); NULL until built */
	uint32_t   *directory;
	uint32_t	directory_size; /* buckets */
	int			bucket_shift;	/* a bucket spans 2^bucket_shift blocks */
	uint32_t	first_block;	/* lowest and highest block of the set */
	uint32_t	last_block;
} DeadTids;

extern void dead_tids_init(DeadTids *dead, DeadTid *storage, int64_t capacity);
extern void dead_tids_clear(DeadTids *dead);
extern void dead_tids_append(DeadTids *dead, uint32_t block,
							 const uint16_t *offsets, int noffsets);
extern void dead_tids_begin_lower(DeadTids *dead);
extern void dead_tids_sort(DeadTids *dead);
extern int	dead_tids_leave_out_known(const DeadTids *dead, uint32_t block,
									  uint16_t *offsets, int noffsets);
extern bool dead_tids_have_block(const DeadTids *dead, uint32_t block);
extern int	dead_tids_next_page(const DeadTids *dead, int64_t *position,
								uint32_t *block, uint16_t *offsets);

extern size_t dead_tids_directory_bytes(const DeadTids *dead);
extern void dead_tids_build_directory(DeadTids *dead, void *memory);
extern void dead_tids_drop_directory(DeadTids *dead);
extern bool dead_tids_contain(const DeadTids *dead, uint32_t block, uint16_t offset);

static inline uint32_t
dead_tid_block(const DeadTid *tid)
{
	return ((uint32_t) tid->block_high << 16) | tid->block_low;
}

static inline int64_t
dead_tids_room(const DeadTids *dead)
{
	return dead->capacity - dead->count;
}

#endif							/* PGVR_DEAD_TIDS_H */
