/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libnbd, which is loaded when it is first needed: with the libraries that it brings, every other
 * verb would take longer to start.  Its functions are called as libnbd.create(...).
 */
#ifndef TOOL_BACKUP_LIBNBD_LIBRARY_H
#define TOOL_BACKUP_LIBNBD_LIBRARY_H

#include <glib.h>
#include <libnbd.h>
#include <stdbool.h>

/* Those that are called.  Each is of libnbd 1.14 or older. */
#define LIBNBD_FUNCTIONS(F)                                                                        \
	F(add_meta_context)                                                                        \
	F(aio_block_status)                                                                        \
	F(aio_command_completed)                                                                   \
	F(aio_connect_uri)                                                                         \
	F(aio_flush)                                                                               \
	F(aio_get_direction)                                                                       \
	F(aio_get_fd)                                                                              \
	F(aio_is_closed)                                                                           \
	F(aio_is_dead)                                                                             \
	F(aio_is_ready)                                                                            \
	F(aio_notify_read)                                                                         \
	F(aio_notify_write)                                                                        \
	F(aio_pread)                                                                               \
	F(aio_pwrite)                                                                              \
	F(aio_zero)                                                                                \
	F(can_flush)                                                                               \
	F(can_meta_context)                                                                        \
	F(can_multi_conn)                                                                          \
	F(can_zero)                                                                                \
	F(close)                                                                                   \
	F(create)                                                                                  \
	F(get_block_size)                                                                          \
	F(get_error)                                                                               \
	F(get_size)                                                                                \
	F(is_read_only)                                                                            \
	F(poll)                                                                                    \
	F(set_uri_allow_local_file)

struct libnbd_functions {
#define LIBNBD_MEMBER(name) __typeof__(nbd_##name) *name;
	LIBNBD_FUNCTIONS(LIBNBD_MEMBER)
#undef LIBNBD_MEMBER
};

/* Not to be used before libnbd_library_load() has returned true. */
extern struct libnbd_functions libnbd;

/* Loads the library, if that was not done yet. */
bool
libnbd_library_load(GError **error);

/* Whether its URIs have the parameter tls-hostname (1.22).  After libnbd_library_load(). */
bool
libnbd_library_knows_hostname(void);

#endif
