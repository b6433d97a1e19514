/*
 * main.c
 *	  pg_vacuum_resume: looks into a data directory's store of interrupted
 *	  vacuums, whether the server is up or down.  Reads only; to forget one, it
 *	  asks the server.
 */
#include "postgres_fe.h"

#include <getopt.h>
#include <limits.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <libpq-fe.h>

#include "explain.h"
#include "forget.h"
#include "output.h"
#include "reader.h"
#include "server.h"
#include "version.h"

/* Exit status: all is well; something is wrong with the store; we were misused */
#define EXIT_PROBLEM 1
#define EXIT_MISUSE 2

/* Reading without LMDB's lock file can meet a writer; then try again. */
#define READ_ATTEMPTS 5

/* Microseconds between 1970 and 2000, where the server's timestamps begin */
#define TIMESTAMP_BASE INT64CONST(946684800)

typedef enum Command
{
	COMMAND_LIST,
	COMMAND_SHOW,
	COMMAND_EXPLAIN,
	COMMAND_HISTORY,
	COMMAND_CHECK,
	COMMAND_FORGET
} Command;

static const char *const command_names[] = {
	[COMMAND_LIST] = "list",
	[COMMAND_SHOW] = "show",
	[COMMAND_EXPLAIN] = "explain",
	[COMMAND_HISTORY] = "history",
	[COMMAND_CHECK] = "check",
	[COMMAND_FORGET] = "forget"
};

/* The command line */
typedef struct Arguments
{
	Command		command;
	const char *table;			/* NULL: all */
	OutputFormat format;
	const char *by;				/* who vacuums next */
	int			limit;
} Arguments;

typedef struct Problems
{
	int			count;
	bool		print;
} Problems;

static const char *data_directory = NULL;
static const char *only_database = NULL;	/* name or OID; NULL: all */
static bool server_down = false;	/* was it, before the store was read? */
static PGresult *databases = NULL;	/* OIDs and names, if a server tells */
static const char *no_databases = "the server does not tell";	/* if it does not: why */

static void
help(void)
{
	printf("pg_vacuum_resume shows the interrupted vacuums of a PostgreSQL data directory, and past ones.\n\n"
		   "Usage:\n"
		   "  pg_vacuum_resume list    -D DATADIR [OPTION]...\n"
		   "  pg_vacuum_resume show    -D DATADIR [OPTION]... TABLE\n"
		   "  pg_vacuum_resume explain -D DATADIR [OPTION]... TABLE\n"
		   "  pg_vacuum_resume history -D DATADIR [OPTION]... [TABLE]\n"
		   "  pg_vacuum_resume check   -D DATADIR\n"
		   "  pg_vacuum_resume forget  -D DATADIR [OPTION]... TABLE\n\n"
		   "Commands:\n"
		   "  list     one line for each vacuum that can be continued\n"
		   "  show     all that is known of one table's; TABLE is a name, schema.name or an OID\n"
		   "  explain  what the table's next vacuum would do about it, and why\n"
		   "  history  one line for each vacuum that is over, newest first, of all tables or one\n"
		   "  check    read and check everything; exit status 1 if something is wrong\n"
		   "  forget   let the server drop what is kept of one table's, so that its next vacuum starts\n"
		   "           over; exit status 1 if nothing was forgotten\n\n"
		   "Options:\n"
		   "  -D, --pgdata=DATADIR  the data directory (default: PGDATA)\n"
		   "      --database=DB     only tables of this database, a name or an OID; of a name only if a\n"
		   "                        server tells\n"
		   "      --by=KIND         explain: the next vacuum is one by autovacuum (the default), VACUUM, or\n"
		   "                        VACUUM (RESUME)\n"
		   "      --limit=N         history: no more than the last N vacuums\n"
		   "      --json            output as JSON\n"
		   "      --csv             output as CSV\n"
		   "  -V, --version         show the version, then exit\n"
		   "  -?, --help            show this help, then exit\n\n"
		   "The server may be up or down, but for forget. Nothing is written. If it is up, and you are its\n"
		   "user or set PGUSER, names of databases are shown instead of their OIDs, and explain counts\n"
		   "pages now.\n");
}

