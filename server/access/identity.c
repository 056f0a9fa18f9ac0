/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/access/identity.h"

#include "server/access/rule_name.h"

#include "common/cleanup.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* After <sys/socket.h>, which it needs. */
#include <linux/vm_sockets.h>

/* Most bytes of what TLS tells that go to the log: a certificate may have many names. */
#define TEXT_MAX 256

_Static_assert(sizeof(gid_t) == sizeof(uint32_t), "the kernel writes groups of 32 bits");

/* ---- what the socket tells */

void
net_address_set(struct net_address *address, bool six, const void *bytes)
{
	const struct in6_addr *address6 = bytes;

	*address = (struct net_address){.six = six};
	if (six && IN6_IS_ADDR_V4MAPPED(address6)) {
		address->six = false;
		memcpy(address->bytes, &address6->s6_addr[12], 4);
	} else {
		memcpy(address->bytes, bytes, six ? 16 : 4);
	}
}

/* Without groups, rules about them match no client: nobody gets more than is allowed. */
static int
read_groups(struct identity *identity, int fd)
{
	socklen_t length = 0;

	/* The first call tells the length. */
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &length) == 0 || errno != ERANGE)
		return 0;
	identity->groups = malloc(length);
	if (!identity->groups)
		return -ENOMEM;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, identity->groups, &length) == 0)
		identity->group_count = length / sizeof(*identity->groups);
	return 0;
}

static int
read_unix(struct identity *identity, int fd)
{
	struct ucred who;
	socklen_t length = sizeof(who);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) < 0)
		return 0;
	identity->kind = IDENTITY_UNIX;
	identity->uid = who.uid;
	identity->gid = who.gid;
	return read_groups(identity, fd);
}

static int
read_socket(struct identity *identity, int fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_in inet;
		struct sockaddr_in6 inet6;
		struct sockaddr_vm vm;
		struct sockaddr_storage storage;
	} address;
	socklen_t length = sizeof(address);

	if (getpeername(fd, &address.any, &length) < 0)
		return 0;
	switch (address.any.sa_family) {
	case AF_UNIX: return read_unix(identity, fd);
	case AF_INET:
		identity->kind = IDENTITY_INET;
		net_address_set(&identity->address, false, &address.inet.sin_addr);
		return 0;
	case AF_INET6:
		identity->kind = IDENTITY_INET;
		net_address_set(&identity->address, true, &address.inet6.sin6_addr);
		return 0;
	case AF_VSOCK:
		identity->kind = IDENTITY_VSOCK;
		identity->cid = address.vm.svm_cid;
		return 0;
	default: return 0;
	}
}

struct identity *
identity_new(int fd, const char *place)
{
	struct identity *identity = calloc(1, sizeof(*identity));

	if (!identity)
		return NULL;
	identity->text = strdup(place);
	if (!identity->text || read_socket(identity, fd) < 0) {
		identity_free(identity);
		return NULL;
	}
	return identity;
}

void
identity_free(struct identity *identity)
{
	if (!identity)
		return;
	for (char **name = identity->alt_names; name && *name; name++)
		free(*name);
	free(identity->alt_names);
	free(identity->common_name);
	free(identity->dn);
	free(identity->psk);
	free(identity->groups);
	free(identity->text);
	free(identity);
}

/* ---- as rules */

struct visitor {
	void (*visit)(void *data, const char *rule);
	void *data;
	int result;
};

static void
visit_number(struct visitor *visitor, const char *kind, uint32_t number)
{
	char text[32];

	snprintf(text, sizeof(text), "%s:%u", kind, (unsigned int)number);
	visitor->visit(visitor->data, text);
}

static void
visit_name(struct visitor *visitor, const char *kind, const char *name)
{
	char *CLEANUP_FREE text = name ? rule_name_encode(kind, name) : NULL;

	if (text)
		visitor->visit(visitor->data, text);
	else if (name)
		visitor->result = -ENOMEM;
}

static void
identity_visit_tls(struct visitor *visitor, const struct identity *identity)
{
	visit_name(visitor, "psk", identity->psk);
	visit_name(visitor, "cn", identity->common_name);
	/* Not if the distinguished name says no more than the common name. */
	if (!identity->dn || !identity->common_name || strncmp(identity->dn, "CN=", 3) != 0 ||
	    strcmp(identity->dn + 3, identity->common_name) != 0)
		visit_name(visitor, "dn", identity->dn);
	for (char **name = identity->alt_names; name && *name; name++)
		visit_name(visitor, "san", *name);
}

