/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/access/access.h"

#include "common/error.h"
#include "common/log.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static int
access_read_rules(struct rules *rules, char **kept, const char *option, const char *text,
		  unsigned int proofs, char **error)
{
	const char *problem;
	int r;

	if (!text)
		return 0;
	*kept = strdup(text);
	if (!*kept)
		return -ENOMEM;
	r = rules_parse(rules, option, text, error);
	problem = r == 0 ? rules_problem(rules, proofs) : NULL;
	return problem ? error_set(error, -EINVAL, "%s=%s: %s", option, text, problem) : r;
}

int
access_new(const char *allow, const char *allow_write, unsigned int proofs, struct access **made,
	   char **error)
{
	struct access *access;
	int r;

	*made = NULL;
	*error = NULL;
	if (!allow && !allow_write)
		return 0;
	access = calloc(1, sizeof(*access));
	if (!access)
		return -ENOMEM;
	access->holders = 1;
	r = access_read_rules(&access->readers, &access->allow, "allow", allow, proofs, error);
	if (r == 0)
		r = access_read_rules(&access->writers, &access->allow_write, "allow-write",
				      allow_write, proofs, error);
	if (r < 0)
		access_release(access);
	else
		*made = access;
	return r;
}

struct access *
access_hold(struct access *access)
{
	if (access)
		atomic_fetch_add_explicit(&access->holders, 1, memory_order_relaxed);
	return access;
}

void
access_release(struct access *access)
{
	if (!access || atomic_fetch_sub_explicit(&access->holders, 1, memory_order_acq_rel) != 1)
		return;
	rules_fini(&access->readers);
	rules_fini(&access->writers);
	free(access->allow);
	free(access->allow_write);
	free(access);
}

enum access_right
access_right(const struct access *access, const struct identity *identity)
{
	if (!access || rules_match(&access->writers, identity))
		return ACCESS_WRITE;
	/* A private client may use the control socket, too, and so change the rules. */
	if (!rules_match(&access->readers, identity))
		return identity->private ? ACCESS_READ : ACCESS_NONE;
	return access->allow_write ? ACCESS_READ : ACCESS_WRITE;
}

static bool
same_rules(const char *text_a, const struct rules *a, const char *text_b, const struct rules *b)
{
	if (!text_a || !text_b)
		return text_a == text_b;
	/* A name may have got another number since. */
	return strcmp(text_a, text_b) == 0 && rules_same(a, b);
}

bool
access_same(const struct access *a, const struct access *b)
{
	if (!a || !b)
		return a == b;
	return same_rules(a->allow, &a->readers, b->allow, &b->readers) &&
	       same_rules(a->allow_write, &a->writers, b->allow_write, &b->writers);
}

void
access_log(const struct access *access, const char *export)
{
	if (!access) {
		log_info("export \"%s\": no rules any more: all clients may use it", export);
		return;
	}
	log_info("export \"%s\": clients need a rule:%s%s%s%s", export,
		 access->allow ? " allow=" : "", access->allow ? access->allow : "",
		 access->allow_write ? " allow-write=" : "",
		 access->allow_write ? access->allow_write : "");
}