static void
misuse(const char *what, const char *which)
{
	fprintf(stderr, "pg_vacuum_resume: %s%s%s%s\n", what,
			which ? " \"" : "", which ? which : "", which ? "\"" : "");
	fprintf(stderr, "Try \"pg_vacuum_resume --help\" for more information.\n");
	exit(EXIT_MISUSE);
}

static void
note_problem(const char *problem, const TableKey *table, void *arg)
{
	Problems   *problems = arg;

	problems->count++;
	if (!problems->print)
		return;
	if (table != NULL)
		fprintf(stderr, "pg_vacuum_resume: database %u, table %u: %s\n",
				table->database, table->relation, problem);
	else
		fprintf(stderr, "pg_vacuum_resume: %s\n", problem);
}

/*
 * Ask the server for the names of its databases, if there is one and it answers.  Sets
 * *problem if not.
 */
static void
ask_for_databases(const char **problem)
{
	PGconn	   *connection = server_connect(data_directory, "postgres", problem);

	/* somebody may have dropped that one */
	if (connection == NULL)
		connection = server_connect(data_directory, "template1", NULL);
	if (connection == NULL)
		return;
	databases = PQexec(connection, "SELECT oid, datname FROM pg_catalog.pg_database");
	PQfinish(connection);
}

/* A database's name if a server tells, else its OID; shared catalogs have none. */
static const char *
database_name(uint32_t oid)
{
	static char text[16];

	if (oid == 0)
		return "(shared)";
	snprintf(text, sizeof(text), "%u", oid);
	/* what is no result, or an error, has no rows */
	for (int row = 0; row < PQntuples(databases); row++)
		if (strcmp(PQgetvalue(databases, row, 0), text) == 0)
			return PQgetvalue(databases, row, 1);
	return text;
}

/* Is this the database that was asked for, if one was? */
static bool
is_wanted(uint32_t database)
{
	char		oid[16];

	snprintf(oid, sizeof(oid), "%u", database);
	return only_database == NULL || strcmp(only_database, oid) == 0 ||
		strcmp(only_database, database_name(database)) == 0;
}

/* Misuse if there is no such database, or nobody who knows its name. */
static void
check_database(void)
{
	if (only_database == NULL || is_wanted(0) ||
		only_database[strspn(only_database, "0123456789")] == '\0')
		return;
	if (PQntuples(databases) == 0)
		misuse("no server tells the names of databases, give an OID instead of", only_database);
	for (int row = 0; row < PQntuples(databases); row++)
		if (strcmp(PQgetvalue(databases, row, 1), only_database) == 0)
			return;
	misuse("there is no database", only_database);
}

static const char *
time_text(int64_t timestamp)
{
	static char text[64];
	time_t		seconds = timestamp / 1000000 + TIMESTAMP_BASE;

	strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S %z", localtime(&seconds));
	return text;
}

static const char *
percent_text(const CycleRecord *cycle)
{
	static char text[32];

	snprintf(text, sizeof(text), "%.2f",
			 cycle->rel_blocks == 0 ? 100.0 : 100.0 * cycle->next_block / cycle->rel_blocks);
	return text;
}

/* The store does not know a running vacuum from one that was killed, unless none can run. */
static const char *
stop_text(const CycleRecord *cycle)
{
	const char *name = cycle_stop_name(cycle->stop);

	if (name != NULL)
		return name;
	return server_down ? "killed" : "running or killed";
}

/*
 * Read the store.  Reports problems only if they are there again and again: a
 * running server may have written meanwhile.
 */
static int
read_store(StoreContent *content)
{
	Problems	problems = {0};

	for (int attempt = 1; attempt <= READ_ATTEMPTS; attempt++)
	{
		problems.count = 0;
		problems.print = attempt == READ_ATTEMPTS;
		(void) reader_read(content, note_problem, &problems);
		if (problems.count == 0)
			break;
	}
	return problems.count;
}

