/*
 * output.c
 *	  Tables for people, as JSON, and as CSV.
 */
#include "postgres_fe.h"

#include <jansson.h>

#include "output.h"

struct OutputTable
{
	const char *const *names;
	int			ncolumns;
	char	  **cells;			/* row by row; NULL for no value */
	int			ncells;
};

OutputTable *
output_table(const char *const *names, int ncolumns)
{
	OutputTable *table = pg_malloc0(sizeof(OutputTable));

	table->names = names;
	table->ncolumns = ncolumns;
	return table;
}

/* The next cell, NULL for no value; cells come row by row. */
void
output_text(OutputTable *table, const char *value)
{
	table->cells = pg_realloc(table->cells, (table->ncells + 1) * sizeof(char *));
	table->cells[table->ncells++] = value != NULL ? pg_strdup(value) : NULL;
}

void
output_number(OutputTable *table, int64_t value)
{
	char		text[32];

	snprintf(text, sizeof(text), INT64_FORMAT, value);
	output_text(table, text);
}

static bool
is_number(const OutputTable *table, int column)
{
	const char *name = table->names[column];

	return name[strlen(name) - 1] == '#';
}

/* A column's name without its type. */
static int
name_length(const OutputTable *table, int column)
{
	return strlen(table->names[column]) - is_number(table, column);
}

/* A column's name for programs. */
static const char *
program_name(const OutputTable *table, int column)
{
	static char name[64];

	strlcpy(name, table->names[column], Min(sizeof(name), name_length(table, column) + 1));
	for (char *c = name; *c; c++)
		if (*c == ' ' || *c == '-')
			*c = '_';
	return name;
}

static const char *
cell(const OutputTable *table, int row, int column)
{
	const char *value = table->cells[row * table->ncolumns + column];

	return value != NULL ? value : "";
}

static int
rows(const OutputTable *table)
{
	return table->ncells / table->ncolumns;
}

static void
print_aligned(const OutputTable *table)
{
	int		   *widths = pg_malloc0(table->ncolumns * sizeof(int));

	for (int column = 0; column < table->ncolumns; column++)
	{
		widths[column] = name_length(table, column);
		for (int row = 0; row < rows(table); row++)
			widths[column] = Max(widths[column], (int) strlen(cell(table, row, column)));
	}

	for (int row = -1; row < rows(table); row++)
	{
		for (int column = 0; column < table->ncolumns; column++)
		{
			bool		last = column == table->ncolumns - 1;
			int			width = is_number(table, column) ? widths[column] :
				(last ? 0 : -widths[column]);

			if (row < 0)
				printf("%*.*s", width, name_length(table, column), table->names[column]);
			else
				printf("%*s", width, cell(table, row, column));
			fputs(last ? "\n" : "  ", stdout);
		}
	}
	pg_free(widths);
}

static void
print_csv_value(const char *value)
{
	if (strpbrk(value, ",\"\r\n") == NULL)
	{
		fputs(value, stdout);
		return;
	}
	putchar('"');
	for (; *value; value++)
	{
		if (*value == '"')
			putchar('"');
		putchar(*value);
	}
	putchar('"');
}

static void
print_csv(const OutputTable *table)
{
	for (int row = -1; row < rows(table); row++)
	{
		for (int column = 0; column < table->ncolumns; column++)
		{
			if (column > 0)
				putchar(',');
			if (row < 0)
				print_csv_value(program_name(table, column));
			else
				print_csv_value(cell(table, row, column));
		}
		putchar('\n');
	}
}

static void
print_json(const OutputTable *table)
{
	json_t	   *list = json_array();
	char	   *text;

	for (int row = 0; row < rows(table); row++)
	{
		json_t	   *object = json_object();

		for (int column = 0; column < table->ncolumns; column++)
		{
			const char *value = table->cells[row * table->ncolumns + column];
			const char *name = program_name(table, column);
			json_t	   *json;

			if (value == NULL)
				json = json_null();
			else if (is_number(table, column))
				json = strchr(value, '.') != NULL ? json_real(strtod(value, NULL)) :
					json_integer(strtoll(value, NULL, 10));
			else
				json = json_string(value);
			/* a name of a table need not be UTF-8 */
			json_object_set_new(object, name, json != NULL ? json : json_null());
		}
		json_array_append_new(list, object);
	}

	text = json_dumps(list, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6));
	puts(text != NULL ? text : "[]");
	free(text);
	json_decref(list);
}

/* Print a table, a line a row. */
void
output_print(const OutputTable *table, OutputFormat format)
{
	switch (format)
	{
		case OUTPUT_ALIGNED:
			print_aligned(table);
			break;
		case OUTPUT_JSON:
			print_json(table);
			break;
		case OUTPUT_CSV:
			print_csv(table);
			break;
	}
}

/* Print a table for reading one row at a time; programs get the same as ever. */
void
output_print_expanded(const OutputTable *table, OutputFormat format)
{
	int			width = 0;

	if (format != OUTPUT_ALIGNED)
	{
		output_print(table, format);
		return;
	}

	for (int column = 0; column < table->ncolumns; column++)
		width = Max(width, name_length(table, column));
	for (int row = 0; row < rows(table); row++)
	{
		if (row > 0)
			putchar('\n');
		for (int column = 0; column < table->ncolumns; column++)
			printf("%-*.*s  %s\n", width, name_length(table, column), table->names[column],
				   cell(table, row, column));
	}
}
