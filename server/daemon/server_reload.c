/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/daemon/server_reload.h"

#include "server/config/command_line.h"
#include "server/daemon/readiness.h"
#include "server/daemon/server_tls.h"
#include "server/exports/export_changes.h"
#include "server/exports/export_look.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

static void
reload_fail(int r, const char *error)
{
	const char *why = error ? error : strerror(-r);

	log_error("%s; everything stays as it is", why);
	readiness_reload_failed(why);
}

/* Wakes up those who wait. */
static void
reload_note_end(struct server_reload *reload, const struct reload_result *result)
{
	pthread_mutex_lock(&reload->mutex);
	reload->done = reload->begun;
	reload->result = *result;
	pthread_cond_broadcast(&reload->ended);
	pthread_mutex_unlock(&reload->mutex);
}

static void
reload_report_difference(const char *name)
{
	log_warning("%s has changed, which needs a restart of the server", name);
}

#define SUMMARY_MAX 128

/* "1 export added, 2 changed" */
static void
reload_summary_text(const struct reload_summary *summary, char text[SUMMARY_MAX])
{
	const struct {
		unsigned int count;
		const char *what;
	} parts[] = {{summary->added, "added"},
		     {summary->changed, "changed"},
		     {summary->removed, "removed"},
		     {summary->reopened, "opened again"},
		     {summary->failed, "failed"}};
	size_t used = 0;

	for (unsigned int i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (parts[i].count == 0)
			continue;
		used += (size_t)snprintf(text + used, SUMMARY_MAX - used, "%s%u%s %s",
					 used > 0 ? ", " : "", parts[i].count,
					 used > 0              ? ""
					 : parts[i].count == 1 ? " export"
							       : " exports",
					 parts[i].what);
	}
	if (used == 0)
		snprintf(text, SUMMARY_MAX, "no export has changed");
}

static void
reload_follow_config(struct server_reload *reload, struct server_config *config,
		     struct reload_result *result)
{
	static const char *const keys[] = {"; TLS goes on with its old keys and certificates", "",
					   "; keys and certificates were read again"};
	struct reload_summary summary = exports_reload(reload->exports, config);
	char *CLEANUP_FREE why = summary.error;
	char text[SUMMARY_MAX];
	int tls;

	reload_summary_text(&summary, text);
	config_visit_differences(reload->config, config, reload_report_difference);
	log_info("the configuration was read again: %s", text);
	tls = server_tls_reread(reload->tls);
	result->failed = summary.failed + (tls < 0);
	snprintf(result->text, sizeof(result->text), "%s%s%s%s", text, why ? ": " : "",
		 why ? why : "", keys[tls + 1]);
}

/* All of it may take long, or wait for a server that is away: to find the users and groups that
 * rules name, to open the images of new exports and the files of TLS. The main thread accepts
 * connections meanwhile. */
static void *
reload_run(void *data)
{
	struct server_reload *reload = data;
	struct server_config config;
	char *CLEANUP_FREE error = NULL;
	struct reload_result result = {.text = ""};
	int r = command_line_configure(reload->line, &config, &error);

	reload->failed = result.refused = r < 0;
	if (r < 0) {
		reload_fail(r, error);
		snprintf(result.text, sizeof(result.text), "%s", error ? error : strerror(-r));
	} else {
		reload_follow_config(reload, &config, &result);
		exports_look_at_all(reload->exports);
		config_fini(&config);
	}
	reload_note_end(reload, &result);
	atomic_store(&reload->over, true);
	eventfd_write(reload->wake, 1);
	return NULL;
}

void
server_reload_begin(struct server_reload *reload)
{
	struct reload_result result = {.refused = true};
	int r;

	reload->again = reload->running;
	if (reload->running)
		return;
	pthread_mutex_lock(&reload->mutex);
	reload->begun = reload->asked;
	pthread_mutex_unlock(&reload->mutex);
	atomic_store(&reload->over, false);
	r = -pthread_create(&reload->thread, NULL, reload_run, reload);
	reload->running = r == 0;
	if (r == 0)
		return;
	reload_fail(r, NULL);
	snprintf(result.text, sizeof(result.text), "%s", strerror(-r));
	reload_note_end(reload, &result);
	readiness_ready();
}

/* Returns whether somebody waits for whom it has not begun. */
static bool
reload_is_asked_for(struct server_reload *reload)
{
	bool asked;

	pthread_mutex_lock(&reload->mutex);
	asked = reload->asked > reload->begun;
	pthread_mutex_unlock(&reload->mutex);
	return asked;
}

bool
server_reload_await(struct server_reload *reload, struct reload_result *result)
{
	uint64_t number;
	bool done;

	pthread_mutex_lock(&reload->mutex);
	number = ++reload->asked;
	eventfd_write(reload->wake, 1);
	while (reload->done < number && !reload->closed)
		pthread_cond_wait(&reload->ended, &reload->mutex);
	done = reload->done >= number;
	*result = reload->result;
	pthread_mutex_unlock(&reload->mutex);
	return done;
}

void
server_reload_close(struct server_reload *reload)
{
	pthread_mutex_lock(&reload->mutex);
	reload->closed = true;
	pthread_cond_broadcast(&reload->ended);
	pthread_mutex_unlock(&reload->mutex);
}

bool
server_reload_is_running(const struct server_reload *reload)
{
	return reload->running && !atomic_load(&reload->over);
}

bool
server_reload_join(struct server_reload *reload)
{
	if (!reload->running)
		return false;
	pthread_join(reload->thread, NULL);
	reload->running = false;
	return !reload->failed;
}

bool
server_reload_go_on(struct server_reload *reload)
{
	bool read;

	/* The exports first, since they forget that they were asked. */
	if (exports_want_reload(reload->exports) || reload_is_asked_for(reload))
		server_reload_begin(reload);
	if (!reload->running || server_reload_is_running(reload))
		return false;
	read = server_reload_join(reload);
	if (reload->again)
		server_reload_begin(reload);
	else
		readiness_ready();
	return read;
}
