/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/device/netlink.h"

#include <errno.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	/* Of one datagram: an error comes with the whole request. */
	ANSWER_ROOM = 2 * NETLINK_ROOM,
	CONTROL_VERSION = 1,
};

int
netlink_open(struct netlink *netlink)
{
	*netlink = (struct netlink){
		.fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC)};
	return netlink->fd < 0 ? -errno : 0;
}

void
netlink_close(struct netlink *netlink)
{
	close(netlink->fd);
	netlink->fd = -1;
}

/* ---- the request */

static struct nlmsghdr *
header_of(struct netlink_request *request)
{
	return (struct nlmsghdr *)request->bytes;
}

void
netlink_begin(struct netlink_request *request, uint16_t family, uint8_t command, uint8_t version)
{
	const struct genlmsghdr what = {.cmd = command, .version = version};

	request->used = NLMSG_HDRLEN + GENL_HDRLEN;
	request->full = false;
	*header_of(request) = (struct nlmsghdr){
		.nlmsg_type = family,
		.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
	};
	memcpy(request->bytes + NLMSG_HDRLEN, &what, sizeof(what));
}

void
netlink_put(struct netlink_request *request, uint16_t attribute, const void *value, size_t size)
{
	const size_t length = NLA_HDRLEN + size, whole = NLA_ALIGN(length);
	struct nlattr head = {.nla_len = (uint16_t)length, .nla_type = attribute};

	if (whole > sizeof(request->bytes) - request->used) {
		request->full = true;
		return;
	}
	memset(request->bytes + request->used, 0, whole);
	memcpy(request->bytes + request->used, &head, sizeof(head));
	if (size)
		memcpy(request->bytes + request->used + NLA_HDRLEN, value, size);
	request->used += whole;
}

size_t
netlink_nest(struct netlink_request *request, uint16_t attribute)
{
	const size_t place = request->used;

	netlink_put(request, NLA_F_NESTED | attribute, NULL, 0);
	return place;
}

void
netlink_unnest(struct netlink_request *request, size_t place)
{
	struct nlattr *head = (struct nlattr *)(request->bytes + place);

	if (!request->full)
		head->nla_len = (uint16_t)(request->used - place);
}

/* ---- the answer */

struct answer {
	uint32_t sequence; /* of the request */
	uint16_t wanted;
	void *value;
	size_t size;
	bool complete;
	int err; /* once it is complete */
};

static void
take_attributes(struct answer *answer, const uint8_t *bytes, size_t size)
{
	struct nlattr head;

	while (size >= sizeof(head)) {
		memcpy(&head, bytes, sizeof(head));
		if (head.nla_len < NLA_HDRLEN || head.nla_len > size)
			return;
		if (answer->size && (head.nla_type & NLA_TYPE_MASK) == answer->wanted &&
		    (size_t)head.nla_len - NLA_HDRLEN == answer->size)
			memcpy(answer->value, bytes + NLA_HDRLEN, answer->size);
		if ((size_t)NLA_ALIGN(head.nla_len) >= size)
			return;
		bytes += NLA_ALIGN(head.nla_len);
		size -= NLA_ALIGN(head.nla_len);
	}
}

static void
take_message(struct answer *answer, const struct nlmsghdr *header, const uint8_t *bytes)
{
	const size_t size = header->nlmsg_len - NLMSG_HDRLEN;
	int error;

	/* An answer to an earlier request may be left. */
	if (header->nlmsg_seq != answer->sequence)
		return;
	if (header->nlmsg_type == NLMSG_ERROR && size >= sizeof(struct nlmsgerr)) {
		/* Its first member; 0: an acknowledgement, after all of the answer. */
		memcpy(&error, bytes, sizeof(error));
		answer->err = -error;
		answer->complete = true;
	} else if (header->nlmsg_type >= NLMSG_MIN_TYPE && size >= GENL_HDRLEN) {
		take_attributes(answer, bytes + GENL_HDRLEN, size - GENL_HDRLEN);
	}
}

static void
take_datagram(struct answer *answer, const uint8_t *bytes, size_t size)
{
	struct nlmsghdr header;

	while (size >= sizeof(header)) {
		memcpy(&header, bytes, sizeof(header));
		if (header.nlmsg_len < NLMSG_HDRLEN || header.nlmsg_len > size)
			return;
		take_message(answer, &header, bytes + NLMSG_HDRLEN);
		if ((size_t)NLMSG_ALIGN(header.nlmsg_len) >= size)
			return;
		bytes += NLMSG_ALIGN(header.nlmsg_len);
		size -= NLMSG_ALIGN(header.nlmsg_len);
	}
}

int
netlink_ask(struct netlink *netlink, struct netlink_request *request, uint16_t wanted, void *value,
	    size_t size)
{
	struct answer answer = {
		.sequence = ++netlink->sequence, .wanted = wanted, .value = value, .size = size};
	uint8_t bytes[ANSWER_ROOM];
	ssize_t n;

	if (request->full)
		return EMSGSIZE;
	header_of(request)->nlmsg_len = (uint32_t)request->used;
	header_of(request)->nlmsg_seq = answer.sequence;
	do
		n = send(netlink->fd, request->bytes, request->used, 0);
	while (n < 0 && errno == EINTR);
	while (n >= 0 && !answer.complete) {
		n = recv(netlink->fd, bytes, sizeof(bytes), 0);
		if (n == 0)
			return EPROTO;
		if (n > 0)
			take_datagram(&answer, bytes, (size_t)n);
		else if (errno == EINTR)
			n = 0;
	}
	return n < 0 ? errno : answer.err;
}

uint16_t
netlink_find_family(struct netlink *netlink, const char *name)
{
	struct netlink_request request;
	uint16_t family = 0;

	netlink_begin(&request, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CONTROL_VERSION);
	netlink_put(&request, CTRL_ATTR_FAMILY_NAME, name, strlen(name) + 1);
	return netlink_ask(netlink, &request, CTRL_ATTR_FAMILY_ID, &family, sizeof(family)) == 0
		       ? family
		       : 0;
}
