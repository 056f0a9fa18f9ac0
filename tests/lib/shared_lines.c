/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts which thread writes and reads which cache line of a program, and where in its code.
 *
 * gcc and clang with -fsanitize=thread put a call before each access to memory that other threads
 * could see.  A program that is compiled so, but linked with this file in place of the sanitizer's
 * library, has its accesses counted here. What other libraries and the kernel do is not seen, but
 * for the C library's functions that are wrapped at the end of this file (linked with --wrap).
 * Nothing is changed in how the program lays out its memory.
 *
 * The signal SIGUSR2 begins the counting, and the next one ends it.  When the program ends, it
 * writes what was counted to the file that the environment variable SHARED_LINES names, for
 * shared_lines.py:
 *
 *	thread NUMBER CODE                                       where its first function begins
 *	line ADDRESS THREAD read|write COUNT TURNS CODE CODE     the first two places; 0: none
 *	lost COUNT                                               accesses: there was no room
 *
 * TURNS are the accesses before which another thread had written the line since this thread's last
 * one.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_SIZE 64

/* Room for pairs of a line and a thread. */
#define SLOT_BITS 18
#define SLOTS     (1U << SLOT_BITS)

#define THREADS   1024
#define PLACES    2

enum access {
	ACCESS_READ,
	ACCESS_WRITE,
	ACCESSES,
};

/* Written by its own thread only. */
struct tally {
	uint64_t count[ACCESSES], turns[ACCESSES];
	uint64_t seen;                        /* writes to the line, at this thread's last access */
	const void *places[ACCESSES][PLACES]; /* code addresses after the access */
};

/* Hashed: the number of the line, and in the lowest bits that of the thread; 0: the slot is free.
 * Thread 0 stands for the line itself. */
#define THREAD_BITS 16
static _Atomic uint64_t keys[SLOTS];
static struct tally tallies[SLOTS + 1]; /* the last one is used when there is no room */
static _Atomic uint64_t writes[SLOTS];  /* to lines */

static _Atomic bool counting;
static _Atomic uint64_t lost;
static const char *output;

/* Threads are numbered from 1, in the order in which they enter their first instrumented
 * function. */
static _Atomic unsigned int thread_count;
static const void *first_places[THREADS];
static _Thread_local unsigned int thread;

/* ---- counting */

/* Returns the slot of a key, and takes a free one if there is none; SLOTS: there is no room. */
static unsigned int
find_slot(uint64_t key)
{
	unsigned int slot = (unsigned int)(key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - SLOT_BITS));

	for (unsigned int tries = 0; tries < 64; tries++, slot = (slot + 1) % SLOTS) {
		uint64_t there = atomic_load_explicit(&keys[slot], memory_order_relaxed);

		if (there == 0 && atomic_compare_exchange_strong(&keys[slot], &there, key))
			return slot;
		if (there == key)
			return slot;
	}
	return SLOTS;
}

static void
note_place(const void **places, const void *code)
{
	for (unsigned int i = 0; i < PLACES; i++) {
		if (!places[i])
			places[i] = code;
		if (places[i] == code)
			return;
	}
}

static void
count_line(uint64_t line, enum access access, const void *code)
{
	unsigned int line_slot = find_slot(line << THREAD_BITS),
		     slot = find_slot(line << THREAD_BITS | thread);
	struct tally *tally = &tallies[slot];
	uint64_t before;

	if (line_slot == SLOTS || slot == SLOTS) {
		atomic_fetch_add(&lost, 1);
		return;
	}
	before = atomic_fetch_add_explicit(&writes[line_slot], access == ACCESS_WRITE,
					   memory_order_relaxed);
	if (before != tally->seen)
		tally->turns[access]++;
	tally->seen = before + (access == ACCESS_WRITE);
	tally->count[access]++;
	note_place(tally->places[access], code);
}

static void
count(const volatile void *memory, size_t size, enum access access, const void *code)
{
	uintptr_t start = (uintptr_t)memory;

	if (!atomic_load_explicit(&counting, memory_order_relaxed) || thread == 0 || size == 0)
		return;
	for (uintptr_t line = start / LINE_SIZE; line <= (start + size - 1) / LINE_SIZE; line++)
		count_line(line, access, code);
}

