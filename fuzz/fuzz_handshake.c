/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handshake, fed with anything.  An input begins with three bytes that choose the server's
 * configuration and the pieces in which the rest, the client's bytes, arrives.  However it is cut,
 * the replies must be well-formed and the same, and an export is joined once and last, or never.
 */
#include "fuzz/fuzz.h"

#include "nbd/handshake.h"
#include "nbd/wire.h"

#include <string.h>

/* Bits of the first byte. */
#define TLS_MODE   0x03
#define NO_LIST    0x04
#define JOIN_FAILS 0x08
#define REFUSES    0x10
#define READS_ONLY 0x20
#define LATER      0x40 /* a search for an export has its result only the second time */

static char longest[NBD_STRING_MAX + 1];
static struct nbd_export exports[] = {
	{.name = "a",
	 .description = "first",
	 .size = 1 << 30,
	 .min_block = 1,
	 .preferred_block = 4096,
	 .max_payload = 32u << 20,
	 .flags = NBD_EXPORT_FLAGS & ~NBD_FLAG_READ_ONLY,
	 .allocation = true},
	{.name = "",
	 .size = UINT64_MAX,
	 .min_block = 512,
	 .preferred_block = 512,
	 .max_payload = UINT32_MAX,
	 .flags = NBD_EXPORT_FLAGS,
	 .allocation = true},
	{.name = longest,
	 .description = longest,
	 .min_block = 1,
	 .preferred_block = 512,
	 .max_payload = 1 << 20},
};
#define EXPORTS (sizeof(exports) / sizeof(exports[0]))

/* One handshake and what was seen of it. */
struct run {
	const uint8_t *setup;
	struct nbd_handshake h;
	enum nbd_handshake_result result;
	uint64_t sum; /* of all replies (FNV-1a) */
	unsigned int joined;
	bool secured;
	bool waits; /* the last search for an export has no result yet */
};

static const struct nbd_export *
fuzz_find_export(void *data, const char *name, size_t length, struct nbd_refusal *refusal)
{
	struct run *run = data;

	CHECK(length <= NBD_STRING_MAX);
	CHECK(!memchr(name, '\0', length));
	CHECK(refusal->type && refusal->message);
	run->waits = (run->setup[0] & LATER) && !run->waits;
	refusal->later = run->waits;
	if (run->waits)
		return NULL;
	for (size_t i = 0; i < EXPORTS; i++)
		if (strlen(exports[i].name) == length && memcmp(exports[i].name, name, length) == 0)
			return &exports[i];
	return NULL;
}

static const struct nbd_export *
fuzz_list_export(void *data, size_t n)
{
	(void)data;
	return n < EXPORTS ? &exports[n] : NULL;
}

static bool
read_only(void *data, const struct nbd_export *export)
{
	const struct run *run = data;

	CHECK(export);
	return run->setup[0] & READS_ONLY;
}

static uint32_t
fuzz_join_export(void *data, const struct nbd_export *export, const char **message)
{
	struct run *run = data;

	CHECK(export);
	CHECK(*message);
	if (run->setup[0] & JOIN_FAILS) {
		*message = "locked";
		return NBD_REP_ERR_POLICY;
	}
	run->joined++;
	return 0;
}

static const struct nbd_export_source listing = {.find = fuzz_find_export,
						 .list = fuzz_list_export,
						 .read_only = read_only,
						 .join = fuzz_join_export};
static const struct nbd_export_source not_listing = {
	.find = fuzz_find_export, .read_only = read_only, .join = fuzz_join_export};

/* Whole replies only; at the very end perhaps what EXPORT_NAME is answered. */
static void
check_output(const struct run *run, const struct nbd_output *output)
{
	const uint8_t *at = output->bytes;
	size_t left = output->used;

	while (left >= NBD_REP_HEADER_SIZE && wire_load64(at) == NBD_REP_MAGIC) {
		uint32_t type = wire_load32(at + 12), length = wire_load32(at + 16);

		CHECK(length <= left - NBD_REP_HEADER_SIZE);
		CHECK(type == NBD_REP_ACK ||
		      (type >= NBD_REP_SERVER && type <= NBD_REP_META_CONTEXT) ||
		      (type >= NBD_REP_ERR_UNSUP && type <= NBD_REP_ERR_EXT_HEADER_REQD));
		CHECK((type == NBD_REP_ACK) == (length == 0));
		at += NBD_REP_HEADER_SIZE + length;
		left -= NBD_REP_HEADER_SIZE + length;
	}
	CHECK(!left || (run->result == NBD_HANDSHAKE_TRANSMISSION &&
			(left == NBD_EXPORT_REPLY_SIZE ||
			 left == NBD_EXPORT_REPLY_SIZE + NBD_EXPORT_ZEROES)));
}

