/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/image_config.h"

#include "common/cleanup.h"

#include <errno.h>
#include <string.h>

#define FIELD(name_) offsetof(struct image_config, name_)

static const char *const sector_sizes[] = {"1", "512", "1024", "2048", "4096", NULL};
const char *const image_engine_names[] = {"auto", "io_uring", "aio", "threads", NULL};
const char *const image_page_cache_names[] = {"keep", "drop", "auto", NULL};
static const char *const locks[] = {"off", "shared", "exclusive", "auto", NULL};
static const char *const ceph_locks[] = {"write", "start", NULL};

const struct option_row image_option_rows[] = {
	{
		.name = "offset",
		.type = OPTION_SIZE,
		.field = FIELD(offset),
		.initial = "0",
		.arg = "SIZE",
		.help = "start the export SIZE bytes into the file",
		.manual =
			"Start the export SIZE bytes into the file, as with C<losetup --offset>.\n"
			"Bytes before the offset are never read or changed.\n",
	},
	{
		.name = "sizelimit",
		.type = OPTION_SIZE,
		.field = FIELD(sizelimit),
		.initial = "0",
		.arg = "SIZE",
		.help = "limit the export to SIZE bytes; 0 means up to the end of the file",
		.manual =
			"Limit the export to SIZE bytes after the offset, as with C<losetup\n"
			"--sizelimit>.  0 means up to the end of the file.  The size that clients\n"
			"see is rounded down to a multiple of C<sector-size>, if you give one.\n",
	},
	{
		.name = "sector-size",
		.type = OPTION_SIZE,
		.field = FIELD(sector_size),
		.choices = sector_sizes,
		.arg = "1|512|1024|2048|4096",
		.help = "minimum block size for clients (default: 1, or that of direct I/O above 512)",
		.manual = "The minimum block size that clients are told to use.  The size of the\n"
			  "export is a multiple of it.  Requests that are not aligned to it are\n"
			  "served correctly, but with direct I/O more slowly.\n\n"
			  "By default, clients are told that they may send any bytes: the minimum\n"
			  "is 1.  It is larger if direct I/O is on and needs blocks of more than\n"
			  "512 bytes, and if other servers may write to the image (C<lock=shared>\n"
			  "or C<off>).  See L</Sector size>.\n",
	},
	{
		.name = "direct-io",
		OPTION_OFF_ON_AUTO,
		.field = FIELD(direct_io),
		.initial = "auto",
		.help = "bypass the page cache of this machine",
		.manual = "With direct I/O, the data of the image is not kept in this machine's\n"
			  "page cache.  Clients cache the data that they read, so memory is not\n"
			  "used twice.\n\n"
			  "If direct I/O is not possible, C<on> fails and gives the reason, and\n"
			  "C<auto> uses the page cache and gives the reason.  C<off> always uses\n"
			  "the page cache.  L</Direct I/O> explains when direct I/O is possible.\n",
	},
	{
		.name = "page-cache",
		.type = OPTION_CHOICE,
		.field = FIELD(page_cache),
		.initial = "auto",
		.choices = image_page_cache_names,
		.arg = "keep|drop|auto",
		.help = "without direct I/O, whether the image's data stays in the page cache",
		.manual =
			"Whether the data of the image stays in this machine's page cache when\n"
			"direct I/O is off.  C<keep> leaves the data there: data that is read\n"
			"again comes from memory.  C<drop> removes the data soon after each read\n"
			"and write, and keeps the advantage of the page cache: many small writes\n"
			"become few large ones.  C<drop> fails for an image in memory.  Flushes\n"
			"and FUA writes reach the disk with either value.\n\n"
			"C<auto> means C<drop> if C<direct-io=auto> found that direct I/O is not\n"
			"possible, and C<keep> otherwise.  With direct I/O the option has no\n"
			"effect; see L</Page cache>.\n",
	},
	{
		.name = "engine",
		.type = OPTION_CHOICE,
		.field = FIELD(engine),
		.initial = "auto",
		.choices = image_engine_names,
		.arg = "auto|io_uring|aio|threads",
		.help = "how to access the file",
		.manual =
			"C<io_uring> uses rings with registered files and buffers, C<aio> uses\n"
			"Linux kernel AIO, and C<threads> uses blocking system calls.\n\n"
			"C<auto> takes the first of these that this machine allows (containers\n"
			"often forbid io_uring), and C<threads> for an image in memory (tmpfs).\n"
			"If it takes another engine than C<io_uring>, the line at the start gives\n"
			"the reason.  Any other value fails if this machine does not allow that\n"
			"engine.\n",
	},
	{
		.name = "poll",
		OPTION_OFF_ON_AUTO,
		.field = FIELD(poll),
		.initial = "off",
		.help = "poll the device for completions instead of waiting for interrupts",
		.manual =
			"Polling gives the lowest latency, and occupies a processor while\n"
			"requests are in flight.  It needs direct I/O, io_uring and a device with\n"
			"poll queues; see L</Polling>.  If polling is not possible, C<on> fails\n"
			"and gives the reason, and C<auto> does not poll and gives the reason.\n",
	},
	{
		.name = "contexts",
		.type = OPTION_UINT,
		.field = FIELD(contexts),
		.initial = "0",
		.max = 4096,
		.arg = "N",
		.help = "maximum number of I/O contexts; 0 means one per thread",
		.manual =
			"The maximum number of I/O contexts.  A context is a ring with its\n"
			"buffers, and is used by one thread at a time.  Contexts are created when\n"
			"threads need them, and kept.  When the limit is reached, further\n"
			"requests wait until a context is free.  0 means as many as nbdkit has\n"
			"threads: 16 per connection, or the number that I<-t> gives.  See\n"
			"L</Memory>.\n",
	},
	{
		.name = "depth",
		.type = OPTION_UINT,
		.field = FIELD(depth),
		.initial = "8",
		.min = 1,
		.max = 128,
		.arg = "N",
		.help = "number of operations in flight in one context",
		.manual =
			"With direct I/O, a request of more than 128 KiB is split into pieces;\n"
			"this is the number of pieces that are in flight at the same time.  Each\n"
			"context has this many buffers of 128 KiB.\n",
	},
	{
		.name = "discard",
		OPTION_OFF_ON,
		.field = FIELD(discard),
		.initial = "on",
		.help = "let clients release space (trim)",
		.manual =
			"With C<on>, trimmed ranges become holes in the file, or are discarded on\n"
			"the block device.  With C<off>, clients are not offered trim, and ranges\n"
			"that they fill with zeroes stay allocated.\n",
	},
	{
		.name = "lock",
		.type = OPTION_CHOICE,
		.field = FIELD(lock),
		.initial = "auto",
		.choices = locks,
		.arg = "exclusive|shared|off|auto",
		.help = "keep out other writers",
		.manual =
			"Keeps two programs from writing to one image by mistake.  The locks are\n"
			"those that QEMU and its tools take and respect; see L</Locks>.\n\n"
			"C<exclusive> allows no other writer, and no reader that needs unchanging\n"
			"data.  C<shared> is for an image that several programs use on purpose: a\n"
			"read-only image can have other readers but no writer, a writable image\n"
			"can have other writers that share it.  C<off> takes no lock.  C<auto>\n"
			"means C<exclusive> if clients can write, and C<shared> if they cannot.\n",
	},
	{
		.name = "force",
		OPTION_OFF_ON,
		.field = FIELD(force),
		.initial = "off",
		.alone = "on",
		.help = "let clients write even if this machine uses the image in another way",
		.manual =
			"With C<off>, an image is not served writable while the kernel of this\n"
			"machine uses it, because the kernel ignores locks: a block device that\n"
			"is mounted, used as swap space or part of another device; or a file or\n"
			"block device that has a loop device, unless that is read-only and not in\n"
			"use.  With C<on>, there is only a warning.  See L</Locks>.  Together\n"
			"with C<swap>, C<on> also lets the server lock more than half of the\n"
			"available memory, with a warning.\n\n"
			"For an image in Ceph, C<on> takes the exclusive lock away from another\n"
			"client, alive or not, before the first write: the cluster then refuses\n"
			"whatever that client still sends.  See L</Images in Ceph>.\n",
	},
	{
		.name = "ceph-conf",
		.type = OPTION_STRING,
		.field = FIELD(ceph_conf),
		.arg = "FILE",
		.help = "configuration file of the Ceph cluster (default: /etc/ceph/ceph.conf)",
		.manual = "For images in Ceph, the cluster's configuration file, which names the\n"
			  "monitors.  The default is the file that the environment variable\n"
			  "CEPH_CONF names, or F</etc/ceph/ceph.conf>.  See L</Images in Ceph>.\n",
	},
	{
		.name = "ceph-user",
		.type = OPTION_STRING,
		.field = FIELD(ceph_user),
		.arg = "NAME",
		.help = "user of the Ceph cluster (default: admin)",
		.manual = "For images in Ceph, the user to connect as, without the C<client.> in\n"
			  "front of it.  The default is C<admin>.\n",
	},
	{
		.name = "ceph-keyring",
		.type = OPTION_STRING,
		.field = FIELD(ceph_keyring),
		.arg = "FILE",
		.help = "file with that user's key (default: as Ceph's configuration says)",
		.manual = "For images in Ceph, the file with the user's key.  By default, Ceph's\n"
			  "configuration names the file.\n",
	},
	{
		.name = "ceph-lock",
		.type = OPTION_CHOICE,
		.field = FIELD(ceph_lock),
		.initial = "write",
		.choices = ceph_locks,
		.arg = "write|start",
		.help = "when to take the exclusive lock of an image in Ceph",
		.manual =
			"For images in Ceph, when the server takes the exclusive lock: before its\n"
			"first C<write>, the default, so that another server may run until then; or\n"
			"at its C<start>, so that it doesn't serve an image that another client\n"
			"has.  See L</Images in Ceph>.\n",
	},
	{
		.name = "ceph-fence",
		.type = OPTION_STRING,
		.field = FIELD(ceph_fence),
		.arg = "ADDRESS",
		.help = "client of Ceph whose place as the image's only writer this server takes",
		.manual =
			"For images in Ceph, the client that the server comes after: it is fenced\n"
			"at the start, dead or alive, and if it no longer has the lock, the server\n"
			"doesn't start.  See L</Images in Ceph>.\n",
	},
	{
		.name = "cluster-timeout",
		.type = OPTION_UINT,
		.field = FIELD(cluster_timeout),
		.initial = "0",
		.max = 86400,
		.arg = "SECONDS",
		.help = "longest wait of a request for the Ceph cluster; 0 means for ever",
		.manual =
			"For images in Ceph, how long a request waits for an answer of the\n"
			"cluster, until it fails with an I/O error.  With 0, the default, it waits\n"
			"as long as it takes.  See L</Images in Ceph>.\n",
	},
	{.name = NULL},
};

int
image_config_copy(struct image_config *to, const struct image_config *from)
{
	int r = 0;

	*to = *from;
	for (const struct option_row *row = image_option_rows; row->name; row++) {
		char **text = (char **)((char *)to + row->field);

		if (row->type != OPTION_STRING || !*text)
			continue;
		*text = strdup(*text);
		if (!*text)
			r = -ENOMEM;
	}
	return r;
}

const char *
image_config_ceph_option(const struct image_config *config, const struct image_config *others)
{
	static const char *const names[] = {"ceph-conf", "ceph-user",  "ceph-keyring",
					    "ceph-lock", "ceph-fence", "cluster-timeout"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct option_row *row = option_find(image_option_rows, names[i]);
		char *CLEANUP_FREE value = option_value_text(row, config);
		char *CLEANUP_FREE other = option_value_text(row, others);

		if (value && other && strcmp(value, other) != 0)
			return names[i];
	}
	return NULL;
}
