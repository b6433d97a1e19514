/*
 * vm.c
 *	  Reading the visibility map many blocks at a time.
 *
 * The server exports a look-up of one block's bits.  A vacuum that passes over
 * a long all-visible stretch asks for millions of them, so here whole words of
 * a map page are compared instead.  The layout is on-disk format, the same in
 * all supported majors: after the page header two bits a block, the
 * all-visible bit below the all-frozen bit, blocks in ascending order from the
 * lowest bits of the first byte on.
 *
 * Like the server's own look-up this reads a pinned page without a lock.  A bit
 * can change the moment after it was read, under a lock as well; callers have
 * to stand that anyway.
 */
#include "postgres.h"

#include "access/visibilitymap.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "port/pg_bswap.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"

#include "vm.h"

#define MAP_BYTES (BLCKSZ - MAXALIGN(SizeOfPageHeaderData))
#define BLOCKS_PER_BYTE (BITS_PER_BYTE / BITS_PER_HEAPBLOCK)
#define BLOCKS_PER_WORD (sizeof(uint64) * BLOCKS_PER_BYTE)
#define BLOCKS_PER_MAP_PAGE (MAP_BYTES * BLOCKS_PER_BYTE)

#define ALL_VISIBLE_BITS UINT64CONST(0x5555555555555555)
#define ALL_FROZEN_BITS UINT64CONST(0xAAAAAAAAAAAAAAAA)

StaticAssertDecl(MAP_BYTES % sizeof(uint64) == 0, "map page must be a whole number of words");

/* A word of the map with the lowest block in the lowest bits on any machine. */
static inline uint64
map_word(const uint64 *word)
{
	uint64		bits = *(const volatile uint64 *) word;

#ifdef WORDS_BIGENDIAN
	bits = pg_bswap64(bits);
#endif
	return bits;
}

/*
 * Starting with block from, find the first one below to that a run cannot skip.
 *
 * vmbuffer is the pinned map page that covers block from; the search ends with
 * that page.  A block is skippable if it is all-visible, or with frozen_only if
 * it is all-frozen as well.  *skips_unfrozen is set to true (never to false) if a block
 * passed over is not all-frozen.
 *
 * Returns the block found; or, if there is none, to or the first block of the
 * next map page, whichever is lower.  Throws nothing, takes no lock.
 */
BlockNumber
vm_skippable_end(Buffer vmbuffer, BlockNumber from, BlockNumber to,
				 bool frozen_only, bool *skips_unfrozen)
{
	const uint64 *words = (const uint64 *) PageGetContents(BufferGetPage(vmbuffer));
	BlockNumber page_start = from - from % BLOCKS_PER_MAP_PAGE;
	uint64		wanted = frozen_only ? ALL_VISIBLE_BITS | ALL_FROZEN_BITS : ALL_VISIBLE_BITS;
	BlockNumber block = from;

	to = Min((uint64) to, (uint64) page_start + BLOCKS_PER_MAP_PAGE);

	while (block < to)
	{
		BlockNumber in_page = block - page_start;
		int			shift = (in_page % BLOCKS_PER_WORD) * BITS_PER_HEAPBLOCK;
		uint64		word_end = (uint64) block - in_page % BLOCKS_PER_WORD + BLOCKS_PER_WORD;
		uint64		bits = map_word(&words[in_page / BLOCKS_PER_WORD]) >> shift;
		uint64		in_word = ~UINT64CONST(0) >> shift;	/* bits of blocks not passed yet */
		uint64		missing;
		BlockNumber end;

		if (word_end > to)
			in_word >>= (word_end - to) * BITS_PER_HEAPBLOCK;

		missing = ~bits & wanted & in_word;
		if (missing != 0)
		{
			int			found = pg_rightmost_one_pos64(missing) / BITS_PER_HEAPBLOCK;

			end = block + found;
			in_word = (UINT64CONST(1) << (found * BITS_PER_HEAPBLOCK)) - 1;
		}
		else
			end = (BlockNumber) Min(word_end, (uint64) to);

		if (~bits & ALL_FROZEN_BITS & in_word)
			*skips_unfrozen = true;

		block = end;
		if (missing != 0)
			break;
	}

	return block;
}

