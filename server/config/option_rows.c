/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The option rows of the server and its exports.
 */
#include "server/config/server_config.h"

#define SERVER(name_) offsetof(struct server_config, name_)
#define EXPORT(name_) offsetof(struct export_config, name_)

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
		.type = OPTION_CHOICE,
		.field = SERVER(activation),
		.initial = "auto",
		.choices = option_off_on_auto,
		.arg = "on|off|auto",
		.help = "use the sockets that systemd passes",
		.manual = "Use the sockets that systemd (or another program that sets\n"
			  "C<LISTEN_FDS>) passes to the server, in addition to those of other\n"
			  "options.  C<auto> uses these sockets if there are any, C<on> fails if\n"
			  "there are none, and C<off> ignores them.\n",
	},
	{
		.name = "fd",
		.type = OPTION_LIST,
		.field = SERVER(fd),
		.arg = "N",
		.help = "serve the client on the connected socket that is inherited as file descriptor N",
		.manual =
			"Serve the client at the other end of a connected socket that the server\n"
			"inherits as file descriptor N.  The option may be given several times.\n"
			"If no other option tells the server where to listen, it listens nowhere,\n"
			"and ends when these connections have ended.\n",
	},
	{
		.name = "list",
		.type = OPTION_CHOICE,
		.field = SERVER(list),
		.initial = "on",
		.choices = option_off_on,
		.arg = "on|off",
		.help = "tell clients the names of the exports",
		.manual =
			"Whether clients that ask for a list of the exports get it.  With C<off>,\n"
			"a client must know the name of an export.  This does not replace access\n"
			"control: names are not passwords.\n",
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
			"When it is used up, the server carries out one request of up to 2 MiB at\n"
			"a time for each connection, and reads no more requests from the\n"
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
		.manual = "The maximum number of connections.  Further connections are closed at\n"
			  "once, with a log message.  0 means no limit other than that of open\n"
			  "files (C<ulimit -Hn>).\n",
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
	{
		.name = "control",
		.type = OPTION_STRING,
		.field = SERVER(control),
		.arg = "PATH",
		.help = "listen on this unix socket for requests for the status and for changes",
		.manual =
			"Listen on a unix socket with this path for requests for the status, and\n"
			"for changes while clients are connected.  See L</CONTROL SOCKET>.\n",
	},
	{
		.name = "swap",
		.type = OPTION_CHOICE,
		.field = SERVER(swap),
		.initial = "off",
		.choices = option_off_on,
		.alone = "on",
		.arg = "on|off",
		.help = "prepare for a disk that this machine itself swaps or writes back to",
		.manual =
			"Use this option if the image is a disk of the machine that serves it.\n"
			"It makes the server able to go on when memory is short; see\n"
			"L</An image that this machine uses itself>.  It needs root, or the capabilities\n"
			"C<CAP_SYS_RESOURCE> and C<CAP_IPC_LOCK>, and fails without them.\n",
	},
	{
		.name = "log",
		.type = OPTION_CHOICE,
		.field = SERVER(log),
		.initial = "stderr",
		.choices = logs,
		.arg = "stderr|syslog",
		.help = "where messages go",
		.manual = "Where messages go: to standard error, or to the system log.  Under\n"
			  "systemd, standard error is the journal, where each message has a\n"
			  "priority.\n",
	},
	{.name = NULL},
};

const struct option_row export_option_rows[] = {
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
		.name = "read-only",
		.letter = 'r',
		.type = OPTION_CHOICE,
		.field = EXPORT(read_only),
		.initial = "off",
		.choices = option_off_on,
		.alone = "on",
		.arg = "on|off",
		.help = "do not let clients write",
		.manual = "Do not let clients write, and open the image read-only.  If the server\n"
			  "may not write to the image, the image is served read-only even without\n"
			  "this option.\n",
	},
	{.name = NULL},
};

const struct option_row export_file_rows[] = {
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
	{.name = NULL},
};
