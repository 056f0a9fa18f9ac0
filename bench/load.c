/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A load of small reads or of writes, by a client that costs less than the server that it loads. It
 * measures how many requests a server can serve, where fio's nbd engine would measure itself.
 * bench/requests, bench/tls and bench/ceph compile and run it.
 *
 *     load WHERE CONNECTIONS DEPTH LENGTH SECONDS batched|alone read|write|randread|randwrite
 *
 * WHERE: see wire.h. Each connection has a thread, and DEPTH requests of LENGTH bytes in flight.
 * After some replies have arrived together, the client sends as many new requests together
 * (batched), or each with a system call of its own (alone), as the kernel's client does; writes are
 * always sent alone. The requests go through the export in one direction, with gaps, or to places
 * that are drawn at random. SECONDS may be a fraction; with 0, each connection makes only its first
 * DEPTH requests. Prints one line: requests answered, seconds, seconds of the client's CPU time.
 * The client trusts the server.
 */
#include "bench/wire.h"

#include <endian.h>
#include <err.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define INPUT         (256 << 10)
#define REQUEST_MAGIC 0x25609513
#define OPT_GO        7
#define REP_ACK       1
#define REP_INFO      3
#define INFO_EXPORT   0
#define CMD_READ      0
#define CMD_WRITE     1
#define CMD_DISC      2
#define REPLY_HEADER  16

struct request {
	uint32_t magic;
	uint16_t flags, type;
	uint64_t cookie, offset;
	uint32_t length;
} __attribute__((packed));

struct option {
	char magic[8];
	uint32_t option, length;
} __attribute__((packed));

struct option_reply {
	uint64_t magic;
	uint32_t option, type, length;
} __attribute__((packed));

struct connection {
	pthread_t thread;
	struct wire *wire;
	uint64_t size;       /* of the export, in bytes */
	uint64_t offset;     /* of the next request, in bytes */
	uint64_t drawn;      /* state of the generator of random places */
	unsigned int queued; /* number of requests that are not yet sent */
	struct request *requests;
	uint64_t answered;
};

static const char *where;
static unsigned int depth, length;
static double seconds;
static bool alone, writes, random_places;
static char *payload; /* of a write */
static pthread_barrier_t ready;

static void
wire_take(struct wire *wire, void *data, size_t size)
{
	for (size_t have = 0; have < size;)
		have += wire_receive(wire, (char *)data + have, size - have);
}

static void
connection_negotiate(struct connection *connection)
{
	struct {
		struct option option;
		uint32_t name_length;
		uint16_t infos;
	} __attribute__((packed)) go = {{"IHAVEOPT", htobe32(OPT_GO), htobe32(6)}, 0, 0};
	struct option_reply reply;
	char data[4096];

	wire_send(connection->wire, &go, sizeof(go));
	do {
		wire_take(connection->wire, &reply, sizeof(reply));
		if (be32toh(reply.length) > sizeof(data))
			errx(1, "an option's reply is too long");
		wire_take(connection->wire, data, be32toh(reply.length));
		if (be32toh(reply.type) == REP_INFO && data[0] == 0 && data[1] == INFO_EXPORT) {
			memcpy(&connection->size, data + 2, 8);
			connection->size = be64toh(connection->size);
		}
	} while (be32toh(reply.type) == REP_INFO);
	if (be32toh(reply.type) != REP_ACK || connection->size < length)
		errx(1, "the server refuses the export, or it is too small");
}

static uint64_t
connection_next_offset(struct connection *connection)
{
	uint64_t places = connection->size / length;

	if (!random_places)
		/* Not one directly after the other, because a server would merge them. */
		return (connection->offset + 7 * (uint64_t)length) %
		       (connection->size - length + 1) / length * length;
	/* xorshift64 (Marsaglia, 2003). */
	connection->drawn ^= connection->drawn << 13;
	connection->drawn ^= connection->drawn >> 7;
	connection->drawn ^= connection->drawn << 17;
	return connection->drawn % places * length;
}