static void
print_list(const StoreContent *content, OutputFormat format)
{
	static const char *const names[] = {"database", "schema", "table", "phase", "percent#",
		"next block#", "blocks#", "pending row pointers#", "indexes done#", "indexes#", "runs#",
	"last stop", "last saved"};
	OutputTable *table = output_table(names, lengthof(names));

	for (int i = 0; i < content->ncycles; i++)
	{
		const CycleRecord *cycle = &content->cycles[i];

		if (!is_wanted(cycle->key.database))
			continue;
		output_text(table, database_name(cycle->key.database));
		output_text(table, cycle->schema_name);
		output_text(table, cycle->table_name);
		output_text(table, cycle_phase_name(cycle->phase));
		output_text(table, percent_text(cycle));
		output_number(table, cycle->next_block);
		output_number(table, cycle->rel_blocks);
		output_number(table, cycle_pending_tids(cycle));
		output_number(table, cycle->indexes_done);
		output_number(table, cycle->indexes);
		output_number(table, cycle->runs);
		output_text(table, stop_text(cycle));
		output_text(table, time_text(cycle->last_saved));
	}
	output_print(table, format);
}

/* Is this the table that was asked for? */
static bool
is_named(const TableKey *key, const char *schema, const char *table, const char *name)
{
	char		qualified[2 * NAMEDATALEN + 2];
	char		oid[16];

	snprintf(qualified, sizeof(qualified), "%s.%s", schema, table);
	snprintf(oid, sizeof(oid), "%u", key->relation);
	return is_wanted(key->database) &&
		(strcmp(name, table) == 0 || strcmp(name, qualified) == 0 || strcmp(name, oid) == 0);
}

/* The record of a table, NULL if there is none; misuse if several tables have that name. */
static const CycleRecord *
find_table(const StoreContent *content, const char *name)
{
	const CycleRecord *found = NULL;

	for (int i = 0; i < content->ncycles; i++)
	{
		const CycleRecord *cycle = &content->cycles[i];

		if (!is_named(&cycle->key, cycle->schema_name, cycle->table_name, name))
			continue;
		if (found != NULL)
			misuse("there are several tables of this name, tell which by OID and --database:", name);
		found = cycle;
	}
	return found;
}

/* Show what is known of one table; returns false if it is nothing. */
static bool
print_table(const StoreContent *content, const char *name, OutputFormat format)
{
	static const char *const names[] = {"database", "schema", "table", "table oid#",
		"file number#", "phase", "last stop", "percent#", "next block#", "blocks#",
		"pending row pointers#", "row pointers lost", "indexes done#", "indexes#",
		"pages scanned#", "pages scanned again#", "pages verified#", "index scans#",
		"tuples removed#", "carried xid#", "carried mxid#", "skipped all-visible pages",
	"runs#", "interruptions#", "cycle started", "last saved"};
	OutputTable *table = output_table(names, lengthof(names));
	bool		found = false;

	for (int i = 0; i < content->ncycles; i++)
	{
		const CycleRecord *cycle = &content->cycles[i];
		const CycleCounters *counters = &cycle->counters;

		if (!is_named(&cycle->key, cycle->schema_name, cycle->table_name, name))
			continue;
		found = true;
		output_text(table, database_name(cycle->key.database));
		output_text(table, cycle->schema_name);
		output_text(table, cycle->table_name);
		output_number(table, cycle->key.relation);
		output_number(table, cycle->identity.file_number);
		output_text(table, cycle_phase_name(cycle->phase));
		output_text(table, stop_text(cycle));
		output_text(table, percent_text(cycle));
		output_number(table, cycle->next_block);
		output_number(table, cycle->rel_blocks);
		output_number(table, cycle_pending_tids(cycle));
		output_text(table, cycle->pending_lost ? "yes" : "no");
		output_number(table, cycle->indexes_done);
		output_number(table, cycle->indexes);
		output_number(table, counters->scanned_pages);
		output_number(table, counters->rescanned_pages);
		output_number(table, counters->verified_pages);
		output_number(table, counters->index_scans);
		output_number(table, counters->tuples_deleted);
		output_number(table, (int64_t) cycle->carry_xid);
		output_number(table, (int64_t) cycle->carry_mxid);
		output_text(table, cycle->skipped_all_visible ? "yes" : "no");
		output_number(table, cycle->runs);
		output_number(table, cycle->interruptions);
		output_text(table, time_text(cycle->cycle_started));
		output_text(table, time_text(cycle->last_saved));
	}
	if (found)
		output_print_expanded(table, format);
	return found;
}

