/*
 * dead_tids.c
 *	  The sorted set of dead TIDs that indexes are vacuumed with.
 *
 * The first heap pass appends a page's dead line pointers in block order, so
 * the set is a sorted array and never has to be sorted.  An index access method
 * then asks for every single one of its entries whether the set contains it:
 * by far the most frequent question of a whole vacuum.  A binary search over
 * the array would touch some twenty cache lines for a million TIDs.  So before
 * an index pass a small directory is built over it: equal ranges of blocks
 * (buckets), and for each the position of its first TID.  A question then costs
 * one look into the directory and a search among the few TIDs of a bucket.
 * This is a one-level radix index, cf. radix-spline style lookup structures;
 * TIDs of a vacuum are spread evenly enough for one level to do.
 */
#include "dead_tids.h"

#include <assert.h>
#include <stdlib.h>

/* Aim at this many TIDs in a bucket ... */
#define TIDS_PER_BUCKET 4
/* ... but spend at most 4 MB, whatever the size of the set */
#define MAX_BUCKETS (1024 * 1024)

/* Block and offset as one number that sorts like the TID. */
static inline uint64_t
tid_key(const DeadTid *tid)
{
	return ((uint64_t) dead_tid_block(tid) << 16) | tid->offset;
}

/*
 * Make an empty set of at most capacity TIDs in the caller's storage.
 */
void
dead_tids_init(DeadTids *dead, DeadTid *storage, int64_t capacity)
{
	*dead = (DeadTids) {.tids = storage, .capacity = capacity, .lower_from = INT64_MAX};
}

/*
 * Empty the set, and forget the directory (the caller frees its memory).
 */
void
dead_tids_clear(DeadTids *dead)
{
	dead_tids_init(dead, dead->tids, dead->capacity);
}

/*
 * Append one page's TIDs.  Blocks come in ascending order, and so do the
 * offsets of a page; there must be room for them.
 */
void
dead_tids_append(DeadTids *dead, uint32_t block, const uint16_t *offsets, int noffsets)
{
	assert(dead_tids_room(dead) >= noffsets);
	assert(dead->directory == NULL);

	for (int i = 0; i < noffsets; i++)
	{
		DeadTid    *tid = &dead->tids[dead->count++];

		tid->block_high = block >> 16;
		tid->block_low = block & 0xFFFF;
		tid->offset = offsets[i];
		assert(dead->count == 1 || dead->count - 1 == dead->ascending_from ||
			   tid_key(tid - 1) < tid_key(tid));
	}
}

/*
 * What is appended from now on begins at a lower block again (a wrap).  Until
 * dead_tids_sort() the set is two or more ascending runs; only appending and
 * dead_tids_have_block() may be used meanwhile.
 */
void
dead_tids_begin_lower(DeadTids *dead)
{
	if (dead->lower_from == INT64_MAX)
		dead->lower_from = dead->count;
	dead->ascending_from = dead->count;
}

static int
compare_tids(const void *a, const void *b)
{
	uint64_t	key_a = tid_key(a);
	uint64_t	key_b = tid_key(b);

	return (key_a > key_b) - (key_a < key_b);
}

/*
 * Make the set ascending and free of duplicates, whatever order its TIDs were
 * put there in (R11).
 */
void
dead_tids_sort(DeadTids *dead)
{
	int64_t		kept = 0;
	bool		ascending = true;

	dead->lower_from = INT64_MAX;
	dead->ascending_from = 0;
	for (int64_t i = 1; i < dead->count && ascending; i++)
		ascending = tid_key(&dead->tids[i - 1]) < tid_key(&dead->tids[i]);
	if (ascending)
		return;

	qsort(dead->tids, dead->count, sizeof(DeadTid), compare_tids);
	for (int64_t i = 0; i < dead->count; i++)
		if (kept == 0 || tid_key(&dead->tids[kept - 1]) != tid_key(&dead->tids[i]))
			dead->tids[kept++] = dead->tids[i];
	dead->count = kept;
}

/* End of the first ascending run. */
static int64_t
first_run_end(const DeadTids *dead)
{
	return dead->lower_from < dead->count ? dead->lower_from : dead->count;
}