static void
output_drain(struct run *run, struct nbd_output *output)
{
	check_output(run, output);
	for (size_t i = 0; i < output->used; i++)
		run->sum = (run->sum ^ output->bytes[i]) * UINT64_C(0x100000001b3);
	output->used = 0;
}

static void
check_result(const struct run *run, const struct nbd_output *output, size_t left)
{
	const struct nbd_session *session = &run->h.session;

	CHECK(run->joined == (run->result == NBD_HANDSHAKE_TRANSMISSION));
	switch (run->result) {
	case NBD_HANDSHAKE_MORE: CHECK(!left); break;
	case NBD_HANDSHAKE_FULL: CHECK(output->size - output->used < NBD_HANDSHAKE_ROOM); break;
	case NBD_HANDSHAKE_TRANSMISSION:
		CHECK(session->export && session->size == session->export->size);
		CHECK(session->flags & NBD_FLAG_HAS_FLAGS);
		CHECK(!(session->flags & NBD_FLAG_SEND_DF) == (session->form == NBD_FORM_SIMPLE));
		CHECK(!session->allocation ||
		      (session->export->allocation && session->form != NBD_FORM_SIMPLE));
		CHECK((run->setup[0] & TLS_MODE) != NBD_TLS_REQUIRED || run->secured);
		break;
	case NBD_HANDSHAKE_STARTTLS:
		CHECK(!left && !run->secured && (run->setup[0] & TLS_MODE) != NBD_TLS_OFF);
		break;
	case NBD_HANDSHAKE_WAITS: CHECK(run->waits); break;
	case NBD_HANDSHAKE_CLOSE: break;
	}
}

/* Feeds pieces of up to `piece` bytes, into an output of `room` bytes. */
static void
handshake_run(struct run *run, const uint8_t *setup, const uint8_t *data, size_t size, size_t piece,
	      size_t room)
{
	static const struct nbd_refusal refusal = {NBD_REP_ERR_POLICY, "no place", false};
	struct nbd_output output = {malloc(room), room, 0};
	struct nbd_handshake_config config = {
		.exports = setup[0] & NO_LIST ? &not_listing : &listing,
		.data = run,
		.options = 20,
		.skip = 20000,
		.tls = (setup[0] & TLS_MODE) % 3,
		.refusal = setup[0] & REFUSES ? &refusal : NULL,
	};

	CHECK(output.bytes);
	*run = (struct run){.setup = setup, .sum = UINT64_C(0xcbf29ce484222325)};
	nbd_handshake_init(&run->h, &config);
	do {
		size_t length = size < piece ? size : piece, consumed = SIZE_MAX;
		uint8_t *copy = length ? malloc(length) : NULL;

		CHECK(copy || !length);
		if (length)
			memcpy(copy, data, length);
		run->result = nbd_handshake_feed(&run->h, copy, length, &consumed, &output);
		free(copy);
		CHECK(consumed <= length);
		check_result(run, &output, length - consumed);
		data += consumed;
		size -= consumed;
		if (run->result != NBD_HANDSHAKE_MORE || !(setup[2] & 1))
			output_drain(run, &output);
		if (run->result == NBD_HANDSHAKE_STARTTLS) {
			nbd_handshake_secured(&run->h);
			run->secured = true;
		}
	} while (run->result == NBD_HANDSHAKE_FULL || run->result == NBD_HANDSHAKE_WAITS ||
		 (size &&
		  (run->result == NBD_HANDSHAKE_MORE || run->result == NBD_HANDSHAKE_STARTTLS)));
	output_drain(run, &output);
	free(output.bytes);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct run whole, pieces;

	if (size < 3)
		return 0;
	memset(longest, 'n', NBD_STRING_MAX);
	handshake_run(&whole, data, data + 3, size - 3, size, (size_t)1 << 18);
	handshake_run(&pieces, data, data + 3, size - 3, data[1] ? data[1] : 1,
		      NBD_HANDSHAKE_ROOM + 8 * data[2]);
	/* What follows STARTTLS in the same piece was sent in clear, and ends it. */
	if (pieces.secured)
		return 0;
	CHECK(whole.result == pieces.result);
	CHECK(whole.sum == pieces.sum);
	CHECK(whole.h.reason == pieces.h.reason);
	return 0;
}
