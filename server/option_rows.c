/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The option rows of the server and its exports.
 */
#include "server/config.h"

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
		.help = "listen on this TCP port (10809 if an address is given without)",
		.manual =
			"Listen on this TCP port: of the local machine only, unless I<--address> says otherwise.\n"
			"10809 if I<--address> is given without a port, or when nothing tells where to listen.\n",
	},
	{
		.name = "address",
		.letter = 'a',
		.type = OPTION_LIST,
		.field = SERVER(address),
		.arg = "ADDRESS",
		.help = "listen on this address or name (default: 127.0.0.1 and ::1); any: of all networks",
		.manual =
			"Listen on TCP at this address of the machine, IPv4 or IPv6, or at all addresses of this name.\n"
			"It may be given several times.  C<any> means every network that this machine is in: see\n"
			"L</Who may connect> before.\n\n"
			"The default is 127.0.0.1 and ::1, where only programs of this machine can connect.\n",
	},
	{
		.name = "unix",
		.letter = 'U',
		.type = OPTION_LIST,
		.field = SERVER(unix_socket),
		.arg = "PATH",
		.help = "listen on a unix socket",
		.manual =
			"Listen on a unix socket with this path.  It may be given several times.  Those may connect\n"
			"who may write to the socket: it belongs to the user who starts the server, and its mode\n"
			"is what the umask leaves, so usually that user only.  A socket that nobody listens on any\n"
			"more is replaced, and the server removes its own at its end.\n",
	},
	{
		.name = "vsock",
		.type = OPTION_UINT,
		.field = SERVER(vsock),
		.min = 1,
		.arg = "PORT",
		.help = "listen on this port of vsock, for virtual machines",
		.manual =
			"Listen on this port of the vsock address family, by which a virtual machine and its host\n"
			"talk without a network.\n",
	},
	{
		.name = "socket-activation",
		.type = OPTION_CHOICE,
		.field = SERVER(activation),
		.initial = "auto",
		.choices = option_off_on_auto,
		.arg = "on|off|auto",
		.help = "use the sockets that systemd passes",
		.manual =
			"Use the sockets that systemd (or another program that sets C<LISTEN_FDS>) passes to\n"
			"the server, besides those of other options.  C<auto> uses them if there are some, C<on> fails if\n"
			"there are none, C<off> leaves them alone.\n",
	},
	{
		.name = "fd",
		.type = OPTION_LIST,
		.field = SERVER(fd),
		.arg = "N",
		.help = "serve the connected socket that was inherited as file descriptor N",
		.manual =
			"Serve the client at the other end of a connected socket, inherited as file descriptor N.  It may\n"
			"be given several times.  If nothing else tells where to listen, the server listens nowhere, and\n"
			"ends when these connections have ended.\n",
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
			"Whether clients that ask for a list of the exports get it.  With C<off>, a client must know\n"
			"the name; the list isn't a secret that protects anything.\n",
	},
	{
		.name = "threads",
		.letter = 't',
		.type = OPTION_UINT,
		.field = SERVER(threads),
		.initial = "0",
		.max = 1024,
		.arg = "N",
		.help = "threads that serve; 0 means one for each processor",
		.manual =
			"Each connection is served by one of so many threads; a new one goes to the thread that has\n"
			"the fewest.  0 means as many threads as there are processors for the server to use.\n",
	},
	{
		.name = "poll-max-us",
		.type = OPTION_UINT,
		.field = SERVER(poll_max_us),
		.initial = "0",
		.max = 1000000,
		.arg = "N",
		.help = "longest busy polling of each thread before it sleeps, in microseconds; 0 means none",
		.manual =
			"Before a thread sleeps, it looks for at most so many microseconds whether something has come from\n"
			"the network or the disk.  That saves the time of falling asleep and waking up where few requests\n"
			"are under way, and costs processor time; see L</Polling>.  0 means that it sleeps at once.\n",
	},
	{
		.name = "memory",
		.type = OPTION_SIZE,
		.field = SERVER(memory),
		.initial = "128M",
		.min = 32 << 20,
		.max = SIZE_MAX / 4 + 1,
		.arg = "SIZE",
		.help = "most memory of each thread for the data of requests",
		.manual =
			"The data of requests that are being carried out takes at most so much memory in each\n"
			"thread.  When it is used up, each connection has one request of up to 2 MiB at a time carried\n"
			"out, and no more are read from it until some are answered.  See L</Memory>.\n",
	},
	{
		.name = "max-connections",
		.type = OPTION_UINT,
		.field = SERVER(max_connections),
		.initial = "100",
		.max = 1000000,
		.arg = "N",
		.help = "most connections at once; 0 means no limit",
		.manual =
			"Further connections are closed at once, which the log tells.  0 means no limit but\n"
			"that of open files (C<ulimit -Hn>).\n",
	},
	{
		.name = "handshake-limit",
		.type = OPTION_UINT,
		.field = SERVER(handshake_limit),
		.initial = "10",
		.min = 1,
		.max = 86400,
		.arg = "SECONDS",
		.help = "close a connection that has not chosen an export after this time",
		.manual =
			"A client that has not chosen an export after this time is disconnected.  From then on, it\n"
			"may be idle for as long as it likes.\n",
	},
	{
		.name = "stuck-limit",
		.type = OPTION_UINT,
		.field = SERVER(stuck_limit),
		.initial = "30",
		.min = 1,
		.max = 86400,
		.arg = "SECONDS",
		.help = "close a connection that holds memory for so long while others wait for it",
		.manual =
			"A client that takes its replies, or sends the data that it began to write, at less than 64 KiB per\n"
			"second, on the average of this time, is disconnected if others wait for the memory that it holds.\n"
			"As long as nobody does, it may take its time: a virtual machine that is paused keeps its disk.\n"
			"Over a unix socket, with io_uring, a reply or a write has to be through within this time.\n",
	},
	{
		.name = "drain-limit",
		.type = OPTION_UINT,
		.field = SERVER(drain_limit),
		.initial = "30",
		.max = 86400,
		.arg = "SECONDS",
		.help = "longest wait at the end for requests that are being carried out",
		.manual =
			"When the server is told to end, it carries out the requests that have come, and answers them.\n"
			"After this time, those that have not begun get the error ESHUTDOWN, and a second later\n"
			"connections are closed on which something is still unanswered; at a second SIGTERM or SIGINT,\n"
			"at once.\n",
	},
	{
		.name = "user",
		.letter = 'u',
		.type = OPTION_STRING,
		.field = SERVER(user),
		.arg = "USER[:GROUP]",
		.help = "become this user once images and sockets are open",
		.manual =
			"Become this user (a name or a number), with its groups, as soon as images and sockets are open.\n"
			"With a GROUP (a name or a number, too), it has this group only; a user's number that the\n"
			"system has no entry for needs it.\n"
			"This needs root.  What is opened later, by SIGHUP, must be accessible to that user.\n",
	},
	{
		.name = "pid-file",
		.letter = 'P',
		.type = OPTION_STRING,
		.field = SERVER(pid_file),
		.arg = "PATH",
		.help = "write the process ID here when the server is ready",
		.manual =
			"Write the process ID into this file as soon as clients can connect, and remove it at the end.\n"
			"A file that is there already must be empty or hold a process ID; the server leaves any other file\n"
			"alone, follows no symbolic link here, and does not start then.\n",
	},
	{
		.name = "notify-fd",
		.type = OPTION_UINT,
		.field = SERVER(notify_fd),
		.min = 1,
		.max = 1 << 20,
		.arg = "N",
		.help = "write a newline to file descriptor N when the server is ready",
		.manual =
			"Write a newline to the inherited file descriptor N, and close it, as soon as clients can connect.\n"
			"systemd is told without an option (C<Type=notify>).\n",
	},
	{
		.name = "control",
		.type = OPTION_STRING,
		.field = SERVER(control),
		.arg = "PATH",
		.help = "a socket for the status and for changes at run time",
		.manual =
			"Answer requests for the status, and for changes while clients are connected, on a\n"
			"unix socket with this path.  See L</CONTROL SOCKET>.\n",
	},
	{
		.name = "swap",
		.type = OPTION_CHOICE,
		.field = SERVER(swap),
		.initial = "off",
		.choices = option_off_on,
		.alone = "on",
		.arg = "on|off",
		.help = "be ready for a disk that this machine itself swaps to or writes to when memory is short",
		.manual =
			"For an image that is a disk of the machine that serves it: take precautions so that the\n"
			"server goes on when memory is short; see L</An image that this machine uses itself>.  It\n"
			"needs root, or the capabilities C<CAP_SYS_RESOURCE> and C<CAP_IPC_LOCK>, and fails where they\n"
			"are missing.\n",
	},
	{
		.name = "log",
		.type = OPTION_CHOICE,
		.field = SERVER(log),
		.initial = "stderr",
		.choices = logs,
		.arg = "stderr|syslog",
		.help = "where messages go",
		.manual =
			"Where messages go: to standard error, or to the system log.  Under systemd, standard\n"
			"error is the journal, and each message has its priority there.\n",
	},
	{.name = NULL},
};

const struct option_row export_option_rows[] = {
	{
		.name = "description",
		.type = OPTION_STRING,
		.field = EXPORT(description),
		.arg = "TEXT",
		.help = "what clients are shown beside the name",
		.manual = "A text for people, which clients can show beside the export's name.\n",
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
		.help = "let clients read only",
		.manual =
			"Let clients read only.  The image is then opened read-only, too.  An image that may not be\n"
			"written to is served read-only without this option.\n",
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
		.manual =
			"The image to serve: a regular file or a block device.  It is served as raw bytes;\n"
			"a warning tells when they look like another format, such as qcow2.\n",
	},
	{.name = NULL},
};
