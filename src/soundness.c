/*
 * soundness.c
 *	  Can LMDB be let loose on this file?
 *
 * LMDB believes what it reads.  Where a page's numbers are wrong it follows wild
 * pointers, and worse: a writer moves bytes around in copies of pages in its
 * heap memory, and so ruins the process rather than the file.  So before a store
 * is opened, everything that can be reached in it is looked at: each page is what
 * it is said to be, its entries lie side by side and fill it just so, each page
 * belongs to one place only, and each tree is as deep as it claims.  Values are
 * not looked at; they have checksums of their own.
 *
 * The format is that of LMDB 0.9 (data version 1) on a 64-bit machine.
 *
 * No server headers: the inspection tool shares it.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "soundness.h"

#define MAGIC 0xBEEFC0DE
#define DATA_VERSION 1
#define META_PAGES 2
#define MAX_DEPTH 32
#define MAX_KEY_BYTES 511
#define NO_PAGE UINT64_MAX

/* Page flags */
#define BRANCH 0x01
#define LEAF 0x02
#define OVERFLOW 0x04
#define META 0x08

/* Entry flags */
#define BIG_DATA 0x01
#define SUB_DATA 0x02

typedef struct Tree
{
	uint32_t	pad;
	uint16_t	flags;
	uint16_t	depth;
	uint64_t	branch_pages;
	uint64_t	leaf_pages;
	uint64_t	overflow_pages;
	uint64_t	entries;
	uint64_t	root;
} Tree;

typedef struct PageHeader
{
	uint64_t	number;
	uint16_t	pad;
	uint16_t	flags;
	uint16_t	lower;			/* end of the entries' offsets; pages, if overflow */
	uint16_t	upper;			/* beginning of the entries */
} PageHeader;

typedef struct Meta
{
	PageHeader	header;
	uint32_t	magic;
	uint32_t	version;
	uint64_t	address;
	uint64_t	map_size;
	Tree		trees[2];		/* of free pages; of all else */
	uint64_t	last_page;
	uint64_t	transaction;
} Meta;

typedef struct EntryHeader
{
	uint16_t	low;			/* of a value's size, or a branch's page number */
	uint16_t	high;
	uint16_t	flags;			/* in a branch, bits 32 to 47 of the page number */
	uint16_t	key_bytes;
} EntryHeader;

typedef struct File
{
	const uint8_t *bytes;
	uint64_t	pages;			/* that are complete */
	uint32_t	page_bytes;
	Meta		meta;
	uint8_t    *used;			/* a byte for each page */
	const char *problem;
} File;

static bool check_tree(File *file, const Tree *tree, bool is_free_list, bool may_nest);

static bool
problem(File *file, const char *what)
{
	if (file->problem == NULL)
		file->problem = what;
	return false;
}

/* Note that pages are in use; false if they are already or do not exist. */
static bool
claim(File *file, uint64_t first, uint64_t count)
{
	if (first < META_PAGES || count > file->pages || first > file->meta.last_page ||
		count > file->meta.last_page + 1 - first)
		return problem(file, "a page number is out of range");
	for (uint64_t page = first; page < first + count; page++)
	{
		if (file->used[page])
			return problem(file, "a page is in two places");
		file->used[page] = 1;
	}
	return true;
}

static PageHeader
page_header(const File *file, uint64_t page)
{
	PageHeader	header;

	memcpy(&header, file->bytes + page * file->page_bytes, sizeof(header));
	return header;
}

/* The pages of a value that has some of its own. */
static bool
check_overflow(File *file, uint64_t page, uint64_t bytes)
{
	uint64_t	count = (sizeof(PageHeader) - 1 + bytes) / file->page_bytes + 1;
	PageHeader	header;

	if (!claim(file, page, count))
		return false;
	header = page_header(file, page);
	if (header.number != page || header.flags != OVERFLOW ||
		(header.lower | (uint32_t) header.upper << 16) != count)
		return problem(file, "a page of a large value is not what it should be");
	return true;
}

