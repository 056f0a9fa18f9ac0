/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/config/server_config.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/log.h"
#include "common/server_options.h"
#include "engine/backing/image_kinds.h"
#include "server/config/http_address.h"

#include <errno.h>
#include <string.h>

static const char *const clone_choices[] = {"off", "connection", "client", NULL};

static void
export_config_fini(struct export_config *export)
{
	free(export->name);
	access_release(export->access);
	options_free(export_option_rows(), export);
}

void
export_config_free(struct export_config *export)
{
	if (!export)
		return;
	export_config_fini(export);
	free(export);
}

int
config_init(struct server_config *config)
{
	int r;

	*config = (struct server_config){0};
	r = options_init(server_option_rows, config);
	if (r == 0)
		r = options_init(export_default_rows(), &config->defaults);
	if (r < 0)
		config_fini(config);
	return r;
}

void
config_fini(struct server_config *config)
{
	while (config->exports) {
		struct export_config *export = config->exports;

		config->exports = export->next;
		export_config_free(export);
	}
	export_config_fini(&config->defaults);
	options_free(server_option_rows, config);
}

int
config_set(struct server_config *config, const char *name, const char *value, char **error)
{
	if (option_find(server_option_rows, name))
		return option_set(server_option_rows, config, name, value, error);
	return option_set(export_default_rows(), &config->defaults, name, value, error);
}

const struct option_row *
config_find(const char *name)
{
	const struct option_row *row = option_find(server_option_rows, name);

	return row ? row : option_find(export_default_rows(), name);
}

/* Of a list. */
static bool
config_lists(const struct option_row *row, const void *config, const char *text)
{
	char **item = *(char **const *)((const char *)config + row->field);

	while (item && *item && strcmp(*item, text) != 0)
		item++;
	return item && *item;
}

static bool
same_value(const struct option_row *row, const void *a, const void *b)
{
	char *CLEANUP_FREE text_a = option_value_text(row, a);
	char *CLEANUP_FREE text_b = option_value_text(row, b);

	return text_a && text_b && strcmp(text_a, text_b) == 0;
}

bool
config_has_value(const struct server_config *config, const struct export_config *export,
		 const char *name, const char *value)
{
	const bool is_server = option_find(server_option_rows, name);
	const struct option_row *rows = is_server ? server_option_rows : export_option_rows(),
				*row = option_find(rows, name);
	const void *has = is_server ? (const void *)config : export ? export : &config->defaults;
	struct server_config parsed;
	void *wanted = is_server ? (void *)&parsed : &parsed.defaults;
	char *CLEANUP_FREE error = NULL;
	bool same;

	if (config_init(&parsed) < 0)
		return false;
	same = row && option_set(rows, wanted, name, value, &error) == 0 &&
	       (row->type == OPTION_LIST ? config_lists(row, has, value)
					 : same_value(row, has, wanted));
	config_fini(&parsed);
	return same;
}

static int
config_copy_text(char **to, const char *from)
{
	*to = from ? strdup(from) : NULL;
	return from && !*to ? -ENOMEM : 0;
}

#define LIMIT_TEXT(scope_, kind_)                                                                  \
	{                                                                                          \
		&to->limit_options[scope_].rates[kind_], from->limit_options[scope_].rates[kind_], \
			NULL                                                                       \
	}

int
config_copy_followed(struct export_config *to, const struct export_config *from)
{
	struct {
		char **to;
		const char *from;
		char *copy;
	} texts[] = {
		{&to->allow, from->allow, NULL},      {&to->allow_write, from->allow_write, NULL},
		LIMIT_TEXT(LIMIT_EXPORT, LIMIT_IOPS), LIMIT_TEXT(LIMIT_EXPORT, LIMIT_BANDWIDTH),
		LIMIT_TEXT(LIMIT_CLIENT, LIMIT_IOPS), LIMIT_TEXT(LIMIT_CLIENT, LIMIT_BANDWIDTH),
	};
	const size_t count = sizeof(texts) / sizeof(texts[0]);
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++)
		r = config_copy_text(&texts[i].copy, texts[i].from);
	for (size_t i = 0; i < count; i++) {
		char *unused = r == 0 ? *texts[i].to : texts[i].copy;

		if (r == 0)
			*texts[i].to = texts[i].copy;
		free(unused);
	}
	for (unsigned int scope = 0; r == 0 && scope < LIMIT_SCOPES; scope++)
		to->limit_options[scope].connections = from->limit_options[scope].connections;
	return r;
}

