/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The machine at the other end of a TCP connection, which may vanish without a word.
 */
#ifndef TOOL_LINK_PEER_H
#define TOOL_LINK_PEER_H

/*
 * The kernel ends a connection whose peer is silent for half of the time, whatever the server does.
 * For a unix socket, this does nothing, and nothing is needed.
 */
void
peer_watch(int fd, unsigned int seconds);

#endif
