/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/attach_options.h"

#include "tool/failure.h"

#include <errno.h>
#include <inttypes.h>

#define FIELD(name_) offsetof(struct attach_options, name_)

enum {
	DEFAULT_TIMEOUT = 30, /* seconds */
};

static const char *const engines[] = {"auto", "io_uring", "aio", "threads", NULL};
static const char *const sector_sizes[] = {"512", "1024", "2048", "4096", NULL};

const struct option_row attach_option_rows[] = {
	OPTION_SWITCH("find", 'f', FIELD(find), "take a free device; also without this, if none is named",
		      "Take a free device, which is what happens in any case where none is named.\n"),
	OPTION_SWITCH("show", 0, FIELD(show), "print the device's name; also without this, if none is named",
		      "Print the name of the device, as is done in any case where none was named.\n"),
	OPTION_SWITCH("read-only", 'r', FIELD(read_only), "nothing can be written to the device",
		      "Nothing can be written to the device, and the image is opened read-only.\n"),
	{
		.name = "offset",
		.letter = 'o',
		.type = OPTION_SIZE,
		.field = FIELD(offset),
		.arg = "SIZE",
		.help = "the device begins here in the image",
		.manual = "The device begins SIZE bytes into the image.\n",
	},
	{
		.name = "sizelimit",
		.type = OPTION_SIZE,
		.field = FIELD(sizelimit),
		.arg = "SIZE",
		.help = "the device has at most this size; 0 means to the end of the image",
		.manual = "The device is at most SIZE bytes large.  0 means to the end of the image.\n",
	},
	{
		.name = "sector-size",
		.letter = 'b',
		.type = OPTION_SIZE,
		.field = FIELD(sector_size),
		.choices = sector_sizes,
		.arg = "512|1024|2048|4096",
		.help = "logical block size of the device (default: what direct I/O needs, else 512)",
		.manual =
			"The size of the device's logical blocks.  The default is the block size that direct I/O to the image needs\n"
			"when direct I/O is on, else 512; for a URI, what the server says.  Bytes behind the last whole block can't be\n"
			"reached by the device; a warning tells how many they are.\n",
	},
	OPTION_SWITCH("partscan", 'P', FIELD(partscan), "insist on partitions: an error where the driver allows none",
		      "The kernel looks for partitions in any case when a device is attached.  With this it does so once more, and it is\n"
		      "an error if the nbd driver was loaded so that its devices have none (C<max_part=0>).\n"),
	OPTION_SWITCH("nooverlap", 'L', FIELD(nooverlap), "use the device that has this image already, if there is one",
		      "If a device is attached already to the same part of the same image, it is used: its name is printed, and nothing\n"
		      "is attached.  It is an error if one is attached to a part that overlaps, or can't be written to though this\n"
		      "one should be, or if a loop device is made of a part that overlaps and one of both can be written to (unless\n"
		      "I<--force> is given).\n"),
	OPTION_SWITCH("force", 0, FIELD(force), "attach it even while this machine uses the image otherwise",
		      "An image isn't attached so that it can be written to while something else in this machine uses it: a block device\n"
		      "that is mounted, is swap space or a part of another device; a file or device that a loop device is made of, unless\n"
		      "that is read-only and not used.  With this there is only a warning, and file systems may be damaged.\n"),
	{
		.name = "direct-io",
		.type = OPTION_CHOICE,
		.field = FIELD(direct_io),
		.initial = "auto",
		.choices = option_off_on_auto,
		.alone = "on",
		.arg = "on|off|auto",
		.help = "bypass the page cache that this machine has for the image (default: where possible)",
		.manual =
			"With direct I/O, what is cached is cached once, for the device, and not for the image too.  C<on>, or the\n"
			"option alone, fails where it isn't possible, with the reason; C<auto>, the default, does without it there;\n"
			"C<off> always does.\n",
	},
	{
		.name = "connections",
		.type = OPTION_UINT,
		.field = FIELD(connections),
		.initial = "1",
		.min = 1,
		.max = 64,
		.arg = "N",
		.help = "connections to the server, each with a queue of its own",
		.manual = "Connections to the server, each with a queue in the kernel and a thread in the server.\n",
	},
	{
		.name = "timeout",
		.type = OPTION_UINT,
		.field = FIELD(timeout),
		.initial = "0",
		.max = 86400,
		.arg = "SECONDS",
		.help = "a connection with a request that is not answered in this time is replaced; 0 means the default",
		.manual =
			"The kernel takes a connection for dead on which a request isn't answered in this time.  0, the default, means 30\n"
			"seconds for a URI and with several connections, and without an end for an image on one connection.\n",
	},
	{
		.name = "dead-timeout",
		.type = OPTION_UINT,
		.field = FIELD(dead_timeout),
		.initial = "60",
		.min = 1,
		.max = 86400,
		.arg = "SECONDS",
		.help = "how long requests wait for a server that has died before they fail",
		.manual =
			"When the server has died, it is started again, or connected to again; requests wait for so long until they\n"
			"fail.\n",
	},
	{
		.name = "server",
		.type = OPTION_CHOICE,
		.field = FIELD(server),
		.initial = "nbdloopd",
		.choices = server_kinds,
		.arg = "nbdloopd|nbdkit",
		.help = "the program that serves the image; nbdkit does it with its loop plugin",
		.manual =
			"The program that serves the image: L<nbdloopd(8)>, or L<nbdkit(1)> with L<nbdkit-loop-plugin(1)>, whose threads wait for\n"
			"the image instead of an event loop.\n",
	},
	{
		.name = "threads",
		.type = OPTION_UINT,
		.field = FIELD(threads),
		.initial = "0",
		.max = 1024,
		.arg = "N",
		.help = "threads of nbdloopd, or nbdkit's for each connection; 0 means the default",
		.manual =
			"Threads of nbdloopd, where a connection is served by one of them; 0 means one for each connection.  Threads of\n"
			"nbdkit for each connection, which are the requests that it works on at once; 0 means its default, 16.\n",
	},
	{
		.name = "engine",
		.type = OPTION_CHOICE,
		.field = FIELD(engine),
		.initial = "auto",
		.choices = engines,
		.arg = "auto|io_uring|aio|threads",
		.help = "how the server's requests reach the image",
		.manual = "How the server's requests reach the image; see L<nbdloopd(8)>.\n",
	},
	{
		.name = "poll",
		.type = OPTION_CHOICE,
		.field = FIELD(poll),
		.initial = "off",
		.choices = option_off_on_auto,
		.arg = "on|off|auto",
		.help = "poll the image's device instead of waiting for interrupts",
		.manual = "Poll the device that the image is on for completions; see L<nbdloopd(8)>.\n",
	},
	OPTION_SWITCH("swap", 0, FIELD(swap), "be ready for swap space on the device",
		      "For a device that this machine swaps to: the server and its guard stay in memory, do without memory that could\n"
		      "only be had by swapping, and have the lowest real-time priority, so that they may use the last of it; the device gets\n"
		      "requests of at most 128 KiB.  See L<nbdloopd(8)/An image that this machine uses itself>.  nbdloopd locks 48 MiB for\n"
		      "each of its threads and about 35 MiB besides, the guard about 53 MiB: 136 MiB in all, with one connection.  Write the\n"
		      "image from end to end before (C<dd if=/dev/zero>), and use direct I/O: else its file system needs memory for writes.\n"),
	{.name = NULL},
};

