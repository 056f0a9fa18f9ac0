/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/client.h"

#include "tests/simulation/chance.h"
#include "tests/simulation/client_connection.h"
#include "tests/simulation/disk.h"
#include "tests/simulation/event.h"
#include "tests/simulation/file.h"
#include "tests/simulation/limit_model.h"
#include "tests/simulation/memory.h"
#include "tests/simulation/model.h"
#include "tests/simulation/network.h"
#include "tests/simulation/scheduler.h"
#include "tests/simulation/trace.h"
#include "tests/simulation/wire.h"

#include "nbd/protocol.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Longer than a server takes a client for present that it has not heard. */
#define LONG_WAIT (120 * MILLISECOND)

uint64_t client_answers;

static bool stopping;
static unsigned int running;

/* ---- requests */

static void
sent_choose_place(struct sent *sent, unsigned int sectors)
{
	unsigned int largest = chance_once_in(8) ? client_plan.largest : 12;

	if (largest > sectors)
		largest = sectors;
	sent->count = (unsigned int)chance_between(1, largest);
	/* Mostly in a small part, so that requests meet; and at the end. */
	sent->first = (unsigned int)chance_below(chance_once_in(4) ? sectors : 40);
	if (chance_once_in(12))
		sent->first = sectors - sent->count;
	if (sent->first + sent->count > sectors)
		sent->first = sectors - sent->count;
}

static bool
request_changes(uint16_t type)
{
	return type == NBD_CMD_WRITE || type == NBD_CMD_WRITE_ZEROES || type == NBD_CMD_TRIM;
}

static void
client_choose_request(struct client *client, struct sent *sent)
{
	static const uint16_t types[] = {
		NBD_CMD_READ, NBD_CMD_READ,  NBD_CMD_WRITE,        NBD_CMD_WRITE, NBD_CMD_WRITE,
		NBD_CMD_READ, NBD_CMD_FLUSH, NBD_CMD_WRITE_ZEROES, NBD_CMD_TRIM,  NBD_CMD_WRITE,
	};
	const bool lists = client->created || client->has_allocation;

	if (client->repeat_count && !client->taken && !client_is_reader(client)) {
		struct sent *repeat = &client->repeats[chance_below(client->repeat_count)];

		*sent = *repeat;
		*repeat = client->repeats[--client->repeat_count];
		return;
	}
	*sent = (struct sent){.used = true};
	sent->type = types[chance_below(sizeof(types) / sizeof(types[0]))];
	if (client->taken || (sent->type == NBD_CMD_TRIM && !(client->facts & NBD_FLAG_SEND_TRIM)))
		sent->type = NBD_CMD_READ;
	if (sent->type == NBD_CMD_FLUSH)
		return;
	/* A forbidden one, now and then. */
	if (client_is_reader(client) && !chance_once_in(8))
		sent->type = NBD_CMD_READ;
	sent_choose_place(sent, client_sectors(client));
	if (sent->type == NBD_CMD_READ && client->facts & NBD_FLAG_SEND_CACHE && chance_once_in(32))
		sent->type = NBD_CMD_CACHE;
	if (lists && (client->looks || chance_once_in(client->created ? 4 : 16)))
		sent->type = NBD_CMD_BLOCK_STATUS;
	if (sent->type == NBD_CMD_BLOCK_STATUS && client->looks) {
		client->looks = false;
		sent->first = 0;
		sent->count = client_sectors(client);
	}
	if (sent->type == NBD_CMD_BLOCK_STATUS && !client->looks && chance_once_in(8))
		sent->flags |= NBD_CMD_FLAG_REQ_ONE;
	if (request_changes(sent->type) && chance_once_in(4))
		sent->flags |= NBD_CMD_FLAG_FUA;
	if (sent->type == NBD_CMD_WRITE_ZEROES && chance_once_in(2))
		sent->flags |= NBD_CMD_FLAG_NO_HOLE;
	if (sent->type == NBD_CMD_WRITE_ZEROES && client->facts & NBD_FLAG_SEND_FAST_ZERO &&
	    chance_once_in(8))
		sent->flags |= NBD_CMD_FLAG_FAST_ZERO;
	if (sent->type == NBD_CMD_READ && client->replies != SIMPLE && chance_once_in(4))
		sent->flags |= NBD_CMD_FLAG_DF;
}

