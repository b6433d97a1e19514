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

-- Makes the next vacuum of the table start over; true if there was something to forget.
CREATE FUNCTION vacuum_resume.forget(relation regclass) RETURNS boolean
AS 'MODULE_PATHNAME', 'pgvr_forget'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION vacuum_resume.forget(regclass) IS 'forget the saved progress of a table''s vacuum';
GRANT USAGE ON SCHEMA vacuum_resume TO PUBLIC;
