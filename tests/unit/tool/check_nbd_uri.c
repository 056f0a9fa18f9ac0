/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of a URI, and the addresses of its host name as the name service has them: here, it is
 * this file's.
 */
#include "tool/link/nbd_uri.h"

#include "tests/lib/suite.h"

#include <arpa/inet.h>
#include <check.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

static struct sockaddr_in6 six;
static struct sockaddr_in four;
static struct addrinfo second = {
	.ai_family = AF_INET, .ai_addr = (struct sockaddr *)&four, .ai_addrlen = sizeof(four)};
static struct addrinfo first = {.ai_family = AF_INET6,
				.ai_addr = (struct sockaddr *)&six,
				.ai_addrlen = sizeof(six),
				.ai_next = &second};
static char asked[100];

/* In place of the C library's. */
int
getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
	    struct addrinfo **found)
{
	snprintf(asked, sizeof(asked), "%s %s", host, service);
	if (strcmp(host, "none") == 0)
		return EAI_NONAME;
	/* As on a machine that has an IPv4 address and, but for the loopback's, no IPv6 address. */
	if (strcmp(host, "::1") == 0 && hints->ai_flags & AI_ADDRCONFIG)
		return EAI_ADDRFAMILY;
	six = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	if (strncmp(host, "fe80:", 5) == 0)
		inet_pton(AF_INET6, host, &six.sin6_addr);
	four = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc0000201)};
	*found = &first;
	return 0;
}

void
freeaddrinfo(struct addrinfo *all)
{
	ck_assert_ptr_eq(all, &first);
}

static void
assert_parts(const char *text, const char *host, unsigned int port, const char *socket,
	     const char *export)
{
	struct nbd_uri uri;
	GError *error = NULL;

	ck_assert_msg(nbd_uri_parse(text, &uri, &error), "%s", error ? error->message : "");
	ck_assert_pstr_eq(uri.host, host);
	ck_assert_uint_eq(uri.port, port);
	ck_assert_pstr_eq(uri.socket, socket);
	ck_assert_str_eq(uri.export, export);
	nbd_uri_fini(&uri);
}

static void
assert_refused(const char *text, const char *reason)
{
	g_autofree char *wanted = g_strconcat(text, ": ", reason, NULL);
	struct nbd_uri uri;
	GError *error = NULL;

	ck_assert_msg(!nbd_uri_parse(text, &uri, &error), "%s is taken", text);
	ck_assert_msg(g_str_has_prefix(error->message, wanted), "\"%s\" instead of \"%s\"",
		      error->message, wanted);
	g_error_free(error);
	nbd_uri_fini(&uri);
}

START_TEST(tcp_has_host_port_and_export)
{
	assert_parts("nbd://two", "two", 10809, NULL, "");
	assert_parts("nbd://two:10810/", "two", 10810, NULL, "");
	assert_parts("nbd:///x", "localhost", 10809, NULL, "x");
	assert_parts("nbd://[::1]:1/an%20export%2F", "::1", 1, NULL, "an export/");
	assert_parts("nbd://two//x", "two", 10809, NULL, "/x");
}
END_TEST

START_TEST(unix_has_socket_and_export)
{
	assert_parts("nbd+unix:///x?socket=/run/a%20b%26c", NULL, 10809, "/run/a b&c", "x");
	assert_parts("nbd+unix://?socket=/run/s", NULL, 10809, "/run/s", "");
}
END_TEST

static void
assert_tls(const char *text, const char *user, const char *certificates, const char *psk,
	   const char *hostname)
{
	struct nbd_uri uri;
	GError *error = NULL;

	ck_assert_msg(nbd_uri_parse(text, &uri, &error), "%s", error ? error->message : "");
	ck_assert(uri.tls);
	ck_assert_pstr_eq(uri.host, strstr(text, "+unix") ? NULL : "two");
	ck_assert_uint_eq(uri.port, 10809);
	ck_assert_str_eq(uri.export, "x");
	ck_assert_pstr_eq(uri.user, user);
	ck_assert_pstr_eq(uri.certificates, certificates);
	ck_assert_pstr_eq(uri.psk, psk);
	ck_assert_pstr_eq(uri.hostname, hostname);
	nbd_uri_fini(&uri);
}

