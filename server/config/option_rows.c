/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The option rows of the server and its exports.
 */
#include "server/config/server_config.h"

#include "common/server_options.h"

#include <string.h>

#define SERVER(name_)        offsetof(struct server_config, name_)
#define EXPORT(name_)        offsetof(struct export_config, name_)
#define LIMIT(scope_, name_) EXPORT(limit_options[scope_].name_)

/* Room for the rows of an export and of its image, and for the one that ends them. */
#define EXPORT_ROWS_MAX 32

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
		.help = "whether clients use TLS; auto: required if certificates or keys are given",
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
		.help = "protocols and ciphers, as GnuTLS writes them",
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
		.help = "a directory in which images and snapshots may also be, later",
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
		.help = "the same for each client of the export by itself (default: no limit)",
	},
	{
		.name = "client-bandwidth-limit",
		.type = OPTION_STRING,
		.field = LIMIT(LIMIT_CLIENT, rates[LIMIT_BANDWIDTH]),
		.arg = "LIMIT",
		.help = "the same for each client of the export by itself (default: no limit)",
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
