/*
 * pg_vacuum_resume.c
 *	  The command-line tool.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "version.h"

static void
help(void)
{
	printf("pg_vacuum_resume is the command-line tool of the extension of that name.\n\n"
		   "Usage:\n"
		   "  pg_vacuum_resume [OPTION]\n\n"
		   "Options:\n"
		   "  -V, --version    show the version, then exit\n"
		   "  -?, --help       show this help, then exit\n");
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {
		{"help", no_argument, NULL, '?'},
		{"version", no_argument, NULL, 'V'},
		{NULL, 0, NULL, 0}
	};

	/* getopt's answer to a mistake is '?', too; an index tells the two apart */
	opterr = 0;
	switch (getopt_long(argc, argv, "V?", options, NULL))
	{
		case 'V':
			puts("pg_vacuum_resume " PGVR_VERSION);
			return EXIT_SUCCESS;
		case '?':
			if (optopt == 0 || optopt == '?')
			{
				help();
				return EXIT_SUCCESS;
			}
			break;
		default:
			break;
	}

	fprintf(stderr, "pg_vacuum_resume: %s\n",
			argc > 1 ? "unrecognized arguments" : "no option given");
	fprintf(stderr, "Try \"pg_vacuum_resume --help\" for more information.\n");
	return EXIT_FAILURE;
}