int
identity_visit(const struct identity *identity, void (*visit)(void *data, const char *rule),
	       void *data)
{
	struct visitor visitor = {.visit = visit, .data = data};
	const struct net_address *address = &identity->address;
	char host[INET6_ADDRSTRLEN], text[sizeof(host) + 8];

	identity_visit_tls(&visitor, identity);
	if (identity->kind == IDENTITY_INET) {
		inet_ntop(address->six ? AF_INET6 : AF_INET, address->bytes, host, sizeof(host));
		snprintf(text, sizeof(text), "net:%s", host);
		visitor.visit(visitor.data, text);
	}
	if (identity->kind == IDENTITY_VSOCK)
		visit_number(&visitor, "cid", identity->cid);
	if (identity->kind == IDENTITY_UNIX) {
		visit_number(&visitor, "uid", identity->uid);
		visit_number(&visitor, "gid", identity->gid);
		for (size_t i = 0; i < identity->group_count; i++) {
			if (identity->groups[i] != identity->gid)
				visit_number(&visitor, "gid", identity->groups[i]);
		}
	}
	return visitor.result;
}

/* One client of IPv6 as a rule has all addresses of a network of 64 bits, and may change its own as
 * it likes. */
static char *
address_rule(const struct net_address *address)
{
	char host[INET6_ADDRSTRLEN], *rule;
	uint8_t bytes[16];

	memcpy(bytes, address->bytes, sizeof(bytes));
	if (address->six)
		memset(bytes + 8, 0, 8);
	inet_ntop(address->six ? AF_INET6 : AF_INET, bytes, host, sizeof(host));
	return asprintf(&rule, "net:%s%s", host, address->six ? "/64" : "") < 0 ? NULL : rule;
}

char *
identity_rule(const struct identity *identity)
{
	char *rule;

	if (identity->psk)
		return rule_name_encode("psk", identity->psk);
	if (identity->common_name)
		return rule_name_encode("cn", identity->common_name);
	if (identity->dn)
		return rule_name_encode("dn", identity->dn);
	if (identity->alt_names && identity->alt_names[0])
		return rule_name_encode("san", identity->alt_names[0]);
	if (identity->kind == IDENTITY_INET)
		return address_rule(&identity->address);
	if (identity->kind == IDENTITY_VSOCK)
		return asprintf(&rule, "cid:%u", (unsigned int)identity->cid) < 0 ? NULL : rule;
	if (identity->kind == IDENTITY_UNIX)
		return asprintf(&rule, "uid:%u", (unsigned int)identity->uid) < 0 ? NULL : rule;
	return strdup("any");
}

/* ---- what TLS tells */

static void
append_text(void *data, const char *rule)
{
	char *text = data;
	size_t used = strlen(text);

	snprintf(text + used, TEXT_MAX - used, "%s%s", used ? ", " : "", rule);
}

/* "10.0.0.5:4711" becomes "10.0.0.5:4711 (psk:alice)". */
static int
extend_text(struct identity *identity)
{
	char tls[TEXT_MAX] = "", *text;
	struct visitor visitor = {.visit = append_text, .data = tls};

	identity_visit_tls(&visitor, identity);
	if (!tls[0])
		return visitor.result; /* a certificate without names */
	if (visitor.result < 0 || asprintf(&text, "%s (%s)", identity->text, tls) < 0)
		return -ENOMEM;
	free(identity->text);
	identity->text = text;
	return 0;
}

int
identity_set_psk(struct identity *identity, const char *user)
{
	identity->psk = strdup(user);
	return identity->psk ? extend_text(identity) : -ENOMEM;
}

int
identity_set_certificate(struct identity *identity, const char *common_name, const char *dn,
			 char *const *alt_names)
{
	size_t count = 0;

	while (alt_names && alt_names[count])
		count++;
	identity->alt_names = calloc(count + 1, sizeof(*identity->alt_names));
	if (!identity->alt_names)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		identity->alt_names[i] = strdup(alt_names[i]);
		if (!identity->alt_names[i])
			return -ENOMEM;
	}
	identity->common_name = common_name ? strdup(common_name) : NULL;
	identity->dn = dn ? strdup(dn) : NULL;
	if ((common_name && !identity->common_name) || (dn && !identity->dn))
		return -ENOMEM;
	return extend_text(identity);
}

uint32_t
identity_place(const struct identity *identity)
{
	const size_t length = identity->kind != IDENTITY_INET ? 0 : identity->address.six ? 8 : 4;
	uint32_t number = identity->kind == IDENTITY_UNIX    ? identity->uid
			  : identity->kind == IDENTITY_VSOCK ? identity->cid
							     : 2166136261u; /* FNV-1a's */

	for (size_t i = 0; i < length; i++)
		number = (number ^ identity->address.bytes[i]) * 16777619u;
	return number;
}