/*
 * Go on with a word of nblocks blocks, of which these bits say (the lower of each two)
 * which are skippable.  *run is how many skippable ones in a row came before it, and then
 * how many it ends with.  Returns how many that ended were in runs too short to be skipped.
 */
static int
count_gaps(uint64 skippable, int nblocks, BlockNumber *run)
{
	uint64		blocks = ALL_VISIBLE_BITS >> (BLOCKS_PER_WORD - nblocks) * BITS_PER_HEAPBLOCK;
	uint64		missing = ~skippable & blocks;
	int			first,
				last;
	int			gaps;

	StaticAssertStmt(BLOCKS_PER_WORD <= MIN_SKIPPED_BLOCKS,
					 "runs within a word must be short ones");
	if (missing == 0)
	{
		*run += nblocks;
		return 0;
	}
	first = pg_rightmost_one_pos64(missing) / BITS_PER_HEAPBLOCK;
	last = pg_leftmost_one_pos64(missing) / BITS_PER_HEAPBLOCK;
	*run += first;
	gaps = *run < MIN_SKIPPED_BLOCKS ? *run : 0;
	*run = nblocks - 1 - last;
	return gaps + pg_popcount64(skippable & blocks) - first - *run;
}

/*
 * Count the blocks from from to below to that a run may not skip (with frozen_only one
 * that skips all-frozen ones only), and those that it reads between them, a page of the map
 * at a time.  Takes no lock but on the table, which the caller holds.  May throw what
 * reading a page may.
 */
VmCounts
vm_count(Relation rel, BlockNumber from, BlockNumber to, bool frozen_only)
{
	Buffer		vmbuffer = InvalidBuffer;
	uint64		visible = 0;
	uint64		frozen = 0;
	uint64		gaps = 0;
	BlockNumber run = 0;
	uint64		block = from;

	if (from >= to)
		return (VmCounts) {0};

	while (block < to)
	{
		uint64		page_end = block - block % BLOCKS_PER_MAP_PAGE + BLOCKS_PER_MAP_PAGE;
		uint64		end = Min(page_end, (uint64) to);
		const uint64 *words;

		CHECK_FOR_INTERRUPTS();

		/* pins the map page; there is none where the map is shorter than the table */
		(void) visibilitymap_get_status(rel, (BlockNumber) block, &vmbuffer);
		if (!BufferIsValid(vmbuffer))
			break;

		words = (const uint64 *) PageGetContents(BufferGetPage(vmbuffer));
		while (block < end)
		{
			int			in_page = block % BLOCKS_PER_MAP_PAGE;
			int			skip = in_page % BLOCKS_PER_WORD;
			int			nblocks = Min(BLOCKS_PER_WORD - skip, end - block);
			uint64		bits = map_word(&words[in_page / BLOCKS_PER_WORD]) >>
				(skip * BITS_PER_HEAPBLOCK);

			if (nblocks < BLOCKS_PER_WORD)
				bits &= (UINT64CONST(1) << (nblocks * BITS_PER_HEAPBLOCK)) - 1;
			/* an all-frozen bit without the other, which only damage brings, does not count */
			bits &= ALL_VISIBLE_BITS | (bits << 1);
			visible += pg_popcount64(bits & ALL_VISIBLE_BITS);
			frozen += pg_popcount64(bits & ALL_FROZEN_BITS);
			gaps += count_gaps(frozen_only ? bits >> 1 : bits, nblocks, &run);
			block += nblocks;
		}
	}

	if (BufferIsValid(vmbuffer))
		ReleaseBuffer(vmbuffer);
	if (run < MIN_SKIPPED_BLOCKS)
		gaps += run;
	return (VmCounts) {.not_visible = to - from - (BlockNumber) visible,
		.not_frozen = (BlockNumber) (visible - frozen),
		.gaps = (BlockNumber) gaps};
}
