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

/* vacuum_resume.mode: what a run does that finds a record */
typedef enum ResumeMode
{
	RESUME_MODE_AUTO,
	RESUME_MODE_RESUME,
	RESUME_MODE_RESTART
} ResumeMode;

extern int	setting_mode;		/* a ResumeMode */

/* vacuum_resume.save_interval, in milliseconds */
extern int	setting_save_interval;

/* vacuum_resume.max_duration, in milliseconds; 0 means no limit */
extern int	setting_max_duration;

/* vacuum_resume.log_decisions: tell the log what is done about a record, and why? */
extern bool setting_log_decisions;

/* vacuum_resume.store_size, in kB */
extern int	setting_store_size;

/* vacuum_resume.history_size, in runs; 0 means none */
extern int	setting_history_size;

extern void settings_define(void);
extern int	settings_begin_as_worker(void);
extern void settings_end_as_worker(int nest_level);

#endif							/* PGVR_SETTINGS_H */
