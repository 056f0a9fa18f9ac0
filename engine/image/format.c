/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/image/format.h"

#include <string.h>

struct magic {
	const char *name;
	size_t offset;
	size_t length;
	const char *bytes;
};

#define MAGIC(name_, offset_, bytes_)                                                              \
	{                                                                                          \
		(name_), (offset_), sizeof(bytes_) - 1, (bytes_)                                   \
	}

static const struct magic magics[] = {
	MAGIC("qcow", 0, "QFI\xfb\0\0\0\1"), /* version 1; later versions are qcow2 */
	MAGIC("qcow2", 0, "QFI\xfb"),
	MAGIC("nbdloop layer", 0, "nbdloopL"), /* one whose name does not say so */
	MAGIC("QED", 0, "QED\0"),
	MAGIC("VMDK", 0, "KDMV"),
	MAGIC("VMDK", 0, "COWD"),
	MAGIC("VMDK", 0, "# Disk DescriptorFile"),
	MAGIC("VHDX", 0, "vhdxfile"),
	MAGIC("VHD", 0, "conectix"),
	MAGIC("VDI", 64, "\x7f\x10\xda\xbe"),
	MAGIC("gzip-compressed", 0, "\x1f\x8b\x08"),
	MAGIC("xz-compressed", 0,
	      "\xfd"
	      "7zXZ\0"),
	MAGIC("zstd-compressed", 0, "\x28\xb5\x2f\xfd"),
	MAGIC("bzip2-compressed", 0, "BZh"),
	MAGIC("lz4-compressed", 0, "\x04\x22\x4d\x18"),
};

const char *
format_name(const void *head, size_t length)
{
	for (size_t i = 0; i < sizeof(magics) / sizeof(magics[0]); i++) {
		const struct magic *m = &magics[i];

		if (length >= m->offset + m->length &&
		    memcmp((const char *)head + m->offset, m->bytes, m->length) == 0)
			return m->name;
	}
	return NULL;
}
