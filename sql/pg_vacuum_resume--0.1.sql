/* sql/pg_vacuum_resume--0.1.sql */

\echo Use "CREATE EXTENSION pg_vacuum_resume" to load this file. \quit

-- made here rather than by the control file, so that it goes with the extension
CREATE SCHEMA vacuum_resume;

-- The version of the library that this server runs, which after an upgrade can
-- differ from the version of these SQL objects until the server is restarted.
CREATE FUNCTION vacuum_resume.version() RETURNS text
AS 'MODULE_PATHNAME', 'pgvr_version'
LANGUAGE C STABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION vacuum_resume.version() IS 'version of the loaded pg_vacuum_resume library';

-- One row for each cycle that is not finished, of all databases; pages_ahead and
-- pages_behind are counted now, for tables of this database that are not locked.
CREATE FUNCTION vacuum_resume.cycles(
	OUT database oid,
	OUT relid oid,
	OUT schema_name text,
	OUT table_name text,
	OUT phase text,
	OUT next_block bigint,
	OUT rel_blocks bigint,
	OUT pages_ahead bigint,
	OUT pages_behind bigint,
	OUT pending_dead_tuples bigint,
	OUT vacuumed_below_block bigint,
	OUT indexes_done integer,
	OUT indexes integer,
	OUT pages_scanned bigint,
	OUT pages_scanned_again bigint,
	OUT pages_verified bigint,
	OUT index_scans bigint,
	OUT tuples_removed bigint,
	OUT runs integer,
	OUT interruptions integer,
	OUT last_stop text,
	OUT cycle_started timestamptz,
	OUT last_saved timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgvr_cycles'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

REVOKE EXECUTE ON FUNCTION vacuum_resume.cycles() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION vacuum_resume.cycles() TO pg_monitor;

-- last_stop is null while a run is under way, and also after one was killed; the
-- server's own progress view tells which.
CREATE VIEW vacuum_resume.progress AS
SELECT d.datname AS database,
	CASE WHEN c.database = 0 OR d.datname = current_database()
		THEN c.relid::regclass::text
		ELSE format('%I.%I', c.schema_name, c.table_name) END AS relation,
	c.relid,
	c.phase,
	c.next_block,
	c.rel_blocks,
	round(100.0 * c.next_block / nullif(c.rel_blocks, 0), 2) AS percent,
	c.pages_ahead,
	c.pages_behind,
	c.pending_dead_tuples,
	c.vacuumed_below_block,
	c.indexes_done,
	c.indexes,
	c.pages_scanned,
	c.pages_scanned_again,
	c.pages_verified,
	c.index_scans,
	c.tuples_removed,
	c.runs,
	c.interruptions,
	coalesce(c.last_stop,
		CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_stat_progress_vacuum p
				WHERE p.relid = c.relid AND (c.database = 0 OR p.datid = c.database))
			THEN 'running' ELSE 'killed' END) AS last_stop,
	c.cycle_started,
	c.last_saved
FROM vacuum_resume.cycles() c
	LEFT JOIN pg_catalog.pg_database d ON d.oid = c.database;

GRANT SELECT ON vacuum_resume.progress TO pg_monitor;

COMMENT ON VIEW vacuum_resume.progress IS 'vacuums that were interrupted, or have been saved and are under way';

