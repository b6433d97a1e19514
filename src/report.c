/*
 * report.c
 *	  What a run tells people: VERBOSE, the log, and the context of errors.
 *
 * Administrators read these lines, and so do their tools.  Their wording is
 * therefore the server's, including its translations; we add lines, we take
 * none away.
 */
#include "postgres.h"

#include "access/multixact.h"
#include "access/transam.h"
#include "commands/dbcommands.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"

#include "command.h"
#include "cycle.h"
#include "report.h"
#include "settings.h"

/*
 * Note clocks and counters, if there may be a report at the end.
 */
void
report_begin(VacuumRun *run)
{
	RunStart   *start = &run->start;

	start->wal = pgWalUsage;
	start->buffers = pgBufferUsage;
	start->reporting = run->verbose ||
		(server_is_autovacuum_worker() && run->params->log_min_duration >= 0);
	if (!start->reporting)
		return;

	pg_rusage_init(&start->rusage);
	start->time = GetCurrentTimestamp();
	start->read_time = pgStatBlockReadTime;
	start->write_time = pgStatBlockWriteTime;
}

/*
 * Say that the run has begun.
 */
void
report_started(VacuumRun *run)
{
	const VacuumCommandOptions *options = command_options();

	if (run->verbose)
		ereport(INFO,
				(run->pages.aggressive ?
				 errmsg("aggressively vacuuming \"%s.%s.%s\"",
						get_database_name(MyDatabaseId), run->schema_name, run->table_name) :
				 errmsg("vacuuming \"%s.%s.%s\"",
						get_database_name(MyDatabaseId), run->schema_name, run->table_name)));

	ereport(DEBUG1,
			(errmsg_internal("vacuuming table \"%s.%s.%s\" with pg_vacuum_resume",
							 get_database_name(MyDatabaseId), run->schema_name, run->table_name)));
	if (options->given)
		ereport(DEBUG2,
				(errmsg_internal("vacuum options: resume %s, max_duration %d ms",
								 resume_option_name(options->resume), options->max_duration)));
}

/*
 * Say what is done about the record of an interrupted vacuum, and why.
 */
void
report_decision(VacuumRun *run, const CycleRecord *record)
{
	const DecisionInput *input = &run->facts;
	const Decision *decision = &run->decision;

	if (!setting_log_decisions)
		return;
	ereport(LOG,
			(errmsg("interrupted vacuum of table \"%s.%s\" at block %u of %u: %s, because %s",
					run->schema_name, run->table_name, record->next_block, run->rel_blocks,
					vacuum_plan_name(decision->plan), decide_reason_text(decision->reason)),
			 errdetail("Vacuumable pages: %.0f ahead, with about %.0f dead rows, and %.0f behind, with about %.0f; %lld dead row pointers are pending.",
					   (double) input->ahead, decision->tail_dead, (double) input->behind,
					   decision->head_dead, (long long) input->pending_tids)));
}

/* How far the vacuum of a record has come. */
static const char *
where_it_is(const CycleRecord *record)
{
	long long	pending = cycle_pending_tids(record);

	if (record->phase == CYCLE_VACUUMING_INDEXES)
		return psprintf("%u of %u blocks are scanned, %u of %u indexes are done with %lld dead row pointers.",
						record->next_block, record->rel_blocks, record->indexes_done,
						record->indexes, pending);
	if (record->phase == CYCLE_REAPING)
		return psprintf("%u of %u blocks are scanned, all indexes are done, %lld dead row pointers are still to be removed from the table.",
						record->next_block, record->rel_blocks, pending);
	return psprintf("%u of %u blocks are scanned, %lld dead row pointers are pending.",
					record->next_block, record->rel_blocks, pending);
}

/*
 * Say in the log that the run was interrupted, and what is kept of it; whoever gave the
 * command gets the error that did it.
 */
void
report_interrupted(VacuumRun *run)
{
	ereport(LOG,
			(errmsg("kept the progress of the interrupted vacuum of table \"%s.%s\"",
					run->schema_name, run->table_name),
			 errdetail_internal("%s", where_it_is(&run->cycle.record))));
}

/*
 * Say that the run has stopped because its time is over.
 */
