/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The least that an NBD server knows: a greeting, and one answer to NBD_OPT_GO.
 */
#ifndef TESTS_UNIT_LEAST_SERVER_H
#define TESTS_UNIT_LEAST_SERVER_H

#include <stdint.h>

void
least_server_greet(int fd);

/* Receives the client's words, and whatever they are, answers with an export. */
void
least_server_answer(int fd, uint64_t size, uint16_t flags);

/* Receives the client's words. */
void
least_server_hear(int fd);

/* A socket on the loopback that is bound to a free port, *port, and doesn't listen yet. */
int
least_server_bind(uint16_t *port);

#endif