static void
connection_queue(struct connection *connection)
{
	struct request *request = &connection->requests[connection->queued++];

	*request = (struct request){
		.magic = htobe32(REQUEST_MAGIC),
		.type = htobe16(writes ? CMD_WRITE : CMD_READ),
		.offset = htobe64(connection->offset),
		.length = htobe32(length),
	};
	connection->offset = connection_next_offset(connection);
}

static void
send_queued(struct connection *connection)
{
	size_t step = alone || writes ? 1 : connection->queued;

	for (size_t sent = 0; sent < connection->queued; sent += step) {
		wire_send(connection->wire, &connection->requests[sent],
			  step * sizeof(struct request));
		if (writes)
			wire_send(connection->wire, payload, length);
	}
	connection->queued = 0;
}

static bool
time_is_over(const struct timespec *start)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - start->tv_sec) +
		       (double)(now.tv_nsec - start->tv_nsec) / 1e9 >=
	       seconds;
}

/* Receives the replies that are still to come (`to_come` bytes) and disconnects, because nbdkit
 * 1.32 may abort when a client leaves with requests in flight. */
static void
connection_leave(struct connection *connection, char *input, size_t to_come)
{
	struct request disconnect = {.magic = htobe32(REQUEST_MAGIC), .type = htobe16(CMD_DISC)};

	while (to_come > 0)
		to_come -= wire_receive(connection->wire, input, INPUT);
	wire_send(connection->wire, &disconnect, sizeof(disconnect));
	wire_close(connection->wire);
}

static void *
connection_run(void *data)
{
	struct connection *connection = data;
	size_t reply = REPLY_HEADER + (writes ? 0 : length), partial = 0;
	char *input = malloc(INPUT);
	struct timespec start;

	connection->wire = wire_open(where);
	connection_negotiate(connection);
	pthread_barrier_wait(&ready);
	clock_gettime(CLOCK_MONOTONIC, &start);
	while (connection->queued < depth)
		connection_queue(connection);
	do {
		send_queued(connection);
		/* All replies have the same length. */
		for (partial += wire_receive(connection->wire, input, INPUT); partial >= reply;
		     partial -= reply) {
			connection->answered++;
			connection_queue(connection);
		}
	} while (!time_is_over(&start));
	connection_leave(connection, input, (depth - connection->queued) * reply - partial);
	free(input);
	return NULL;
}

int
main(int argc, char **argv)
{
	struct connection *connections;
	struct timespec cpu;
	uint64_t answered = 0;
	unsigned int count;

	if (argc != 8)
		errx(2, "usage: load WHERE CONNECTIONS DEPTH LENGTH SECONDS batched|alone "
			"read|write|randread|randwrite");
	where = argv[1];
	count = (unsigned int)atoi(argv[2]);
	depth = (unsigned int)atoi(argv[3]);
	length = (unsigned int)atoi(argv[4]);
	seconds = strtod(argv[5], NULL);
	alone = strcmp(argv[6], "alone") == 0;
	random_places = strncmp(argv[7], "rand", 4) == 0;
	writes = strcmp(argv[7] + (random_places ? 4 : 0), "write") == 0;
	if (!count || !depth || !length || !(seconds >= 0))
		errx(2, "numbers are above 0");
	payload = calloc(1, length);
	connections = calloc(count, sizeof(*connections));
	pthread_barrier_init(&ready, NULL, count);
	for (unsigned int i = 0; i < count; i++) {
		connections[i].requests = calloc(depth, sizeof(struct request));
		connections[i].offset = i * 64 * (uint64_t)length;
		connections[i].drawn = UINT64_C(0x9e3779b97f4a7c15) * (i + 1);
		if (pthread_create(&connections[i].thread, NULL, connection_run, &connections[i]) !=
		    0)
			errx(1, "no thread");
	}
	for (unsigned int i = 0; i < count; i++) {
		pthread_join(connections[i].thread, NULL);
		answered += connections[i].answered;
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	printf("%llu %f %.6f\n", (unsigned long long)answered, seconds,
	       (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9);
	return 0;
}
