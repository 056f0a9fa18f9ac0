/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/access/rule.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "server/access/rule_name.h"

#include <arpa/inet.h>
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- the numbers of users and groups */

/* Bytes for an entry; a group may have thousands of members. */
#define ENTRY_MIN ((size_t)1 << 12)
#define ENTRY_MAX ((size_t)1 << 24)

/* An error that says only that there is no such name (getpwnam(3)). */
static bool
is_absence(int r)
{
	return r == 0 || r == ENOENT || r == ESRCH || r == EBADF || r == EPERM;
}

/* Looks up the number of a user, or of a group. Returns 0; -ENOENT: there is no such name; or
 * another -errno. May ask a server of the network: no event loop may call this. */
static int
rule_look_up(bool user, const char *name, uint32_t *number)
{
	int r = ERANGE;

	for (size_t size = ENTRY_MIN; r == ERANGE && size <= ENTRY_MAX; size *= 2) {
		char *CLEANUP_FREE buffer = malloc(size);
		struct passwd person, *found_user = NULL;
		struct group group, *found_group = NULL;

		if (!buffer)
			return -ENOMEM;
		r = user ? getpwnam_r(name, &person, buffer, size, &found_user)
			 : getgrnam_r(name, &group, buffer, size, &found_group);
		if (r == 0 && (found_user || found_group)) {
			*number = user ? person.pw_uid : group.gr_gid;
			return 0;
		}
	}
	return is_absence(r) ? -ENOENT : -r;
}

#define SEPARATORS ", \t"

/* ---- the text after the colon */

static int
parse_name(struct rule *rule, char *text, char **error)
{
	if (rule_name_decode(text) < 0)
		return error_set(error, -EINVAL,
				 "%% must be followed by the two hexadecimal digits of a byte; "
				 "write %% itself as %%25");
	if (!*text)
		return error_set(error, -EINVAL, "a name must follow the colon");
	rule->name = strdup(text);
	return rule->name ? 0 : -ENOMEM;
}

/* "dns:host.example": without the type, a name of one type could pass as one of another. */
static int
parse_typed_name(struct rule *rule, char *text, char **error)
{
	static const char *const types[] = {"dns:", "email:", "uri:", "ip:"};
	int r = parse_name(rule, text, error);

	for (size_t i = 0; r == 0 && i < sizeof(types) / sizeof(types[0]); i++) {
		size_t length = strlen(types[i]);

		if (strncmp(rule->name, types[i], length) == 0 && rule->name[length])
			return 0;
	}
	if (r < 0)
		return r;
	free(rule->name);
	return error_set(error, -EINVAL,
			 "an alternative name has a type: write san:dns:NAME, san:email:ADDRESS, "
			 "san:uri:URI or san:ip:ADDRESS");
}

/* Only digits, and without the highest number, which means "none" for users, groups and machines.
 */
static bool
rule_read_number(const char *text, uint32_t *number)
{
	uint64_t value = 0;

	if (!*text)
		return false;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return false;
		value = value * 10 + (uint64_t)(*text - '0');
		if (value >= UINT32_MAX)
			return false;
	}
	*number = (uint32_t)value;
	return true;
}

static int
rule_parse_number(struct rule *rule, char *text, char **error)
{
	if (rule_read_number(text, &rule->number))
		return 0;
	return error_set(error, -EINVAL, "must be a whole number from 0 to %u%s", UINT32_MAX - 1,
			 rule->fact == RULE_UID   ? "; write a name as user:NAME"
			 : rule->fact == RULE_GID ? "; write a name as group:NAME"
						  : "");
}

static int
find_number(struct rule *rule, char *text, char **error)
{
	bool user = rule->fact == RULE_UID;
	uint32_t number;
	int r;

	if (rule_name_decode(text) < 0)
		r = -ENOENT;
	else
		r = rule_look_up(user, text, &rule->number);
	if (r == -ENOENT && rule_read_number(text, &number))
		return error_set(error, -EINVAL,
				 "there is no %s of this name; write a number as %s:%s",
				 user ? "user" : "group", user ? "uid" : "gid", text);
	if (r == -ENOENT)
		return error_set(error, -EINVAL, "there is no %s of this name on this machine",
				 user ? "user" : "group");
	if (r == -ENOMEM)
		return r;
	return r < 0 ? error_set(error, r, "cannot look up this %s: %s", user ? "user" : "group",
				 strerror(-r))
		     : 0;
}

