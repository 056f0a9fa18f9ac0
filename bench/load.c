/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A load of small reads, by a client that costs less than the server that it loads. It measures how
 * many requests a server can serve, where fio's nbd engine would measure itself. bench/requests
 * compiles and runs it.
 *
 *     load SOCKET CONNECTIONS DEPTH LENGTH SECONDS batched|alone
 *
 * Each connection has a thread, and DEPTH reads of LENGTH bytes in flight. After some replies have
 * arrived together, the client sends as many new requests together (batched), or each with a system
 * call of its own (alone), as the kernel's client does. SECONDS may be a fraction; with 0, each
 * connection makes only its first DEPTH reads. Prints one line: requests answered, seconds, seconds
 * of the client's CPU time. The client trusts the server.
 */
#include <endian.h>
#include <err.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define INPUT         (256 << 10)
#define REQUEST_MAGIC 0x25609513
#define OPT_GO        7
#define REP_ACK       1
#define REP_INFO      3
#define INFO_EXPORT   0
#define CMD_READ      0
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
	int fd;
	uint64_t size;       /* of the export, in bytes */
	uint64_t offset;     /* of the next request, in bytes */
	unsigned int queued; /* number of requests that are not yet sent */
	struct request *requests;
	uint64_t answered;
};

static const char *path;
static unsigned int depth, length;
static double seconds;
static bool alone;
static pthread_barrier_t ready;

static void
receive(int fd, void *data, size_t size)
{
	if (size > 0 && recv(fd, data, size, MSG_WAITALL) != (ssize_t)size)
		err(1, "the server said too little");
}

static void
transmit(int fd, const void *data, size_t size)
{
	if (send(fd, data, size, MSG_NOSIGNAL) != (ssize_t)size)
		err(1, "send");
}

static void
negotiate(struct connection *connection)
{
	struct {
		uint32_t flags;
		struct option option;
		uint32_t name_length;
		uint16_t infos;
	} __attribute__((packed))
	go = {htobe32(3), {"IHAVEOPT", htobe32(OPT_GO), htobe32(6)}, 0, 0};
	struct option_reply reply;
	char greeting[18], data[4096];

	receive(connection->fd, greeting, sizeof(greeting));
	transmit(connection->fd, &go, sizeof(go));
	do {
		receive(connection->fd, &reply, sizeof(reply));
		if (be32toh(reply.length) > sizeof(data))
			errx(1, "an option's reply is too long");
		receive(connection->fd, data, be32toh(reply.length));
		if (be32toh(reply.type) == REP_INFO && data[0] == 0 && data[1] == INFO_EXPORT) {
			memcpy(&connection->size, data + 2, 8);
			connection->size = be64toh(connection->size);
		}
	} while (be32toh(reply.type) == REP_INFO);
	if (be32toh(reply.type) != REP_ACK || connection->size < length)
		errx(1, "the server refuses the export, or it is too small");
}

static void
connect_to_server(struct connection *connection)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	if (strlen(path) >= sizeof(address.sun_path))
		errx(1, "%s: the path is too long", path);
	strcpy(address.sun_path, path);
	connection->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connection->fd < 0 ||
	    connect(connection->fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		err(1, "%s", path);
	negotiate(connection);
}

static void
queue(struct connection *connection)
{
	struct request *request = &connection->requests[connection->queued++];

	*request = (struct request){
		.magic = htobe32(REQUEST_MAGIC),
		.type = htobe16(CMD_READ),
		.offset = htobe64(connection->offset),
		.length = htobe32(length),
	};
	/* Not one directly after the other, because a server would merge them. */
	connection->offset = (connection->offset + 7 * (uint64_t)length) %
			     (connection->size - length + 1) / length * length;
}

static void
send_queued(struct connection *connection)
{
	size_t step = alone ? 1 : connection->queued;

	for (size_t sent = 0; sent < connection->queued; sent += step)
		transmit(connection->fd, &connection->requests[sent],
			 step * sizeof(struct request));
	connection->queued = 0;
}

static bool
is_over(const struct timespec *start)
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
leave(struct connection *connection, char *input, size_t to_come)
{
	struct request disconnect = {.magic = htobe32(REQUEST_MAGIC), .type = htobe16(CMD_DISC)};

	while (to_come > 0) {
		ssize_t n = recv(connection->fd, input, INPUT, 0);

		if (n <= 0)
			err(1, "the server disconnected");
		to_come -= (size_t)n;
	}
	transmit(connection->fd, &disconnect, sizeof(disconnect));
	close(connection->fd);
}

static void *
load(void *data)
{
	struct connection *connection = data;
	size_t reply = REPLY_HEADER + length, partial = 0;
	char *input = malloc(INPUT);
	struct timespec start;

	connect_to_server(connection);
	pthread_barrier_wait(&ready);
	clock_gettime(CLOCK_MONOTONIC, &start);
	while (connection->queued < depth)
		queue(connection);
	do {
		ssize_t n;

		send_queued(connection);
		n = recv(connection->fd, input, INPUT, 0);
		if (n <= 0)
			err(1, "the server disconnected");
		/* All replies have the same length. */
		for (partial += (size_t)n; partial >= reply; partial -= reply) {
			connection->answered++;
			queue(connection);
		}
	} while (!is_over(&start));
	leave(connection, input, (depth - connection->queued) * reply - partial);
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

	if (argc != 7)
		errx(2, "usage: load SOCKET CONNECTIONS DEPTH LENGTH SECONDS batched|alone");
	path = argv[1];
	count = (unsigned int)atoi(argv[2]);
	depth = (unsigned int)atoi(argv[3]);
	length = (unsigned int)atoi(argv[4]);
	seconds = strtod(argv[5], NULL);
	alone = strcmp(argv[6], "alone") == 0;
	if (!count || !depth || !length || !(seconds >= 0))
		errx(2, "numbers are above 0");
	connections = calloc(count, sizeof(*connections));
	pthread_barrier_init(&ready, NULL, count);
	for (unsigned int i = 0; i < count; i++) {
		connections[i].requests = calloc(depth, sizeof(struct request));
		connections[i].offset = i * 64 * (uint64_t)length;
		if (pthread_create(&connections[i].thread, NULL, load, &connections[i]) != 0)
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
