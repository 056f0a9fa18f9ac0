/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A load of random reads on the engine itself, without a server. It measures the cost of each of
 * the engine's ways to the kernel, and how much contexts slow each other down. bench/run builds it
 * in the build tree (make -C bench engine-load) and reads its output.
 *
 *     engine-load [OPTION...] IMAGE
 *       --way=WAY          threads, aio, io_uring, files, buffers, polled, polled-buffers (see
 *                          ways[] below); nothing: no reads, only the additions of --counter
 *       --contexts=N       number of threads, each with its own context and its own part of the
 *                          image (1)
 *       --depth=N          queue depth of each thread (1)
 *       --length=BYTES     length of each read (4096)
 *       --seconds=S        duration (1)
 *       --direct-io=on|off direct I/O (on)
 *       --counter=own|shared
 *                          counts the reads in flight: in a cache line of each thread's own, or in
 *                          one line for all threads, which only this program does, and the engine
 *                          must never do
 *       --submission       submits DEPTH reads, waits for all, and times only the submission
 *
 * Prints one line: reads, seconds, p50 and p99 of a read's time in ns (0 with --submission), ns to
 * submit one read (0 without --submission), seconds of CPU time, reads through registered buffers,
 * reads through registered files. If this machine or device does not have that way, prints the
 * reason and exits with status 3.
 */
#include "engine/backend/ring.h"
#include "engine/backend/uring.h"
#include "engine/context/ioctx.h"
#include "engine/context/pool.h"
#include "engine/image/image.h"
#include "engine/image/image_status.h"
#include "engine/io/io.h"

#include <err.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

/* ---- a histogram of times, precise to 3 % */

#define HISTOGRAM_SHIFT   5
#define HISTOGRAM_STEPS   (1u << HISTOGRAM_SHIFT) /* buckets for each power of 2 */
#define HISTOGRAM_BUCKETS (64 * HISTOGRAM_STEPS)

/* Begins as zeroes. */
struct histogram {
	uint64_t counts[HISTOGRAM_BUCKETS];
};

/* Each power of 2 has the same number of buckets; the first of all are a nanosecond wide. */
static unsigned int
bucket_of(uint64_t ns)
{
	unsigned int power;

	if (ns < HISTOGRAM_STEPS)
		return (unsigned int)ns;
	power = 63 - (unsigned int)__builtin_clzll(ns) - HISTOGRAM_SHIFT;
	return (power + 1) * HISTOGRAM_STEPS + (unsigned int)(ns >> power) % HISTOGRAM_STEPS;
}

static uint64_t
bucket_start(unsigned int bucket)
{
	if (bucket < HISTOGRAM_STEPS)
		return bucket;
	return (uint64_t)(HISTOGRAM_STEPS + bucket % HISTOGRAM_STEPS)
	       << (bucket / HISTOGRAM_STEPS - 1);
}

static void
histogram_add(struct histogram *histogram, uint64_t ns)
{
	histogram->counts[bucket_of(ns)]++;
}

/* Adds all counts of the one to the other. */
static void
histogram_merge(struct histogram *to, const struct histogram *from)
{
	for (unsigned int b = 0; b < HISTOGRAM_BUCKETS; b++)
		to->counts[b] += from->counts[b];
}

/* The start of the bucket that holds this percentile, in ns; 0 if the histogram is empty. */
static uint64_t
histogram_percentile(const struct histogram *histogram, unsigned int percent)
{
	uint64_t total = 0, seen = 0;

	for (unsigned int b = 0; b < HISTOGRAM_BUCKETS; b++)
		total += histogram->counts[b];
	for (unsigned int b = 0; b < HISTOGRAM_BUCKETS; b++) {
		seen += histogram->counts[b];
		if (total && seen * 100 >= total * percent)
			return bucket_start(b);
	}
	return 0;
}

#define NOT_HERE 3
#define SAMPLE   8 /* one of this many reads is timed */
#define LINE     64
#define COUNTS   1000 /* additions between two readings of the clock */

/* How a thread reaches the kernel. */
enum host {
	NO_READS,   /* not at all: the thread only counts */
	HOST_NONE,  /* the thread waits in ioctx_run(), as nbdkit's threads do */
	HOST_EVENT, /* the context reports completions by an eventfd */
	HOST_RING,  /* the context shares the thread's ring, as in nbdloopd */
};