START_TEST(tls_has_user_and_files)
{
	assert_tls("nbds://two/x", NULL, NULL, NULL, NULL);
	assert_tls("nbds://a%20b@two/x?tls-psk-file=/k%2Fp", "a b", NULL, "/k/p", NULL);
	assert_tls("nbds://two/x?tls-certificates=/p&tls-hostname=three", NULL, "/p", NULL,
		   "three");
	assert_tls("nbds+unix://alice@/x?socket=/s&tls-psk-file=/k", "alice", NULL, "/k", NULL);
}
END_TEST

START_TEST(nothing_about_tls_is_ignored)
{
	assert_refused("nbds://two/x?tls-psk-file=keys",
		       "tls-psk-file must be an absolute path: keys");
	assert_refused("nbds://two/x?tls-certificates=pki", "tls-certificates must be an absolute");
	assert_refused("nbds://two/x?tls-priority=NORMAL", "unknown parameter tls-priority");
	assert_refused("nbds://two/x?tls-psk-file=/k&verify",
		       "the parameters after ? can't be read");
	assert_refused("nbds://two/x?tls-hostname=", "the parameter tls-hostname is empty");
	assert_refused("nbds://two/x?tls-hostname=a&tls-hostname=b",
		       "the parameter tls-hostname is there twice");
	assert_refused("nbds://me:secret@two/x", "the URI has a password");
}
END_TEST

/* It could be what keeps a disk from being another one, or from being sent in clear. */
START_TEST(what_a_scheme_would_ignore_is_refused)
{
	assert_refused("nbd:///x?socket=/run/s",
		       "socket is for unix sockets: nbd+unix:///EXPORT?socket=PATH");
	assert_refused("nbds://two/x?socket=/run/s",
		       "socket is for unix sockets: nbds+unix:///EXPORT?socket=PATH");
	assert_refused("nbd://two/x?tls-psk-file=/k",
		       "tls-psk-file is for TLS, and nbd:// is not encrypted: use nbds://");
	assert_refused("nbd://two/?tls-certificates=/p", "tls-certificates is for TLS");
	assert_refused(
		"nbd+unix:///?socket=/s&tls-hostname=a",
		"tls-hostname is for TLS, and nbd+unix:// is not encrypted: use nbds+unix://");
	assert_refused("nbd://alice@two/x",
		       "a user is for TLS, and nbd:// is not encrypted: use nbds://");
	assert_refused("nbd://alice:secret@two/x", "the URI has a password");
	assert_refused("nbd://two/x?read-only=1", "unknown parameter read-only");
	assert_refused("nbd://two/x?a", "the parameters after ? can't be read");
	assert_refused("nbd://two/x?", "the parameters after ? can't be read");
	assert_refused("nbd://two/x#1", "a # in an export's name is written %23");
	assert_refused("nbd+unix://x?socket=/s",
		       "\"x\" would be a host, but a unix socket has none: write "
		       "nbd+unix:///EXPORT?socket=PATH");
	assert_refused("nbd+unix://:10809/x?socket=/s", "a unix socket has no port");
}
END_TEST

static void
assert_libnbd(const char *text, bool knows_hostname, const char *reason)
{
	g_autofree char *wanted = g_strconcat(text, ": ", reason, NULL);
	GError *error = NULL;
	bool good = nbd_uri_check_for_libnbd(text, knows_hostname, &error);

	ck_assert_msg(good == !reason, "%s: %s", text, good ? "taken" : error->message);
	if (!good)
		ck_assert_msg(g_str_has_prefix(error->message, wanted), "%s", error->message);
	g_clear_error(&error);
}

START_TEST(libnbd_gets_no_uri_of_which_it_would_ignore_a_part)
{
	assert_libnbd("nbd://two/x", false, NULL);
	assert_libnbd("nbds+vsock://2/x?tls-psk-file=keys", false, NULL);
	assert_libnbd("nbd+ssh://two/x?what", false, NULL);
	assert_libnbd("nbd+unix:///x?socket=s", false, NULL);
	assert_libnbd("nbds://me@two/x?tls-psk-file=keys", false, NULL);
	assert_libnbd("nbds://two/x?tls-hostname=three", true, NULL);
	assert_libnbd("nbds://two/x?tls-hostname=three", false, "this libnbd has no tls-hostname");
	assert_libnbd("nbd://me@two/x", false, "a user is for TLS");
	assert_libnbd("nbd://two/x?tls-psk-file=keys", false, "tls-psk-file is for TLS");
	assert_libnbd("nbd+vsock://2/x?socket=/s", false, "socket is for unix sockets");
	assert_libnbd("nbds://two/x?tls-verify=1", false, "unknown parameter tls-verify");
	assert_libnbd("nbds://me@two/x", false, "the user me needs a key: ?tls-psk-file=FILE");
	assert_libnbd("nbds://two/x?tls-psk-file=/k&tls-certificates=/p", false,
		      "tls-certificates is for certificates, and tls-psk-file for keys");
}
END_TEST

