/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/attach/attach_options.h"

#include "engine/image_config.h"

#define FIELD(name_) offsetof(struct attach_options, name_)

static const char *const swap_choices[] = {
	[SWAP_OFF] = "off", [SWAP_ON] = "on", [SWAP_RAISE] = "raise", NULL};
static const char *const sector_sizes[] = {"512", "1024", "2048", "4096", NULL};

const struct option_row attach_option_rows[] = {
	OPTION_SWITCH("find", 'f', FIELD(find),
		      "take a free device (as is done if no DEVICE is named)",
		      "Take a free device.  This is also done without the option if no DEVICE is\n"
		      "named.\n"),
	OPTION_SWITCH("show", 0, FIELD(show),
		      "print the name of the device (as is done if no DEVICE is named)",
		      "Print the name of the device.  This is also done without the option if no\n"
		      "DEVICE is named.\n"),
	OPTION_SWITCH("read-only", 'r', FIELD(read_only), "make the device read-only",
		      "Make the device read-only, and open the image read-only.\n"),
	{
		.name = "offset",
		.letter = 'o',
		.type = OPTION_SIZE,
		.field = FIELD(offset),
		.arg = "SIZE",
		.help = "start the device SIZE bytes into the image",
		.manual = "Start the device SIZE bytes into the image.\n",
	},
	{
		.name = "sizelimit",
		.type = OPTION_SIZE,
		.field = FIELD(sizelimit),
		.arg = "SIZE",
		.help = "limit the device to SIZE bytes; 0 means up to the end of the image",
		.manual = "Limit the size of the device to SIZE bytes.  0 means up to the end of\n"
			  "the image.\n",
	},
	{
		.name = "sector-size",
		.letter = 'b',
		.type = OPTION_SIZE,
		.field = FIELD(sector_size),
		.choices = sector_sizes,
		.arg = "512|1024|2048|4096",
		.help = "logical block size of the device (default: what direct I/O needs, or else 512)",
		.manual = "The logical block size of the device.  The default is the block size\n"
			  "that direct I/O to the image needs if direct I/O is on, and 512\n"
			  "otherwise; for a URI, the block size that the server announces.  Bytes\n"
			  "after the last whole block can't be reached through the device; a\n"
			  "warning says how many bytes these are.\n",
	},
	OPTION_SWITCH("partscan", 'P', FIELD(partscan),
		      "make sure that partitions appear; fail if the nbd driver allows none",
		      "The kernel always scans a device for partitions when it is attached.  With\n"
		      "this option, C<nbdloop> has it scanned once more, and fails if the nbd\n"
		      "driver was loaded without partitions (C<max_part=0>).\n"),
	OPTION_SWITCH("nooverlap", 'L', FIELD(nooverlap),
		      "use the device that is attached to this image already, if there is one",
		      "If a device is attached to the same part of the same image already, print\n"
		      "its name, and attach nothing.  It is an error if that device is read-only\n"
		      "and I<--read-only> is not given; if a device is attached to another part\n"
		      "of the image that overlaps this one; or, unless I<--force> is given, if a\n"
		      "loop device is set up on a part that overlaps this one and either of the\n"
		      "two is writable.\n"),
	OPTION_SWITCH("force", 0, FIELD(force),
		      "attach the image even if this machine uses it in another way",
		      "Without this option, C<nbdloop> refuses to attach a writable device to an\n"
		      "image that this machine uses in another way: a block device that is\n"
		      "mounted, used as swap space or part of another device; or a file or block\n"
		      "device that has a loop device, unless that is read-only and not in use.\n"
		      "With it, C<nbdloop> only prints a warning; file systems may be damaged.\n"
		      "For an image in Ceph, see L</Images in Ceph>.\n"),
	{
		.name = "direct-io",
		OPTION_OFF_ON_AUTO,
		.field = FIELD(direct_io),
		.initial = "auto",
		.alone = "on",
		.help = "bypass the page cache for the image (default: where possible)",
		.manual =
			"Whether the server uses direct I/O for the image.  With direct I/O, data\n"
			"is cached once, as pages of the device, and not a second time as pages\n"
			"of the image.  C<on>, or the option without a value, fails and gives the\n"
			"reason if direct I/O is not possible; C<auto>, the default, uses the\n"
			"page cache then; C<off> always uses it.\n",
	},
	{
		.name = "page-cache",
		.type = OPTION_CHOICE,
		.field = FIELD(page_cache),
		.initial = "auto",
		.choices = image_page_cache_names,
		.arg = "keep|drop|auto",
		.help = "without direct I/O, whether the image's data stays in the page cache",
		.manual = "Whether the data of the image stays in the page cache when the server\n"
			  "uses no direct I/O; see L<nbdloopd(8)/Page cache>.\n",
	},
	{
		.name = "connections",
		.type = OPTION_UINT,
		.field = FIELD(connections),
		.initial = "1",
		.min = 1,
		.max = 64,
		.arg = "N",
		.help = "number of connections to the server, each with its own queue",
		.manual =
			"The number of connections to the server.  Each has its own queue in the\n"
			"kernel.\n",
	},
	{
		.name = "timeout",
		.type = OPTION_UINT,
		.field = FIELD(timeout),
		.initial = "0",
		.max = 86400,
		.arg = "SECONDS",
		.help = "replace a connection that leaves a request unanswered for this long; 0 means the default",
		.manual =
			"If a request on a connection gets no reply within this time, the kernel\n"
			"considers the connection dead.  When a server has died, the kernel sends\n"
			"the requests in flight again only after this time.  0, the default, means\n"
			"30 seconds for several connections, and no limit for one connection: then\n"
			"the kernel sends them again after at most 5 seconds, and the guard\n"
			"replaces the connection to a remote server that has answered no request\n"
			"at all for 30 seconds.\n",
	},
	{
		.name = "dead-timeout",
		.type = OPTION_UINT,
		.field = FIELD(dead_timeout),
		.initial = "60",
		.min = 1,
		.max = 86400,
		.arg = "SECONDS",
		.help = "how long requests wait for a dead server to return before they fail",
		.manual =
			"When the server has died, the guard restarts it; for a URI, it connects\n"
			"to the server again.  Requests wait this long for the server before they\n"
			"fail.\n",
	},
	OPTION_SWITCH(
		"fenced", 0, FIELD(fenced),
		"nbd://a,b/ only: a lost server writes nothing any more when the next one serves",
		"For a URI that names several servers, if the device is writable: say that\n"
		"a server that was lost is fenced, so that it writes nothing any more, before\n"
		"another one answers.  See L</Several servers>.\n"),
	{
		.name = "server",
		.type = OPTION_CHOICE,
		.field = FIELD(server),
		.initial = "nbdloopd",
		.choices = server_kinds,
		.arg = "nbdloopd|nbdkit",
		.help = "program that serves the image: nbdloopd, or nbdkit with its loop plugin",
		.manual =
			"The program that serves the image: L<nbdloopd(8)>, which has event\n"
			"loops; or L<nbdkit(1)> with L<nbdkit-loop-plugin(1)>, in which a thread\n"
			"waits for each request.\n",
	},
	{
		.name = "threads",
		.type = OPTION_UINT,
		.field = FIELD(threads),
		.initial = "0",
		.max = 1024,
		.arg = "N",
		.help = "number of threads of nbdloopd, or of nbdkit per connection; 0 means the default",
		.manual =
			"With nbdloopd, the number of its threads, one of which serves each\n"
			"connection; 0 means one thread per connection, but no more than there\n"
			"are processors.  With nbdkit, the number of threads per connection, and\n"
			"so the number of requests of a connection that are carried out at once;\n"
			"0 means nbdkit's default, 16.\n",
	},
	{
		.name = "engine",
		.type = OPTION_CHOICE,
		.field = FIELD(engine),
		.initial = "auto",
		.choices = image_engine_names,
		.arg = "auto|io_uring|aio|threads",
		.help = "how the server accesses the image",
		.manual = "How the server accesses the image; see L<nbdloopd(8)>.\n",
	},
	{
		.name = "poll",
		OPTION_OFF_ON_AUTO,
		.field = FIELD(poll),
		.initial = "off",
		.help = "poll the disk of the image for completions instead of waiting for interrupts",
		.manual =
			"Whether the server polls the disk that holds the image for completions;\n"
			"see L<nbdloopd(8)>.\n",
	},
	{
		.name = "iops-limit",
		.type = OPTION_STRING,
		.field = FIELD(iops_limit),
		.arg = "LIMIT",
		.help = "limit the device's operations per second, such as 1000 or read:1000,write:500",
		.manual =
			"Limit the device's operations per second, as C<nbdloop set> does later; not\n"
			"with I<--server=nbdkit>.  See L<nbdloopd(8)/Limits>.\n",
	},
	{
		.name = "bandwidth-limit",
		.type = OPTION_STRING,
		.field = FIELD(bandwidth_limit),
		.arg = "LIMIT",
		.help = "limit the device's bytes per second, such as 100M or read:100M,write:50M",
		.manual = "The same in bytes per second, such as C<100M>.\n",
	},
	{
		.name = "tls",
		.type = OPTION_STRING,
		.field = FIELD(tls.by),
		.arg = "kernel|proxy",
		.help = "nbds:// only: what encrypts: the kernel (default), or a process",
		.manual =
			"For an F<nbds://> URI: what encrypts the data.  C<kernel>, the default:\n"
			"the kernel, which needs its module C<tls>, and a server's TCP port.\n"
			"C<proxy>: a process between the kernel and the server, for a kernel\n"
			"without that module, and for unix sockets (F<nbds+unix://>).  It takes more\n"
			"processor time, and can't be used with I<--swap>.\n",
	},
	{
		.name = "tls-certificates",
		.type = OPTION_STRING,
		.field = FIELD(tls.certificates),
		.arg = "DIRECTORY",
		.help = "nbds:// only: ca-cert.pem, which the server's certificate is checked by, and ours",
		.manual =
			"For an F<nbds://> URI: the directory of the CA's certificate\n"
			"(F<ca-cert.pem>), by which the server's is checked, of the CA's list of\n"
			"revoked certificates (F<ca-crl.pem>, if it exists), and of the client's own\n"
			"certificate and key (F<client-cert.pem> and F<client-key.pem>, if they\n"
			"exist).  Without this option and I<--tls-psk>, the CAs that the system\n"
			"trusts are taken.\n",
	},
	{
		.name = "tls-psk",
		.type = OPTION_STRING,
		.field = FIELD(tls.psk),
		.arg = "FILE",
		.help = "nbds:// only: file with the pre-shared key of the URI's user",
		.manual =
			"For an F<nbds://> URI: a file with the pre-shared key of the URI's user,\n"
			"C<alice> in F<nbds://alice@server/>, in a line C<alice:KEY>.  If the URI\n"
			"has no user, the first one in the file is taken.\n",
	},
	{
		.name = "tls-hostname",
		.type = OPTION_STRING,
		.field = FIELD(tls.hostname),
		.arg = "NAME",
		.help = "nbds:// only: name or address in the server's certificate (default: the URI's)",
		.manual =
			"For an F<nbds://> URI: the name or address that the server's certificate\n"
			"must have.  The default is the host of the URI, and C<localhost> for a\n"
			"unix socket.\n",
	},
	{
		.name = "tls-verify-peer",
		OPTION_OFF_ON,
		.field = FIELD(tls.verify_peer),
		.initial = "on",
		.alone = "on",
		.help = "nbds:// only: check the server's certificate",
		.manual =
			"For an F<nbds://> URI: whether the server's certificate is checked.  With\n"
			"C<off>, whoever can intercept the connection can take the server's place,\n"
			"and read and change the data.\n",
	},
	{
		.name = "ceph-conf",
		.type = OPTION_STRING,
		.field = FIELD(ceph.conf),
		.arg = "FILE",
		.help = "rbd: only: configuration file of the Ceph cluster (default: /etc/ceph/ceph.conf)",
		.manual =
			"For an image in Ceph, the cluster's configuration file, which names the\n"
			"monitors.  The default is the file that the environment variable\n"
			"CEPH_CONF names, or F</etc/ceph/ceph.conf>.  See L</Images in Ceph>.\n",
	},
	{
		.name = "ceph-user",
		.type = OPTION_STRING,
		.field = FIELD(ceph.user),
		.arg = "NAME",
		.help = "rbd: only: user of the Ceph cluster (default: admin)",
		.manual =
			"For an image in Ceph, the user to connect as, without the C<client.> in\n"
			"front of it.  The default is C<admin>.\n",
	},
	{
		.name = "ceph-keyring",
		.type = OPTION_STRING,
		.field = FIELD(ceph.keyring),
		.arg = "FILE",
		.help = "rbd: only: file with that user's key (default: as Ceph's configuration says)",
		.manual =
			"For an image in Ceph, the file with the user's key.  By default, Ceph's\n"
			"configuration names the file.\n",
	},
	{
		.name = "cluster-timeout",
		.type = OPTION_UINT,
		.field = FIELD(ceph.timeout),
		.initial = "0",
		.max = 86400,
		.arg = "SECONDS",
		.help = "rbd: only: longest wait of a request for the cluster; 0 means for ever",
		.manual =
			"For an image in Ceph, how long a request waits for an answer of the\n"
			"cluster, until it fails with an I/O error.  With 0, the default, it waits\n"
			"as long as it takes.\n",
	},
	{
		.name = "swap",
		.type = OPTION_CHOICE,
		.choices = swap_choices,
		.field = FIELD(swap),
		.alone = "on",
		.arg = "on|off|raise",
		.help = "prepare for swap space on the device",
		.manual =
			"Prepare for swap space on the device.  The server and its guard are locked\n"
			"into memory; they never wait for memory that only swapping could free, and\n"
			"have the lowest real-time priority, which lets them use the kernel's last\n"
			"reserves; the device gets requests of at most 128 KiB.  See\n"
			"L<nbdloopd(8)/An image that this machine uses itself>.\n\n"
			"For an image, the kernel's reserve of memory (the sysctl\n"
			"C<vm.min_free_kbytes>) must be at least 8192.  It is smaller by default on\n"
			"machines with less than 512 MiB of memory, or with less than about 4 GiB\n"
			"and without transparent huge pages.  The machine may hang then: the server\n"
			"waits for memory before it can send a reply, and the kernel waits for that\n"
			"reply.  C<nbdloop attach> attaches nothing in this case, and prints the\n"
			"command that raises the reserve.  With I<--swap=raise>, it\n"
			"raises the reserve itself, until the machine is restarted.  With\n"
			"I<--force>, it only prints a warning.\n\n"
			"nbdloopd locks 48 MiB for each of its threads and about 35 MiB in\n"
			"addition, and the guard locks about 6 MiB: 88 MiB in all with one\n"
			"connection.  nbdkit (I<--server=nbdkit>) locks about 271 MiB with one\n"
			"connection, and 4 MiB for each further one; I<--threads> changes little.\n"
			"A first server is refused if that is more than half of the available\n"
			"memory; a server that replaces one that has died only warns.\n\n"
			"Write the image from end to end beforehand (C<dd if=/dev/zero>), and use\n"
			"direct I/O; otherwise the file system that holds the image needs memory\n"
			"for writes.  C<nbdloop attach> prints a warning if parts of the image were\n"
			"never written.  When the kernel has used up even its reserve of memory, it\n"
			"drops the connection to the server; the guard starts the server again, and\n"
			"the kernel repeats its requests.\n",
	},
	{.name = NULL},
};
