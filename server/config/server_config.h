/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a user can choose about the server and its exports, and the option rows that parse, explain
 * and report it: --help, the manuals, the command line and the configuration file come from them.
 * Reading these is for command_line.h and config_file.h.
 */
#ifndef SERVER_CONFIG_SERVER_CONFIG_H
#define SERVER_CONFIG_SERVER_CONFIG_H

#include "common/option_row.h"
#include "engine/image_config.h"

#include <stdbool.h>
#include <stdint.h>

/* Where NBD is expected (IANA). */
#define DEFAULT_PORT 10809

enum log_choice {
	LOG_TO_STDERR,
	LOG_TO_SYSLOG,
};

/* An export, or the defaults of all of them. */
struct export_config {
	char *name;
	char *file;
	char *description;      /* NULL: none */
	unsigned int read_only; /* TRISTATE_OFF or TRISTATE_ON */
	struct image_config image;
	struct export_config *next;
};

struct server_config {
	unsigned int port; /* 0: not given */
	char **address;
	char **unix_socket;
	unsigned int vsock;           /* 0: none */
	unsigned int activation;      /* enum tristate */
	char **fd;                    /* numbers, not parsed yet */
	unsigned int list;            /* TRISTATE_OFF or TRISTATE_ON, as all that is on or off */
	unsigned int threads;         /* 0: as many as there are processors */
	uint64_t memory;              /* bytes, for each thread */
	unsigned int max_connections; /* 0: no limit */
	unsigned int poll_max_us;     /* microseconds; 0: off */
	unsigned int handshake_limit; /* seconds */
	unsigned int stuck_limit;     /* seconds */
	unsigned int drain_limit;     /* seconds */
	char *user;
	char *pid_file;
	unsigned int notify_fd; /* 0: none */
	char *control;
	unsigned int swap;
	unsigned int log;              /* enum log_choice */
	struct export_config defaults; /* has neither name nor file */
	struct export_config *exports;
};

/* Their fields are offsets in struct server_config. */
extern const struct option_row server_option_rows[];
/* In struct export_config. */
extern const struct option_row export_option_rows[];
extern const struct option_row export_file_rows[];

/* Those of image_option_rows that mean something to this server. */
const struct option_row *
server_image_rows(void);

/* All defaults, no exports.  0 or -ENOMEM. */
int
config_init(struct server_config *config);
void
config_fini(struct server_config *config);

/* Sets an option of the server, or a default of its exports.  As option_set(). */
int
config_set(struct server_config *config, const char *name, const char *value, char **error);

/* The row of config_set(), or NULL. */
const struct option_row *
config_find(const char *name);

/* Makes the defaults of exports those of another configuration.  0 or -ENOMEM. */
int
config_take_defaults(struct server_config *config, const struct server_config *from);

/* Adds an export of that name, with all defaults.  Returns 0, -ENOMEM, or -EEXIST with *error
 * (caller frees). */
int
config_add_export(struct server_config *config, const char *name, struct export_config **added,
		  char **error);

/* Sets an option of an export, "file" among them.  As option_set(). */
int
export_set(struct export_config *export, const char *name, const char *value, char **error);
const struct option_row *
export_find(const char *name);

/* Whether all is there and nothing contradicts.  0, or -EINVAL with *error a sentence (caller
 * frees). */
int
config_check(const struct server_config *config, char **error);

/* The name of the first option that two exports don't have in common, or NULL. */
const char *
export_difference(const struct export_config *a, const struct export_config *b);

/* Calls `visit` with each option of the server (not of its exports) that differs. */
void
config_visit_differences(const struct server_config *a, const struct server_config *b,
			 void (*visit)(const char *name));

#endif