int
config_copy_defaults(struct export_config *to, const struct export_config *from)
{
	int r = image_config_copy(&to->image, &from->image);

	to->read_only = from->read_only;
	to->clone = from->clone;
	to->clones = from->clones;
	if (r == 0)
		r = config_copy_text(&to->description, from->description);
	if (r == 0)
		r = config_copy_text(&to->changes, from->changes);
	return r < 0 ? r : config_copy_followed(to, from);
}

int
config_add_export(struct server_config *config, const char *name, struct export_config **added,
		  char **error)
{
	struct export_config **end = &config->exports;
	struct export_config *export;

	for (; *end; end = &(*end)->next) {
		if (strcmp((*end)->name, name) != 0)
			continue;
		return error_set(
			error, -EEXIST,
			"there are two exports named \"%s\"; give one of them another name", name);
	}
	export = calloc(1, sizeof(*export));
	if (!export)
		return -ENOMEM;
	*end = *added = export;
	export->name = strdup(name);
	return export->name ? config_copy_defaults(export, &config->defaults) : -ENOMEM;
}

enum tls_choice
config_tls(const struct server_config *config)
{
	if (config->tls != TLS_CHOICE_AUTO)
		return config->tls;
	return config->tls_certificates || config->tls_psk ? TLS_CHOICE_REQUIRE : TLS_CHOICE_OFF;
}

enum tls_choice
config_tls_unix(const struct server_config *config)
{
	enum tls_choice tls = config_tls(config);

	/* What the clients say does not leave the machine, and the kernel tells who they are. */
	return config->tls == TLS_CHOICE_AUTO && tls == TLS_CHOICE_REQUIRE ? TLS_CHOICE_ALLOW : tls;
}

const char *
tls_choice_name(enum tls_choice choice)
{
	static const char *const names[] = {
		[TLS_CHOICE_AUTO] = "auto",
		[TLS_CHOICE_OFF] = "off",
		[TLS_CHOICE_ALLOW] = "allow",
		[TLS_CHOICE_REQUIRE] = "require",
	};

	return names[choice];
}

static int
config_check_tls(const struct server_config *config, char **error)
{
	enum tls_choice tls = config_tls(config);

	if (tls != TLS_CHOICE_OFF && !config->tls_certificates && !config->tls_psk)
		return error_set(
			error, -EINVAL,
			"tls=%s needs certificates (tls-certificates=DIR) or keys (tls-psk=FILE); "
			"nbdloop keys makes them",
			tls == TLS_CHOICE_ALLOW ? "allow" : "require");
	if (config->tls_verify_peer == TRISTATE_ON && !config->tls_certificates)
		return error_set(error, -EINVAL,
				 "tls-verify-peer=on needs certificates: tls-certificates=DIR");
	if (config->tls == TLS_CHOICE_AUTO && tls == TLS_CHOICE_OFF &&
	    (config->tls_priority || config->tls_kernel == TRISTATE_ON))
		return error_set(
			error, -EINVAL,
			"%s needs certificates (tls-certificates=DIR) or keys (tls-psk=FILE); "
			"without them there is no TLS",
			config->tls_priority ? "tls-priority=STRING" : "tls-kernel=on");
	return 0;
}

unsigned int
config_proofs(const struct server_config *config)
{
	unsigned int proofs = 0;

	if (config_tls(config) == TLS_CHOICE_OFF)
		return 0;
	if (config->tls_psk)
		proofs |= RULE_PROOF_KEY;
	/* Nothing of a certificate that is not verified is believed. */
	if (config->tls_certificates && config->tls_verify_peer != TRISTATE_OFF)
		proofs |= RULE_PROOF_CERTIFICATE;
	return proofs;
}

static int
read_limits(struct export_config *export, char **error)
{
	char *CLEANUP_FREE reason = NULL;
	int r = 0;

	for (unsigned int scope = 0; r == 0 && scope < LIMIT_SCOPES; scope++) {
		const struct limit_options *options = &export->limit_options[scope];
		const struct limit_texts texts = {
			.rates = {[LIMIT_IOPS] = options->rates[LIMIT_IOPS],
				  [LIMIT_BANDWIDTH] = options->rates[LIMIT_BANDWIDTH]},
		};

		r = limits_parse(scope, &texts, &export->limits[scope], &reason);
		export->limits[scope].connections = options->connections;
	}
	return r < 0 && reason ? error_set(error, r, "export \"%s\": %s", export->name, reason) : r;
}

