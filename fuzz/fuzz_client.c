/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client's side of the handshake.  The first byte of an input chooses whether the client wants
 * TLS, and the pieces in which the rest, a server's bytes, arrives.  The result must not depend on
 * them, and what the client takes for an export must be one.
 */
#include "fuzz/fuzz.h"

#include "nbd/client_handshake.h"

#include <string.h>

static enum nbd_client_result
client_talk(struct nbd_client_handshake *h, bool tls, const uint8_t *bytes, size_t length,
	    size_t piece)
{
	enum nbd_client_result result = NBD_CLIENT_MORE;
	uint8_t room[NBD_CLIENT_ROOM];

	nbd_client_handshake_init(h, "export", tls);
	while (length > 0 && result != NBD_CLIENT_FAILED) {
		struct nbd_output output = {.bytes = room, .size = sizeof(room)};
		size_t now = length < piece ? length : piece;

		result = nbd_client_handshake_feed(h, bytes, now, &output);
		CHECK(output.used <= sizeof(room));
		bytes += now;
		length -= now;
	}
	return result;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct nbd_client_handshake whole, pieces;
	enum nbd_client_result result;
	bool tls;

	if (size < 1)
		return 0;
	tls = data[0] & 0x80;
	result = client_talk(&whole, tls, data + 1, size - 1, SIZE_MAX);
	CHECK(client_talk(&pieces, tls, data + 1, size - 1, (data[0] & 0x7fu) + 1) == result);
	/* No TLS session begins here. */
	CHECK(!tls || result != NBD_CLIENT_READY);
	if (result == NBD_CLIENT_READY) {
		CHECK(whole.size == pieces.size && whole.flags == pieces.flags);
		CHECK(whole.smallest_block <= NBD_MIN_BLOCK_MAX &&
		      (whole.smallest_block & (whole.smallest_block - 1)) == 0);
	} else if (result == NBD_CLIENT_FAILED) {
		CHECK(*whole.reason && !strcmp(whole.reason, pieces.reason));
		for (const char *text = whole.reason; *text; text++)
			CHECK((unsigned char)*text >= ' ' && *text != 0x7f);
	}
	return 0;
}