-- One row for each vacuum that is over, of all databases, newest first, as far as
-- vacuum_resume.history_size goes. Estimates are null if none were made.
CREATE FUNCTION vacuum_resume.runs(
	OUT run bigint,
	OUT database oid,
	OUT relid oid,
	OUT schema_name text,
	OUT table_name text,
	OUT started timestamptz,
	OUT ended timestamptz,
	OUT plan text,
	OUT reason text,
	OUT outcome text,
	OUT autovacuum boolean,
	OUT aggressive boolean,
	OUT from_block bigint,
	OUT to_block bigint,
	OUT rel_blocks bigint,
	OUT pages_scanned bigint,
	OUT pages_scanned_again bigint,
	OUT pages_skipped bigint,
	OUT pages_verified bigint,
	OUT pages_vacuumed bigint,
	OUT index_pages bigint,
	OUT index_scans bigint,
	OUT tuples_removed bigint,
	OUT row_pointers_removed bigint,
	OUT work double precision,
	OUT relfrozenxid_before xid8,
	OUT relfrozenxid_after xid8,
	OUT pages_ahead double precision,
	OUT pages_behind double precision,
	OUT dead_rows_ahead double precision,
	OUT dead_rows_behind double precision,
	OUT expected_work double precision,
	OUT restart_work double precision,
	OUT restart_dead_rows double precision,
	OUT resume_work double precision,
	OUT resume_dead_rows double precision,
	OUT wrap_work double precision,
	OUT wrap_dead_rows double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgvr_runs'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

REVOKE EXECUTE ON FUNCTION vacuum_resume.runs() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION vacuum_resume.runs() TO pg_monitor;

-- A table is shown under the name that it has now, or the last one if it is gone.
CREATE VIEW vacuum_resume.history AS
SELECT r.run,
	coalesce(d.datname::text, nullif(r.database, 0)::text) AS database,
	coalesce(c.oid::regclass::text, format('%I.%I', r.schema_name, r.table_name)) AS relation,
	r.relid,
	r.started,
	r.ended,
	r.ended - r.started AS duration,
	r.plan,
	r.reason,
	r.outcome,
	r.autovacuum,
	r.aggressive,
	r.from_block,
	r.to_block,
	r.rel_blocks,
	r.pages_scanned,
	r.pages_scanned_again,
	r.pages_skipped,
	r.pages_verified,
	r.pages_vacuumed,
	r.index_pages,
	r.index_scans,
	r.tuples_removed,
	r.row_pointers_removed,
	r.work,
	r.relfrozenxid_before,
	r.relfrozenxid_after,
	r.pages_ahead,
	r.pages_behind,
	r.dead_rows_ahead,
	r.dead_rows_behind,
	r.expected_work,
	r.restart_work,
	r.restart_dead_rows,
	r.resume_work,
	r.resume_dead_rows,
	r.wrap_work,
	r.wrap_dead_rows
FROM vacuum_resume.runs() r
	LEFT JOIN pg_catalog.pg_database d ON d.oid = r.database
	LEFT JOIN pg_catalog.pg_class c ON c.oid = r.relid
		AND (r.database = 0 OR d.datname = current_database());

GRANT SELECT ON vacuum_resume.history TO pg_monitor;

COMMENT ON VIEW vacuum_resume.history IS 'vacuums that are over, and how they ended';

-- What the next vacuum of the table would do: one row for each plan.  by: who that
-- is, 'autovacuum', 'VACUUM' or 'VACUUM (RESUME)'.  Work is counted in pages of a first
-- heap pass; dead_rows_expected is what a run removes that lasts as long as earlier ones
-- did before they were stopped.
CREATE FUNCTION vacuum_resume.decide(
	relation regclass,
	by text DEFAULT 'autovacuum',
	OUT plan text,
	OUT chosen boolean,
	OUT possible boolean,
	OUT reason text,
	OUT from_block bigint,
	OUT heap_pages double precision,
	OUT pages_verified double precision,
	OUT pages_vacuumed double precision,
	OUT index_pages double precision,
	OUT index_passes integer,
	OUT work double precision,
	OUT dead_rows_removed double precision,
	OUT dead_rows_expected double precision,
	OUT pages_ahead bigint,
	OUT pages_behind bigint,
	OUT dead_rows_ahead double precision,
	OUT dead_rows_behind double precision,
	OUT expected_work double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgvr_decide'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED
ROWS 3;

REVOKE EXECUTE ON FUNCTION vacuum_resume.decide(regclass, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION vacuum_resume.decide(regclass, text) TO pg_monitor;

COMMENT ON FUNCTION vacuum_resume.decide(regclass, text) IS 'what the next vacuum of a table would do, and why';

-- Makes the next vacuum of the table start over; true if there was something to forget.
CREATE FUNCTION vacuum_resume.forget(relation regclass) RETURNS boolean
AS 'MODULE_PATHNAME', 'pgvr_forget'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION vacuum_resume.forget(regclass) IS 'forget the saved progress of a table''s vacuum';
GRANT USAGE ON SCHEMA vacuum_resume TO PUBLIC;