static const struct way {
	const char *name;
	enum engine_choice engine;
	enum tristate poll;
	enum host host;
	unsigned int files; /* places for registered files in the host's ring */
	bool bounce; /* the caller's memory is not aligned, so the data goes through the engine's
			registered buffers */
} ways[] = {
	{"threads", ENGINE_THREADS, TRISTATE_OFF, HOST_EVENT, 0, false},
	{"aio", ENGINE_AIO, TRISTATE_OFF, HOST_NONE, 0, false},
	{"io_uring", ENGINE_IO_URING, TRISTATE_OFF, HOST_RING, 0, false},
	{"files", ENGINE_IO_URING, TRISTATE_OFF, HOST_RING, URING_FILES, false},
	{"buffers", ENGINE_IO_URING, TRISTATE_OFF, HOST_NONE, 0, true},
	{"polled", ENGINE_IO_URING, TRISTATE_ON, HOST_NONE, 0, false},
	{"polled-buffers", ENGINE_IO_URING, TRISTATE_ON, HOST_NONE, 0, true},
	{"nothing", ENGINE_AUTO, TRISTATE_OFF, NO_READS, 0, false},
};

enum counting {
	COUNT_NOTHING,
	COUNT_OWN,
	COUNT_SHARED,
};

struct tally {
	alignas(LINE) _Atomic uint64_t value;
};

struct load;

struct read {
	struct io io; /* must be the first member */
	struct load *load;
	uint64_t begun; /* in ns; 0: not timed */
};

/* The state of one thread. */
struct load {
	alignas(LINE) pthread_t thread;
	struct ioctx *ctx;
	struct ring ring;
	char *memory; /* buffers of all reads */
	struct read *reads;
	unsigned int *idle; /* stack of indices of idle reads */
	unsigned int idle_count;
	uint64_t random, start, blocks; /* state of the random numbers; the thread's part of the
					   image: its offset in bytes, its length in reads */
	uint64_t submitted, done;
	uint64_t submission_ns, submissions;
	struct histogram times; /* of reads, in ns */
	struct tally own;
	struct tally *counter; /* may be NULL */
};

static const struct way *way = &ways[0];
static struct image *image;
static unsigned int contexts = 1, depth = 1;
static uint64_t length = 4096;
static double seconds = 1;
static bool submission;
static enum counting counting;
static struct tally shared;
static pthread_barrier_t ready;

static uint64_t
load_now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void
read_done(struct io *io)
{
	struct read *read = (struct read *)io;
	struct load *load = read->load;

	if (io->result < 0)
		errx(1, "a read failed: %s", strerror(-io->result));
	if (load->counter)
		atomic_fetch_sub_explicit(&load->counter->value, 1, memory_order_relaxed);
	if (read->begun)
		histogram_add(&load->times, load_now() - read->begun);
	load->done++;
	load->idle[load->idle_count++] = (unsigned int)(read - load->reads);
}

static void
submit_idle(struct load *load)
{
	while (load->idle_count > 0) {
		struct read *read = &load->reads[load->idle[--load->idle_count]];

		load->random ^= load->random << 13;
		load->random ^= load->random >> 7;
		load->random ^= load->random << 17;
		read->io.offset = load->start + load->random % load->blocks * length;
		read->begun = !submission && load->submitted++ % SAMPLE == 0 ? load_now() : 0;
		if (load->counter)
			atomic_fetch_add_explicit(&load->counter->value, 1, memory_order_relaxed);
		io_submit(load->ctx, &read->io);
	}
}

/* Waits until at least one read is complete. */
static void
wait_for_some(struct load *load)
{
	eventfd_t n;

	switch (way->host) {
	case NO_READS: break;
	case HOST_NONE: ioctx_run(load->ctx, true); break;
	case HOST_EVENT:
		ioctx_run(load->ctx, false);
		if (load->idle_count == 0)
			eventfd_read(ioctx_event(load->ctx), &n);
		ioctx_run(load->ctx, false);
		break;
	case HOST_RING:
		ioctx_run(load->ctx, false);
		ring_run(&load->ring, 1);
		break;
	}
}