/* An entry of the list of free pages: pages of one transaction, highest first. */
static bool
check_free_pages(File *file, const uint8_t *value, uint64_t bytes)
{
	uint64_t	count;
	uint64_t	previous = NO_PAGE;

	if (bytes < sizeof(count) || bytes % sizeof(count) != 0)
		return problem(file, "a list of free pages is not what it should be");
	memcpy(&count, value, sizeof(count));
	if (count != bytes / sizeof(count) - 1)
		return problem(file, "a list of free pages is not what it should be");
	for (uint64_t i = 1; i <= count; i++)
	{
		uint64_t	page;

		memcpy(&page, value + i * sizeof(page), sizeof(page));
		if (page >= previous)
			return problem(file, "a list of free pages is not sorted");
		previous = page;
		if (!claim(file, page, 1))
			return false;
	}
	return true;
}

/* A leaf's entry. */
static bool
check_value(File *file, const EntryHeader *entry, const uint8_t *key, const uint8_t *value,
			bool is_free_list, bool may_nest)
{
	uint64_t	bytes = entry->low | (uint32_t) entry->high << 16;

	if (entry->flags & ~(BIG_DATA | SUB_DATA) || (entry->flags & SUB_DATA && !may_nest) ||
		entry->flags == (BIG_DATA | SUB_DATA))
		return problem(file, "an entry is not what it should be");

	if (entry->flags & BIG_DATA)
	{
		uint64_t	page;

		memcpy(&page, value, sizeof(page));
		if (!check_overflow(file, page, bytes))
			return false;
		value = file->bytes + page * file->page_bytes + sizeof(PageHeader);
	}
	if (entry->flags & SUB_DATA)
	{
		Tree		tree;

		if (bytes != sizeof(tree))
			return problem(file, "a named database is not what it should be");
		memcpy(&tree, value, sizeof(tree));
		return tree.flags == 0 ? check_tree(file, &tree, false, false) :
			problem(file, "a named database is not what it should be");
	}
	if (is_free_list)
	{
		uint64_t	transaction;

		if (entry->key_bytes != sizeof(transaction))
			return problem(file, "a list of free pages is not what it should be");
		memcpy(&transaction, key, sizeof(transaction));
		if (transaction > file->meta.transaction)
			return problem(file, "a list of free pages is not what it should be");
		return check_free_pages(file, value, bytes);
	}
	return true;
}

static int
compare_offsets(const void *a, const void *b)
{
	return (int) *(const uint16_t *) a - (int) *(const uint16_t *) b;
}

