/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench/wire.h"

#include <arpa/inet.h>
#include <endian.h>
#include <err.h>
#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define GREETING     18
#define OPTION_REPLY 20
#define PRIORITY                                                                                   \
	"NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+AES-128-GCM:-KX-ALL:+ECDHE-PSK:+DHE-PSK:+PSK"

struct wire {
	int fd;
	gnutls_session_t session;
	gnutls_psk_client_credentials_t credentials;
};

static void
receive_plain(int fd, size_t size)
{
	char data[GREETING + OPTION_REPLY];

	if (recv(fd, data, size, MSG_WAITALL) != (ssize_t)size)
		errx(1, "the server said too little");
}

static void
ask_for_tls(int fd)
{
	struct {
		uint32_t flags;
		char magic[8];
		uint32_t option, length;
	} __attribute__((packed)) start = {htobe32(3), "IHAVEOPT", htobe32(5), 0};

	receive_plain(fd, GREETING);
	if (send(fd, &start, sizeof(start), MSG_NOSIGNAL) != sizeof(start))
		err(1, "send");
	receive_plain(fd, OPTION_REPLY);
}

static void
tls_check(int code, const char *what)
{
	if (code < 0)
		errx(1, "%s: %s", what, gnutls_strerror(code));
}

static void
wire_begin_tls(struct wire *wire, const char *user, const char *key)
{
	gnutls_datum_t digits = {(unsigned char *)key, (unsigned int)strlen(key)};
	int r;

	tls_check(gnutls_init(&wire->session, GNUTLS_CLIENT), "gnutls_init");
	tls_check(gnutls_priority_set_direct(wire->session, PRIORITY, NULL), "gnutls_priority_set");
	tls_check(gnutls_psk_allocate_client_credentials(&wire->credentials), "credentials");
	tls_check(gnutls_psk_set_client_credentials(wire->credentials, user, &digits,
						    GNUTLS_PSK_KEY_HEX),
		  "the key");
	tls_check(gnutls_credentials_set(wire->session, GNUTLS_CRD_PSK, wire->credentials),
		  "credentials");
	gnutls_transport_set_int(wire->session, wire->fd);
	do {
		r = gnutls_handshake(wire->session);
	} while (r < 0 && !gnutls_error_is_fatal(r));
	tls_check(r, "handshake");
}

struct wire *
wire_open(const char *where)
{
	struct wire *wire = calloc(1, sizeof(*wire));
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	char user[64], key[129];
	unsigned short port;
	int on = 1;

	if (sscanf(where, "%hu:%63[^:]:%128s", &port, user, key) != 3)
		errx(2, "%s: not PORT:USER:KEY", where);
	address.sin_port = htons(port);
	wire->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (wire->fd < 0 || connect(wire->fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		err(1, "port %hu", port);
	setsockopt(wire->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	ask_for_tls(wire->fd);
	wire_begin_tls(wire, user, key);
	return wire;
}

size_t
wire_receive(struct wire *wire, void *data, size_t size)
{
	ssize_t n;

	do {
		n = gnutls_record_recv(wire->session, data, size);
	} while (n < 0 && !gnutls_error_is_fatal((int)n));
	tls_check((int)n, "receive");
	if (n == 0)
		errx(1, "the server disconnected");
	return (size_t)n;
}

void
wire_send(struct wire *wire, const void *data, size_t size)
{
	const char *bytes = data;

	while (size > 0) {
		ssize_t n = gnutls_record_send(wire->session, bytes, size);

		if (n < 0 && !gnutls_error_is_fatal((int)n))
			continue;
		tls_check((int)n, "send");
		bytes += n;
		size -= (size_t)n;
	}
}

void
wire_close(struct wire *wire)
{
	gnutls_bye(wire->session, GNUTLS_SHUT_WR);
	gnutls_deinit(wire->session);
	gnutls_psk_free_client_credentials(wire->credentials);
	close(wire->fd);
	free(wire);
}