static void
client_tell_model(const struct client *client, struct sent *sent)
{
	if (sent->type == NBD_CMD_READ) {
		sent->bytes = malloc((size_t)sent->count * SECTOR_SIZE);
		sent->arrived = calloc(sent->count, sizeof(bool));
	}
	/* Of the other image, it is known what it has. */
	if (client->other)
		return;
	switch (sent->type) {
	case NBD_CMD_READ:
	case NBD_CMD_BLOCK_STATUS:
	case NBD_CMD_CACHE:
	case NBD_CMD_FLUSH: sent->request = model_request(); break;
	case NBD_CMD_WRITE: sent->write = model_write(MODEL_DATA, sent->first, sent->count); break;
	case NBD_CMD_WRITE_ZEROES:
		sent->write = model_write(MODEL_ZEROES, sent->first, sent->count);
		break;
	case NBD_CMD_TRIM: sent->write = model_write(MODEL_TRIM, sent->first, sent->count); break;
	}
}

static const char *const request_names[] = {
	[NBD_CMD_READ] = "read",         [NBD_CMD_WRITE] = "write",
	[NBD_CMD_FLUSH] = "flush",       [NBD_CMD_TRIM] = "trim",
	[NBD_CMD_WRITE_ZEROES] = "zero", [NBD_CMD_BLOCK_STATUS] = "lists",
	[NBD_CMD_CACHE] = "cache",
};

static size_t
client_encode(const struct client *client, const struct sent *sent, unsigned int slot,
	      uint8_t *bytes)
{
	const bool extended = client->replies == EXTENDED;
	const uint16_t flags =
		sent->flags |
		(extended && sent->type == NBD_CMD_WRITE ? NBD_CMD_FLAG_PAYLOAD_LEN : 0);
	const uint64_t length = (uint64_t)sent->count * SECTOR_SIZE;
	uint8_t *at = put32(bytes, extended ? NBD_EXTENDED_REQUEST_MAGIC : NBD_REQUEST_MAGIC);

	at = put64(put16(put16(at, flags), sent->type), slot);
	at = put64(at, (uint64_t)sent->first * SECTOR_SIZE);
	at = extended ? put64(at, length) : put32(at, (uint32_t)length);
	if (sent->type != NBD_CMD_WRITE)
		return (size_t)(at - bytes);
	for (unsigned int i = 0; i < sent->count; i++, at += SECTOR_SIZE)
		model_fill(sent->write, sent->first + i, at);
	return (size_t)(at - bytes);
}

/* Returns 0, or -errno if the connection is over. */
static int
client_send(struct client *client)
{
	unsigned int slot = 0;
	struct sent *sent;
	uint8_t *bytes;
	size_t size;
	bool leaves;
	int r;

	while (client->sent[slot].used)
		slot++;
	sent = &client->sent[slot];
	client_choose_request(client, sent);
	if (!event_happens("%s %u+%u", request_names[sent->type], sent->first, sent->count)) {
		sent->used = false;
		scheduler_sleep(MILLISECOND);
		return 0;
	}
	client_tell_model(client, sent);
	sent->sent_at = scheduler_now();
	client->in_flight++;
	trace("%s %u+%u%s%s", request_names[sent->type], sent->first, sent->count,
	      sent->flags & NBD_CMD_FLAG_FUA && sent->type != NBD_CMD_READ ? " FUA" : "",
	      sent->write ? "" : ".");
	bytes = malloc(NBD_EXTENDED_REQUEST_SIZE + (size_t)sent->count * SECTOR_SIZE);
	size = client_encode(client, sent, slot, bytes);
	/* Now and then it leaves in the middle of a request. */
	leaves = event_strikes(client_plan.leaves * 4, "leaves in the middle of a request");
	r = network_send(client->socket, bytes, leaves ? chance_below(size) : size);
	free(bytes);
	return leaves ? -EPIPE : r;
}

/* ---- answers */

static const char *
error_name(uint32_t error)
{
	static char text[24];

	snprintf(text, sizeof(text), "error %" PRIu32, error);
	return error ? text : "well";
}