static void
enter(const void *code)
{
	if (thread)
		return;
	thread = atomic_fetch_add(&thread_count, 1) + 1;
	if (thread >= THREADS) {
		fprintf(stderr, "shared_lines: more than %d threads\n", THREADS - 1);
		abort();
	}
	first_places[thread] = code;
}

/* ---- beginning and end */

static void
toggle(int number)
{
	(void)number;
	atomic_store(&counting, !atomic_load(&counting));
}

__attribute__((constructor)) static void
begin(void)
{
	struct sigaction action = {.sa_handler = toggle, .sa_flags = SA_RESTART};

	output = getenv("SHARED_LINES");
	if (output)
		sigaction(SIGUSR2, &action, NULL);
}

static void
write_tally(FILE *file, uint64_t key, const struct tally *tally)
{
	static const char *const names[] = {[ACCESS_READ] = "read", [ACCESS_WRITE] = "write"};

	for (enum access access = 0; access < ACCESSES; access++) {
		const void *const *places = tally->places[access];

		if (tally->count[access])
			fprintf(file, "line %#llx %u %s %llu %llu %#lx %#lx\n",
				(unsigned long long)(key >> THREAD_BITS) * LINE_SIZE,
				(unsigned int)(key & ((1U << THREAD_BITS) - 1)), names[access],
				(unsigned long long)tally->count[access],
				(unsigned long long)tally->turns[access], (unsigned long)places[0],
				(unsigned long)places[1]);
	}
}

__attribute__((destructor)) static void
end(void)
{
	FILE *file = output ? fopen(output, "w") : NULL;
	unsigned int threads = atomic_load(&thread_count);

	if (!file)
		return;
	atomic_store(&counting, false);
	for (unsigned int i = 1; i <= threads; i++)
		fprintf(file, "thread %u %#lx\n", i, (unsigned long)first_places[i]);
	for (unsigned int slot = 0; slot < SLOTS; slot++)
		write_tally(file, atomic_load(&keys[slot]), &tallies[slot]);
	fprintf(file, "lost %llu\n", (unsigned long long)atomic_load(&lost));
	fclose(file);
}

/* ---- what the compilers call */

#define CODE __builtin_return_address(0)

void
__tsan_init(void);
void
__tsan_init(void)
{
}

void
__tsan_func_entry(void *caller);
void
__tsan_func_entry(void *caller)
{
	(void)caller;
	enter(CODE);
}

void
__tsan_func_exit(void *caller);
void
__tsan_func_exit(void *caller)
{
	(void)caller;
}

#define SIZED(name_, size_, access_)                                                               \
	void name_(void *memory);                                                                  \
	void name_(void *memory)                                                                   \
	{                                                                                          \
		count(memory, (size_), (access_), CODE);                                           \
	}

SIZED(__tsan_read1, 1, ACCESS_READ)
SIZED(__tsan_read2, 2, ACCESS_READ)
SIZED(__tsan_read4, 4, ACCESS_READ)
SIZED(__tsan_read8, 8, ACCESS_READ)
SIZED(__tsan_read16, 16, ACCESS_READ)
SIZED(__tsan_unaligned_read2, 2, ACCESS_READ)
SIZED(__tsan_unaligned_read4, 4, ACCESS_READ)
SIZED(__tsan_unaligned_read8, 8, ACCESS_READ)
SIZED(__tsan_unaligned_read16, 16, ACCESS_READ)
SIZED(__tsan_write1, 1, ACCESS_WRITE)
SIZED(__tsan_write2, 2, ACCESS_WRITE)
SIZED(__tsan_write4, 4, ACCESS_WRITE)
SIZED(__tsan_write8, 8, ACCESS_WRITE)
SIZED(__tsan_write16, 16, ACCESS_WRITE)
SIZED(__tsan_unaligned_write2, 2, ACCESS_WRITE)
SIZED(__tsan_unaligned_write4, 4, ACCESS_WRITE)
SIZED(__tsan_unaligned_write8, 8, ACCESS_WRITE)
SIZED(__tsan_unaligned_write16, 16, ACCESS_WRITE)