/* The first option that a server which isn't ours can't be told, or NULL. */
static const char *
option_for_images(const struct attach_options *options)
{
	const struct {
		bool given;
		const char *name;
	} all[] = {
		{options->offset != 0, "--offset"},
		{options->sizelimit != 0, "--sizelimit"},
		{options->direct_io != TRISTATE_AUTO, "--direct-io"},
		{options->nooverlap, "--nooverlap"},
		{options->force, "--force"},
		{options->server != SERVER_NBDLOOPD, "--server"},
		{options->threads != 0, "--threads"},
		{options->engine != 0, "--engine"},
		{options->poll != 0, "--poll"},
	};

	for (size_t i = 0; i < G_N_ELEMENTS(all); i++) {
		if (all[i].given)
			return all[i].name;
	}
	return NULL;
}

static GPtrArray *
server_options(const struct attach_options *options)
{
	GPtrArray *words = g_ptr_array_new_with_free_func(g_free);

	if (options->threads || options->server == SERVER_NBDLOOPD)
		g_ptr_array_add(words, g_strdup_printf("--threads=%u",
						       options->threads ? options->threads : options->connections));
	g_ptr_array_add(words, g_strdup_printf("--offset=%" PRIu64, options->offset));
	g_ptr_array_add(words, g_strdup_printf("--sizelimit=%" PRIu64, options->sizelimit));
	g_ptr_array_add(words, g_strdup_printf("--engine=%s", engines[options->engine]));
	g_ptr_array_add(words, g_strdup_printf("--poll=%s", option_off_on_auto[options->poll]));
	if (options->sector_size)
		g_ptr_array_add(words, g_strdup_printf("--sector-size=%" PRIu64, options->sector_size));
	if (options->read_only)
		g_ptr_array_add(words, g_strdup("--read-only"));
	if (options->swap) {
		g_ptr_array_add(words, g_strdup("--swap"));
		/* It is locked, and one device's requests do with less than the clients of a server. */
		if (options->server == SERVER_NBDLOOPD)
			g_ptr_array_add(words, g_strdup("--memory=32M"));
	}
	return words;
}

bool
attach_options_plan(const struct attach_options *options, char *place, bool remote, struct guard_plan *plan, GError **error)
{
	const char *wrong = remote ? option_for_images(options) : NULL;
	unsigned int timeout = options->timeout;

	*plan = (struct guard_plan){.source.place = place};
	if (wrong)
		return failure(error, EINVAL, "%s is for images; what %s serves is for its server to say", wrong, place);
	if (timeout == 0 && (remote || options->connections > 1))
		timeout = DEFAULT_TIMEOUT;
	*plan = (struct guard_plan){
		.source = {
			.place = place,
			.remote = remote,
			.connections = options->connections,
			.server = (enum server_kind)options->server,
			.server_options = server_options(options),
			.direct_io = option_off_on_auto[options->direct_io],
			.force = options->force,
		},
		.attachment = {
			.read_only = options->read_only,
			.partscan = options->partscan,
			.block_size = (unsigned int)options->sector_size,
			.offset = options->offset,
			.sizelimit = options->sizelimit,
			.timeout = timeout,
			.dead_timeout = options->dead_timeout,
			.swap = options->swap,
		},
	};
	return true;
}

void
attach_options_plan_fini(struct guard_plan *plan)
{
	g_free(plan->source.place);
	if (plan->source.server_options)
		g_ptr_array_unref(plan->source.server_options);
	*plan = (struct guard_plan){.source.place = NULL};
}