void
report_out_of_time(VacuumRun *run)
{
	const CycleRecord *record = &run->cycle.record;
	int			elevel = server_is_autovacuum_worker() ? LOG : NOTICE;

	run->out_of_time = true;
	if (!run->cycle.recorded)
	{
		bool		temporary = run->rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP;

		ereport(elevel,
				(errmsg("vacuum of table \"%s.%s\" stopped after its maximum duration",
						run->schema_name, run->table_name),
				 temporary ?
				 errdetail("Progress is not kept for temporary tables; the next VACUUM starts over.") :
				 errdetail("Its progress could not be kept; the next VACUUM starts over.")));
		return;
	}
	ereport(elevel,
			(errmsg("vacuum of table \"%s.%s\" stopped after its maximum duration",
					run->schema_name, run->table_name),
			 errdetail_internal("%s", where_it_is(record)),
			 errhint("The next VACUUM of the table goes on from there.")));
}

/* Share of the table in percent; an empty one counts as covered. */
static double
percent_of_table(VacuumRun *run, BlockNumber pages)
{
	if (run->rel_blocks_at_start == 0)
		return 100.0;
	return 100.0 * pages / run->rel_blocks_at_start;
}

static void
append_title(VacuumRun *run, StringInfo text)
{
	const char *format;

	/* VERBOSE has said at the start whether the run is an aggressive one */
	if (run->verbose)
		format = _("finished vacuuming \"%s.%s.%s\": index scans: %d\n");
	else if (run->params->is_wraparound)
		format = run->pages.aggressive ?
			_("automatic aggressive vacuum to prevent wraparound of table \"%s.%s.%s\": index scans: %d\n") :
			_("automatic vacuum to prevent wraparound of table \"%s.%s.%s\": index scans: %d\n");
	else
		format = run->pages.aggressive ?
			_("automatic aggressive vacuum of table \"%s.%s.%s\": index scans: %d\n") :
			_("automatic vacuum of table \"%s.%s.%s\": index scans: %d\n");

	appendStringInfo(text, format, get_database_name(MyDatabaseId), run->schema_name, run->table_name,
					 run->done.index_passes);
}

static void
append_pages_and_tuples(VacuumRun *run, StringInfo text)
{
	const RunCounters *done = &run->done;

	appendStringInfo(text, _("pages: %u removed, %u remain, %u scanned (%.2f%% of total)\n"),
					 done->removed_pages, run->new_rel_blocks, done->scanned_pages,
					 percent_of_table(run, done->scanned_pages));
	appendStringInfo(text, _("tuples: %lld removed, %lld remain, %lld are dead but not yet removable\n"),
					 (long long) done->tuples_deleted, (long long) run->new_rel_tuples,
					 (long long) done->recently_dead_tuples);
	if (done->missed_dead_tuples > 0)
		appendStringInfo(text, _("tuples missed: %lld dead from %u pages not removed due to cleanup lock contention\n"),
						 (long long) done->missed_dead_tuples, done->missed_dead_pages);
}

static void
append_cutoffs(VacuumRun *run, StringInfo text)
{
	const Cutoffs *cutoffs = &run->pages.cutoffs;

	appendStringInfo(text, _("removable cutoff: %u, which was %d XIDs old when operation ended\n"),
					 cutoffs->oldest_xmin,
					 (int32) (ReadNextTransactionId() - cutoffs->oldest_xmin));
	if (run->frozenxid_updated)
		appendStringInfo(text, _("new relfrozenxid: %u, which is %d XIDs ahead of previous value\n"),
						 run->new_frozen.xid,
						 (int32) (run->new_frozen.xid - cutoffs->relfrozenxid));
	if (run->minmulti_updated)
		appendStringInfo(text, _("new relminmxid: %u, which is %d MXIDs ahead of previous value\n"),
						 run->new_frozen.mxid,
						 (int32) (run->new_frozen.mxid - cutoffs->relminmxid));
}

/* What became of dead line pointers; format is the server's. */
static void
append_dead_items(VacuumRun *run, StringInfo text, const char *what, const char *format,
				  BlockNumber pages, int64 items)
{
	/* a wrap may come to a page once more */
	pages = Min(pages, run->rel_blocks_at_start);
	appendStringInfoString(text, what);
	appendStringInfo(text, format, pages, percent_of_table(run, pages), (long long) items);
}