static void
client_check_error(const struct client *client, const struct sent *sent)
{
	const uint32_t error = sent->error;

	if (request_changes(sent->type) && client_is_reader(client)) {
		if (error != NBD_EPERM && error != NBD_ESHUTDOWN)
			trace_fail("%s: a change of a reader was answered with %" PRIu32,
				   client->name, error);
		return;
	}
	if (error == 0)
		return;
	if (error == NBD_ESHUTDOWN && client_plan.ended_lives >> client->life & 1)
		return;
	if (error == NBD_ENOTSUP && sent->flags & NBD_CMD_FLAG_FAST_ZERO)
		return;
	/* The checkpoint was deleted. */
	if (sent->type == NBD_CMD_BLOCK_STATUS && error == NBD_EINVAL)
		return;
	if (error == NBD_ENOMEM && memory_scarcity)
		return;
	if (!client_plan.fails_allowed || (error != NBD_EIO && error != NBD_ENOSPC))
		trace_fail("%s: a %s of %u sectors at %u failed with %" PRIu32, client->name,
			   request_names[sent->type], sent->count, sent->first, error);
}

/* Returns how many bytes a limit counts. */
static uint64_t
sent_data_bytes(const struct sent *sent)
{
	return sent->type == NBD_CMD_READ || sent->type == NBD_CMD_WRITE
		       ? (uint64_t)sent->count * SECTOR_SIZE
		       : 0;
}

static void
sent_check_other(const struct client *client, const struct sent *sent)
{
	uint8_t expected[SECTOR_SIZE];

	for (unsigned int i = 0; i < sent->count; i++) {
		model_fill(OTHER_WRITE, sent->first + i, expected);
		if (memcmp(sent->bytes + (size_t)i * SECTOR_SIZE, expected, SECTOR_SIZE) != 0)
			trace_fail("%s: sector %u of the other image has wrong bytes", client->name,
				   sent->first + i);
	}
}

static void
client_take_answer(struct client *client, struct sent *sent)
{
	client_check_error(client, sent);
	if (!sent->error && sent->type != NBD_CMD_FLUSH && client_is_at_main(client) &&
	    client->life == client_plan.life)
		limit_model_answered(client->number, sent_data_bytes(sent), sent->sent_at);
	trace("%s %u+%u answered: %s", request_names[sent->type], sent->first, sent->count,
	      error_name(sent->error));
	if (sent->write)
		model_write_answered(sent->write, sent->error                      ? MODEL_FAILED
						  : sent->flags & NBD_CMD_FLAG_FUA ? MODEL_DURABLE
										   : MODEL_DONE);
	else if (sent->error)
		model_read_failed(sent->request);
	else if (sent->type == NBD_CMD_FLUSH && client_is_at_main(client))
		model_flush_answered(sent->request);
	else if (sent->type != NBD_CMD_READ)
		model_read_failed(sent->request);
	for (unsigned int i = 0; sent->type == NBD_CMD_READ && !sent->error && i < sent->count; i++)
		if (!sent->arrived[i])
			trace_fail("%s: a read was answered without all bytes", client->name);
	if (sent->type == NBD_CMD_READ && !sent->error && client->other) {
		sent_check_other(client, sent);
	} else if (sent->type == NBD_CMD_READ && !sent->error && client->taken) {
		model_read_failed(sent->request);
		model_snapshot_answered(client->snapshot, client->taken, sent->first, sent->count,
					sent->bytes);
	} else if (sent->type == NBD_CMD_READ && !sent->error)
		model_read_answered(sent->request, sent->first, sent->count, sent->bytes);
	/* Of a server that ends, and of a broken snapshot, which answers without taking any time,
	 * it wants nothing for a moment. */
	if (sent->error == NBD_ESHUTDOWN || (sent->error && client->taken))
		scheduler_sleep(MILLISECOND);
	sent_free(sent);
	client->in_flight--;
	client_answers++;
	scheduler_note_progress();
}

static struct sent *
client_find(struct client *client, uint64_t cookie)
{
	if (cookie >= WINDOW || !client->sent[cookie].used)
		trace_fail("%s got an answer to no request", client->name);
	return &client->sent[cookie];
}

