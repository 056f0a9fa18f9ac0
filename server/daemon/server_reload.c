/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SIGHUP: the configuration is read again.
 */
#include "server/daemon/server.h"

#include "server/config/command_line.h"
#include "server/daemon/readiness.h"
#include "server/exports/export_changes.h"
#include "server/exports/export_look.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

struct reload {
	struct server *server;
	pthread_t thread;
	bool failed;       /* the configuration is as before; the thread's, until it has ended */
	_Atomic bool over; /* the thread ends */
};

static void
say_failure(int r, const char *error)
{
	const char *why = error ? error : strerror(-r);

	log_error("%s; everything stays as it is", why);
	readiness_reload_failed(why);
}

static void
report_difference(const char *name)
{
	log_warning("%s has changed, which needs a restart of the server", name);
}

static void
take_over(struct server *server, struct server_config *config)
{
	exports_reload(server->exports, config);
	config_visit_differences(server->config, config, report_difference);
	log_info("the configuration was read again");
	server_reread_tls(server);
	exports_look_at_all(server->exports);
}

/* All of it may take long, or wait for a server that is away: to find the users and groups that
 * rules name, to open the images of new exports and the files of TLS. The main thread accepts
 * connections meanwhile. */
static void *
reload_run(void *data)
{
	struct reload *reload = data;
	struct server *server = reload->server;
	struct server_config config;
	char *CLEANUP_FREE error = NULL;
	int r = command_line_configure(server->line, &config, &error);

	reload->failed = r < 0;
	if (r < 0) {
		say_failure(r, error);
	} else {
		take_over(server, &config);
		config_fini(&config);
	}
	atomic_store(&reload->over, true);
	eventfd_write(server->wake, 1);
	return NULL;
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
		reload->server = server;
	r = reload ? -pthread_create(&reload->thread, NULL, reload_run, reload) : -ENOMEM;
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
	return server->reload && !atomic_load(&server->reload->over);
}

void
server_join_reload(struct server *server)
{
	if (!server->reload)
		return;
	pthread_join(server->reload->thread, NULL);
	/* systemctl shows the error until the configuration is read. */
	if (server->reload_failed && !server->reload->failed)
		server->told_exports = UINT_MAX;
	server->reload_failed = server->reload->failed;
	free(steal_pointer(&server->reload));
}

void
server_go_on_reloading(struct server *server)
{
	if (exports_want_reload(server->exports))
		server_reload(server);
	if (!server->reload || server_is_reloading(server))
		return;
	server_join_reload(server);
	if (server->reread)
		server_reload(server);
	else
		readiness_ready();
}
