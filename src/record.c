/*
 * record.c
 *	  What the store holds: sealing, checking, packing.
 *
 * Needs of the server's code no more than its CRC-32C, so that the extension,
 * the tool and unit tests share it.  Nothing here allocates or throws.
 */
#ifdef FRONTEND
#include "postgres_fe.h"
#else
#include "postgres.h"
#endif

#include "port/pg_crc32c.h"

#include "record.h"

StaticAssertDecl(sizeof(RecordHeader) == 8, "record header has no padding");
StaticAssertDecl(sizeof(CycleRecord) % 8 == 0, "cycle record has no padding at its end");
StaticAssertDecl(offsetof(CycleRecord, carry_xid) % 8 == 0, "cycle record has no padding inside");
StaticAssertDecl(sizeof(RunDecision) % 8 == 0 && offsetof(RunRecord, decision) % 8 == 0 &&
				 offsetof(RunRecord, scanned_pages) == 64 &&
				 sizeof(RunRecord) == offsetof(RunRecord, table_name) + 64,
				 "a run's record has no padding");
StaticAssertDecl(offsetof(CycleRecord, run) % 8 == 0, "cycle record has no padding before its run");
StaticAssertDecl(sizeof(ChunkRecord) == 24, "chunk record has no padding");
StaticAssertDecl(sizeof(DeadTid) == 6, "dead TIDs are packed");

static uint32_t
record_crc(const void *record, size_t bytes)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, (const char *) record + sizeof(uint32_t), bytes - sizeof(uint32_t));
	FIN_CRC32C(crc);
	return crc;
}

/*
 * Complete a value that begins with a RecordHeader; bytes is its whole length.
 */
void
record_seal(void *record, size_t bytes, RecordKind kind)
{
	RecordHeader *header = record;

	header->format = RECORD_FORMAT;
	header->kind = kind;
	header->crc = record_crc(record, bytes);
}

/*
 * Is this a value of the kind, at least so long, of our format, undamaged?  The
 * value need not be aligned.
 */
bool
record_is_sound(const void *record, size_t bytes, RecordKind kind, size_t least_bytes)
{
	RecordHeader header;

	if (bytes < least_bytes)
		return false;
	memcpy(&header, record, sizeof(header));
	return header.format == RECORD_FORMAT && header.kind == kind &&
		header.crc == record_crc(record, bytes);
}

static void
put_big_endian(uint32_t number, uint8_t *bytes)
{
	for (int i = 0; i < 4; i++)
		bytes[i] = number >> (24 - 8 * i);
}

/* Key of a table; bytes has room for TABLE_KEY_BYTES. */
void
table_key_encode(const TableKey *key, uint8_t *bytes)
{
	put_big_endian(key->database, bytes);
	put_big_endian(key->relation, bytes + 4);
}

static uint32_t
get_big_endian(const uint8_t *bytes)
{
	return (uint32_t) bytes[0] << 24 | (uint32_t) bytes[1] << 16 | (uint32_t) bytes[2] << 8 | bytes[3];
}

/* The table that a key of TABLE_KEY_BYTES or more is of. */
TableKey
table_key_decode(const uint8_t *bytes)
{
	return (TableKey) {.database = get_big_endian(bytes), .relation = get_big_endian(bytes + 4)};
}

/* Key of one of a table's chunks or indexes; bytes has room for SUB_KEY_BYTES. */
void
sub_key_encode(const TableKey *key, uint32_t number, uint8_t *bytes)
{
	table_key_encode(key, bytes);
	put_big_endian(number, bytes + TABLE_KEY_BYTES);
}

/* Key of a run; bytes has room for RUN_KEY_BYTES. */
void
run_key_encode(uint64_t number, uint8_t *bytes)
{
	put_big_endian((uint32_t) (number >> 32), bytes);
	put_big_endian((uint32_t) number, bytes + 4);
}

/* The number of a run from its key. */
uint64_t
run_key_decode(const uint8_t *bytes)
{
	uint64_t	number = 0;

	for (int i = 0; i < RUN_KEY_BYTES; i++)
		number = number << 8 | bytes[i];
	return number;
}

/* Room that a chunk of so many TIDs can need: each on a page of its own. */
size_t
chunk_max_bytes(int64_t tids)
{
	return sizeof(ChunkRecord) + tids * 4 * sizeof(uint16_t);
}

/*
 * Pack TIDs, those of a page side by side, into a chunk with room for
 * chunk_max_bytes().  set_number and number are the caller's to fill in.
 * Returns the chunk's length in bytes.
 */
size_t
chunk_encode(ChunkRecord *chunk, const DeadTid *tids, int64_t ntids)
{
	uint16_t   *out = (uint16_t *) (chunk + 1);

	chunk->tids = (uint32_t) ntids;
	for (int64_t i = 0; i < ntids;)
	{
		uint16_t   *count;
		const DeadTid *page = &tids[i];

		*out++ = page->block_low;
		*out++ = page->block_high;
		count = out++;
		*count = 0;
		while (i < ntids && tids[i].block_low == page->block_low &&
			   tids[i].block_high == page->block_high)
		{
			*out++ = tids[i++].offset;
			(*count)++;
		}
	}
	return (char *) out - (char *) chunk;
}

/*
 * Unpack a chunk, whose CRC has been checked, into room for so many TIDs.
 * Returns how many there are, -1 if the chunk contradicts itself.
 */
int64_t
chunk_decode(const ChunkRecord *chunk, size_t bytes, DeadTid *tids, int64_t room)
{
	const uint16_t *in = (const uint16_t *) (chunk + 1);
	size_t		left = (bytes - sizeof(ChunkRecord)) / sizeof(uint16_t);
	int64_t		ntids = 0;

	while (left > 3)
	{
		uint16_t	count = in[2];

		if (count == 0 || count > left - 3 || count > room - ntids)
			return -1;
		for (uint16_t i = 0; i < count; i++)
			tids[ntids++] = (DeadTid) {.block_low = in[0], .block_high = in[1], .offset = in[3 + i]};
		in += 3 + count;
		left -= 3 + count;
	}
	return left == 0 && ntids == chunk->tids ? ntids : -1;
}

/* Names of phases and stops, as people read them. */
const char *
cycle_phase_name(uint32_t phase)
{
	switch ((CyclePhase) phase)
	{
		case CYCLE_SCANNING:
			return "scanning heap";
		case CYCLE_VACUUMING_INDEXES:
			return "vacuuming indexes";
		case CYCLE_REAPING:
			return "vacuuming heap";
		case CYCLE_FINISHING:
			return "finishing";
	}
	return "unknown";
}

/* NULL for a run that has not stopped, or was killed. */
const char *
cycle_stop_name(uint32_t stop)
{
	switch ((CycleStop) stop)
	{
		case CYCLE_RUNNING:
			return NULL;
		case CYCLE_CANCELLED:
			return "cancelled";
		case CYCLE_TERMINATED:
			return "terminated";
		case CYCLE_FAILED:
			return "failed";
		case CYCLE_OUT_OF_TIME:
			return "max_duration";
		case CYCLE_FINISHED:
			return "finished";
	}
	return "unknown";
}

/* How a run of history ended: one that never said so was killed. */
const char *
run_end_name(uint32_t stop)
{
	return stop == CYCLE_RUNNING ? "killed" : cycle_stop_name(stop);
}
