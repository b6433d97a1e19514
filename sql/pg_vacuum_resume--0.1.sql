/* sql/pg_vacuum_resume--0.1.sql */

\echo Use "CREATE EXTENSION pg_vacuum_resume" to load this file. \quit

-- made here rather than by the control file, so that it goes with the extension
CREATE SCHEMA vacuum_resume;
GRANT USAGE ON SCHEMA vacuum_resume TO pg_monitor;

-- The version of the library that this server runs, which after an upgrade can
-- differ from the version of these SQL objects until the server is restarted.
CREATE FUNCTION vacuum_resume.version() RETURNS text
AS 'MODULE_PATHNAME', 'pgvr_version'
LANGUAGE C STABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION vacuum_resume.version() IS 'version of the loaded pg_vacuum_resume library';