/* The second one would find the first one listening. */
static int
config_check_sockets(const struct server_config *config, char **error)
{
	for (char **path = config->unix_socket; path && *path; path++) {
		for (char **before = config->unix_socket; before < path; before++) {
			if (strcmp(*before, *path) == 0)
				return error_set(error, -EINVAL, "unix=%s is given twice", *path);
		}
	}
	return 0;
}

static int
check_http(const struct server_config *config, char **error)
{
	struct http_address address;
	int r;

	if (config->http_token && !config->http)
		return error_set(error, -EINVAL, "http-token=FILE is only for http=ADDRESS:PORT");
	if (!config->http)
		return 0;
	r = http_address_parse(config->http, &address, error);
	if (r == 0)
		http_address_fini(&address);
	return r;
}

bool
config_makes_clones(const struct export_config *export)
{
	return export->clone != CLONE_OFF || export->image.temporary == TRISTATE_ON;
}

static int
check_clones(const struct server_config *config, const struct export_config *export, char **error)
{
	const char *why = NULL;

	if (export->clone == CLONE_OFF)
		return 0;
	if (export->read_only == TRISTATE_ON)
		why = "read-only=on: nothing would be written to the clones";
	else if (export->changes && strcmp(export->changes, "none") != 0)
		why = "changes=FILE: clones and their checkpoints are thrown away";
	else if (config->swap == TRISTATE_ON)
		why = "--swap: a clone needs new memory for its map";
	else if (!image_kind_is_path(export->file))
		why = "this image: temporary clones are only for files and block devices";
	return why ? error_set(error, -EINVAL, "export \"%s\": clone=%s is not possible with %s",
			       export->name, clone_choices[export->clone], why)
		   : 0;
}

/* Defaults may be for only some of the exports. */
static int
check_images(struct server_config *config, char **error)
{
	const struct image_config *defaults = &config->defaults.image;
	int r = 0;

	for (const struct export_config *export = config->exports; r == 0 && export;
	     export = export->next) {
		config->refused = export;
		r = image_kind_check(export->file, &export->image, defaults, error);
	}
	return r;
}

void
config_warn(const struct server_config *config)
{
	for (const struct image_kind *const *kind = image_kinds; *kind; kind++) {
		const char *option = image_kind_option(*kind, &config->defaults.image, NULL);
		const struct export_config *export = config->exports;

		while (export && image_kind_of(export->file) != *kind)
			export = export->next;
		if (option && !export)
			log_warning("%s is not used: it is only for %s, and no export has one",
				    option, (*kind)->all);
	}
}

int
config_check(struct server_config *config, unsigned int proofs, char **error)
{
	int r = 0;

	if (!config->exports)
		return error_set(
			error, -EINVAL,
			"there is no image to serve: name one (nbdloopd disk.img), or use --export or "
			"--config; nbdloopd --help tells more");
	for (struct export_config *export = config->exports; r == 0 && export;
	     export = export->next) {
		char *CLEANUP_FREE reason = NULL;

		config->refused = export;
		if (!export->file || !export->file[0])
			return error_set(error, -EINVAL,
					 "the export \"%s\" has no image: file=PATH is missing",
					 export->name);
		r = access_new(export->allow, export->allow_write, proofs, &export->access,
			       &reason);
		if (r < 0 && reason)
			return error_set(error, r, "export \"%s\": %s", export->name, reason);
		if (r == 0)
			r = read_limits(export, error);
		if (r == 0)
			r = check_clones(config, export, error);
	}
	if (r == 0)
		r = check_images(config, error);
	if (r < 0)
		return r;
	config->refused = NULL;
	r = config_check_sockets(config, error);
	if (r == 0)
		r = check_http(config, error);
	return r < 0 ? r : config_check_tls(config, error);
}

const char *
export_config_difference(const struct export_config *a, const struct export_config *b)
{
	const struct option_row *row = export_option_rows();

	/* Rules and limits are changed while the server runs. */
	while (row->name &&
	       (strcmp(row->name, "allow") == 0 || strcmp(row->name, "allow-write") == 0 ||
		option_find(limit_option_rows, row->name) || same_value(row, a, b)))
		row++;
	return row->name;
}

