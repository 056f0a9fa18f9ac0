/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The option rows of the server and its exports.
 */
#include "server/config/server_config.h"

#include "server/config/passed_options.h"
#include "server/config/sandbox_options.h"

#include "common/server_options.h"

#include <string.h>

#define SERVER(name_) offsetof(struct server_config, name_)
#define EXPORT(name_) offsetof(struct export_config, name_)

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
		.manual =
			"Listen on this TCP port, on the local machine only unless I<--address>\n"
			"says otherwise.  The default is 10809 if I<--address> is given, or if no\n"
			"option tells the server where to listen.\n",
	},
	{
		.name = "address",
		.letter = 'a',
		.type = OPTION_LIST,
		.field = SERVER(address),
		.arg = "ADDRESS",
		.help = "listen on this address or name (default: 127.0.0.1 and ::1); any: on all networks",
		.manual =
			"Listen on TCP at this address of the machine, IPv4 or IPv6, or at all\n"
			"addresses of this name.  The option may be given several times.  C<any>\n"
			"means all networks that this machine is connected to; read\n"
			"L</Who may connect> first.\n\n"
			"The default is 127.0.0.1 and ::1, where only programs on this machine\n"
			"can connect.\n",
	},
	{
		.name = "unix",
		.letter = 'U',
		.type = OPTION_LIST,
		.field = SERVER(unix_socket),
		.arg = "PATH",
		.help = "listen on a unix socket",
		.manual =
			"Listen on a unix socket with this path.  The option may be given several\n"
			"times.  Users who may write to the socket can connect.  The socket\n"
			"belongs to the user who starts the server, and its mode is subject to\n"
			"the umask, so usually only that user can connect.  A socket on which no\n"
			"program listens any more is replaced.  When the server ends, it removes\n"
			"its socket.\n",
	},
	{
		.name = "vsock",
		.type = OPTION_UINT,
		.field = SERVER(vsock),
		.min = 1,
		.arg = "PORT",
		.help = "listen on this vsock port, for virtual machines",
		.manual =
			"Listen on this port of the vsock address family, through which a virtual\n"
			"machine and its host communicate without a network.\n",
	},
	{
		.name = "socket-activation",
		OPTION_OFF_ON_AUTO,
		.field = SERVER(activation),
		.initial = "auto",
		.help = "use the sockets that systemd passes",
		.manual = "Use the sockets that systemd (or another program that sets\n"
			  "C<LISTEN_FDS>) passes to the server, in addition to those of other\n"
			  "options.  C<auto> uses these sockets if there are any, C<on> fails if\n"
			  "there are none, and C<off> ignores them.\n",
	},
	SERVER_OPTION_FD(SERVER(fd)),
	SERVER_OPTION_FD_FROM(SERVER(fd_from)),
	{
		.name = "list",
		OPTION_OFF_ON,
		.field = SERVER(list),
		.initial = "on",
		.help = "tell clients the names of the exports",
		.manual =
			"Whether clients that ask for a list of the exports get it.  With C<off>,\n"
			"a client must know the name of an export.  This does not replace access\n"
			"control: names are not passwords.\n",
	},
	{
		.name = "tls",
		.type = OPTION_CHOICE,
		.field = SERVER(tls),
		.initial = "auto",
		.choices = tls_choices,
		.arg = "off|allow|require|auto",
		.help = "whether clients use TLS; auto: required if certificates or keys are given",
		.manual =
			"Whether clients use TLS, which encrypts the connection.  With C<require>,\n"
			"a client without TLS gets nothing, not even the list of exports; with\n"
			"C<allow>, the client decides; with C<off>, there is no TLS.  C<auto> is\n"
			"C<require> if I<--tls-certificates> or I<--tls-psk> is given.  Otherwise\n"
			"it is C<off>, and the server refuses to listen on an address that other\n"
			"machines can reach: say C<off> yourself if you trust that network.  See\n"
			"L</TLS>.\n",
	},
	{
		.name = "tls-certificates",
		.type = OPTION_STRING,
		.field = SERVER(tls_certificates),
		.arg = "DIR",
		.help = "directory with server-cert.pem, server-key.pem, ca-cert.pem and ca-crl.pem",
		.manual =
			"The directory with the server's certificate and its key,\n"
			"F<server-cert.pem> and F<server-key.pem>.  If F<ca-cert.pem> is there,\n"
			"clients must show a certificate that this authority has signed, and that\n"
			"F<ca-crl.pem>, if it is there, does not revoke.  QEMU and nbdkit use the\n"
			"same names.\n",
	},
	{
		.name = "tls-psk",
		.type = OPTION_STRING,
		.field = SERVER(tls_psk),
		.arg = "FILE",
		.help = "file with lines USER:HEXKEY, the keys of clients (pre-shared keys)",
		.manual =
			"A file with keys that clients have, too (pre-shared keys): lines\n"
			"USER:HEXKEY, of at least 16 bytes, as C<nbdloop keys> and L<psktool(1)>\n"
			"write them.  The file must be a regular file.  A line that begins with C<#>\n"
			"is a comment; GnuTLS's user names in hexadecimal digits (C<#HEX:HEXKEY>)\n"
			"are an error.  With certificates as well, each client chooses how to prove\n"
			"itself.\n",
	},
	{
		.name = "tls-verify-peer",
		OPTION_OFF_ON_AUTO,
		.field = SERVER(tls_verify_peer),
		.initial = "auto",
		.help = "verify the certificates of clients; auto: if there is a ca-cert.pem",
		.manual = "Whether clients must show a certificate that F<ca-cert.pem> verifies.\n"
			  "C<auto> means: if that file is there.  With C<off>, the connection is\n"
			  "encrypted, but everybody can connect.\n",
	},
	{
		.name = "tls-priority",
		.type = OPTION_STRING,
		.field = SERVER(tls_priority),
		.arg = "STRING",
		.help = "protocols and ciphers, as GnuTLS writes them",
		.manual =
			"The protocols and ciphers that the server agrees to, in GnuTLS's form\n"
			"(L<https://gnutls.org/manual/html_node/Priority-Strings.html>).  By\n"
			"default, these are TLS 1.3 and 1.2, with AES-128-GCM before AES-256-GCM\n"
			"and ChaCha20-Poly1305.  Older protocols and session tickets stay off\n"
			"whatever the text says.\n",
	},
	{
		.name = "tls-kernel",
		OPTION_OFF_ON_AUTO,
		.field = SERVER(tls_kernel),
		.initial = "auto",
		.help = "let the kernel encrypt; auto: only where that can't end a connection",
		.manual =
			"Whether the kernel encrypts and decrypts TCP connections, once the\n"
			"handshake is over, if it has its module C<tls>.  The kernel can't follow\n"
			"a client that changes its keys, and clients with GnuTLS do so after 16\n"
			"million records with TLS 1.3 and AES-GCM; so C<auto> means: only with TLS\n"
			"1.2 or ChaCha20-Poly1305.  With C<on>, those clients lose their\n"
			"connection then, and must connect again.  No key of AES-GCM encrypts\n"
			"more than 256 GiB in one direction: then the server answers the requests\n"
			"that it has begun, ends the connection, and says so in the log.  The\n"
			"status tells for each connection where it is encrypted, and why.\n",
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
		.manual =
			"The number of threads.  Each connection is served by one of them; a new\n"
			"connection goes to the thread that has the fewest connections.  0 means\n"
			"one thread for each processor that the server may use.\n",
	},
	{
		.name = "poll-max-us",
		.type = OPTION_UINT,
		.field = SERVER(poll_max_us),
		.initial = "0",
		.max = 1000000,
		.arg = "N",
		.help = "longest time that a thread polls before it sleeps, in microseconds; 0 means not to poll",
		.manual =
			"Before a thread goes to sleep, it polls the network and the disk for at\n"
			"most this many microseconds.  If few requests are in flight, this saves\n"
			"the time that it takes to go to sleep and wake up, and costs processor\n"
			"time; see L</Polling>.  0 means that the thread sleeps at once.\n",
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
		.manual =
			"The maximum memory in each thread for the data of requests in progress.\n"
			"When all of it is in use, the server carries out one request of up to 2\n"
			"MiB at a time for each connection, and reads no more requests from the\n"
			"connection until some are answered.  See L</Memory>.\n",
	},
	{
		.name = "max-connections",
		.type = OPTION_UINT,
		.field = SERVER(max_connections),
		.initial = "100",
		.max = 1000000,
		.arg = "N",
		.help = "maximum number of connections; 0 means no limit",
		.manual =
			"The maximum number of connections.  Further clients get an error that\n"
			"says so, and the log gets a message.  0 means no limit other than that\n"
			"of open files (C<ulimit -Hn>).\n\n"
			"At most half of them are for clients that have not chosen an export yet.\n"
			"Further ones wait; after a second, one of those goes that have waited\n"
			"longest, from the address that has most of them.\n",
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
		.manual = "Disconnect a client that has not chosen an export within this time.\n"
			  "Once a client has chosen an export, it may be idle for any length of\n"
			  "time.\n",
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
		.manual =
			"Disconnect a client that holds memory which other connections wait for,\n"
			"if it reads its replies, or sends the data of a write that it has begun,\n"
			"at less than 64 KiB per second on average over this time.  While no\n"
			"connection waits for memory, a client may be as slow as it likes: a\n"
			"virtual machine that is paused keeps its disk.  Over a unix socket, with\n"
			"io_uring, a reply or a write must be complete within this time.\n",
	},
	{
		.name = "drain-limit",
		.type = OPTION_UINT,
		.field = SERVER(drain_limit),
		.initial = "30",
		.max = 86400,
		.arg = "SECONDS",
		.help = "longest wait for requests in progress when the server shuts down",
		.manual =
			"When the server shuts down, it carries out and answers the requests that\n"
			"have arrived.  After this time, requests that have not begun get the\n"
			"error ESHUTDOWN, and one second later the server closes the connections\n"
			"that still have unanswered requests.  At a second SIGTERM or SIGINT,\n"
			"this time is over at once.\n",
	},
	{
		.name = "user",
		.letter = 'u',
		.type = OPTION_STRING,
		.field = SERVER(user),
		.arg = "USER[:GROUP]",
		.help = "become this user once images and sockets are open",
		.manual =
			"Become this user (a name or a number), with the groups of that user, as\n"
			"soon as images and sockets are open.  With a GROUP (a name or a number),\n"
			"the server has this group only; a GROUP is required if the user is a\n"
			"number without an entry in the user database.  This option needs root.\n"
			"Images that are opened later, at SIGHUP or by the control socket, must\n"
			"be accessible to that user.\n",
	},
	{
		.name = "pid-file",
		.letter = 'P',
		.type = OPTION_STRING,
		.field = SERVER(pid_file),
		.arg = "PATH",
		.help = "write the process ID to this file when the server is ready",
		.manual = "Write the process ID to this file as soon as clients can connect, and\n"
			  "remove the file when the server ends.  If the file exists already, it\n"
			  "must be empty or hold a process ID.  If it is any other file, or a\n"
			  "symbolic link, the server leaves it alone and does not start.\n",
	},
	{
		.name = "notify-fd",
		.type = OPTION_UINT,
		.field = SERVER(notify_fd),
		.min = 1,
		.max = 1 << 20,
		.arg = "N",
		.help = "write a newline to file descriptor N when the server is ready",
		.manual = "Write a newline to the inherited file descriptor N, and close it, as\n"
			  "soon as clients can connect.  systemd (C<Type=notify>) does not need\n"
			  "this option.\n",
	},
	SERVER_OPTION_CONTROL(SERVER(control)),
	{
		.name = "http",
		.type = OPTION_STRING,
		.field = SERVER(http),
		.arg = "ADDRESS:PORT|unix:PATH",
		.help = "show a page, the status as JSON and metrics by HTTP at this address",
		.manual =
			"Answer requests of HTTP at this address or name (C<localhost:9140>,\n"
			"C<[::1]:9140>), or on a unix socket: a page for people, the status as\n"
			"JSON, and metrics for Prometheus.  See L</PAGE AND METRICS>.  An address\n"
			"that other machines can reach needs I<--http-token>.\n",
	},
	{
		.name = "http-token",
		.type = OPTION_STRING,
		.field = SERVER(http_token),
		.arg = "FILE",
		.help = "file with a token that clients of --http must know",
		.manual =
			"Answer by HTTP with figures only if the request has the token that is in\n"
			"this file, one line of 16 to 512 visible ASCII characters.  See\n"
			"L</PAGE AND METRICS>.\n",
	},
	SERVER_OPTION_SWAP(SERVER(swap)),
	SERVER_OPTION_SANDBOX(SERVER(sandbox)),
	SERVER_OPTION_SANDBOX_PATH(SERVER(sandbox_path)),
	{
		.name = "log",
		.type = OPTION_CHOICE,
		.field = SERVER(log),
		.initial = "stderr",
		.choices = logs,
		.arg = "stderr|syslog",
		.help = "where messages go",
		.manual =
			"Write messages to standard error, or to the system log.  Under systemd,\n"
			"standard error is the journal, where each message has a priority.  The\n"
			"error that ends the server goes to standard error in any case.\n",
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
		.manual = "The image to serve: a regular file or a block device.  It is served as\n"
			  "raw bytes; the server warns if they look like another format, such as\n"
			  "qcow2.\n",
	},
	{
		.name = "description",
		.type = OPTION_STRING,
		.field = EXPORT(description),
		.arg = "TEXT",
		.help = "text that clients can show with the name of the export",
		.manual = "A description for people, which clients can show with the name of the\n"
			  "export.\n",
	},
	{
		.name = "changes",
		.type = OPTION_STRING,
		.field = EXPORT(changes),
		.arg = "FILE|none",
		.help = "where checkpoints are kept (default: IMAGE.changes, but not of a device)",
		.manual =
			"The file that keeps the checkpoints of the image when the server ends; see\n"
			"L</Checkpoints>.  It exists only while there are some.  With C<none>, they\n"
			"end with the server.\n"
			"\n"
			"The default is the path of the image with F<.changes> after it (with\n"
			"I<offset>, F<.OFFSET.changes>); of a block device, C<none>.  An export whose\n"
			"file is an image of this server, or that another export names, is refused.\n",
	},
	{
		.name = "read-only",
		.letter = 'r',
		OPTION_OFF_ON_AUTO,
		.field = EXPORT(read_only),
		.initial = "auto",
		.alone = "on",
		.help = "do not let clients write",
		.manual =
			"Do not let clients write, and open the image read-only.  With C<auto>, the\n"
			"default, clients may write if the server can write to the image.  If not,\n"
			"the image is served read-only, and the line at the start gives the reason.\n"
			"C<off> fails then, with that reason.\n",
	},
	{
		.name = "allow",
		.type = OPTION_STRING,
		.field = EXPORT(allow),
		.arg = "RULE,...",
		.help = "only these clients, such as user:NAME or net:10.0.0.0/8",
		.manual = "Only clients that one of these rules names may use the export; see\n"
			  "L</Rules>.  Without I<allow> and I<allow-write>, all clients\n"
			  "that can connect may use it.\n",
	},
	{
		.name = "allow-write",
		.type = OPTION_STRING,
		.field = EXPORT(allow_write),
		.arg = "RULE,...",
		.help = "only these clients may write; those of allow may only read",
		.manual =
			"Only clients that one of these rules names may write to the export.  They\n"
			"may read it, too.  Clients that only I<allow> names get the export\n"
			"read-only.  With I<allow-write> alone, all other clients are refused: for\n"
			"an export that everybody may read, add C<allow=any>.\n",
	},
	{.name = NULL},
};

/* In nbdloopd, a context belongs to a thread, and so carries out many requests at once. */
static void
fit_depth(struct option_row *row)
{
	row->initial = "128";
	row->max = 1024;
	row->help = "maximum number of operations in flight per thread and image";
	row->manual =
		"The queue depth: the maximum number of operations on an image that each thread has in flight; further\n"
		"requests wait.  To keep a disk busy, the depth must be as large as the number of requests that clients\n"
		"have in flight; the kernel's client sends up to 128 requests on each connection.  Each operation has a\n"
		"buffer of 128 KiB, which occupies memory once it is used: with direct I/O, for requests that are not\n"
		"aligned to its blocks.\n";
}

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
		if (strcmp(row->name, "depth") == 0)
			fit_depth(kept);
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
