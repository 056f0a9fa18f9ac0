/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/layer_disk.h"

#include "tests/simulation/disk.h"
#include "tests/simulation/scheduler.h"
#include "tests/simulation/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_SIZE 4096u
#define STABLE_AT   8192u
#define OTHER_AT    (STABLE_AT + SECTOR_SIZE)
#define RECENT_AT   (OTHER_AT + SECTOR_SIZE)
#define DATA_AT     (1u << 20)
#define GRANULE     4096u
#define BITS        3968u /* of a map block */

static uint8_t view[4u << 20];

static uint32_t
layer_disk_crc32c(uint32_t crc, const uint8_t *bytes, size_t length)
{
	crc = ~crc;
	for (size_t i = 0; i < length; i++) {
		crc ^= bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
	}
	return ~crc;
}

static uint64_t
layer_disk_get(const uint8_t *bytes, size_t size)
{
	uint64_t value = 0;

	memcpy(&value, bytes, size);
	return value;
}

static void
layer_disk_put(uint8_t *bytes, uint64_t value, size_t size)
{
	memcpy(bytes, &value, size);
}

/* ---- making */

void
layer_disk_make(struct file *layer, const struct file *base, const char *base_name, size_t size)
{
	uint8_t header[HEADER_SIZE] = "nbdloopL";

	if (size > GRANULE * BITS || size > sizeof(view))
		trace_fail("the simulation knows layers with one map block only");
	layer_disk_put(header + 8, 1, 4);   /* version */
	layer_disk_put(header + 12, 1, 4);  /* writable */
	layer_disk_put(header + 16, 2, 8);  /* sequence */
	layer_disk_put(header + 24, 77, 8); /* identity */
	layer_disk_put(header + 40, size, 8);
	layer_disk_put(header + 48, size, 8); /* visible */
	layer_disk_put(header + 56, GRANULE, 8);
	layer_disk_put(header + 64, (size + GRANULE - 1) / GRANULE * GRANULE, 8); /* capacity */
	layer_disk_put(header + 72, RECENT_AT, 8);
	layer_disk_put(header + 80, DATA_AT, 8);
	layer_disk_put(header + 128, 1, 4); /* on raw bytes */
	layer_disk_put(header + 136, base->size, 8);
	layer_disk_put(header + 144, (uint64_t)base->modified, 8);
	snprintf((char *)header + 168, 1024, "%s", base_name);
	layer_disk_put(header + 4092, layer_disk_crc32c(0, header, 4092), 4);
	disk_resize(layer, DATA_AT + size);
	disk_write(layer, header, sizeof(header), 0);
}

/* ---- reading */

/* Returns the header that counts. */
static const uint8_t *
layer_disk_header(const struct file *layer)
{
	const uint8_t *found = NULL;

	for (unsigned int i = 0; i < 2; i++) {
		const uint8_t *header = layer->bytes + (size_t)i * HEADER_SIZE;

		if (memcmp(header, "nbdloopL", 8) == 0 &&
		    layer_disk_get(header + 4092, 4) == layer_disk_crc32c(0, header, 4092) &&
		    (!found || layer_disk_get(header + 16, 8) > layer_disk_get(found + 16, 8)))
			found = header;
	}
	if (!found)
		trace_fail("both headers of the layer are damaged");
	return found;
}

bool
layer_disk_has_failed(const struct file *layer)
{
	return strcmp((const char *)layer_disk_header(layer) + 88, "failed") == 0;
}

/* Adds the bits of a map block; a damaged one has none. */
static void
layer_disk_add(const struct file *layer, const uint8_t *header, size_t at, uint8_t *bits)
{
	const uint8_t *block = layer->bytes + at;
	const uint32_t begin = layer_disk_crc32c(0, header + 24, 16);

	if (layer_disk_get(block + 508, 4) != layer_disk_crc32c(begin, block, 508))
		return;
	for (unsigned int i = 0; i < BITS / 8; i++)
		bits[i] |= block[i];
}

const uint8_t *
layer_disk_bytes(const struct file *layer, const struct file *base)
{
	const uint8_t *header = layer_disk_header(layer);
	const size_t size = layer_disk_get(header + 40, 8);
	uint8_t bits[BITS / 8] = {0};
	char boot[64];

	snprintf(boot, sizeof(boot), "4f68d8c1-0000-4000-8000-%012u", disk_boots());
	layer_disk_add(layer, header, STABLE_AT, bits);
	layer_disk_add(layer, header, OTHER_AT, bits);
	if (strcmp((const char *)header + 88, boot) == 0)
		layer_disk_add(layer, header, RECENT_AT, bits);
	for (size_t at = 0; at < size; at += GRANULE) {
		const size_t rest = size - at, i = at / GRANULE;
		const bool held = bits[i / 8] >> i % 8 & 1;

		memcpy(view + at, held ? layer->bytes + DATA_AT + at : base->bytes + at,
		       rest < GRANULE ? rest : GRANULE);
	}
	return view;
}

size_t
layer_disk_sector(unsigned int sector)
{
	return DATA_AT / SECTOR_SIZE + sector;
}
