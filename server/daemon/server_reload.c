/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SIGHUP: the configuration is read again.
 */
#include "server/daemon/server.h"

#include "server/config/command_line.h"
#include "server/daemon/readiness.h"
#include "server/exports/exports.h"

#include "common/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

struct reload {
	const struct command_line *line;
	int wake; /* the server's */
	pthread_t thread;
	_Atomic bool read; /* the thread has ended, and the rest is its result */
	int result;
	char *error;
	struct server_config config;
};

/* Reading finds the users and groups that rules name, perhaps in a directory on the network. */
static void *
read_configuration(void *data)
{
	struct reload *reload = data;
	int wake = reload->wake;

	reload->result = command_line_configure(reload->line, &reload->config, &reload->error);
	atomic_store(&reload->read, true);
	eventfd_write(wake, 1);
	return NULL;
}

static void
say_failure(int r, const char *error)
{
	log_error("%s; everything stays as it is", error ? error : strerror(-r));
}

void
server_reload(struct server *server)
{
	struct reload *reload;
	int r;

	if (server->reload) {
		server->reread = true;
		return;
	}
	server->reread = false;
	reload = calloc(1, sizeof(*reload));
	if (reload)
		*reload = (struct reload){.line = server->line, .wake = server->wake};
	r = reload ? -pthread_create(&reload->thread, NULL, read_configuration, reload) : -ENOMEM;
	if (r == 0) {
		server->reload = reload;
		return;
	}
	free(reload);
	say_failure(r, NULL);
	readiness_ready();
}

bool
server_is_reloading(const struct server *server)
{
	return server->reload && !atomic_load(&server->reload->read);
}

static void
report_difference(const char *name)
{
	log_warning("%s has changed, which needs a restart of the server", name);
}

/* 0; -EBUSY: not now. */
static int
take_over(struct server *server, struct server_config *config)
{
	int r = exports_reload(server->exports, config);

	if (r < 0)
		return r;
	config_visit_differences(server->config, config, report_difference);
	log_info("the configuration was read again");
	server_reread_tls(server);
	return 0;
}

static void
reload_free(struct reload *reload)
{
	if (reload->result == 0)
		config_fini(&reload->config);
	free(reload->error);
	free(reload);
}

void
server_go_on_reloading(struct server *server)
{
	struct reload *reload = server->reload;
	bool busy;

	if (!reload && server->reread)
		server_reload(server);
	if (!reload || server_is_reloading(server))
		return;
	pthread_join(reload->thread, NULL);
	server->reload = NULL;
	if (reload->result < 0)
		say_failure(reload->result, reload->error);
	busy = reload->result == 0 && take_over(server, &reload->config) == -EBUSY;
	reload_free(reload);
	/* The end of a change calls this again. */
	if (busy)
		server->reread = true;
	else if (server->reread)
		server_reload(server);
	else
		readiness_ready();
}

void
server_abandon_reload(struct server *server)
{
	if (!server->reload)
		return;
	pthread_join(server->reload->thread, NULL);
	reload_free(server->reload);
	server->reload = NULL;
}
