/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The grants of a server: the files and directories that its sandbox lets it open, as its
 * configuration tells.
 */
#ifndef SERVER_SANDBOX_GRANTS_H
#define SERVER_SANDBOX_GRANTS_H

#include "server/sandbox/landlock.h"

struct export_config;
struct server_config;

/* Is told of a grant, which need not exist. 0, or -errno, which ends the visit. */
typedef int
grant_visit(void *data, const char *path, enum grant_use use);

/* Visits those of the server itself, and of name services and libraries; `config_file` may be
 * NULL. Those of exports' images and records are visited one by one. 0 or -errno. */
int
grants_visit_server(const struct server_config *config, const char *config_file, grant_visit *visit,
		    void *data);
int
grants_visit_export(const struct export_config *export, grant_visit *visit, void *data);

#endif
