/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloopd's sandbox: what the process gives up once its images are open, its sockets are bound and
 * its keys are read. There is one for the process. SECURITY.md tells what each part stops.
 */
#ifndef SERVER_SANDBOX_SANDBOX_H
#define SERVER_SANDBOX_SANDBOX_H

#include "server/config/server_config.h"

/* Before the images are opened: notes where they are. Returns 0, or -errno with *error a sentence
 * (caller frees) or NULL: what sandbox-path= names is not there, or no memory is. */
int
sandbox_prepare(const struct server_config *config, const char *config_file, char **error);

/* At the program's start: from now on, errors of what is denied tell of a profile of AppArmor, and,
 * when the sandbox is entered, of it. */
void
sandbox_explain_denials(void);

/* When nothing more needs the privileges of the start, and before further threads are started:
 * confines the calling thread and those that it will start. Others follow at their next work
 * (common/thread.h); with sandbox=on, one that can't be confined ends the process. Logs what is in
 * force. Returns 0, or -errno with *error a sentence (caller frees): with sandbox=on, a part is
 * missing. */
int
sandbox_enter(const struct server_config *config, char **error);

/* What is in force, and what is not, with the reason, as text; never NULL. */
const char *
sandbox_text(void);

/* Whether the sandbox leaves this image, or directory, to the server, to read and write: 0, or
 * -errno with *error a sentence (caller frees), with the way out. To be asked before it is opened:
 * what may only be read would be served read-only. */
int
sandbox_admits(const char *path, char **error);

void
sandbox_fini(void);

#endif