/* In the first ascending run, the position of the first TID of this block or beyond. */
static int64_t
first_of_block(const DeadTids *dead, uint32_t block)
{
	int64_t		low = 0;
	int64_t		high = first_run_end(dead);

	while (low < high)
	{
		int64_t		middle = low + (high - low) / 2;

		if (dead_tid_block(&dead->tids[middle]) < block)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * Has the set a TID of this block?  Looks at the first ascending run only.
 */
bool
dead_tids_have_block(const DeadTids *dead, uint32_t block)
{
	int64_t		first = first_of_block(dead, block);

	return first < first_run_end(dead) && dead_tid_block(&dead->tids[first]) == block;
}

/*
 * Of a block's ascending offsets, keep those that the set does not have yet in its
 * first ascending run.  Returns how many these are.
 */
int
dead_tids_leave_out_known(const DeadTids *dead, uint32_t block, uint16_t *offsets, int noffsets)
{
	int64_t		end = first_run_end(dead);
	int64_t		known = first_of_block(dead, block);
	int			kept = 0;

	for (int i = 0; i < noffsets; i++)
	{
		while (known < end && dead_tid_block(&dead->tids[known]) == block &&
			   dead->tids[known].offset < offsets[i])
			known++;
		if (known >= end || dead_tid_block(&dead->tids[known]) != block ||
			dead->tids[known].offset != offsets[i])
			offsets[kept++] = offsets[i];
	}
	return kept;
}

/*
 * Walk the set page by page: give the page at *position (a count of TIDs, 0 to
 * begin with) and move *position behind it.
 *
 * Returns the number of offsets stored, 0 at the end of the set.  The caller's
 * array must have room for all the line pointers a heap page can have.
 */
int
dead_tids_next_page(const DeadTids *dead, int64_t *position,
					uint32_t *block, uint16_t *offsets)
{
	int			noffsets = 0;

	if (*position >= dead->count)
		return 0;

	*block = dead_tid_block(&dead->tids[*position]);
	while (*position < dead->count && dead_tid_block(&dead->tids[*position]) == *block)
		offsets[noffsets++] = dead->tids[(*position)++].offset;

	return noffsets;
}

/* The bucket of a block; over the largest tables a shift can be all of 32 bits. */
static inline uint32_t
bucket_of(const DeadTids *dead, uint32_t block)
{
	return (uint32_t) ((uint64_t) (block - dead->first_block) >> dead->bucket_shift);
}

/* Buckets that a directory of 2^shift blocks each needs to span the set. */
static uint64_t
buckets_for_shift(const DeadTids *dead, int shift)
{
	uint32_t	first = dead_tid_block(&dead->tids[0]);
	uint32_t	last = dead_tid_block(&dead->tids[dead->count - 1]);

	return (((uint64_t) last - first) >> shift) + 1;
}

/* The finest buckets that are still full enough, and few enough. */
static int
choose_bucket_shift(const DeadTids *dead)
{
	uint64_t	wanted = dead->count / TIDS_PER_BUCKET + 1;
	int			shift = 0;

	if (wanted > MAX_BUCKETS)
		wanted = MAX_BUCKETS;
	while (buckets_for_shift(dead, shift) > wanted)
		shift++;
	return shift;
}

/*
 * Bytes that dead_tids_build_directory() needs for the set as it is now, which
 * must not be empty.
 */
size_t
dead_tids_directory_bytes(const DeadTids *dead)
{
	assert(dead->count > 0);
	return (buckets_for_shift(dead, choose_bucket_shift(dead)) + 1) * sizeof(uint32_t);
}

/*
 * Build the directory into the caller's memory (dead_tids_directory_bytes()
 * large), which must stay until the set is cleared.  The set may not grow
 * meanwhile.
 */
void
dead_tids_build_directory(DeadTids *dead, void *memory)
{
	uint32_t	bucket = 0;

	assert(dead->count > 0 && dead->count <= UINT32_MAX);

	dead->directory = memory;
	dead->bucket_shift = choose_bucket_shift(dead);
	dead->directory_size = (uint32_t) buckets_for_shift(dead, dead->bucket_shift);
	dead->first_block = dead_tid_block(&dead->tids[0]);
	dead->last_block = dead_tid_block(&dead->tids[dead->count - 1]);

	dead->directory[0] = 0;
	for (int64_t i = 0; i < dead->count; i++)
	{
		uint32_t	own = bucket_of(dead, dead_tid_block(&dead->tids[i]));

		while (bucket < own)
			dead->directory[++bucket] = (uint32_t) i;
	}
	dead->directory[dead->directory_size] = (uint32_t) dead->count;
}

/*
 * Forget the directory, whose memory is the caller's; the set stays.
 */
void
dead_tids_drop_directory(DeadTids *dead)
{
	dead->directory = NULL;
}

/*
 * Is this TID in the set?  Needs the directory.
 */
bool
dead_tids_contain(const DeadTids *dead, uint32_t block, uint16_t offset)
{
	uint64_t	key = ((uint64_t) block << 16) | offset;
	const uint32_t *entry;
	uint32_t	low,
				high;

	if (block < dead->first_block || block > dead->last_block)
		return false;

	entry = &dead->directory[bucket_of(dead, block)];
	low = entry[0];
	high = entry[1];
	while (low < high)
	{
		uint32_t	middle = low + (high - low) / 2;

		if (tid_key(&dead->tids[middle]) < key)
			low = middle + 1;
		else
			high = middle;
	}
	return low < entry[1] && tid_key(&dead->tids[low]) == key;
}
