/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/image_config.h"

#include <errno.h>
#include <string.h>

#define FIELD(name_) offsetof(struct image_config, name_)

static const char *const sector_sizes[] = {"1", "512", "1024", "2048", "4096", NULL};
const char *const image_engine_names[] = {"auto", "io_uring", "aio", "threads", NULL};
const char *const image_page_cache_names[] = {"keep", "drop", "auto", NULL};
static const char *const locks[] = {"off", "shared", "exclusive", "auto", NULL};
static const char *const ceph_locks[] = {"write", "start", NULL};

const struct option_row image_option_rows[] = {
	{IMAGE_OPTION_OFFSET, .field = FIELD(offset), .initial = "0",
	 .help = "start the export SIZE bytes into the file"},
	{IMAGE_OPTION_SIZELIMIT, .field = FIELD(sizelimit), .initial = "0",
	 .help = "limit the export to SIZE bytes; 0 means up to the end of the file"},
	{IMAGE_OPTION_SECTOR_SIZE, .field = FIELD(sector_size), .choices = sector_sizes,
	 .arg = "1|512|1024|2048|4096",
	 .help = "minimum block size for clients (default: 1, or that of direct I/O above 512)"},
	{IMAGE_OPTION_DIRECT_IO, .field = FIELD(direct_io),
	 .help = "bypass the page cache of this machine"},
	{IMAGE_OPTION_PAGE_CACHE, .field = FIELD(page_cache)},
	{IMAGE_OPTION_ENGINE, .field = FIELD(engine), .help = "how to access the file"},
	{IMAGE_OPTION_POLL, .field = FIELD(poll),
	 .help = "poll the device for completions instead of waiting for interrupts"},
	{
		.name = "contexts",
		.type = OPTION_UINT,
		.field = FIELD(contexts),
		.initial = "0",
		.max = 4096,
		.arg = "N",
		.help = "maximum number of I/O contexts; 0 means one per thread",
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
	},
	{
		.name = "discard",
		OPTION_OFF_ON,
		.field = FIELD(discard),
		.initial = "on",
		.help = "let clients release space (trim)",
	},
	{
		.name = "lock",
		.type = OPTION_CHOICE,
		.field = FIELD(lock),
		.initial = "auto",
		.choices = locks,
		.arg = "exclusive|shared|off|auto",
		.help = "keep out other writers",
	},
	{
		.name = "force",
		OPTION_OFF_ON,
		.field = FIELD(force),
		.initial = "off",
		.alone = "on",
		.help = "let clients write even if this machine uses the image in another way",
	},
	{
		.name = "changed-base",
		OPTION_OFF_ON,
		.field = FIELD(changed_base),
		.initial = "off",
		.alone = "on",
		.help = "serve a layer although its base has changed since the layer was made",
	},
	{
		.name = "base-path",
		.type = OPTION_STRING,
		.field = FIELD(base_path),
		.arg = "DIRECTORY",
		.help = "where the base of a layer may lie besides the layer's own directory",
	},
	{IMAGE_OPTION_TEMPORARY, .field = FIELD(temporary),
	 .help = "let clients write to a clone, which is thrown away at the end"},
	{IMAGE_OPTION_SCRATCH, .field = FIELD(scratch),
	 .help = "where temporary clones take their space (default: directory of the image)"},
	{IMAGE_OPTION_CEPH_CONF, .field = FIELD(ceph_conf),
	 .help = "configuration file of the Ceph cluster (default: /etc/ceph/ceph.conf)"},
	{IMAGE_OPTION_CEPH_USER, .field = FIELD(ceph_user),
	 .help = "user of the Ceph cluster (default: admin)"},
	{IMAGE_OPTION_CEPH_KEYRING, .field = FIELD(ceph_keyring),
	 .help = "file with that user's key (default: as Ceph's configuration says)"},
	{
		.name = "ceph-lock",
		.type = OPTION_CHOICE,
		.field = FIELD(ceph_lock),
		.initial = "write",
		.choices = ceph_locks,
		.arg = "write|start",
		.help = "when to take the exclusive lock of an image in Ceph",
	},
	{
		.name = "ceph-fence",
		.type = OPTION_STRING,
		.field = FIELD(ceph_fence),
		.arg = "ADDRESS",
		.help = "lost server (a client of Ceph) to fence, whose lock this server takes",
	},
	{IMAGE_OPTION_CLUSTER_TIMEOUT, .field = FIELD(cluster_timeout),
	 .help = "longest wait of a request for the Ceph cluster; 0 means no limit"},
	{IMAGE_OPTION_BASE_CA, .field = FIELD(base_ca),
	 .help = "certificates that verify the web server of an image (default: the system's)"},
	{IMAGE_OPTION_BASE_TIMEOUT, .field = FIELD(base_timeout),
	 .help = "longest wait of a read for the web server of an image"},
	{.name = NULL},
};

enum lock_choice
lock_resolve(enum lock_choice choice, bool writable)
{
	if (choice != LOCK_AUTO)
		return choice;
	return writable ? LOCK_EXCLUSIVE : LOCK_SHARED;
}

const char *
lock_resolved_name(enum lock_choice choice, bool writable)
{
	return locks[lock_resolve(choice, writable)];
}

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
