/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/ceph/rbd_predecessor.h"

#include "common/error.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#define MAY_BE_GONE "+free"

/* Returns whether digits follow `mark` at *at, and moves *at past them. */
static bool
skip_number(const char **at, char mark)
{
	size_t digits;

	if (**at != mark)
		return false;
	digits = strspn(*at + 1, "0123456789");
	*at += 1 + digits;
	return digits > 0;
}

/* Of 192.0.2.7:0/1234567, [2001:db8::7]:0/1234567, or v1:192.0.2.7:0/1234567: the cluster knows
 * whether there is such a client; what is something else altogether is a mistake. */
static bool
is_address(const char *text, size_t length)
{
	const char *slash = memchr(text, '/', length), *at = slash;

	if (!slash || slash == text)
		return false;
	while (at > text && isdigit((unsigned char)at[-1]))
		at--;
	at--;
	return at > text && skip_number(&at, ':') && at == slash && skip_number(&at, '/') &&
	       at == text + length &&
	       strspn(text, "0123456789abcdefABCDEF.:[]v") >= (size_t)(slash - text);
}

int
rbd_predecessor_parse(const char *path, const char *text, struct rbd_predecessor *predecessor,
		      char **error)
{
	const size_t mark = strlen(MAY_BE_GONE);
	size_t length = text ? strlen(text) : 0;

	*predecessor = (struct rbd_predecessor){.may_be_gone = false};
	if (!text)
		return 0;
	if (length > mark && strcmp(text + length - mark, MAY_BE_GONE) == 0) {
		predecessor->may_be_gone = true;
		length -= mark;
	}
	if (length >= sizeof(predecessor->address) || !is_address(text, length))
		return error_set(error, -EINVAL,
				 "%s: ceph-fence=%s is no address of a client of Ceph, as in "
				 "192.0.2.7:0/1234567; the status has it as lock_address, and so "
				 "has `rbd lock ls`",
				 path, text);
	memcpy(predecessor->address, text, length);
	return 0;
}

bool
rbd_predecessor_owns(const struct rbd_predecessor *predecessor, const struct rbd_owner *owner)
{
	return predecessor->address[0] && strcmp(predecessor->address, owner->address) == 0;
}

bool
rbd_predecessor_fits(const struct rbd_predecessor *predecessor, const struct rbd_owner *owner)
{
	return !predecessor->address[0] || owner->own ||
	       (!owner->address[0] && predecessor->may_be_gone) ||
	       rbd_predecessor_owns(predecessor, owner);
}