START_TEST(what_the_kernel_cannot_have_is_refused_with_the_reason)
{
	g_autofree char *path = g_strnfill(200, 'x'),
			*long_path = g_strconcat("nbd+unix:///?socket=/", path, NULL),
			*name = g_strnfill(4097, 'x'),
			*long_name = g_strconcat("nbd://two/", name, NULL);

	assert_refused("nbds+vsock://2", "the kernel's nbd driver takes TCP and unix sockets only");
	assert_refused("nbd+vsock://2", "the kernel's nbd driver takes TCP and unix sockets only");
	assert_refused("nbd+nonsense://two", "unknown NBD URI scheme: nbd+nonsense");
	assert_refused("nbd+unix:///x", "the path of the socket is missing: nbd+unix:///EXPORT?");
	assert_refused("nbds+unix:///x", "the path of the socket is missing: nbds+unix:///EXPORT?");
	assert_refused("nbd+unix:///x?socket=", "the path of the socket is missing");
	assert_refused("nbd+unix:///x?socket=a/b", "socket must be an absolute path: a/b");
	assert_refused(long_path, "the path of the socket is too long");
	assert_refused(long_name, "the export's name is too long");
	assert_refused("nbd://two:what", "");
	assert_refused("nbd://%zz", "");
	assert_refused("nbd://two/a%00b", "");
}
END_TEST

START_TEST(all_addresses_are_in_the_systems_order)
{
	const struct nbd_uri uri = {.host = (char *)"two", .port = 10810};
	GArray *addresses = nbd_uri_addresses(&uri, NULL);

	ck_assert_str_eq(asked, "two 10810");
	ck_assert_uint_eq(addresses->len, 2);
	ck_assert_mem_eq(&g_array_index(addresses, struct nbd_address, 0).address, &six,
			 sizeof(six));
	ck_assert_mem_eq(&g_array_index(addresses, struct nbd_address, 1).address, &four,
			 sizeof(four));
	ck_assert_uint_eq(g_array_index(addresses, struct nbd_address, 1).length, sizeof(four));
	g_array_unref(addresses);
}
END_TEST

START_TEST(loopback_of_ipv6_needs_no_other_address_of_ipv6)
{
	const struct nbd_uri uri = {.host = (char *)"::1", .port = 10809};
	GError *error = NULL;
	GArray *addresses = nbd_uri_addresses(&uri, &error);

	ck_assert_msg(addresses, "%s", error ? error->message : "");
	g_array_unref(addresses);
}
END_TEST

START_TEST(interface_of_a_link_local_address_is_asked_for)
{
	struct nbd_uri uri;
	GError *error = NULL;

	ck_assert(!nbd_uri_parse("nbd://[fe80::1%eth0]/", &uri, &error));
	ck_assert_msg(strstr(error->message, "is written %25"), "%s", error->message);
	g_clear_error(&error);
	nbd_uri_fini(&uri);
	ck_assert(nbd_uri_parse("nbd://[fe80::1]/", &uri, NULL));
	ck_assert_ptr_null(nbd_uri_addresses(&uri, &error));
	ck_assert_msg(strstr(error->message, "nbd://[fe80::1%25eth0]/"), "%s", error->message);
	g_clear_error(&error);
	nbd_uri_fini(&uri);
}
END_TEST

START_TEST(unknown_host_is_named)
{
	const struct nbd_uri uri = {.host = (char *)"none", .port = 10809};
	GError *error = NULL;

	ck_assert_ptr_null(nbd_uri_addresses(&uri, &error));
	ck_assert_msg(g_str_has_prefix(error->message, "none: "), "%s", error->message);
	g_error_free(error);
}
END_TEST