/* Returns whether bytes of the address after its first `bits` are set. */
static bool
has_more_bits(const struct net_address *address, unsigned int bits)
{
	for (unsigned int i = bits; i < 128; i++) {
		if (address->bytes[i / 8] & (0x80 >> i % 8))
			return true;
	}
	return false;
}

/* The network of which the address is a host, for an error. */
static int
suggest_net(const struct rule *rule, char **error)
{
	struct net_address address = rule->net.address;
	char text[INET6_ADDRSTRLEN];

	for (unsigned int i = rule->net.bits; i < 128; i++)
		address.bytes[i / 8] &= (uint8_t) ~(0x80 >> i % 8);
	inet_ntop(address.six ? AF_INET6 : AF_INET, address.bytes, text, sizeof(text));
	return error_set(error, -EINVAL,
			 "the address has more than the %u bits of its network: write net:%s/%u",
			 rule->net.bits, text, rule->net.bits);
}

static int
parse_net(struct rule *rule, char *text, char **error)
{
	char *slash = strchr(text, '/');
	uint8_t bytes[16];
	bool six = strchr(text, ':') != NULL;
	uint32_t bits = six ? 128 : 32;

	if (slash)
		*slash++ = '\0';
	if (inet_pton(six ? AF_INET6 : AF_INET, text, bytes) != 1 ||
	    (slash && (!rule_read_number(slash, &rule->net.bits) || rule->net.bits > bits)))
		return error_set(
			error, -EINVAL,
			"must be an address, or a network with the number of its bits, such as "
			"10.0.0.0/8 or 2001:db8::/32, and no name");
	if (!slash)
		rule->net.bits = bits;
	net_address_set(&rule->net.address, six, bytes);
	/* A network in ::ffff:0:0/96 is one of IPv4; a larger one is not. */
	if (six && !rule->net.address.six) {
		if (rule->net.bits >= 96) {
			rule->net.bits -= 96;
		} else {
			rule->net.address.six = true;
			memcpy(rule->net.address.bytes, bytes, sizeof(bytes));
		}
	}
	return has_more_bits(&rule->net.address, rule->net.bits) ? suggest_net(rule, error) : 0;
}

/* ---- one rule */

static const struct rule_kind {
	const char *name;
	enum rule_fact fact;
	int (*parse)(struct rule *rule, char *text, char **error); /* NULL: no colon follows */
} kinds[] = {
	{"any", RULE_ANY, NULL},
	{"none", RULE_NONE, NULL},
	{"psk", RULE_PSK, parse_name},
	{"cn", RULE_CN, parse_name},
	{"dn", RULE_DN, parse_name},
	{"san", RULE_SAN, parse_typed_name},
	{"uid", RULE_UID, rule_parse_number},
	{"user", RULE_UID, find_number},
	{"gid", RULE_GID, rule_parse_number},
	{"group", RULE_GID, find_number},
	{"net", RULE_NET, parse_net},
	{"cid", RULE_CID, rule_parse_number},
};

static const struct rule_kind *
find_kind(const char *text, size_t length)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strlen(kinds[i].name) == length && memcmp(kinds[i].name, text, length) == 0)
			return &kinds[i];
	}
	return NULL;
}

static int
parse_rule(struct rule *rule, char *text, char **error)
{
	size_t length = strcspn(text, ":");
	const struct rule_kind *kind = find_kind(text, length);

	if (!kind || (text[length] == ':') != (kind->parse != NULL))
		return error_set(
			error, -EINVAL,
			"a rule is any, none, psk:USER, cn:NAME, dn:NAME, san:TYPE:NAME, uid:N, "
			"user:NAME, gid:N, group:NAME, net:ADDRESS[/BITS] or cid:N");
	rule->fact = kind->fact;
	return kind->parse ? kind->parse(rule, text + length + 1, error) : 0;
}

static bool
has_alt_name(const struct identity *identity, const char *wanted)
{
	for (char **name = identity->alt_names; name && *name; name++) {
		if (strcmp(*name, wanted) == 0)
			return true;
	}
	return false;
}

static bool
has_group(const struct identity *identity, uint32_t gid)
{
	if (identity->gid == gid)
		return true;
	for (size_t i = 0; i < identity->group_count; i++) {
		if (identity->groups[i] == gid)
			return true;
	}
	return false;
}

static bool
is_in_net(const struct rule *rule, const struct net_address *address)
{
	unsigned int whole = rule->net.bits / 8, rest = rule->net.bits % 8;
	const uint8_t *net = rule->net.address.bytes;

	return address->six == rule->net.address.six && memcmp(address->bytes, net, whole) == 0 &&
	       (!rest || (address->bytes[whole] ^ net[whole]) >> (8 - rest) == 0);
}

