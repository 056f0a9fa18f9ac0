/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cleanup attributes: a local variable frees its memory, or closes its descriptor, when its scope
 * ends. steal_pointer() and steal_fd() move the memory or descriptor to another owner.
 */
#ifndef COMMON_CLEANUP_H
#define COMMON_CLEANUP_H

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static inline void
cleanup_free(void *pointer)
{
	int saved = errno;

	free(*(void **)pointer);
	errno = saved;
}

static inline void
cleanup_close(const int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	errno = saved;
}

/* char *CLEANUP_FREE text = NULL; */
#define CLEANUP_FREE __attribute__((cleanup(cleanup_free)))
/* int CLEANUP_CLOSE fd = -1; */
#define CLEANUP_CLOSE __attribute__((cleanup(cleanup_close)))

/* Returns *pointer and sets it to NULL, so that the variable no longer owns the memory. */
#define steal_pointer(pointer)                                                                     \
	({                                                                                         \
		__typeof__(*(pointer)) stolen_ = *(pointer);                                       \
		*(pointer) = NULL;                                                                 \
		stolen_;                                                                           \
	})

static inline int
steal_fd(int *fd)
{
	int stolen = *fd;

	*fd = -1;
	return stolen;
}

#endif