/* An estimate, none if it was not made. */
static void
output_estimate(OutputTable *table, double estimate)
{
	char		text[400];

	snprintf(text, sizeof(text), "%.0f", estimate);
	output_text(table, estimate < 0 ? NULL : text);
}

static const char *
seconds_text(const RunRecord *run)
{
	static char text[32];

	snprintf(text, sizeof(text), "%.3f", (run->ended - run->started) / 1e6);
	return text;
}

/*
 * Print history, or that of one table, up to so many runs; programs get all that
 * is known of a run, people what fits.
 */
static void
print_history(const StoreContent *content, const char *name, int limit, OutputFormat format)
{
	static const char *const names[] = {"run#", "database", "schema", "table", "started",
		"seconds#", "plan", "outcome", "from block#", "to block#", "blocks#", "pages scanned#",
		"index scans#", "tuples removed#", "row pointers removed#", "reason",
		"table oid#", "ended", "autovacuum", "aggressive", "pages scanned again#",
		"pages skipped#", "pages verified#", "pages vacuumed#", "index pages#", "work#",
		"relfrozenxid before#", "relfrozenxid after#", "pages ahead#", "pages behind#",
		"dead rows ahead#", "dead rows behind#", "expected work#", "restart work#",
		"restart dead rows#", "resume work#", "resume dead rows#", "wrap work#",
	"wrap dead rows#"};
	const int	for_people = 16;
	OutputTable *table = output_table(names, format == OUTPUT_ALIGNED ? for_people : lengthof(names));
	int			printed = 0;

	for (int i = 0; i < content->nruns && printed < limit; i++)
	{
		const RunRecord *run = &content->runs[i];
		const RunDecision *decision = &run->decision;

		if (!is_wanted(run->key.database) ||
			(name != NULL && !is_named(&run->key, run->schema_name, run->table_name, name)))
			continue;
		printed++;
		output_number(table, (int64_t) run->number);
		output_text(table, database_name(run->key.database));
		output_text(table, run->schema_name);
		output_text(table, run->table_name);
		output_text(table, time_text(run->started));
		output_text(table, seconds_text(run));
		output_text(table, vacuum_plan_name(decision->plan));
		output_text(table, run_end_name(run->stop));
		output_number(table, run->from_block);
		output_number(table, run->to_block);
		output_number(table, run->rel_blocks);
		output_number(table, run->scanned_pages);
		output_number(table, run->index_scans);
		output_number(table, run->tuples_deleted);
		output_number(table, run->reaped_tids);
		output_text(table, decide_reason_text(decision->reason));
		if (format == OUTPUT_ALIGNED)
			continue;
		output_number(table, run->key.relation);
		output_text(table, time_text(run->ended));
		output_text(table, run->autovacuum ? "yes" : "no");
		output_text(table, run->aggressive ? "yes" : "no");
		output_number(table, run->rescanned_pages);
		output_number(table, run->skipped_pages);
		output_number(table, run->verified_pages);
		output_number(table, run->reaped_pages);
		output_number(table, run->index_pages);
		output_estimate(table, run->work);
		output_number(table, (int64_t) run->frozenxid_before);
		output_number(table, (int64_t) run->frozenxid_after);
		output_estimate(table, decision->ahead);
		output_estimate(table, decision->behind);
		output_estimate(table, decision->tail_dead);
		output_estimate(table, decision->head_dead);
		output_estimate(table, decision->expected_work > 0 ? decision->expected_work : -1);
		for (int plan = 0; plan < VACUUM_PLANS; plan++)
		{
			output_estimate(table, decision->plans[plan].work);
			output_estimate(table, decision->plans[plan].dead_rows);
		}
	}
	output_print(table, format);
}

