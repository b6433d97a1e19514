/*
 * output.h
 *	  Tables for people, as JSON, and as CSV.
 */
#ifndef PGVR_OUTPUT_H
#define PGVR_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>

typedef enum OutputFormat
{
	OUTPUT_ALIGNED,
	OUTPUT_JSON,
	OUTPUT_CSV
} OutputFormat;

typedef struct OutputTable OutputTable;

/* names: "title" for text, "title#" for numbers; the array must stay */
extern OutputTable *output_table(const char *const *names, int ncolumns);
extern void output_text(OutputTable *table, const char *value);
extern void output_number(OutputTable *table, int64_t value);
extern char *output_visible(const char *value);
extern void output_print(const OutputTable *table, OutputFormat format);
extern void output_print_expanded(const OutputTable *table, OutputFormat format);

#endif							/* PGVR_OUTPUT_H */
