/*
 * settings.h
 *	  The vacuum_resume.* settings.
 */
#ifndef PGVR_SETTINGS_H
#define PGVR_SETTINGS_H

/* vacuum_resume.enabled: do heap vacuums go through our pass at all? */
extern bool setting_enabled;

/* vacuum_resume.min_table_size, in blocks: smaller tables go to the server's own pass */
extern int	setting_min_table_size;

extern void settings_define(void);

#endif							/* PGVR_SETTINGS_H */