void
config_visit_differences(const struct server_config *a, const struct server_config *b,
			 void (*visit)(const char *name))
{
	for (const struct option_row *row = server_option_rows; row->name; row++) {
		/* The directories are read each time. */
		if (strcmp(row->name, "include") != 0 && !same_value(row, a, b))
			visit(row->name);
	}
}

/* ---- rows of options */

#define SERVER(name_)        offsetof(struct server_config, name_)
#define EXPORT(name_)        offsetof(struct export_config, name_)
#define LIMIT(scope_, name_) EXPORT(limit_options[scope_].name_)

/* Room for the rows of an export and of its image, and for the one that ends them. */
#define EXPORT_ROWS_MAX 48

static const char *const tls_choices[] = {"auto", "off", "allow", "require", NULL};
static const char *const logs[] = {"stderr", "syslog", NULL};

const struct option_row server_option_rows[] = {
	{
		.name = "port",
		.letter = 'p',
		.type = OPTION_UINT,
		.field = SERVER(port),
		.min = 1,
		.max = 65535,
		.arg = "N",
		.help = "listen on this TCP port (default with --address: 10809)",
	},
	{
		.name = "address",
		.letter = 'a',
		.type = OPTION_LIST,
		.field = SERVER(address),
		.arg = "ADDRESS",
		.help = "listen on this address or name (default: 127.0.0.1 and ::1); any: on all networks",
	},
	{
		.name = "unix",
		.letter = 'U',
		.type = OPTION_LIST,
		.field = SERVER(unix_socket),
		.arg = "PATH",
		.help = "listen on a unix socket",
	},
	{
		.name = "vsock",
		.type = OPTION_UINT,
		.field = SERVER(vsock),
		.min = 1,
		.arg = "PORT",
		.help = "listen on this vsock port, for virtual machines",
	},
	{
		.name = "socket-activation",
		OPTION_OFF_ON_AUTO,
		.field = SERVER(activation),
		.initial = "auto",
		.help = "use the sockets that systemd passes",
	},
	{
		.name = "fd",
		.type = OPTION_LIST,
		.field = SERVER(fd),
		.arg = "N",
		.help = "serve the client on the connected socket that is inherited as file descriptor N",
	},
	{
		.name = "fd-from",
		.type = OPTION_UINT,
		.field = SERVER(fd_from),
		.min = 1,
		.max = 1 << 20,
		.arg = "N",
		.help = "take connected sockets from the unix socket that is inherited as file descriptor N",
	},
	{
		.name = "list",
		OPTION_OFF_ON,
		.field = SERVER(list),
		.initial = "on",
		.help = "tell clients the names of the exports",
	},
	{
		.name = "tls",
		.type = OPTION_CHOICE,
		.field = SERVER(tls),
		.initial = "auto",
		.choices = tls_choices,
		.arg = "off|allow|require|auto",
		.help = "whether clients use TLS; auto: required over TCP and vsock if certificates or keys are given",
	},
	{
		.name = "tls-certificates",
		.type = OPTION_STRING,
		.field = SERVER(tls_certificates),
		.arg = "DIR",
		.help = "directory with server-cert.pem, server-key.pem, ca-cert.pem and ca-crl.pem",
	},
	{
		.name = "tls-psk",
		.type = OPTION_STRING,
		.field = SERVER(tls_psk),
		.arg = "FILE",
		.help = "file with lines USER:HEXKEY, the keys of clients (pre-shared keys)",
	},
	{
		.name = "tls-verify-peer",
		OPTION_OFF_ON_AUTO,
		.field = SERVER(tls_verify_peer),
		.initial = "auto",
		.help = "verify the certificates of clients; auto: if there is a ca-cert.pem",
	},
	{
		.name = "tls-priority",
		.type = OPTION_STRING,
		.field = SERVER(tls_priority),
		.arg = "STRING",
		.help = "protocols and ciphers, in GnuTLS's form",
	},
	{
		.name = "tls-kernel",
		OPTION_OFF_ON_AUTO,
		.field = SERVER(tls_kernel),
		.initial = "auto",
		.help = "let the kernel encrypt; auto: only where that can't end a connection",
	},
	{
		.name = "threads",
		.letter = 't',
		.type = OPTION_UINT,
		.field = SERVER(threads),
		.initial = "0",
		.max = 1024,
		.arg = "N",
		.help = "number of threads; 0 means one per processor",
	},
	{
		.name = "poll-max-us",
		.type = OPTION_UINT,
		.field = SERVER(poll_max_us),
		.initial = "0",
		.max = 1000000,
		.arg = "N",
		.help = "longest time that a thread polls before it sleeps, in microseconds; 0 means not to poll",
	},
	{
		.name = "memory",
		.type = OPTION_SIZE,
		.field = SERVER(memory),
		.initial = "128M",
		.min = 32 << 20,
		.max = SIZE_MAX / 4 + 1,
		.arg = "SIZE",
		.help = "maximum memory of each thread for the data of requests",
	},
	{
		.name = "max-connections",
		.type = OPTION_UINT,
		.field = SERVER(max_connections),
		.initial = "100",
		.max = 1000000,
		.arg = "N",
		.help = "maximum number of connections; 0 means no limit",
	},
	{
		.name = "handshake-limit",
		.type = OPTION_UINT,
		.field = SERVER(handshake_limit),
		.initial = "10",
		.min = 1,
		.max = 86400,
		.arg = "SECONDS",
		.help = "close a connection that has not chosen an export within this time",
	},
	{
		.name = "stuck-limit",
		.type = OPTION_UINT,
		.field = SERVER(stuck_limit),
		.initial = "30",
		.min = 1,
		.max = 86400,
		.arg = "SECONDS",
		.help = "close a connection that holds memory for this long while others wait for that memory",
	},
	{
		.name = "drain-limit",
		.type = OPTION_UINT,
		.field = SERVER(drain_limit),
		.initial = "30",
		.max = 86400,
		.arg = "SECONDS",
		.help = "longest wait for requests in progress when the server shuts down",
	},
	{
		.name = "user",
		.letter = 'u',
		.type = OPTION_STRING,
		.field = SERVER(user),
		.arg = "USER[:GROUP]",
		.help = "become this user once images and sockets are open",
	},
	{
		.name = "pid-file",
		.letter = 'P',
		.type = OPTION_STRING,
		.field = SERVER(pid_file),
		.arg = "PATH",
		.help = "write the process ID to this file when the server is ready",
	},
	SERVER_OPTION_NOTIFY_FD(SERVER(notify_fd)),
	SERVER_OPTION_CONTROL(SERVER(control)),
	{
		.name = "http",
		.type = OPTION_STRING,
		.field = SERVER(http),
		.arg = "ADDRESS:PORT|unix:PATH",
		.help = "show a page, the status as JSON and metrics by HTTP at this address",
	},
	{
		.name = "http-token",
		.type = OPTION_STRING,
		.field = SERVER(http_token),
		.arg = "FILE",
		.help = "file with a token that clients of --http must know",
	},
	SERVER_OPTION_SWAP(SERVER(swap)),
	{
		.name = "sandbox",
		OPTION_OFF_ON_AUTO,
		.field = SERVER(sandbox),
		.initial = "auto",
		.help = "give up what a running server doesn't need; auto: as far as possible",
	},
	{
		.name = "sandbox-path",
		.type = OPTION_LIST,
		.field = SERVER(sandbox_path),
		.arg = "DIR",
		.help = "directory that the server may open later, for images and snapshots",
	},
	{
		.name = "include",
		.type = OPTION_LIST,
		.field = SERVER(include),
		.arg = "DIR",
		.help = "read the exports in the files *.conf of this directory, too",
	},
	{
		.name = "log",
		.type = OPTION_CHOICE,
		.field = SERVER(log),
		.initial = "stderr",
		.choices = logs,
		.arg = "stderr|syslog",
		.help = "where messages go",
	},
	{.name = NULL},
};

