/*
 * dead_tids.c
 *	  Unit test of the dead-TID set: whatever the shape of the set, it answers as
 *	  a plain search of the same TIDs does.
 */
#include <stdio.h>
#include <stdlib.h>

#include "dead_tids.h"
#include "tap.h"

#define MAX_OFFSETS 291			/* line pointers of an 8 kB heap page */

/* The question asked without a directory: does any TID of the set match? */
static bool
found_by_search(const DeadTids *dead, uint32_t block, uint16_t offset)
{
	for (int64_t i = 0; i < dead->count; i++)
	{
		const DeadTid *tid = &dead->tids[i];

		if (tid->block_high == block >> 16 && tid->block_low == (block & 0xFFFF) &&
			tid->offset == offset)
			return true;
	}
	return false;
}

/* Ask for each TID of the set, its neighbours, and the ends of the block range. */
static bool
answers_agree(const DeadTids *dead)
{
	const uint32_t far[] = {0, 1, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0xFFFFFFFE};

	for (int64_t i = 0; i < dead->count; i++)
	{
		uint32_t	block = ((uint32_t) dead->tids[i].block_high << 16) | dead->tids[i].block_low;
		uint16_t	offset = dead->tids[i].offset;

		for (int step = -1; step <= 1; step++)
			if (dead_tids_contain(dead, block, offset + step) !=
				found_by_search(dead, block, offset + step) ||
				dead_tids_contain(dead, block + step, offset) !=
				found_by_search(dead, block + step, offset))
				return false;
	}
	for (size_t i = 0; i < sizeof(far) / sizeof(far[0]); i++)
		if (dead_tids_contain(dead, far[i], 1) != found_by_search(dead, far[i], 1))
			return false;
	return true;
}

/* A set of npages pages from first on, gap blocks apart, every nth offset dead. */
static void
fill(DeadTids *dead, uint32_t first, uint32_t gap, int npages, int nth)
{
	for (int page = 0; page < npages; page++)
	{
		uint16_t	offsets[MAX_OFFSETS];
		int			n = 0;

		for (int offset = 1; offset <= MAX_OFFSETS; offset += nth)
			offsets[n++] = offset;
		dead_tids_append(dead, first + page * gap, offsets, n);
	}
}

static bool
set_is_right(uint32_t first, uint32_t gap, int npages, int nth)
{
	static DeadTid storage[64 * MAX_OFFSETS];
	DeadTids	dead;
	uint16_t	offsets[MAX_OFFSETS];
	uint32_t	block;
	int64_t		position = 0;
	int			pages = 0;
	int			n;
	void	   *directory;
	bool		right;

	dead_tids_init(&dead, storage, sizeof(storage) / sizeof(storage[0]));
	fill(&dead, first, gap, npages, nth);
	directory = malloc(dead_tids_directory_bytes(&dead));
	dead_tids_build_directory(&dead, directory);
	right = answers_agree(&dead);

	while ((n = dead_tids_next_page(&dead, &position, &block, offsets)) > 0)
	{
		right &= block == first + pages++ * gap && offsets[0] == 1 &&
			n == (MAX_OFFSETS + nth - 1) / nth;
	}
	right &= pages == npages && position == dead.count;

	free(directory);
	dead_tids_clear(&dead);
	right &= dead.count == 0 && dead_tids_room(&dead) == 64 * MAX_OFFSETS;
	return right;
}

/* Pages at random distances, from close together to all over the table. */
static bool
random_sets_are_right(void)
{
	static DeadTid storage[2000];

	srandom(20);
	for (int round = 0; round < 50; round++)
	{
		DeadTids	dead;
		uint32_t	block = random();
		void	   *directory;
		bool		right;

		dead_tids_init(&dead, storage, 2000);
		while (dead_tids_room(&dead) >= 3)
		{
			uint16_t	offset = 1 + random() % 200;
			uint16_t	offsets[3] = {offset, offset + 1, offset + 5};

			dead_tids_append(&dead, block, offsets, 1 + random() % 3);
			block += 1 + random() % (1 << (round % 20));
		}
		directory = malloc(dead_tids_directory_bytes(&dead));
		dead_tids_build_directory(&dead, directory);
		right = answers_agree(&dead);
		free(directory);
		if (!right)
			return false;
	}
	return true;
}

/* A wrap brings pages again: what is known of them is left out, and nothing else. */
static bool
known_ones_are_left_out(void)
{
	static DeadTid storage[16];
	uint16_t	before[] = {3, 7, 9};
	uint16_t	other[] = {5};
	uint16_t	again[] = {1, 3, 7, 8, 9, 12};
	uint16_t	all_known[] = {3, 9};
	uint16_t	all_new[] = {3, 9};
	DeadTids	dead;

	dead_tids_init(&dead, storage, 16);
	dead_tids_append(&dead, 10, before, 3);
	dead_tids_append(&dead, 20, other, 1);
	dead_tids_begin_lower(&dead);

	if (dead_tids_leave_out_known(&dead, 10, again, 6) != 3 ||
		again[0] != 1 || again[1] != 8 || again[2] != 12)
		return false;
	dead_tids_append(&dead, 10, again, 3);
	return dead_tids_leave_out_known(&dead, 10, all_known, 2) == 0 &&
		dead_tids_leave_out_known(&dead, 15, all_new, 2) == 2 &&
		dead_tids_leave_out_known(&dead, 30, all_new, 2) == 2;
}

int
main(void)
{
	ok(set_is_right(0, 1, 1, MAX_OFFSETS), "one TID in block 0");
	ok(set_is_right(0xFFFFFFFE, 1, 1, 1), "a full page at the highest block");
	ok(set_is_right(0, 1, 60, 1), "adjacent full pages");
	ok(set_is_right(7, 1, 60, 10), "adjacent pages, a tenth dead");
	ok(set_is_right(1000, 1000, 60, 50), "pages far apart");
	ok(set_is_right(0, 0xFFFFFFFE / 2, 3, 291), "three TIDs over the largest table");
	ok(set_is_right(0xFFF0, 1, 32, 40), "across the border of the low block half");
	ok(random_sets_are_right(), "random sets");
	ok(known_ones_are_left_out(), "known TIDs are left out");

	return done_testing();
}