#define RANGE(name_, access_)                                                                      \
	void name_(void *memory, unsigned long size);                                              \
	void name_(void *memory, unsigned long size)                                               \
	{                                                                                          \
		count(memory, size, (access_), CODE);                                              \
	}

RANGE(__tsan_read_range, ACCESS_READ)
RANGE(__tsan_write_range, ACCESS_WRITE)

/* The requested memory order doesn't matter: the strictest one is right for all. */
#define UPDATE(bits_, name_, builtin_)                                                             \
	uint##bits_##_t __tsan_atomic##bits_##_##name_(volatile uint##bits_##_t *at,               \
						       uint##bits_##_t value, int order);          \
	uint##bits_##_t __tsan_atomic##bits_##_##name_(volatile uint##bits_##_t *at,               \
						       uint##bits_##_t value, int order)           \
	{                                                                                          \
		(void)order;                                                                       \
		count(at, sizeof(*at), ACCESS_WRITE, CODE);                                        \
		return builtin_(at, value, __ATOMIC_SEQ_CST);                                      \
	}

/* A failed exchange has taken the line from other threads, too. */
#define COMPARE(bits_, name_, weak_)                                                               \
	int __tsan_atomic##bits_##_compare_exchange_##name_(                                       \
		volatile uint##bits_##_t *at, uint##bits_##_t *expected, uint##bits_##_t value,    \
		int order, int failure_order);                                                     \
	int __tsan_atomic##bits_##_compare_exchange_##name_(                                       \
		volatile uint##bits_##_t *at, uint##bits_##_t *expected, uint##bits_##_t value,    \
		int order, int failure_order)                                                      \
	{                                                                                          \
		(void)order;                                                                       \
		(void)failure_order;                                                               \
		count(at, sizeof(*at), ACCESS_WRITE, CODE);                                        \
		return __atomic_compare_exchange_n(at, expected, value, (weak_), __ATOMIC_SEQ_CST, \
						   __ATOMIC_SEQ_CST);                              \
	}

/* clang calls this for an atomic fence. */
#define COMPARE_VALUE(bits_)                                                                       \
	uint##bits_##_t __tsan_atomic##bits_##_compare_exchange_val(                               \
		volatile uint##bits_##_t *at, uint##bits_##_t expected, uint##bits_##_t value,     \
		int order, int failure_order);                                                     \
	uint##bits_##_t __tsan_atomic##bits_##_compare_exchange_val(                               \
		volatile uint##bits_##_t *at, uint##bits_##_t expected, uint##bits_##_t value,     \
		int order, int failure_order)                                                      \
	{                                                                                          \
		(void)order;                                                                       \
		(void)failure_order;                                                               \
		count(at, sizeof(*at), ACCESS_WRITE, CODE);                                        \
		__atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_SEQ_CST,         \
					    __ATOMIC_SEQ_CST);                                     \
		return expected;                                                                   \
	}

#define ATOMIC(bits_)                                                                              \
	uint##bits_##_t __tsan_atomic##bits_##_load(const volatile uint##bits_##_t *at,            \
						    int order);                                    \
	uint##bits_##_t __tsan_atomic##bits_##_load(const volatile uint##bits_##_t *at, int order) \
	{                                                                                          \
		(void)order;                                                                       \
		count(at, sizeof(*at), ACCESS_READ, CODE);                                         \
		return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                      \
	}                                                                                          \
	void __tsan_atomic##bits_##_store(volatile uint##bits_##_t *at, uint##bits_##_t value,     \
					  int order);                                              \
	void __tsan_atomic##bits_##_store(volatile uint##bits_##_t *at, uint##bits_##_t value,     \
					  int order)                                               \
	{                                                                                          \
		(void)order;                                                                       \
		count(at, sizeof(*at), ACCESS_WRITE, CODE);                                        \
		__atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                     \
	}                                                                                          \
	UPDATE(bits_, exchange, __atomic_exchange_n)                                               \
	UPDATE(bits_, fetch_add, __atomic_fetch_add)                                               \
	UPDATE(bits_, fetch_sub, __atomic_fetch_sub)                                               \
	UPDATE(bits_, fetch_and, __atomic_fetch_and)                                               \
	UPDATE(bits_, fetch_or, __atomic_fetch_or)                                                 \
	UPDATE(bits_, fetch_xor, __atomic_fetch_xor)                                               \
	COMPARE(bits_, strong, false)                                                              \
	COMPARE(bits_, weak, true)                                                                 \
	COMPARE_VALUE(bits_)