static int
client_receive_simple(struct client *client, const uint8_t *rest)
{
	struct sent *sent = client_find(client, get64(rest + 4));
	int r = 0;

	sent->error = get32(rest);
	if (sent->type == NBD_CMD_READ && client->replies != SIMPLE)
		trace_fail("%s: a read was answered in the simple form", client->name);
	if (sent->type == NBD_CMD_READ && !sent->error) {
		r = client_receive(client, sent->bytes, (size_t)sent->count * SECTOR_SIZE);
		memset(sent->arrived, true, sent->count);
	}
	if (r == 0)
		client_take_answer(client, sent);
	return r;
}

static void
sent_note_arrival(const struct client *client, struct sent *sent, uint64_t offset, uint64_t length)
{
	const uint64_t start = (uint64_t)sent->first * SECTOR_SIZE;

	if (sent->type != NBD_CMD_READ || offset < start || offset % SECTOR_SIZE ||
	    length % SECTOR_SIZE || !length ||
	    offset + length > start + (uint64_t)sent->count * SECTOR_SIZE)
		trace_fail("%s got bytes that it did not ask for", client->name);
	if (sent->flags & NBD_CMD_FLAG_DF && length != (uint64_t)sent->count * SECTOR_SIZE)
		trace_fail("%s got a fragment, in spite of DF", client->name);
	for (uint64_t i = (offset - start) / SECTOR_SIZE; i * SECTOR_SIZE < offset - start + length;
	     i++) {
		if (sent->arrived[i])
			trace_fail("%s got bytes twice", client->name);
		sent->arrived[i] = true;
	}
}

/* The whole sectors of an extent have not changed, or are zeroes. */
static void
client_check_extent(const struct client *client, const struct sent *sent, bool bitmap,
		    unsigned int first, unsigned int end)
{
	if (first >= end)
		return;
	if (client->other)
		trace_fail("%s sees holes in the other image", client->name);
	else if (bitmap)
		model_clean_answered(sent->request, client->checkpoint, client->created, first,
				     end - first);
	else if (!client->taken)
		model_zeroes_answered(sent->request, first, end - first);
	else
		model_snapshot_zeroes(client->snapshot, client->taken, first, end - first);
}

/* The extents of a list: `size` bytes of a chunk. */
static int
client_receive_list(struct client *client, const struct sent *sent, bool wide, uint64_t size)
{
	const size_t head = wide ? 8 : 4, extent = wide ? 16 : 8;
	uint8_t *bytes = malloc(size);
	uint64_t at = (uint64_t)sent->first * SECTOR_SIZE, length;
	bool bitmap;
	int r;

	if (sent->type != NBD_CMD_BLOCK_STATUS || size < head + extent || (size - head) % extent)
		trace_fail("%s got a wrong list", client->name);
	r = client_receive(client, bytes, size);
	bitmap = r == 0 && client->has_bitmap && get32(bytes) == client->bitmap;
	if (r == 0 && !bitmap && !(client->has_allocation && get32(bytes) == client->allocation))
		trace_fail("%s got a list that it did not choose", client->name);
	for (uint64_t i = head; r == 0 && i + extent <= size; i += extent, at += length) {
		const uint64_t flags = wide ? get64(bytes + i + 8) : get32(bytes + i + 4);
		const uint64_t first = (at + SECTOR_SIZE - 1) / SECTOR_SIZE;
		uint64_t end;

		length = wide ? get64(bytes + i) : get32(bytes + i);
		end = (at + length) / SECTOR_SIZE;
		if (end > client_sectors(client))
			end = client_sectors(client);
		if (bitmap ? !(flags & NBD_STATE_DIRTY) : flags & NBD_STATE_ZERO)
			client_check_extent(client, sent, bitmap, (unsigned int)first,
					    (unsigned int)end);
	}
	free(bytes);
	return r;
}

