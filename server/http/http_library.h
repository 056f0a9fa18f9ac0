/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libmicrohttpd, which is loaded when it is needed: Debian's brings GnuTLS and ten more libraries
 * into the process. Its functions are called as mhd.start_daemon(...).
 */
#ifndef SERVER_HTTP_HTTP_LIBRARY_H
#define SERVER_HTTP_HTTP_LIBRARY_H

#include <microhttpd.h>

/* Those that are called. Each is of libmicrohttpd 0.9.75 or older. */
#define MHD_FUNCTIONS(F)                                                                           \
	F(add_connection)                                                                          \
	F(add_response_header)                                                                     \
	F(create_response_from_buffer)                                                             \
	F(destroy_response)                                                                        \
	F(get_connection_info)                                                                     \
	F(get_daemon_info)                                                                         \
	F(get_timeout)                                                                             \
	F(lookup_connection_value)                                                                 \
	F(queue_response)                                                                          \
	F(run)                                                                                     \
	F(start_daemon)                                                                            \
	F(stop_daemon)

struct mhd_functions {
#define MHD_MEMBER(name) __typeof__(MHD_##name) *name;
	MHD_FUNCTIONS(MHD_MEMBER)
#undef MHD_MEMBER
};

/* Not to be used before http_library_load() has returned 0. */
extern struct mhd_functions mhd;

/* Loads the library. Only one thread may call it. Returns 0, or -ENOTSUP with *error a sentence
 * (the caller frees). */
int
http_library_load(char **error);

#endif
