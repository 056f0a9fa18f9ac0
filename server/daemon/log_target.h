/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the server's messages go: standard error (where the journal gets their priorities) or the
 * system log.
 */
#ifndef SERVER_DAEMON_LOG_TARGET_H
#define SERVER_DAEMON_LOG_TARGET_H

#include "server/config/server_config.h"

void
log_target_set(enum log_choice choice);

#endif