static void
load_drain(struct load *load)
{
	while (load->idle_count < depth)
		wait_for_some(load);
}

static void
load_work(struct load *load, uint64_t end)
{
	while (load_now() < end) {
		uint64_t start = submission ? load_now() : 0;

		submit_idle(load);
		if (!submission) {
			wait_for_some(load);
			continue;
		}
		ioctx_run(load->ctx, false);
		if (way->host == HOST_RING)
			ring_submit(&load->ring);
		load->submission_ns += load_now() - start;
		load->submissions += depth;
		load_drain(load);
	}
	load_drain(load);
}

/* Makes the two changes of the counter that each read makes. */
static void
count_only(struct load *load, uint64_t end)
{
	while (load->counter && load_now() < end) {
		for (unsigned int i = 0; i < COUNTS; i++) {
			atomic_fetch_add_explicit(&load->counter->value, 1, memory_order_relaxed);
			atomic_fetch_sub_explicit(&load->counter->value, 1, memory_order_relaxed);
		}
		load->done += COUNTS;
	}
}

static void
context_take(struct load *load)
{
	int r = 0;

	if (way->host == NO_READS)
		return;
	if (way->host == HOST_NONE) {
		load->ctx = pool_take(image);
		if (!load->ctx)
			errx(1, "no context can be made");
		return;
	}
	if (way->host == HOST_RING)
		r = ring_init(&load->ring, depth, depth, 0, way->files);
	if (r == 0)
		r = pool_host(image, way->host == HOST_RING ? &load->ring : NULL, &load->ctx);
	if (r < 0)
		errx(1, "no context can be made: %s", strerror(-r));
}

static void
context_give(struct load *load)
{
	if (way->host == NO_READS)
		return;
	if (way->host == HOST_NONE) {
		pool_give(image, load->ctx);
		return;
	}
	pool_unhost(image, load->ctx);
	if (way->host == HOST_RING)
		ring_fini(&load->ring);
}

static void *
load_run(void *data)
{
	struct load *load = data;
	uint64_t start;

	context_take(load);
	pthread_barrier_wait(&ready);
	/* Between the two barriers, the main thread reads the CPU time of the process. */
	pthread_barrier_wait(&ready);
	start = load_now();
	if (way->host == NO_READS)
		count_only(load, start + (uint64_t)(seconds * 1e9));
	else
		load_work(load, start + (uint64_t)(seconds * 1e9));
	pthread_barrier_wait(&ready);
	return NULL;
}

static void
load_init(struct load *load, unsigned int number)
{
	uint64_t part = image_size(image) / contexts / length * length;
	/* Each buffer has a page more than it needs, so that no read overwrites another's data; its
	 * address is odd if the read shall go through a bounce buffer. */
	size_t step = (length + 4095) / 4096 * 4096 + 4096;

	*load = (struct load){.random = 88172645463325252ULL + number,
			      .start = number * part,
			      .blocks = part / length};
	load->memory = aligned_alloc(4096, step * depth);
	load->reads = calloc(depth, sizeof(*load->reads));
	load->idle = calloc(depth, sizeof(*load->idle));
	if (!load->memory || !load->reads || !load->idle)
		errx(1, "out of memory");
	if (load->blocks == 0)
		errx(1, "the image is too small");
	memset(load->memory, 0, step * depth);
	for (unsigned int i = 0; i < depth; i++) {
		load->reads[i] = (struct read){
			.io = {.op = IO_READ,
			       .length = length,
			       .done = read_done,
			       .buffer = load->memory + i * step + way->bounce},
			.load = load,
		};
		load->idle[load->idle_count++] = i;
	}
	if (counting != COUNT_NOTHING)
		load->counter = counting == COUNT_SHARED ? &shared : &load->own;
}

