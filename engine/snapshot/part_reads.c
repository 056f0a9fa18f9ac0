/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/snapshot/part_reads.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Returns how many of them the kernel has taken: the first ones. */
static unsigned int
part_reads_submit(const struct part_reads *reads, struct iocb **list, unsigned int count)
{
	unsigned int taken = 0;

	while (taken < count) {
		long n =
			syscall(SYS_io_submit, reads->context, (long)(count - taken), list + taken);

		if (n > 0)
			taken += (unsigned int)n;
		else if (n == 0 || errno != EINTR)
			break;
	}
	return taken;
}

static void
part_reads_collect(struct part_reads *reads, unsigned int count)
{
	while (count > 0) {
		struct io_event events[PART_READS_MAX];
		long n = syscall(SYS_io_getevents, reads->context, (long)count, (long)count, events,
				 NULL);

		if (n < 0 && errno != EINTR) {
			/* A seccomp filter may forbid just this. io_destroy() waits for all. */
			part_reads_fini(reads);
			reads->impossible = true;
			return;
		}
		for (long i = 0; i < n; i++) {
			struct part *part = (struct part *)(uintptr_t)events[i].data;

			part->read = events[i].res == (int64_t)part->length;
		}
		count -= n > 0 ? (unsigned int)n : 0;
	}
}

void
part_reads_run(struct part_reads *reads, int fd, struct part *parts, unsigned int count)
{
	struct iocb iocbs[PART_READS_MAX], *list[PART_READS_MAX];
	unsigned int wanted = 0;

	for (unsigned int i = 0; i < count; i++) {
		parts[i].read = false;
		if (!parts[i].direct)
			continue;
		list[wanted] = &iocbs[wanted];
		iocbs[wanted++] = (struct iocb){
			.aio_data = (uintptr_t)&parts[i],
			.aio_lio_opcode = IOCB_CMD_PREAD,
			.aio_fildes = (uint32_t)fd,
			.aio_buf = (uintptr_t)parts[i].buffer,
			.aio_nbytes = parts[i].length,
			.aio_offset = (int64_t)parts[i].offset,
		};
	}
	if (wanted > 0 && !reads->context && !reads->impossible)
		reads->impossible = syscall(SYS_io_setup, PART_READS_MAX, &reads->context) < 0;
	if (wanted > 0 && !reads->impossible)
		part_reads_collect(reads, part_reads_submit(reads, list, wanted));
}

void
part_reads_fini(struct part_reads *reads)
{
	if (reads->context)
		syscall(SYS_io_destroy, reads->context);
	*reads = (struct part_reads){0};
}