/* Keys ascend; an empty one stands for "before all others" in a branch. */
static int
compare_keys(const uint8_t *a, size_t a_bytes, const uint8_t *b, size_t b_bytes, bool numbers)
{
	int			order;

	if (numbers && a_bytes == 8 && b_bytes == 8)
	{
		uint64_t	x,
					y;

		memcpy(&x, a, 8);
		memcpy(&y, b, 8);
		return x < y ? -1 : x > y;
	}
	order = memcmp(a, b, a_bytes < b_bytes ? a_bytes : b_bytes);
	return order != 0 ? order : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

/* One page of a tree, and what is below it. */
static bool
check_page(File *file, uint64_t page, unsigned levels, bool is_free_list, bool may_nest)
{
	const uint8_t *bytes = file->bytes + page * file->page_bytes;
	uint16_t	offsets[4096 / 2];
	uint32_t	count;
	uint32_t	end;
	PageHeader	header;
	const uint8_t *previous_key = NULL;
	size_t		previous_bytes = 0;

	if (!claim(file, page, 1))
		return false;
	header = page_header(file, page);
	if (header.number != page || header.flags != (levels > 1 ? BRANCH : LEAF) ||
		header.lower < sizeof(header) || header.lower % 2 != 0 ||
		header.upper < header.lower || header.upper > file->page_bytes)
		return problem(file, "a page's header is wrong");
	count = (header.lower - sizeof(header)) / 2;
	if (count < (levels > 1 ? 2 : 1))
		return problem(file, "a page has too few entries");

	/* side by side, from upper to the page's end */
	memcpy(offsets, bytes + sizeof(header), count * 2);
	qsort(offsets, count, 2, compare_offsets);
	end = header.upper;
	for (uint32_t i = 0; i < count; i++)
	{
		EntryHeader entry;
		uint64_t	size;

		if (offsets[i] != end || end + sizeof(entry) > file->page_bytes)
			return problem(file, "a page's entries do not fill it");
		memcpy(&entry, bytes + end, sizeof(entry));
		if (entry.key_bytes > MAX_KEY_BYTES)
			return problem(file, "a key is too long");
		size = sizeof(entry) + entry.key_bytes;
		if (levels == 1)
			size += entry.flags & BIG_DATA ? sizeof(uint64_t) :
				entry.low | (uint32_t) entry.high << 16;
		size += size % 2;
		if (size > file->page_bytes - end)
			return problem(file, "a page's entries do not fit into it");
		end += size;
	}
	if (end != file->page_bytes)
		return problem(file, "a page's entries do not fill it");

	for (uint32_t i = 0; i < count; i++)
	{
		EntryHeader entry;
		uint16_t	offset;
		const uint8_t *key;

		memcpy(&offset, bytes + sizeof(header) + 2 * i, 2);
		memcpy(&entry, bytes + offset, sizeof(entry));
		key = bytes + offset + sizeof(entry);
		if (i > (levels > 1) && compare_keys(previous_key, previous_bytes, key, entry.key_bytes,
											 is_free_list) >= 0)
			return problem(file, "keys are not sorted");
		previous_key = key;
		previous_bytes = entry.key_bytes;

		if (levels > 1)
		{
			uint64_t	child = entry.low | (uint64_t) entry.high << 16 |
				(uint64_t) entry.flags << 32;

			if (!check_page(file, child, levels - 1, is_free_list, may_nest))
				return false;
		}
		else if (!check_value(file, &entry, key, key + entry.key_bytes, is_free_list, may_nest))
			return false;
	}
	return true;
}

static bool
check_tree(File *file, const Tree *tree, bool is_free_list, bool may_nest)
{
	if (tree->root == NO_PAGE)
		return tree->depth == 0 || problem(file, "a tree has no root");
	if (tree->depth < 1 || tree->depth > MAX_DEPTH)
		return problem(file, "a tree is too deep");
	return check_page(file, tree->root, tree->depth, is_free_list, may_nest);
}

static bool
read_meta(File *file, int number, Meta *meta)
{
	memcpy(meta, file->bytes + (size_t) number * file->page_bytes, sizeof(*meta));
	return meta->header.number == number && (meta->header.flags & META) &&
		meta->magic == MAGIC && meta->version == DATA_VERSION &&
		meta->trees[0].pad == file->page_bytes;
}

static bool
check_file(File *file, size_t bytes)
{
	Meta		metas[META_PAGES];

	/* the page size is in the first one */
	if (bytes < sizeof(Meta))
		return problem(file, "the file is too short");
	memcpy(&metas[0], file->bytes, sizeof(Meta));
	file->page_bytes = metas[0].trees[0].pad;
	if (file->page_bytes != 4096 || bytes < META_PAGES * file->page_bytes)
		return problem(file, "the file has no header");
	file->pages = bytes / file->page_bytes;

	for (int i = 0; i < META_PAGES; i++)
		if (!read_meta(file, i, &metas[i]))
			return problem(file, "the file's header is wrong");
	file->meta = metas[metas[1].transaction > metas[0].transaction];
	if (file->meta.last_page >= file->pages)
		return problem(file, "the file is too short");

	file->used = calloc(file->pages, 1);
	if (file->used == NULL)
		return problem(file, "out of memory");
	return check_tree(file, &file->meta.trees[1], false, true) &&
		check_tree(file, &file->meta.trees[0], true, false);
}

/*
 * What is wrong with a store's file; NULL if LMDB may open it, as it may a file
 * that is empty or not there.  Nobody must write to it meanwhile.
 */
const char *
store_file_problem(const char *path)
{
	File		file = {0};
	struct stat status;
	void	   *map;
	int			fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return NULL;			/* opening it will tell why */
	if (fstat(fd, &status) != 0 || status.st_size == 0)
	{
		close(fd);
		return NULL;
	}
	map = mmap(NULL, status.st_size, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (map == MAP_FAILED)
		return NULL;

	file.bytes = map;
	(void) check_file(&file, status.st_size);
	free(file.used);
	munmap(map, status.st_size);
	return file.problem;
}

/*
 * Are the file's header pages those of this transaction and of the one before?
 * LMDB writes to them in turn.
 */
bool
store_file_is_at(int fd, uint64_t transaction)
{
	for (int i = 0; i < META_PAGES; i++, transaction--)
	{
		Meta		meta;
		off_t		place = (off_t) (transaction % META_PAGES) * 4096;

		if (pread(fd, &meta, sizeof(meta), place) != sizeof(meta) ||
			meta.magic != MAGIC || meta.transaction != transaction)
			return false;
	}
	return true;
}