static void
load_report(const struct load *loads, double cpu)
{
	struct image_status status;
	struct histogram times = {0};
	uint64_t done = 0, ns = 0, count = 0;
	bool files = way->files;

	image_status(image, &status);
	for (unsigned int i = 0; i < contexts; i++) {
		histogram_merge(&times, &loads[i].times);
		done += loads[i].done;
		ns += loads[i].submission_ns;
		count += loads[i].submissions;
		if (way->host == HOST_RING)
			files = files && loads[i].ring.files.first_free > 0;
	}
	if (way->engine == ENGINE_IO_URING && way->host == HOST_NONE)
		files = true;
	printf("%llu %f %llu %llu %.1f %.6f %llu %llu\n", (unsigned long long)done, seconds,
	       (unsigned long long)histogram_percentile(&times, 50),
	       (unsigned long long)histogram_percentile(&times, 99),
	       count ? (double)ns / (double)count : 0, cpu,
	       (unsigned long long)status.counters[COUNTER_REGISTERED],
	       (unsigned long long)(files ? done : 0));
}

static double
cpu_seconds(void)
{
	struct timespec cpu;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	return (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9;
}

static void
load_all(void)
{
	struct load *loads = aligned_alloc(LINE, contexts * sizeof(*loads));
	double cpu;

	if (!loads)
		errx(1, "out of memory");
	pthread_barrier_init(&ready, NULL, contexts + 1);
	for (unsigned int i = 0; i < contexts; i++) {
		load_init(&loads[i], i);
		if (pthread_create(&loads[i].thread, NULL, load_run, &loads[i]) != 0)
			errx(1, "no thread");
	}
	pthread_barrier_wait(&ready);
	cpu = cpu_seconds();
	pthread_barrier_wait(&ready);
	pthread_barrier_wait(&ready);
	cpu = cpu_seconds() - cpu;
	for (unsigned int i = 0; i < contexts; i++)
		pthread_join(loads[i].thread, NULL);
	load_report(loads, cpu);
	for (unsigned int i = 0; i < contexts; i++) {
		context_give(&loads[i]);
		free(loads[i].memory);
		free(loads[i].reads);
		free(loads[i].idle);
	}
	free(loads);
}

static void
load_prepare_image(const char *path, bool direct)
{
	const struct image_config config = {
		.direct_io = direct ? TRISTATE_ON : TRISTATE_OFF,
		.engine = way->engine,
		.poll = way->poll,
		.depth = depth,
		.lock = LOCK_OFF,
	};
	char *error;

	if (image_open(AT_FDCWD, path, BACKING_READ_ONLY, &config, &image, &error) < 0)
		errx(NOT_HERE, "%s", error);
}

static const struct way *
way_find(const char *name)
{
	for (unsigned int i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		if (strcmp(ways[i].name, name) == 0)
			return &ways[i];
	}
	errx(2, "--way=%s: there is no such way", name);
}

static unsigned int
number_of(const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (*end || n == 0 || n > 1u << 20)
		errx(2, "'%s' is not a number from 1 to 1048576", text);
	return (unsigned int)n;
}

static bool
is_word(const char *text, const char *yes, const char *no)
{
	if (strcmp(text, yes) != 0 && strcmp(text, no) != 0)
		errx(2, "'%s' is neither %s nor %s", text, yes, no);
	return strcmp(text, yes) == 0;
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {
		{"way", 1, NULL, 'w'},     {"contexts", 1, NULL, 'c'},
		{"depth", 1, NULL, 'd'},   {"length", 1, NULL, 'l'},
		{"seconds", 1, NULL, 's'}, {"direct-io", 1, NULL, 'i'},
		{"counter", 1, NULL, 'n'}, {"submission", 0, NULL, 'm'},
		{NULL, 0, NULL, 0},
	};
	bool direct = true;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'w': way = way_find(optarg); break;
		case 'c': contexts = number_of(optarg); break;
		case 'd': depth = number_of(optarg); break;
		case 'l': length = number_of(optarg); break;
		case 's': seconds = strtod(optarg, NULL); break;
		case 'i': direct = is_word(optarg, "on", "off"); break;
		case 'n':
			counting = is_word(optarg, "shared", "own") ? COUNT_SHARED : COUNT_OWN;
			break;
		case 'm': submission = true; break;
		default: return 2;
		}
	}
	if (optind != argc - 1 || !(seconds > 0))
		errx(2, "usage: engine-load [OPTION...] IMAGE; its source explains the options");
	load_prepare_image(argv[optind], direct);
	load_all();
	image_close(image);
	return 0;
}