/* Records of another cluster would be discarded by the server. */
static int
check_identity(const StoreContent *content)
{
	Problems	problems = {.print = true};
	uint64_t	identifier;

	if (!reader_system_identifier(data_directory, &identifier))
	{
		note_problem("could not read the cluster's pg_control", NULL, &problems);
		return problems.count;
	}
	for (int i = 0; i < content->ncycles; i++)
		if (content->cycles[i].identity.system_identifier != identifier)
			note_problem("the record is of another cluster", &content->cycles[i].key, &problems);
	return problems.count;
}

/* A number of vacuums as the user gave it; returns false if it is none. */
static bool
parse_limit(const char *text, int *limit)
{
	char	   *end;
	long		number;

	errno = 0;
	number = strtol(text, &end, 10);
	if (end == text || *end != '\0' || errno != 0 || number < 0 || number > INT_MAX)
		return false;
	*limit = (int) number;
	return true;
}

/* The command of this name; misuse if there is none. */
static Command
parse_command(const char *name)
{
	for (int i = 0; i < lengthof(command_names); i++)
		if (strcmp(name, command_names[i]) == 0)
			return i;
	misuse("unrecognized command", name);
	return 0;					/* not reached */
}

/* Read the command line, which also tells the data directory; misuse if it makes no sense. */
static void
parse_arguments(int argc, char **argv, Arguments *arguments)
{
	static const struct option options[] = {
		{"pgdata", required_argument, NULL, 'D'},
		{"database", required_argument, NULL, 'd'},
		{"json", no_argument, NULL, 'j'},
		{"csv", no_argument, NULL, 'c'},
		{"limit", required_argument, NULL, 'l'},
		{"by", required_argument, NULL, 'b'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{NULL, 0, NULL, 0}
	};
	const char *command;
	const char *limit = NULL;
	const char *by = NULL;
	int			option;

	*arguments = (Arguments) {.format = OUTPUT_ALIGNED, .by = "autovacuum", .limit = INT_MAX};
	opterr = 0;
	while ((option = getopt_long(argc, argv, "D:V?", options, NULL)) != -1)
	{
		switch (option)
		{
			case 'D':
				data_directory = optarg;
				break;
			case 'd':
				only_database = optarg;
				break;
			case 'j':
				arguments->format = OUTPUT_JSON;
				break;
			case 'c':
				arguments->format = OUTPUT_CSV;
				break;
			case 'l':
				limit = optarg;
				break;
			case 'b':
				by = optarg;
				break;
			case 'h':
				help();
				exit(EXIT_SUCCESS);
			case 'V':
				puts("pg_vacuum_resume " PGVR_VERSION);
				exit(EXIT_SUCCESS);
			default:
				/* getopt's answer to a mistake is '?', too */
				if (strcmp(argv[optind - 1], "-?") == 0)
				{
					help();
					exit(EXIT_SUCCESS);
				}
				misuse("unrecognized option or missing value", argv[optind - 1]);
		}
	}

	if (optind >= argc)
		misuse("no command given", NULL);
	command = argv[optind++];
	arguments->command = parse_command(command);
	switch (arguments->command)
	{
		case COMMAND_SHOW:
		case COMMAND_EXPLAIN:
		case COMMAND_FORGET:
			if (optind >= argc)
				misuse("no table given", NULL);
			arguments->table = argv[optind++];
			break;
		case COMMAND_HISTORY:
			if (optind < argc)
				arguments->table = argv[optind++];
			break;
		case COMMAND_LIST:
		case COMMAND_CHECK:
			break;
	}
	if (optind < argc)
		misuse("too many arguments, the first is", argv[optind]);

	if (limit != NULL && arguments->command != COMMAND_HISTORY)
		misuse("--limit does not go with command", command);
	if (limit != NULL && !parse_limit(limit, &arguments->limit))
		misuse("not a number of vacuums:", limit);
	if (by != NULL && arguments->command != COMMAND_EXPLAIN)
		misuse("--by does not go with command", command);
	if (by != NULL && !explain_knows_kind(by))
		misuse("not a kind of vacuum:", by);
	if (by != NULL)
		arguments->by = by;
	if (only_database != NULL && arguments->command == COMMAND_CHECK)
		misuse("--database does not go with command", command);
	if (arguments->format != OUTPUT_ALIGNED && arguments->command == COMMAND_FORGET)
		misuse("--json and --csv do not go with command", command);

	if (data_directory == NULL)
		data_directory = getenv("PGDATA");
	if (data_directory == NULL)
		misuse("no data directory given", NULL);
}

/*
 * A database's name to connect to, NULL if no server tells.  Of shared catalogs any
 * database will do.
 */
static const char *
database_to_ask(uint32_t oid)
{
	if (PQntuples(databases) == 0)
		return NULL;
	return oid == 0 ? "postgres" : database_name(oid);
}

/* Did the server have a database that it has no more? */
static bool
is_dropped(uint32_t database)
{
	char		oid[16];

	snprintf(oid, sizeof(oid), "%u", database);
	for (int row = 0; row < PQntuples(databases); row++)
		if (strcmp(PQgetvalue(databases, row, 0), oid) == 0)
			return false;
	return database != 0 && PQntuples(databases) > 0;
}

/* Do what the command says with what the store holds; returns false if it cannot be done. */
static bool
perform(const Arguments *arguments, const StoreContent *content, Problems *problems)
{
	const char *table = arguments->table;
	OutputFormat format = arguments->format;
	const CycleRecord *cycle;

	switch (arguments->command)
	{
		case COMMAND_LIST:
			print_list(content, format);
			return true;

		case COMMAND_CHECK:
			if (problems->count == 0)
				problems->count += check_identity(content);
			printf("%d record%s, %d run%s, %d problem%s\n",
				   content->ncycles, content->ncycles == 1 ? "" : "s",
				   content->nruns, content->nruns == 1 ? "" : "s",
				   problems->count, problems->count == 1 ? "" : "s");
			return true;

		case COMMAND_HISTORY:
			print_history(content, table, arguments->limit, format);
			return true;

		case COMMAND_SHOW:
			if (print_table(content, table, format))
				return true;
			break;

		case COMMAND_EXPLAIN:
			if ((cycle = find_table(content, table)) == NULL)
				break;
			explain_print(data_directory, database_to_ask(cycle->key.database), cycle,
						  content->runs, content->nruns, arguments->by, format);
			return true;

		case COMMAND_FORGET:
			if ((cycle = find_table(content, table)) == NULL)
				break;
			if (is_dropped(cycle->key.database))
			{
				fprintf(stderr, "pg_vacuum_resume: database %u has been dropped; what is kept of its tables is not used\n",
						cycle->key.database);
				return false;
			}
			return forget_table(data_directory, database_to_ask(cycle->key.database),
								no_databases, cycle);
	}

	fprintf(stderr, "pg_vacuum_resume: no vacuum of table \"%s\" to continue\n", table);
	return false;
}

int
main(int argc, char **argv)
{
	Arguments	arguments;
	StoreContent content = {0};
	Problems	problems = {.print = true};
	char		path[MAXPGPATH];
	bool		done;

	parse_arguments(argc, argv, &arguments);
	snprintf(path, sizeof(path), "%s/PG_VERSION", data_directory);
	if (access(path, R_OK) != 0)
	{
		fprintf(stderr, "pg_vacuum_resume: \"%s\" is not a data directory, or not readable: %s\n",
				data_directory, strerror(errno));
		return EXIT_MISUSE;
	}

	server_down = server_is_down(data_directory);

	/* no store is a store without records */
	if (reader_open(data_directory, note_problem, &problems))
		problems.count = read_store(&content);
	if (arguments.command != COMMAND_CHECK)
		ask_for_databases(&no_databases);
	check_database();

	done = perform(&arguments, &content, &problems);
	PQclear(databases);
	return done && problems.count == 0 ? EXIT_SUCCESS : EXIT_PROBLEM;
}