START_TEST(unix_socket_is_its_own_address)
{
	const struct nbd_uri uri = {.socket = (char *)"/run/s"};
	GArray *addresses = nbd_uri_addresses(&uri, NULL);
	const struct nbd_address *one = &g_array_index(addresses, struct nbd_address, 0);

	ck_assert_uint_eq(addresses->len, 1);
	ck_assert_int_eq(one->address.ss_family, AF_UNIX);
	ck_assert_str_eq(((const struct sockaddr_un *)&one->address)->sun_path, "/run/s");
	ck_assert_str_eq(asked, "");
	g_array_unref(addresses);
}
END_TEST

static void
assert_servers(const char *text, const char *wanted)
{
	GError *error = NULL;
	GPtrArray *uris = nbd_uri_servers(text, &error);
	g_autofree char *seen = NULL;

	ck_assert_msg(uris, "%s", error ? error->message : "");
	g_ptr_array_add(uris, NULL);
	seen = g_strjoinv(" ", (char **)uris->pdata);
	ck_assert_str_eq(seen, wanted);
	g_ptr_array_unref(uris);
}

START_TEST(each_server_has_a_uri_of_its_own)
{
	assert_servers("nbd://a/x", "nbd://a/x");
	assert_servers("nbd://a,b/x", "nbd://a/x nbd://b/x");
	assert_servers("nbd://a:1,[::1]:2,[::2],b", "nbd://a:1 nbd://[::1]:2 nbd://[::2] nbd://b");
	assert_servers(
		"nbds://me,too@a,b/x,y?tls-psk-file=/k,l",
		"nbds://me,too@a/x,y?tls-psk-file=/k,l nbds://me,too@b/x,y?tls-psk-file=/k,l");
	assert_servers("nbd+unix:///x?socket=/a,b", "nbd+unix:///x?socket=/a,b");
	assert_servers("nbd:///x,y", "nbd:///x,y");
}
END_TEST

START_TEST(missing_server_is_told)
{
	static const char *const wrong[] = {"nbd://a,/x", "nbd://,a", "nbd://a,,b/", "nbd://,/"};

	for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++) {
		g_autofree char *wanted =
			g_strconcat(wrong[i], ": a server's name is missing beside a comma", NULL);
		GError *error = NULL;

		ck_assert_ptr_null(nbd_uri_servers(wrong[i], &error));
		ck_assert_str_eq(error->message, wanted);
		g_error_free(error);
	}
}
END_TEST

static void
assert_server_name(const char *text, const char *wanted)
{
	g_autofree char *name = nbd_uri_server_name(text);

	ck_assert_str_eq(name, wanted);
}

START_TEST(server_is_named_by_host_and_port)
{
	assert_server_name("nbd://a/x", "a:10809");
	assert_server_name("nbds://me@[::1]:1/x", "[::1]:1");
	assert_server_name("nbd+unix:///x?socket=/s", "/s");
}
END_TEST

START_TEST(path_is_no_uri)
{
	ck_assert(nbd_uri_is("nbd://x") && nbd_uri_is("nbd+unix:///x?socket=y"));
	ck_assert(!nbd_uri_is("/srv/disk.img") && !nbd_uri_is("nbd0") && !nbd_uri_is("") &&
		  !nbd_uri_is(NULL));
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "parts"},
		{.test = tcp_has_host_port_and_export},
		{.test = unix_has_socket_and_export},
		{.test = tls_has_user_and_files},
		{.test = nothing_about_tls_is_ignored},
		{.test = what_a_scheme_would_ignore_is_refused},
		{.test = libnbd_gets_no_uri_of_which_it_would_ignore_a_part},
		{.test = what_the_kernel_cannot_have_is_refused_with_the_reason},
		{.test = path_is_no_uri},
		{.name = "servers"},
		{.test = each_server_has_a_uri_of_its_own},
		{.test = missing_server_is_told},
		{.test = server_is_named_by_host_and_port},
		{.name = "addresses"},
		{.test = all_addresses_are_in_the_systems_order},
		{.test = loopback_of_ipv6_needs_no_other_address_of_ipv6},
		{.test = interface_of_a_link_local_address_is_asked_for},
		{.test = unknown_host_is_named},
		{.test = unix_socket_is_its_own_address},
		{0},
	};

	return suite_run("nbd_uri", cases);
}