/* One chunk of an answer: `size` bytes that are still to be received. */
static int
client_receive_chunk(struct client *client, uint16_t flags, uint16_t type, uint64_t cookie,
		     uint64_t size)
{
	struct sent *sent = client_find(client, cookie);
	uint8_t head[12];
	uint64_t offset;
	int r = 0;

	if (type == NBD_REPLY_TYPE_OFFSET_DATA || type == NBD_REPLY_TYPE_OFFSET_HOLE) {
		r = client_receive(client, head, type == NBD_REPLY_TYPE_OFFSET_DATA ? 8 : 12);
		if (r < 0)
			return r;
		offset = get64(head);
		size = type == NBD_REPLY_TYPE_OFFSET_DATA ? size - 8 : get32(head + 8);
		sent_note_arrival(client, sent, offset, size);
		offset -= (uint64_t)sent->first * SECTOR_SIZE;
		if (type == NBD_REPLY_TYPE_OFFSET_DATA)
			r = client_receive(client, sent->bytes + offset, size);
		else
			memset(sent->bytes + offset, 0, size);
	} else if (type == NBD_REPLY_TYPE_BLOCK_STATUS || type == NBD_REPLY_TYPE_BLOCK_STATUS_EXT) {
		r = client_receive_list(client, sent, type == NBD_REPLY_TYPE_BLOCK_STATUS_EXT,
					size);
	} else if (type & 0x8000) {
		uint8_t *text = malloc(size + 1);

		r = client_receive(client, text, size);
		text[size] = '\0';
		sent->error = r < 0 ? 0 : get32(text);
		if (r == 0 && size > 6)
			trace("an error: %s", (char *)text + 6);
		free(text);
	} else if (type != NBD_REPLY_TYPE_NONE) {
		trace_fail("%s got a chunk of type %u", client->name, type);
	}
	if (r == 0 && flags & NBD_REPLY_FLAG_DONE)
		client_take_answer(client, sent);
	return r;
}

static int
client_receive_answer(struct client *client)
{
	uint8_t header[NBD_EXTENDED_REPLY_SIZE];
	const size_t more =
		client->replies == EXTENDED ? NBD_EXTENDED_REPLY_SIZE : NBD_SIMPLE_REPLY_SIZE;
	int r = client_receive(client, header, more);
	uint32_t magic;

	if (r < 0)
		return r;
	magic = get32(header);
	if (magic == NBD_SIMPLE_REPLY_MAGIC && client->replies != EXTENDED)
		return client_receive_simple(client, header + 4);
	if (magic == NBD_EXTENDED_REPLY_MAGIC && client->replies == EXTENDED) {
		const struct sent *sent = client_find(client, get64(header + 8));

		if (get64(header + 16) != (uint64_t)sent->first * SECTOR_SIZE)
			trace_fail("%s got an answer with another offset", client->name);
		return client_receive_chunk(client, get16(header + 4), get16(header + 6),
					    get64(header + 8), get64(header + 24));
	}
	if (magic != NBD_STRUCTURED_REPLY_MAGIC || client->replies != STRUCTURED)
		trace_fail("%s got an answer that begins with %08x", client->name, magic);
	r = client_receive(client, header + 16, 4);
	return r < 0 ? r
		     : client_receive_chunk(client, get16(header + 4), get16(header + 6),
					    get64(header + 8), get32(header + 16));
}

/* ---- a disconnect request */

/* Returns whether nobody has ended the server, and nothing but the client can have ended the
 * connection. */
static bool
client_must_be_answered(const struct client *client)
{
	return client->life == client_plan.life && client_plan.is_up && !client_plan.disconnects &&
	       client->disconnected == client_plan.disconnected && !client_plan.fails_allowed &&
	       !client->taken && !client->other;
}

/* Takes the answers to all that it has sent before, which a server has to carry out, also if the
 * client can send no more. */
static int
client_await_answers(struct client *client)
{
	uint8_t byte;
	int r = 0;

	while (r == 0 && client->in_flight)
		r = client_receive_answer(client);
	if (r < 0 && client->in_flight && client_must_be_answered(client))
		trace_fail("%s gets no answer to what it sent before its disconnect request",
			   client->name);
	if (r == 0 && client_receive(client, &byte, 1) == 0)
		trace_fail("%s gets an answer to a disconnect request", client->name);
	return -EPIPE;
}

/* It takes no answers. Nobody else changes the image, so the server owes it all changes. Returns
 * whether it has left so. */