const struct option_row limit_option_rows[] = {
	{
		.name = "iops-limit",
		.type = OPTION_STRING,
		.field = LIMIT(LIMIT_EXPORT, rates[LIMIT_IOPS]),
		.arg = "LIMIT",
		.help = "operations per second, such as 1000 or read:1000,write:500 (default: no limit)",
	},
	{
		.name = "bandwidth-limit",
		.type = OPTION_STRING,
		.field = LIMIT(LIMIT_EXPORT, rates[LIMIT_BANDWIDTH]),
		.arg = "LIMIT",
		.help = "bytes per second, such as 100M or read:100M,write:50M (default: no limit)",
	},
	{
		.name = "connections-limit",
		.type = OPTION_UINT,
		.field = LIMIT(LIMIT_EXPORT, connections),
		.initial = "0",
		.max = CONNECTIONS_LIMIT_MAX,
		.arg = "N",
		.help = "maximum number of connections to the export; 0 means no limit",
	},
	{
		.name = "client-iops-limit",
		.type = OPTION_STRING,
		.field = LIMIT(LIMIT_CLIENT, rates[LIMIT_IOPS]),
		.arg = "LIMIT",
		.help = "operations per second of each client (default: no limit)",
	},
	{
		.name = "client-bandwidth-limit",
		.type = OPTION_STRING,
		.field = LIMIT(LIMIT_CLIENT, rates[LIMIT_BANDWIDTH]),
		.arg = "LIMIT",
		.help = "bytes per second of each client (default: no limit)",
	},
	{
		.name = "client-connections-limit",
		.type = OPTION_UINT,
		.field = LIMIT(LIMIT_CLIENT, connections),
		.initial = "0",
		.max = CONNECTIONS_LIMIT_MAX,
		.arg = "N",
		.help = "maximum number of connections of each client to the export; 0 means no limit",
	},
	{.name = NULL},
};

