/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The user's choices about the server and its exports, and the option rows that parse, explain and
 * report them, for --help, the manuals, the command line (command_line.h) and the configuration
 * file (config_file.h).
 */
#ifndef SERVER_CONFIG_SERVER_CONFIG_H
#define SERVER_CONFIG_SERVER_CONFIG_H

#include "common/option_row.h"
#include "engine/image_config.h"
#include "server/access/access.h"
#include "server/limit/limits.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

/* The TCP port of NBD, assigned by IANA. */
#define DEFAULT_PORT 10809

/* The errno of a start that fails until somebody changes the configuration or the keys. */
#define CONFIG_MISTAKE EKEYREJECTED

enum log_choice {
	LOG_TO_STDERR,
	LOG_TO_SYSLOG,
};

enum tls_choice {
	TLS_CHOICE_AUTO, /* required if there are certificates or keys; see config_tls() */
	TLS_CHOICE_OFF,
	TLS_CHOICE_ALLOW,
	TLS_CHOICE_REQUIRE,
};

enum clone_choice {
	CLONE_OFF,
	CLONE_CONNECTION, /* each connection gets a temporary clone of the image */
	CLONE_CLIENT,     /* each client does: all connections whose identity has the same rule */
};

/* The options of limits, as users wrote them. */
struct limit_options {
	char *rates[LIMIT_KINDS]; /* NULL: not given */
	unsigned int connections; /* 0: no limit */
};

/* The configuration of an export, or the defaults of all exports. */
struct export_config {
	char *name;
	char *file;
	char *description;         /* NULL: none */
	char *changes;             /* NULL: the usual place, see export_image.c */
	unsigned int read_only;    /* enum tristate; off: it must be writable */
	unsigned int clone;        /* enum clone_choice */
	unsigned int clones;       /* the most at once; 0: no limit */
	char *allow, *allow_write; /* NULL: not given */
	struct access *access;     /* the rules of both; NULL: none, or not read yet */
	struct limit_options limit_options[LIMIT_SCOPES];
	struct limits limits[LIMIT_SCOPES]; /* the same, once they are read */
	struct image_config image;
	bool again; /* read again: its image was closed, and is to be opened once more */
	struct export_config *next;
};

struct server_config {
	unsigned int port; /* 0: not given */
	char **address;
	char **unix_socket;
	unsigned int vsock;           /* 0: none */
	unsigned int activation;      /* enum tristate */
	char **fd;                    /* numbers, not parsed yet */
	unsigned int fd_from;         /* 0: none */
	unsigned int list;            /* TRISTATE_OFF or TRISTATE_ON, as .swap */
	unsigned int tls;             /* enum tls_choice */
	char *tls_certificates;       /* a directory, or NULL */
	char *tls_psk;                /* a file, or NULL */
	unsigned int tls_verify_peer; /* enum tristate */
	char *tls_priority;           /* NULL: the usual one */
	unsigned int tls_kernel;      /* enum tristate */
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
	char *http;       /* "ADDRESS:PORT", "unix:PATH", or NULL: none */
	char *http_token; /* a file, or NULL */
	unsigned int swap;
	unsigned int sandbox;          /* enum tristate */
	char **sandbox_path;           /* directories; NULL: none */
	char **include;                /* the same */
	unsigned int log;              /* enum log_choice */
	struct export_config defaults; /* has neither name nor file */
	struct export_config *exports;
	const struct export_config *refused; /* by config_check(); NULL: none of them */
};

/* Their fields are offsets in struct server_config. */
extern const struct option_row server_option_rows[];

/* Those of the next ones that are limits. */
extern const struct option_row limit_option_rows[];

/* The options of an export and of its image, as this server has them. Their fields are offsets in
 * struct export_config. The default rows lack "file". */
const struct option_row *
export_option_rows(void);
const struct option_row *
export_default_rows(void);

/* Sets all defaults, without exports. Returns 0 or -ENOMEM. */
int
config_init(struct server_config *config);
void
config_fini(struct server_config *config);

/* Sets an option of the server, or a default of its exports. Returns as option_set(). */
int
config_set(struct server_config *config, const char *name, const char *value, char **error);

/* The row of config_set(), or NULL. */
const struct option_row *
config_find(const char *name);

/* Returns whether that text gives the option the value that it has: in the server, in the export,
 * or without an export (NULL) as their default. */
bool
config_has_value(const struct server_config *config, const struct export_config *export,
		 const char *name, const char *value);

/* Copies all that an export can have by default. Returns 0 or -ENOMEM. */
int
config_copy_defaults(struct export_config *to, const struct export_config *from);

/* Copies only what a running server follows, as its users wrote it: rules and limits, in place of
 * those that are there. Returns 0, or -ENOMEM and nothing has changed. */
int
config_copy_followed(struct export_config *to, const struct export_config *from);

/* Adds an export of that name with the defaults. Returns 0, -ENOMEM, or -EEXIST with *error a
 * sentence (caller frees). */
int
config_add_export(struct server_config *config, const char *name, struct export_config **added,
		  char **error);

/* Returns whether temporary clones are made of the image. */
bool
config_makes_clones(const struct export_config *export);

/* Frees an export's configuration, which is in no list, or NULL. */
void
export_config_free(struct export_config *export);

/* How clients can prove themselves: bits of enum rule_proof (server/access/rule.h). */
unsigned int
config_proofs(const struct server_config *config);

/* Checks that there are exports, and that each has an image, and reads their limits, and their
 * rules, which may take a while (server/access/rule.h); for `proofs`, see access_new(). Returns 0,
 * or -errno with *error a sentence (caller frees). */
int
config_check(struct server_config *config, unsigned int proofs, char **error);

/* Warns of a default that none of the exports uses. */
void
config_warn(const struct server_config *config);

/* Whether there is TLS: never TLS_CHOICE_AUTO. */
enum tls_choice
config_tls(const struct server_config *config);

/* The same for clients on unix sockets: with TLS_CHOICE_AUTO, they decide. */
enum tls_choice
config_tls_unix(const struct server_config *config);

/* The same, as text. */
const char *
tls_choice_name(enum tls_choice choice);

/* The name of the first option that differs, or NULL. The rules and the limits don't count. */
const char *
export_config_difference(const struct export_config *a, const struct export_config *b);

/* Calls `visit` with the name of each option of the server (not of its exports) that differs. */
void
config_visit_differences(const struct server_config *a, const struct server_config *b,
			 void (*visit)(const char *name));

#endif