static bool
client_leave_alone(struct client *client)
{
	bool owed;

	/* What it has not read would make it a reset. */
	if (network_is_readable(client->socket))
		return false;
	trace("says goodbye, and takes none of %u answers", client->in_flight);
	owed = network_await_end(client->socket, scheduler_now() + ANSWER_LIMIT) &&
	       client_must_be_answered(client);
	for (unsigned int i = 0; i < WINDOW && owed; i++) {
		struct sent *sent = &client->sent[i];

		if (!sent->write || client_is_reader(client))
			continue;
		trace("%s %u+%u must be done", request_names[sent->type], sent->first, sent->count);
		model_write_answered(sent->write, MODEL_DONE);
		sent_free(sent);
		client->in_flight--;
	}
	return true;
}

/* Says that it leaves, and then, mostly, waits for the rest of the answers. */
static int
client_say_goodbye(struct client *client)
{
	uint8_t bytes[NBD_EXTENDED_REQUEST_SIZE];
	const struct sent last = {.type = NBD_CMD_DISC};
	const size_t size = client_encode(client, &last, 0, bytes);
	int r;

	/* Just when something else happens, such as the end of what the disk does; or while the
	 * server does something about it. */
	if (disk_mood.unstuck_at > scheduler_now() && !chance_once_in(4))
		scheduler_sleep(disk_mood.unstuck_at - scheduler_now());
	else if (chance_once_in(2))
		scheduler_sleep_to_next();
	if (chance_once_in(2))
		scheduler_sleep_to_turn(scheduler_now() + SECOND);
	r = network_send(client->socket, bytes, size);
	if (r < 0 || (client->alone && chance_once_in(2) && client_leave_alone(client)) ||
	    chance_once_in(4))
		return -EPIPE;
	trace("says goodbye, and waits for %u answers", client->in_flight);
	client->leaves = true;
	if (chance_once_in(2))
		network_send_end(client->socket);
	return client_await_answers(client);
}

/* One that waits for long may leave with all its requests unanswered. */
static int
client_await_answer(struct client *client)
{
	if (client_plan.leaves && !network_await(client->socket, scheduler_now() + LONG_WAIT) &&
	    event_strikes(16, "says goodbye"))
		return client_say_goodbye(client);
	return client_receive_answer(client);
}

/* ---- the fiber */

static int
client_step(struct client *client)
{
	if (event_strikes(client_plan.leaves, "leaves"))
		return -EPIPE;
	if (event_strikes(client_plan.leaves, "says goodbye"))
		return client_say_goodbye(client);
	/* It takes no answers for a while. */
	if (client->in_flight && event_strikes(client_plan.leaves * 4, "falls asleep"))
		scheduler_sleep((int64_t)chance_below(4000) * MILLISECOND);
	if (client_plan.pause && !stopping && !client->repeat_count && chance_once_in(2))
		scheduler_sleep((int64_t)chance_below((uint64_t)client_plan.pause));
	if (client->in_flight < client_plan.window && !stopping &&
	    (!client->in_flight || chance_once_in(2)))
		return client_send(client);
	if (client->in_flight && (stopping || client->in_flight == client_plan.window ||
				  network_is_readable(client->socket)))
		return client_await_answer(client);
	scheduler_sleep((int64_t)chance_below(2000) * MICROSECOND);
	return 0;
}

/* It connects again at once, or some time later. */
static void
client_give_up(struct client *client)
{
	client_hang_up(client);
	if (client_plan.patience && !chance_once_in(3))
		scheduler_sleep((int64_t)chance_below(400) * MILLISECOND);
}

static void *
client_run(void *data)
{
	struct client *client = data;

	while (!stopping || client->in_flight) {
		if (!client->socket)
			client_connect(client);
		else if (client_step(client) < 0)
			client_give_up(client);
	}
	if (client->socket)
		client_hang_up(client);
	free(client);
	running--;
	return NULL;
}

void
client_start(unsigned int number)
{
	struct client *client = calloc(1, sizeof(*client));

	client->number = number;
	snprintf(client->name, sizeof(client->name), "client-%u", number);
	stopping = false;
	running++;
	scheduler_start(client->name, NULL, client_run, client);
}

static bool
clients_are_gone(void *data)
{
	(void)data;
	return running == 0;
}

void
clients_stop(void)
{
	stopping = true;
	scheduler_wait("the clients to leave", clients_are_gone, NULL, FOR_EVER);
}