static bool
rule_matches(const struct rule *rule, const struct identity *identity)
{
	switch (rule->fact) {
	case RULE_ANY: return true;
	case RULE_NONE: return false;
	case RULE_PSK: return identity->psk && strcmp(identity->psk, rule->name) == 0;
	case RULE_CN:
		return identity->common_name && strcmp(identity->common_name, rule->name) == 0;
	case RULE_DN: return identity->dn && strcmp(identity->dn, rule->name) == 0;
	case RULE_SAN: return has_alt_name(identity, rule->name);
	case RULE_UID: return identity->kind == IDENTITY_UNIX && identity->uid == rule->number;
	case RULE_GID: return identity->kind == IDENTITY_UNIX && has_group(identity, rule->number);
	case RULE_NET:
		return identity->kind == IDENTITY_INET && is_in_net(rule, &identity->address);
	case RULE_CID: return identity->kind == IDENTITY_VSOCK && identity->cid == rule->number;
	}
	return false;
}

static bool
rule_same(const struct rule *a, const struct rule *b)
{
	if (a->fact != b->fact)
		return false;
	switch (a->fact) {
	case RULE_PSK:
	case RULE_CN:
	case RULE_DN:
	case RULE_SAN: return strcmp(a->name, b->name) == 0;
	case RULE_UID:
	case RULE_GID:
	case RULE_CID: return a->number == b->number;
	case RULE_NET: return a->net.bits == b->net.bits && is_in_net(a, &b->net.address);
	default: return true;
	}
}

/* ---- lists */

static int
add_rule(struct rules *rules, const char *option, char *text, char **error)
{
	char *CLEANUP_FREE written = strdup(text);
	char *CLEANUP_FREE reason = NULL;
	struct rule *longer = reallocarray(rules->list, rules->count + 1, sizeof(*longer));
	int r;

	if (longer)
		rules->list = longer;
	if (!written || !longer)
		return -ENOMEM;
	longer += rules->count;
	*longer = (struct rule){.fact = RULE_NONE};
	r = parse_rule(longer, text, &reason);
	if (r == 0)
		rules->count++;
	return r < 0 && reason ? error_set(error, r, "%s: %s: %s", option, written, reason) : r;
}

int
rules_parse(struct rules *rules, const char *option, const char *text, char **error)
{
	char *CLEANUP_FREE copy = strdup(text);
	char *rest = copy, *part;
	int r = copy ? 0 : -ENOMEM;

	*rules = (struct rules){0};
	while (r == 0 && (part = strsep(&rest, SEPARATORS)) != NULL) {
		if (*part)
			r = add_rule(rules, option, part, error);
	}
	if (r == 0 && rules->count == 0)
		r = error_set(error, -EINVAL,
			      "%s is empty: write any for all clients, none for no client", option);
	if (r < 0)
		rules_fini(rules);
	return r;
}

void
rules_fini(struct rules *rules)
{
	for (size_t i = 0; i < rules->count; i++) {
		switch (rules->list[i].fact) {
		case RULE_PSK:
		case RULE_CN:
		case RULE_DN:
		case RULE_SAN: free(rules->list[i].name); break;
		default: break;
		}
	}
	free(rules->list);
	*rules = (struct rules){0};
}

bool
rules_match(const struct rules *rules, const struct identity *identity)
{
	for (size_t i = 0; i < rules->count; i++) {
		if (rule_matches(&rules->list[i], identity))
			return true;
	}
	return false;
}

bool
rules_same(const struct rules *a, const struct rules *b)
{
	for (size_t i = 0; a->count == b->count && i < a->count; i++) {
		if (!rule_same(&a->list[i], &b->list[i]))
			return false;
	}
	return a->count == b->count;
}

const char *
rules_problem(const struct rules *rules, unsigned int proofs)
{
	for (size_t i = 0; i < rules->count; i++) {
		enum rule_fact fact = rules->list[i].fact;

		if (fact == RULE_PSK && !(proofs & RULE_PROOF_KEY))
			return "no client of this server can have a psk:, which needs tls-psk=FILE";
		if ((fact == RULE_CN || fact == RULE_DN || fact == RULE_SAN) &&
		    !(proofs & RULE_PROOF_CERTIFICATE))
			return "no client of this server can have a cn:, dn: or san:, which need "
			       "tls-certificates=DIR, and no tls-verify-peer=off";
	}
	return NULL;
}