ATOMIC(8)
ATOMIC(16)
ATOMIC(32)
ATOMIC(64)

#define FENCE(name_)                                                                               \
	void name_(int order);                                                                     \
	void name_(int order)                                                                      \
	{                                                                                          \
		(void)order;                                                                       \
		__atomic_thread_fence(__ATOMIC_SEQ_CST);                                           \
	}

FENCE(__tsan_atomic_thread_fence)
FENCE(__tsan_atomic_signal_fence)

/* ---- what the C library does for the program
 *
 * Linked with --wrap=NAME, the program's calls of NAME come to __wrap_NAME. */

#define WRAP_COPY(name_, real_)                                                                    \
	void *name_(void *to, const void *from, size_t size);                                      \
	void *name_(void *to, const void *from, size_t size)                                       \
	{                                                                                          \
		count(from, size, ACCESS_READ, CODE);                                              \
		count(to, size, ACCESS_WRITE, CODE);                                               \
		return real_(to, from, size);                                                      \
	}

#define WRAP_SET(name_, real_)                                                                     \
	void *name_(void *to, int byte, size_t size);                                              \
	void *name_(void *to, int byte, size_t size)                                               \
	{                                                                                          \
		count(to, size, ACCESS_WRITE, CODE);                                               \
		return real_(to, byte, size);                                                      \
	}

void *
__real_memcpy(void *to, const void *from, size_t size);
void *
__real_memmove(void *to, const void *from, size_t size);
void *
__real_memset(void *to, int byte, size_t size);

/* clang calls these under names of its own. */
WRAP_COPY(__wrap_memcpy, __real_memcpy)
WRAP_COPY(__tsan_memcpy, __real_memcpy)
WRAP_COPY(__wrap_memmove, __real_memmove)
WRAP_COPY(__tsan_memmove, __real_memmove)
WRAP_SET(__wrap_memset, __real_memset)
WRAP_SET(__tsan_memset, __real_memset)

/* The fields of a mutex that locking and unlocking write: glibc's __lock, __count, __owner,
 * __nusers. */
#define MUTEX_WRITTEN 16

#define WRAP_LOCK(name_, type_, written_)                                                          \
	int __real_##name_(type_ *lock);                                                           \
	int __wrap_##name_(type_ *lock);                                                           \
	int __wrap_##name_(type_ *lock)                                                            \
	{                                                                                          \
		count(lock, (written_), ACCESS_WRITE, CODE);                                       \
		return __real_##name_(lock);                                                       \
	}

WRAP_LOCK(pthread_mutex_lock, pthread_mutex_t, MUTEX_WRITTEN)
WRAP_LOCK(pthread_mutex_trylock, pthread_mutex_t, MUTEX_WRITTEN)
WRAP_LOCK(pthread_mutex_unlock, pthread_mutex_t, MUTEX_WRITTEN)
WRAP_LOCK(pthread_cond_signal, pthread_cond_t, sizeof(pthread_cond_t))
WRAP_LOCK(pthread_cond_broadcast, pthread_cond_t, sizeof(pthread_cond_t))

int
__real_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int
__wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int
__wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	count(cond, sizeof(*cond), ACCESS_WRITE, CODE);
	count(mutex, MUTEX_WRITTEN, ACCESS_WRITE, CODE);
	return __real_pthread_cond_wait(cond, mutex);
}

int
__real_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
			      const struct timespec *until);
int
__wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
			      const struct timespec *until);
int
__wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
			      const struct timespec *until)
{
	count(cond, sizeof(*cond), ACCESS_WRITE, CODE);
	count(mutex, MUTEX_WRITTEN, ACCESS_WRITE, CODE);
	return __real_pthread_cond_timedwait(cond, mutex, until);
}