/*
 * Two lines on dead line pointers where the server has one, if the run has removed some
 * before it turned out that others stay.
 */
static void
append_indexes(VacuumRun *run, StringInfo text)
{
	const RunCounters *done = &run->done;
	const char *removed = _("%u pages from table (%.2f%% of total) had %lld dead item identifiers removed\n");
	const char *left = _("%u pages from table (%.2f%% of total) have %lld dead item identifiers\n");
	const char *bypassed = run->failsafe ?
		_("index scan bypassed by failsafe: ") : _("index scan bypassed: ");

	/* a run that was stopped may not have got to all that were collected */
	if (run->nindexes == 0)
		append_dead_items(run, text, run->vacuum_indexes ? _("index scan not needed: ") : bypassed,
						  run->vacuum_indexes ? removed : left,
						  done->dead_item_pages, done->reaped_tids);
	else
	{
		if (run->vacuum_indexes || done->reaped_tids > 0)
			append_dead_items(run, text, done->index_passes > 0 ? _("index scan needed: ") :
							  done->reaped_tids > 0 ? "index scan done by an earlier run: " :
							  _("index scan not needed: "),
							  removed, done->reaped_pages, done->reaped_tids);
		if (!run->vacuum_indexes)
			append_dead_items(run, text, bypassed, left,
							  done->left_pages + run->cycle.set_pages,
							  done->left_items + run->dead.count);
	}

	for (int i = 0; i < run->nindexes; i++)
	{
		const IndexBulkDeleteResult *result = run->index_results[i];

		if (result != NULL)
			appendStringInfo(text, _("index \"%s\": pages: %u in total, %u newly deleted, %u currently deleted, %u reusable\n"),
							 run->index_names[i], result->num_pages,
							 result->pages_newly_deleted, result->pages_deleted,
							 result->pages_free);
	}
}

/* Where the run stopped, and what all runs of the cycle did together. */
static void
append_cycle(VacuumRun *run, StringInfo text)
{
	const CycleRecord *base = &run->cycle.base;
	CycleCounters sum = cycle_counters(run);

	if (run->out_of_time)
		appendStringInfo(text, "stopped after its maximum duration at block %u of %u, %lld dead item identifiers are pending\n",
						 run->cycle.record.next_block, run->cycle.record.rel_blocks,
						 (long long) cycle_pending_tids(&run->cycle.record));
	if (run->decided)
		appendStringInfo(text, "decision: %s from block %u of %u, %.0f vacuumable pages ahead, %.0f behind, because %s\n",
						 vacuum_plan_name(run->decision.plan), run->first_block, run->rel_blocks_at_start,
						 (double) run->facts.ahead, (double) run->facts.behind,
						 decide_reason_text(run->decision.reason));
	if (!run->cycle.resumed)
		return;
	appendStringInfo(text, "cycle: run %u, continued at block %u of %u with %lld dead item identifiers pending, %u pages re-read to verify them\n",
					 base->runs + 1, run->first_block, run->rel_blocks_at_start,
					 (long long) cycle_pending_tids(base), run->done.verified_pages);
	if (run->cycle.unsafe_tids > 0)
		appendStringInfo(text, "cycle: %lld of these are collected again, because they may have been removed already\n",
						 (long long) run->cycle.unsafe_tids);
	appendStringInfo(text, "cycle so far: %lld pages scanned, %lld scanned again, %lld tuples removed, %lld dead item identifiers found, %lld indexes scanned\n",
					 (long long) sum.scanned_pages, (long long) sum.rescanned_pages,
					 (long long) sum.tuples_deleted, (long long) sum.dead_items,
					 (long long) sum.index_scans);
}

