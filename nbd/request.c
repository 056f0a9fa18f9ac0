/* SPDX-License-Identifier: BSD-3-Clause */
#include "nbd/request.h"

#include "nbd/wire.h"

#include <errno.h>

/* The properties of a command. FUA is valid on all of them if it was offered ("Command flags"). */
static const struct command {
	uint16_t offered; /* the transmission flag that offers it; 0: always offered */
	uint16_t flags;   /* command flags that it accepts, if they were offered */
	bool writes;
	enum nbd_error beyond; /* the error for a range past the end of the export */
} commands[] = {
	[NBD_CMD_READ] = {0, NBD_CMD_FLAG_DF, false, NBD_EINVAL},
	[NBD_CMD_WRITE] = {0, 0, true, NBD_ENOSPC},
	[NBD_CMD_DISC] = {0, 0, false, NBD_EINVAL},
	[NBD_CMD_FLUSH] = {NBD_FLAG_SEND_FLUSH, 0, false, NBD_EINVAL},
	[NBD_CMD_TRIM] = {NBD_FLAG_SEND_TRIM, 0, true, NBD_EINVAL},
	[NBD_CMD_CACHE] = {NBD_FLAG_SEND_CACHE, 0, false, NBD_EINVAL},
	[NBD_CMD_WRITE_ZEROES] = {NBD_FLAG_SEND_WRITE_ZEROES,
				  NBD_CMD_FLAG_NO_HOLE | NBD_CMD_FLAG_FAST_ZERO, true, NBD_ENOSPC},
	[NBD_CMD_BLOCK_STATUS] = {0, NBD_CMD_FLAG_REQ_ONE, false, NBD_EINVAL},
};

static const struct command *
find_command(const struct nbd_request *request)
{
	return request->type < sizeof(commands) / sizeof(commands[0]) ? &commands[request->type]
								      : NULL;
}

int
nbd_request_decode(const struct nbd_session *session, const uint8_t *bytes,
		   struct nbd_request *request)
{
	bool extended = session->form == NBD_FORM_EXTENDED;

	if (wire_load32(bytes) != (extended ? NBD_EXTENDED_REQUEST_MAGIC : NBD_REQUEST_MAGIC))
		return -EPROTO;
	request->flags = wire_load16(bytes + 4);
	request->type = wire_load16(bytes + 6);
	request->cookie = wire_load64(bytes + 8);
	request->offset = wire_load64(bytes + 16);
	request->length = extended ? wire_load64(bytes + 24) : wire_load32(bytes + 24);
	return 0;
}

static enum nbd_verdict
refuse_request(struct nbd_check *check, enum nbd_error error, const char *message)
{
	check->error = error;
	check->message = message;
	return NBD_VERDICT_REFUSE;
}

/* Finds the number of bytes that follow the header. Returns NULL, or the reason why they can't be
 * received. */
static const char *
find_payload(const struct nbd_session *session, const struct nbd_request *request,
	     uint64_t *payload)
{
	uint64_t most = session->max_payload > NBD_PAYLOAD_DEFAULT ? session->max_payload
								   : NBD_PAYLOAD_DEFAULT;

	/*
	 * A write's data follow even if NBD_CMD_FLAG_PAYLOAD_LEN is missing, which extended headers
	 * require on a write: QEMU 10.0 sends its writes without it, and without a payload a write
	 * would have no meaning.
	 */
	if (request->type == NBD_CMD_WRITE ||
	    (session->form == NBD_FORM_EXTENDED && request->flags & NBD_CMD_FLAG_PAYLOAD_LEN))
		*payload = request->length;
	else
		*payload = 0;
	return *payload > most ? "the data of a request is far too long" : NULL;
}

/* Returns the command flags that the client may set on this command in this session. */
static unsigned int
allowed_flags(const struct nbd_session *session, const struct nbd_request *request,
	      const struct command *command)
{
	unsigned int flags = command->flags;

	if (!(session->flags & NBD_FLAG_SEND_DF))
		flags &= ~NBD_CMD_FLAG_DF;
	if (!(session->flags & NBD_FLAG_SEND_FAST_ZERO))
		flags &= ~NBD_CMD_FLAG_FAST_ZERO;
	if (session->flags & NBD_FLAG_SEND_FUA)
		flags |= NBD_CMD_FLAG_FUA;
	if (session->form == NBD_FORM_EXTENDED && request->type == NBD_CMD_WRITE)
		flags |= NBD_CMD_FLAG_PAYLOAD_LEN;
	return flags;
}

/* Applies the rules about offset and length to a command that is allowed in this session. */
static enum nbd_verdict
request_check_range(const struct nbd_session *session, const struct nbd_request *request,
		    const struct command *command, struct nbd_check *check)
{
	if (request->type == NBD_CMD_FLUSH) {
		if (request->offset || request->length)
			return refuse_request(check, NBD_EINVAL,
					      "a flush has no offset and no length");
		return NBD_VERDICT_SERVE;
	}
	if (request->offset > session->size || request->length > session->size - request->offset)
		return refuse_request(check, command->beyond,
				      "the request goes past the end of the export");
	/* A reply to it must have at least one extent, and no extent may be empty. */
	if (request->type == NBD_CMD_BLOCK_STATUS && !request->length)
		return refuse_request(check, NBD_EINVAL, "block status of no bytes");
	if (!request->length)
		return NBD_VERDICT_NOTHING;
	if (request->type == NBD_CMD_WRITE && request->length > session->max_payload)
		return refuse_request(check, NBD_EINVAL,
				      "the write is longer than the maximum payload size");
	if (request->type == NBD_CMD_READ && request->length > session->max_payload)
		return refuse_request(check,
				      session->form == NBD_FORM_SIMPLE ? NBD_EINVAL : NBD_EOVERFLOW,
				      "the read is longer than the maximum payload size");
	return NBD_VERDICT_SERVE;
}

enum nbd_verdict
nbd_request_check(const struct nbd_session *session, const struct nbd_request *request,
		  struct nbd_check *check)
{
	const struct command *command = find_command(request);

	*check = (struct nbd_check){0};
	if (request->type == NBD_CMD_DISC)
		return NBD_VERDICT_DISCONNECT;
	check->message = find_payload(session, request, &check->payload);
	if (check->message)
		return NBD_VERDICT_DROP;
	if (!command)
		return refuse_request(check, NBD_EINVAL, "unknown command");
	if (request->flags & ~allowed_flags(session, request, command))
		return refuse_request(check, NBD_EINVAL,
				      "unknown flag, or one that this command does not take");
	if (command->writes && (session->flags & NBD_FLAG_READ_ONLY))
		return refuse_request(check, NBD_EPERM, "the export is read-only");
	if (command->offered && !(session->flags & command->offered))
		return refuse_request(check, NBD_EINVAL, "the export does not offer this command");
	if (request->type == NBD_CMD_BLOCK_STATUS && !session->allocation && !session->bitmap_count)
		return refuse_request(check, NBD_EINVAL, "no metadata context was selected");
	return request_check_range(session, request, command, check);
}
