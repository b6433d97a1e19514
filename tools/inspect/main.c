/*
 * main.c
 *	  pg_vacuum_resume: looks into a data directory's store of interrupted
 *	  vacuums, whether the server is up or down.  Reads only.
 */
#include "postgres_fe.h"

#include <getopt.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <libpq-fe.h>

#include "output.h"
#include "reader.h"
#include "version.h"

/* Exit status: all is well; something is wrong with the store; we were misused */
#define EXIT_PROBLEM 1
#define EXIT_MISUSE 2

/* Reading without LMDB's lock file can meet a writer; then try again. */
#define READ_ATTEMPTS 5

/* Microseconds between 1970 and 2000, where the server's timestamps begin */
#define TIMESTAMP_BASE INT64CONST(946684800)

typedef struct Problems
{
	int			count;
	bool		print;
} Problems;

static const char *data_directory = NULL;
static PGconn *connection = NULL;

static void
help(void)
{
	printf("pg_vacuum_resume shows the interrupted vacuums of a PostgreSQL data directory.\n\n"
		   "Usage:\n"
		   "  pg_vacuum_resume list  -D DATADIR [OPTION]...\n"
		   "  pg_vacuum_resume show  -D DATADIR [OPTION]... TABLE\n"
		   "  pg_vacuum_resume check -D DATADIR\n\n"
		   "Commands:\n"
		   "  list     one line for each vacuum that can be continued\n"
		   "  show     all that is known of one table's; TABLE is a name, schema.name or an OID\n"
		   "  check    read and check everything; exit status 1 if something is wrong\n\n"
		   "Options:\n"
		   "  -D, --pgdata=DATADIR  the data directory (default: PGDATA)\n"
		   "      --json            output as JSON\n"
		   "      --csv             output as CSV\n"
		   "  -V, --version         show the version, then exit\n"
		   "  -?, --help            show this help, then exit\n\n"
		   "The server may be up or down. Nothing is written. If it is up, and you are its user or set\n"
		   "PGUSER, names of databases are shown instead of their OIDs.\n");
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
 * Connect to the server of the data directory, if there is one and it answers.
 * Its address is in postmaster.pid: line 4 the port, line 5 the socket's place.
 * Somebody else than the server's user is likely to be turned away, which the
 * server's log would show, and so tries only with PGUSER set.
 */
static void
try_to_connect(void)
{
	char		path[MAXPGPATH];
	char		lines[5][MAXPGPATH] = {0};
	struct stat owner;
	FILE	   *file;

	if (getenv("PGUSER") == NULL &&
		(stat(data_directory, &owner) != 0 || owner.st_uid != geteuid()))
		return;
	snprintf(path, sizeof(path), "%s/postmaster.pid", data_directory);
	if ((file = fopen(path, "r")) == NULL)
		return;
	for (int i = 0; i < 5 && fgets(lines[i], MAXPGPATH, file) != NULL; i++)
		lines[i][strcspn(lines[i], "\n")] = '\0';
	fclose(file);
	if (lines[4][0] == '\0')
		return;

	{
		const char *const keywords[] = {"host", "port", "dbname", "connect_timeout",
		"fallback_application_name", NULL};
		const char *const values[] = {lines[4], lines[3], "postgres", "3",
		"pg_vacuum_resume", NULL};

		connection = PQconnectdbParams(keywords, values, 0);
	}
	if (PQstatus(connection) != CONNECTION_OK)
	{
		PQfinish(connection);
		connection = NULL;
	}
}

/* A database's name if a server tells, else its OID; shared catalogs have none. */
static const char *
database_name(uint32_t oid)
{
	static char text[NAMEDATALEN + 32];
	PGresult   *result;

	snprintf(text, sizeof(text), "%u", oid);
	if (oid == 0)
		return "(shared)";
	if (connection == NULL)
		return text;

	{
		const char *const values[] = {text};

		result = PQexecParams(connection,
							  "SELECT datname FROM pg_catalog.pg_database WHERE oid = $1",
							  1, NULL, values, NULL, NULL, 0);
	}
	if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1)
		strlcpy(text, PQgetvalue(result, 0, 0), sizeof(text));
	PQclear(result);
	return text;
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

/* The store does not know a running vacuum from one that was killed. */
static const char *
stop_text(const CycleRecord *cycle)
{
	const char *name = cycle_stop_name(cycle->stop);

	return name != NULL ? name : "running or killed";
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

		output_text(table, database_name(cycle->key.database));
		output_text(table, cycle->schema_name);
		output_text(table, cycle->table_name);
		output_text(table, cycle_phase_name(cycle->phase));
		output_text(table, percent_text(cycle));
		output_number(table, cycle->next_block);
		output_number(table, cycle->rel_blocks);
		output_number(table, cycle->pending_tids);
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
is_named(const CycleRecord *cycle, const char *name)
{
	char		qualified[2 * NAMEDATALEN + 2];
	char		oid[16];

	snprintf(qualified, sizeof(qualified), "%s.%s", cycle->schema_name, cycle->table_name);
	snprintf(oid, sizeof(oid), "%u", cycle->key.relation);
	return strcmp(name, cycle->table_name) == 0 || strcmp(name, qualified) == 0 ||
		strcmp(name, oid) == 0;
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

		if (!is_named(cycle, name))
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
		output_number(table, cycle->pending_tids);
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

int
main(int argc, char **argv)
{
	static const struct option options[] = {
		{"pgdata", required_argument, NULL, 'D'},
		{"json", no_argument, NULL, 'j'},
		{"csv", no_argument, NULL, 'c'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{NULL, 0, NULL, 0}
	};
	OutputFormat format = OUTPUT_ALIGNED;
	StoreContent content = {0};
	Problems	problems = {.print = true};
	const char *command;
	const char *table = NULL;
	bool		is_check;
	char		path[MAXPGPATH];
	int			option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "D:V?", options, NULL)) != -1)
	{
		switch (option)
		{
			case 'D':
				data_directory = optarg;
				break;
			case 'j':
				format = OUTPUT_JSON;
				break;
			case 'c':
				format = OUTPUT_CSV;
				break;
			case 'h':
				help();
				return EXIT_SUCCESS;
			case 'V':
				puts("pg_vacuum_resume " PGVR_VERSION);
				return EXIT_SUCCESS;
			default:
				/* getopt's answer to a mistake is '?', too */
				if (strcmp(argv[optind - 1], "-?") == 0)
				{
					help();
					return EXIT_SUCCESS;
				}
				misuse("unrecognized option or missing value", argv[optind - 1]);
		}
	}

	if (optind >= argc)
		misuse("no command given", NULL);
	command = argv[optind++];
	is_check = strcmp(command, "check") == 0;
	if (strcmp(command, "show") == 0)
	{
		if (optind >= argc)
			misuse("no table given", NULL);
		table = argv[optind++];
	}
	else if (strcmp(command, "list") != 0 && !is_check)
		misuse("unrecognized command", command);
	if (optind < argc)
		misuse("too many arguments, the first is", argv[optind]);

	if (data_directory == NULL)
		data_directory = getenv("PGDATA");
	if (data_directory == NULL)
		misuse("no data directory given", NULL);
	snprintf(path, sizeof(path), "%s/PG_VERSION", data_directory);
	if (access(path, R_OK) != 0)
	{
		fprintf(stderr, "pg_vacuum_resume: \"%s\" is not a data directory, or not readable: %s\n",
				data_directory, strerror(errno));
		return EXIT_MISUSE;
	}

	/* no store is a store without records */
	if (reader_open(data_directory, note_problem, &problems))
		problems.count = read_store(&content);
	if (!is_check)
		try_to_connect();

	if (is_check)
	{
		if (problems.count == 0)
			problems.count += check_identity(&content);
		printf("%d record%s, %d problem%s\n", content.ncycles, content.ncycles == 1 ? "" : "s",
			   problems.count, problems.count == 1 ? "" : "s");
	}
	else if (table == NULL)
		print_list(&content, format);
	else if (!print_table(&content, table, format))
	{
		fprintf(stderr, "pg_vacuum_resume: no vacuum of table \"%s\" to continue\n", table);
		return EXIT_PROBLEM;
	}

	if (connection != NULL)
		PQfinish(connection);
	return problems.count == 0 ? EXIT_SUCCESS : EXIT_PROBLEM;
}