/* The options of an export itself; "file", which has no default, comes first. */
static const struct option_row own_rows[] = {
	{
		.name = "file",
		.type = OPTION_STRING,
		.field = EXPORT(file),
		.arg = "PATH",
		.help = "the image file or block device to serve",
	},
	{
		.name = "description",
		.type = OPTION_STRING,
		.field = EXPORT(description),
		.arg = "TEXT",
		.help = "text that clients can show with the name of the export",
	},
	{
		.name = "changes",
		.type = OPTION_STRING,
		.field = EXPORT(changes),
		.arg = "FILE|none",
		.help = "where checkpoints are kept (default: IMAGE.changes, but not of a device)",
	},
	{
		.name = "read-only",
		.letter = 'r',
		OPTION_OFF_ON_AUTO,
		.field = EXPORT(read_only),
		.initial = "auto",
		.alone = "on",
		.help = "do not let clients write",
	},
	{
		.name = "clone",
		.type = OPTION_CHOICE,
		.field = EXPORT(clone),
		.initial = "off",
		.choices = clone_choices,
		.arg = "off|connection|client",
		.help = "give each connection or client a temporary clone of its own",
	},
	{
		.name = "clones-limit",
		.type = OPTION_UINT,
		.field = EXPORT(clones),
		.initial = "100",
		.max = 1000000,
		.arg = "N",
		.help = "maximum number of clones at once; 0 means no limit",
	},
	{
		.name = "allow",
		.type = OPTION_STRING,
		.field = EXPORT(allow),
		.arg = "RULE,...",
		.help = "only these clients, such as user:NAME or net:10.0.0.0/8",
	},
	{
		.name = "allow-write",
		.type = OPTION_STRING,
		.field = EXPORT(allow_write),
		.arg = "RULE,...",
		.help = "only these clients may write; those of allow may only read",
	},
	{.name = NULL},
};

const struct option_row *
export_option_rows(void)
{
	static struct option_row rows[EXPORT_ROWS_MAX];
	struct option_row *kept = rows;

	if (rows[0].name)
		return rows;
	options_append(rows, EXPORT_ROWS_MAX, own_rows, 0);
	options_append(rows, EXPORT_ROWS_MAX, limit_option_rows, 0);
	options_append(rows, EXPORT_ROWS_MAX, image_option_rows, EXPORT(image));
	for (const struct option_row *row = rows; row->name; row++) {
		/* Each thread has exactly one context for an image. */
		if (strcmp(row->name, "contexts") == 0)
			continue;
		*kept = *row;
		/* A context belongs to a thread, and so carries out many requests at once. */
		if (strcmp(row->name, "depth") == 0) {
			kept->initial = "128";
			kept->max = 1024;
			kept->help = "maximum number of operations in flight per thread and image";
		}
		kept++;
	}
	*kept = (struct option_row){.name = NULL};
	return rows;
}

const struct option_row *
export_default_rows(void)
{
	return export_option_rows() + 1;
}
