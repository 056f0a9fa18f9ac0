/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/config.h"

#define FIELD(name_) offsetof(struct image_config, name_)

static const char *const sector_sizes[] = {"1", "512", "1024", "2048", "4096", NULL};
static const char *const engines[] = {"auto", "io_uring", "aio", "threads", NULL};
static const char *const locks[] = {"off", "shared", "exclusive", "auto", NULL};

const struct option_row image_option_rows[] = {
	{
		.name = "offset",
		.type = OPTION_SIZE,
		.field = FIELD(offset),
		.initial = "0",
		.arg = "SIZE",
		.help = "where the data starts in the file",
		.manual = "The data starts SIZE bytes into the file, as with C<losetup --offset>.\n"
			  "Bytes before it are never read or changed.\n",
	},
	{
		.name = "sizelimit",
		.type = OPTION_SIZE,
		.field = FIELD(sizelimit),
		.initial = "0",
		.arg = "SIZE",
		.help = "serve at most SIZE bytes; 0 means to the end of the file",
		.manual = "Serve at most SIZE bytes from the offset on, as with C<losetup --sizelimit>.\n"
			  "0 means to the end of the file.  The size that clients see is rounded down\n"
			  "to the sector size.\n",
	},
	{
		.name = "sector-size",
		.type = OPTION_SIZE,
		.field = FIELD(sector_size),
		.choices = sector_sizes,
		.arg = "1|512|1024|2048|4096",
		.help = "block size offered to clients (default: what direct I/O needs, else 512; 1 for an odd size)",
		.manual =
			"The smallest block that clients are told to use.  Requests that don't\n"
			"keep to it are still served correctly, but more slowly with direct I/O.\n\n"
			"The default is the block size that direct I/O to the file needs when direct\n"
			"I/O is on, and 512 otherwise.  The size of the export is a multiple of it.\n"
			"So 1 serves every byte of a file whose size is no multiple of 512, and is the default\n"
			"for such a file: direct I/O then leaves the file's last block to the page cache.\n"
			"The Linux kernel's client doesn't ask the server: see L</Sector size>.\n",
	},
	{
		.name = "direct-io",
		.type = OPTION_CHOICE,
		.field = FIELD(direct_io),
		.initial = "auto",
		.choices = option_off_on_auto,
		.arg = "on|off|auto",
		.help = "bypass the page cache of this machine",
		.manual =
			"With direct I/O the image is not kept in this machine's page cache: its\n"
			"clients cache what they read, and memory isn't spent twice.\n\n"
			"C<on> fails with the reason where it isn't possible, C<auto> uses the page cache\n"
			"there and says why, C<off> always uses the page cache.  What makes it\n"
			"possible is told in L</Direct I/O>.\n",
	},
	{
		.name = "engine",
		.type = OPTION_CHOICE,
		.field = FIELD(engine),
		.initial = "auto",
		.choices = engines,
		.arg = "auto|io_uring|aio|threads",
		.help = "how requests reach the file",
		.manual =
			"C<io_uring> uses rings with registered files and buffers, C<aio> Linux\n"
			"kernel AIO, C<threads> system calls that block.\n"
			"C<auto> takes the first of them that this machine allows (containers\n"
			"often forbid io_uring), and for an image in memory (tmpfs) C<threads>; it says\n"
			"why it isn't the first.  Any other choice fails where it isn't allowed.\n",
	},
	{
		.name = "poll",
		.type = OPTION_CHOICE,
		.field = FIELD(poll),
		.initial = "off",
		.choices = option_off_on_auto,
		.arg = "on|off|auto",
		.help = "poll the device for completions instead of waiting for interrupts",
		.manual =
			"Polling gives the lowest latency and takes a processor while requests\n"
			"are on their way.  It needs direct I/O, io_uring and a device with poll queues;\n"
			"see L</Polling>.  C<on> fails with the reason where it isn't possible, C<auto>\n"
			"does without and says why.\n",
	},
	{
		.name = "contexts",
		.type = OPTION_UINT,
		.field = FIELD(contexts),
		.initial = "0",
		.max = 4096,
		.arg = "N",
		.help = "most I/O contexts; 0 means one per thread",
		.manual =
			"An I/O context is a ring with its buffers, used by one thread at a time.\n"
			"Contexts are made when threads need them, and kept.  With a limit, further\n"
			"requests wait until a context is free.  0 means as many as nbdkit has\n"
			"threads: 16 for each connection, or what I<-t> says.  See L</Memory>.\n",
	},
	{
		.name = "depth",
		.type = OPTION_UINT,
		.field = FIELD(depth),
		.initial = "8",
		.min = 1,
		.max = 128,
		.arg = "N",
		.help = "operations in flight in one context",
		.manual =
			"With direct I/O, a request of more than 128 KiB is split into pieces, of which\n"
			"so many are in flight together.  Each context has a buffer of 128 KiB for each.\n",
	},
	{
		.name = "discard",
		.type = OPTION_CHOICE,
		.field = FIELD(discard),
		.initial = "on",
		.choices = option_off_on,
		.arg = "on|off",
		.help = "let clients give back space (trim)",
		.manual =
			"With C<on>, trimmed ranges become holes in the file or are discarded on the\n"
			"block device.  With C<off>, trim isn't offered to clients, and ranges that\n"
			"they fill with zeroes stay allocated.\n",
	},
	{
		.name = "lock",
		.type = OPTION_CHOICE,
		.field = FIELD(lock),
		.initial = "auto",
		.choices = locks,
		.arg = "exclusive|shared|off|auto",
		.help = "keep other writers away",
		.manual =
			"Keeps two programs from writing to one image by mistake.  The locks are those\n"
			"that QEMU and its tools take and respect; see L</Locks>.\n\n"
			"C<exclusive> allows no other writer, and no reader that needs data that\n"
			"nobody changes.  C<shared> is for an image that several programs use on\n"
			"purpose: read-only it allows other readers but no writer, writable it allows\n"
			"other writers that share too.  C<off> takes no lock.  C<auto> is\n"
			"C<exclusive> when clients can write and C<shared> when they can't.\n",
	},
	{
		.name = "force",
		.type = OPTION_CHOICE,
		.field = FIELD(force),
		.initial = "off",
		.choices = option_off_on,
		.alone = "on",
		.arg = "on|off",
		.help = "let clients write to what this machine uses otherwise",
		.manual =
			"An image is not served writable while this machine's kernel uses it, which knows no\n"
			"locks: a block device that is mounted, swap space or a part of another device; a\n"
			"file or device that a loop device is made of, unless that is read-only and not used.\n"
			"With C<on> there is only a warning.  See L</Locks>.\n",
	},
	{.name = NULL},
};
