/*
 * functions.c
 *	  The SQL functions of schema vacuum_resume.
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/builtins.h"

#include "attach.h"
#include "version.h"

/* PGDLLEXPORT is empty before server 16; everything else of ours is hidden. */
#pragma GCC visibility push(default)
PG_FUNCTION_INFO_V1(pgvr_version);
#pragma GCC visibility pop

/*
 * vacuum_resume.version() returns text
 *
 * Errors out when the library is in this session only: then no vacuum goes
 * through it, and a version number would suggest otherwise.
 */
Datum
pgvr_version(PG_FUNCTION_ARGS)
{
	require_preloaded();
	PG_RETURN_TEXT_P(cstring_to_text(PGVR_VERSION));
}
