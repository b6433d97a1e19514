/*
 * command.h
 *	  Our options of the VACUUM command.
 */
#ifndef PGVR_COMMAND_H
#define PGVR_COMMAND_H

/* RESUME as the user gave it */
typedef enum ResumeOption
{
	RESUME_OPTION_AUTO,			/* not given, or "auto" */
	RESUME_OPTION_ON,
	RESUME_OPTION_OFF
} ResumeOption;

typedef struct VacuumCommandOptions
{
	bool		given;			/* was any of ours in the option list? */
	bool		resume_given;
	ResumeOption resume;
	bool		max_duration_given;
	int			max_duration;	/* milliseconds, 0 = no limit */
} VacuumCommandOptions;

/* Options of the VACUUM statement being executed; defaults outside of one. */
extern const VacuumCommandOptions *command_options(void);
extern const char *resume_option_name(ResumeOption resume);
extern void command_install(void);

#endif							/* PGVR_COMMAND_H */