static void
append_resources(VacuumRun *run, StringInfo text, TimestampTz end)
{
	const RunStart *start = &run->start;
	const double megabytes_per_block = (double) BLCKSZ / (1024 * 1024);
	double		seconds = (double) (end - start->time) / USECS_PER_SEC;
	WalUsage	wal = {0};
	BufferUsage buffers = {0};
	int64		hits,
				reads,
				dirtied;

	WalUsageAccumDiff(&wal, &pgWalUsage, &start->wal);
	BufferUsageAccumDiff(&buffers, &pgBufferUsage, &start->buffers);
	hits = buffers.shared_blks_hit + buffers.local_blks_hit;
	reads = buffers.shared_blks_read + buffers.local_blks_read;
	dirtied = buffers.shared_blks_dirtied + buffers.local_blks_dirtied;

	if (track_io_timing)
		appendStringInfo(text, _("I/O timings: read: %.3f ms, write: %.3f ms\n"),
						 (double) (pgStatBlockReadTime - start->read_time) / 1000,
						 (double) (pgStatBlockWriteTime - start->write_time) / 1000);
	appendStringInfo(text, _("avg read rate: %.3f MB/s, avg write rate: %.3f MB/s\n"),
					 seconds > 0 ? reads * megabytes_per_block / seconds : 0,
					 seconds > 0 ? dirtied * megabytes_per_block / seconds : 0);
	appendStringInfo(text, _("buffer usage: %lld hits, %lld misses, %lld dirtied\n"),
					 (long long) hits, (long long) reads, (long long) dirtied);
	appendStringInfo(text, _("WAL usage: %lld records, %lld full page images, %llu bytes\n"),
					 (long long) wal.wal_records, (long long) wal.wal_fpi,
					 (unsigned long long) wal.wal_bytes);
	appendStringInfo(text, _("system usage: %s"), pg_rusage_show(&start->rusage));
}

/*
 * Tell what the run did: VERBOSE always, an autovacuum that took long enough in
 * the log.
 */
void
report_finished(VacuumRun *run)
{
	TimestampTz end;
	StringInfoData text;

	if (!run->start.reporting)
		return;

	end = GetCurrentTimestamp();
	if (!run->verbose && run->params->log_min_duration > 0 &&
		!TimestampDifferenceExceeds(run->start.time, end, run->params->log_min_duration))
		return;

	initStringInfo(&text);
	append_title(run, &text);
	append_pages_and_tuples(run, &text);
	append_cutoffs(run, &text);
	append_indexes(run, &text);
	append_cycle(run, &text);
	append_resources(run, &text, end);

	ereport(run->verbose ? INFO : LOG,
			(errmsg_internal("%s", text.data)));
	pfree(text.data);
}

/* Context line for a phase that works on one block, or the whole table. */
static void
heap_context(VacuumRun *run, const char *with_offset, const char *with_block,
			 const char *with_table)
{
	const RunPosition *position = &run->position;

	if (!BlockNumberIsValid(position->block))
		errcontext(with_table, run->schema_name, run->table_name);
	else if (!OffsetNumberIsValid(position->offset))
		errcontext(with_block, position->block, run->schema_name, run->table_name);
	else
		errcontext(with_offset, position->block, position->offset,
				   run->schema_name, run->table_name);
}

/*
 * Error context callback: says where the run is.  Only reads the run's own
 * copies, so that it is safe in any state of the transaction.
 */
void
report_error_context(void *arg)
{
	VacuumRun  *run = arg;

	switch (run->position.phase)
	{
		case RUN_STARTING:
			break;
		case RUN_SCANNING:
			heap_context(run,
						 "while scanning block %u offset %u of relation \"%s.%s\"",
						 "while scanning block %u of relation \"%s.%s\"",
						 "while scanning relation \"%s.%s\"");
			break;
		case RUN_REAPING:
			heap_context(run,
						 "while vacuuming block %u offset %u of relation \"%s.%s\"",
						 "while vacuuming block %u of relation \"%s.%s\"",
						 "while vacuuming relation \"%s.%s\"");
			break;
		case RUN_VACUUMING_INDEX:
			errcontext("while vacuuming index \"%s\" of relation \"%s.%s\"",
					   run->position.index_name, run->schema_name, run->table_name);
			break;
		case RUN_CLEANING_UP_INDEX:
			errcontext("while cleaning up index \"%s\" of relation \"%s.%s\"",
					   run->position.index_name, run->schema_name, run->table_name);
			break;
		case RUN_TRUNCATING:
			if (BlockNumberIsValid(run->position.block))
				errcontext("while truncating relation \"%s.%s\" to %u blocks",
						   run->schema_name, run->table_name, run->position.block);
			break;
	}
}
