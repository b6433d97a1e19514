/*
 * command.c
 *	  Our options of the VACUUM command.
 *
 * VACUUM's grammar takes any option name; ExecVacuum() then refuses those that
 * it does not know.  So a ProcessUtility hook takes ours out of the list before
 * the server sees it and keeps them for as long as that one statement runs.
 */
#include "postgres.h"

#include "commands/defrem.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "parser/parse_node.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/formatting.h"
#include "utils/guc.h"

#include "attach.h"
#include "command.h"

static const VacuumCommandOptions no_options = {.resume = RESUME_OPTION_AUTO};

static VacuumCommandOptions current_options;
static ProcessUtility_hook_type previous_hook = NULL;

const VacuumCommandOptions *
command_options(void)
{
	return &current_options;
}

const char *
resume_option_name(ResumeOption resume)
{
	switch (resume)
	{
		case RESUME_OPTION_AUTO:
			return "auto";
		case RESUME_OPTION_ON:
			return "on";
		case RESUME_OPTION_OFF:
			return "off";
	}
	pg_unreachable();
}

/* RESUME [ auto | boolean ] */
static ResumeOption
parse_resume(DefElem *option, ParseState *pstate)
{
	char	   *value;
	bool		on;

	if (option->arg == NULL)
		return RESUME_OPTION_ON;

	value = defGetString(option);
	if (pg_strcasecmp(value, "auto") == 0)
		return RESUME_OPTION_AUTO;
	if (parse_bool(value, &on))
		return on ? RESUME_OPTION_ON : RESUME_OPTION_OFF;

	ereport(ERROR,
			(errcode(ERRCODE_SYNTAX_ERROR),
			 errmsg("unrecognized value for VACUUM option \"%s\": \"%s\"",
					option->defname, value),
			 errhint("Available values: auto, on, off."),
			 parser_errposition(pstate, option->location)));
}

/* MAX_DURATION time; a bare number is in milliseconds, as in the server's timeouts */
static int
parse_max_duration(DefElem *option, ParseState *pstate)
{
	const char *hint = NULL;
	char	   *value;
	int			duration;

	if (option->arg == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("VACUUM option \"%s\" requires a value", option->defname),
				 errhint("Give a duration such as '30min', or 0 for no limit."),
				 parser_errposition(pstate, option->location)));

	value = defGetString(option);
	if (!parse_int(value, &duration, GUC_UNIT_MS, &hint) || duration < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for VACUUM option \"%s\": \"%s\"",
						option->defname, value),
				 hint ? errhint("%s", _(hint)) :
				 errhint("Give a duration such as '30min', or 0 for no limit."),
				 parser_errposition(pstate, option->location)));

	return duration;
}

/* Our options have no meaning for a table that is rewritten. */
static void
refuse_with_full(DefElem *option, ParseState *pstate)
{
	char	   *name = asc_toupper(option->defname, strlen(option->defname));

	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("VACUUM option %s cannot be used with FULL", name),
			 parser_errposition(pstate, option->location)));
}

/* FULL as the server will read it: the last one given counts. */
static bool
asks_for_full(List *options)
{
	bool		full = false;
	ListCell   *cell;

	foreach(cell, options)
	{
		DefElem    *option = lfirst_node(DefElem, cell);

		if (strcmp(option->defname, "full") == 0)
			full = defGetBoolean(option);
	}
	return full;
}

/*
 * Split a VACUUM's option list: ours go to *own, the rest is returned as a new
 * list.  Raises an ERROR for a value that makes no sense.  As with the
 * server's options, the last one counts if one is given twice.
 */
static List *
take_own_options(List *options, ParseState *pstate, VacuumCommandOptions *own)
{
	List	   *rest = NIL;
	DefElem    *last_own = NULL;
	ListCell   *cell;

	*own = no_options;
	foreach(cell, options)
	{
		DefElem    *option = lfirst_node(DefElem, cell);

		if (strcmp(option->defname, "resume") == 0)
		{
			own->resume = parse_resume(option, pstate);
			own->resume_given = true;
		}
		else if (strcmp(option->defname, "max_duration") == 0)
		{
			own->max_duration = parse_max_duration(option, pstate);
			own->max_duration_given = true;
		}
		else
		{
			rest = lappend(rest, option);
			continue;
		}

		last_own = option;
	}

	/* the server's own options are read only where ours are involved */
	own->given = last_own != NULL;
	if (own->given && asks_for_full(rest))
		refuse_with_full(last_own, pstate);
	return rest;
}

static void
next_hook(PlannedStmt *pstmt, const char *query_string, bool read_only_tree,
		  ProcessUtilityContext context, ParamListInfo params,
		  QueryEnvironment *query_env, DestReceiver *dest, QueryCompletion *qc)
{
	if (previous_hook)
		previous_hook(pstmt, query_string, read_only_tree, context, params, query_env, dest, qc);
	else
		standard_ProcessUtility(pstmt, query_string, read_only_tree, context, params, query_env,
								dest, qc);
}

/*
 * A VACUUM whose options are ours in part: hand a copy without them on (the
 * tree may be a cached plan's), and hold them until it is done, however it
 * ends.  A FATAL exit needs nothing: they are this process's.
 */
static void
vacuum_with_options(PlannedStmt *pstmt, List *rest, const VacuumCommandOptions *own,
					const char *query_string, ProcessUtilityContext context,
					ParamListInfo params, QueryEnvironment *query_env,
					DestReceiver *dest, QueryCompletion *qc)
{
	PlannedStmt *copy = copyObject(pstmt);
	VacuumCommandOptions outer = current_options;

	castNode(VacuumStmt, copy->utilityStmt)->options = copyObject(rest);

	current_options = *own;
	PG_TRY();
	{
		next_hook(copy, query_string, false, context, params, query_env, dest, qc);
	}
	PG_FINALLY();
	{
		current_options = outer;
	}
	PG_END_TRY();
}

static void
command_hook(PlannedStmt *pstmt, const char *query_string, bool read_only_tree,
			 ProcessUtilityContext context, ParamListInfo params,
			 QueryEnvironment *query_env, DestReceiver *dest, QueryCompletion *qc)
{
	VacuumCommandOptions own = no_options;
	List	   *rest = NIL;

	if (IsA(pstmt->utilityStmt, VacuumStmt))
	{
		VacuumStmt *stmt = castNode(VacuumStmt, pstmt->utilityStmt);

		if (stmt->is_vacuumcmd)
		{
			ParseState *pstate = make_parsestate(NULL);

			pstate->p_sourcetext = query_string;
			rest = take_own_options(stmt->options, pstate, &own);
			free_parsestate(pstate);
		}
	}

	if (!own.given)
	{
		next_hook(pstmt, query_string, read_only_tree, context, params, query_env, dest, qc);
		return;
	}

	require_preloaded();
	vacuum_with_options(pstmt, rest, &own, query_string, context, params, query_env, dest, qc);
}

/*
 * Install the hook in front of whoever is there.  Called once, from _PG_init.
 */
void
command_install(void)
{
	previous_hook = ProcessUtility_hook;
	ProcessUtility_hook = command_hook;
}
