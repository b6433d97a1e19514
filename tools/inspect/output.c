/*
 * output.c
 *	  Tables for people, as JSON, and as CSV.
 *
 * Names may hold any byte but NUL.  They are taken to be UTF-8, and:
 *
 *	- people get control characters, and whatever is not UTF-8, spelled out: a name
 *	  must not move the cursor, begin a line, or pass for another one;
 *	- CSV has the very bytes;
 *	- JSON has the very name if it is UTF-8.  JSON cannot hold other bytes, so each of
 *	  these becomes the four characters \xE9 (a backslash, which JSON doubles).
 */
#include "postgres_fe.h"

#include <jansson.h>

#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"

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

/* Bytes of the UTF-8 character that the text begins with; 0 if it is none. */
static int
utf8_bytes(const char *text)
{
	return Max(pg_encoding_verifymbchar(PG_UTF8, text, strlen(text)), 0);
}

/* Characters that show nothing, and turn or break the line that they are in. */
static bool
rearranges_line(pg_wchar c)
{
	return c == 0x200E || c == 0x200F || (c >= 0x2028 && c <= 0x202E) ||
		(c >= 0x2066 && c <= 0x2069);
}

/* Append one character as people are to see it; width counts the terminal's columns. */
static void
append_visible(StringInfo text, const char *character, int bytes, int *width)
{
	int			columns = pg_encoding_dsplen(PG_UTF8, character);
	pg_wchar	c = utf8_to_unicode((const unsigned char *) character);
	int			before = text->len;

	if (columns >= 0 && !rearranges_line(c))
	{
		appendBinaryStringInfo(text, character, bytes);
		*width += columns;
		return;
	}

	if (c == '\n')
		appendStringInfoString(text, "\\n");
	else if (c == '\r')
		appendStringInfoString(text, "\\r");
	else if (c == '\t')
		appendStringInfoString(text, "\\t");
	else if (c < 0x80)
		appendStringInfo(text, "\\x%02X", c);
	else
		appendStringInfo(text, "\\u%04X", c);
	*width += text->len - before;
}

/*
 * The value with everything spelled out that has no place in it, as psql spells it:
 * bytes that are not UTF-8, and, for people, control characters.  width: how many
 * columns of a terminal it takes.
 */
static char *
spell_out(const char *value, bool for_people, int *width)
{
	StringInfoData text;

	initStringInfo(&text);
	*width = 0;
	while (*value != '\0')
	{
		int			bytes = utf8_bytes(value);

		if (bytes == 0)
		{
			appendStringInfo(&text, "\\x%02X", (unsigned char) *value++);
			*width += 4;
			continue;
		}
		if (for_people)
			append_visible(&text, value, bytes, width);
		else
			appendBinaryStringInfo(&text, value, bytes);
		value += bytes;
	}
	return text.data;
}

/* The value as it may be shown on a terminal. */
char *
output_visible(const char *value)
{
	int			width;

	return spell_out(value, true, &width);
}

static void
print_spaces(int n)
{
	printf("%*s", Max(n, 0), "");
}

static void
print_aligned(const OutputTable *table)
{
	int		   *widths = pg_malloc0(table->ncolumns * sizeof(int));
	int			ncells = (rows(table) + 1) * table->ncolumns;
	char	  **texts = pg_malloc0(ncells * sizeof(char *));
	int		   *text_widths = pg_malloc0(ncells * sizeof(int));

	/* the first row is the head */
	for (int i = 0; i < ncells; i++)
	{
		int			column = i % table->ncolumns;

		texts[i] = spell_out(i < table->ncolumns ?
							 pnstrdup(table->names[column], name_length(table, column)) :
							 cell(table, i / table->ncolumns - 1, column),
							 true, &text_widths[i]);
		widths[column] = Max(widths[column], text_widths[i]);
	}

	for (int i = 0; i < ncells; i++)
	{
		int			column = i % table->ncolumns;
		bool		last = column == table->ncolumns - 1;
		int			padding = widths[column] - text_widths[i];

		if (is_number(table, column))
			print_spaces(padding);
		fputs(texts[i], stdout);
		if (!is_number(table, column) && !last)
			print_spaces(padding);
		fputs(last ? "\n" : "  ", stdout);
	}
	pg_free(text_widths);
	pg_free(texts);
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
			{
				int			width;

				json = json_string(spell_out(value, false, &width));
			}
			json_object_set_new(object, name, json);
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
				   output_visible(cell(table, row, column)));
	}
}
