/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/source/other_servers.h"

#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

enum {
	LIMIT_MS = 3000,     /* how long a server may take to show its export */
	STACK = 256 << 10,   /* bytes; with --swap, all of it is locked memory */
	MOST_TEXT = 4 << 10, /* bytes of a result: what a pipe takes at once, without a reader */
};

/* What a look needs of the source, which goes on meanwhile. */
struct look {
	GPtrArray *uris; /* of the servers to look at; owned */
	struct export_facts device;
	const struct source_tls *tls;
	int fd; /* the thread's end of the pipe */
};

/* False: it isn't there. */
static bool
see_export(const struct look *look, char *uri, struct export_facts *export)
{
	struct source_connection connection = {.fd = -1}, *const connections[] = {&connection};
	g_autoptr(GPtrArray) uris = g_ptr_array_new();
	const struct source_search search = {.uri = uri, .uris = uris, .tls = look->tls};
	unsigned int server;

	g_ptr_array_add(uris, uri);
	if (!source_connections_to_servers(connections, 1, false, &search, LIMIT_MS, &server, NULL))
		return false;
	*export = connection.export;
	source_connection_close(&connection);
	return true;
}

static char *
look_carry_out(const struct look *look)
{
	g_autoptr(GString) misfits = g_string_new(NULL);

	for (guint i = 0; i < look->uris->len; i++) {
		char *uri = look->uris->pdata[i];
		g_autofree char *server = nbd_uri_server_name(uri);
		g_autoptr(GError) error = NULL;
		struct export_facts export;

		if (see_export(look, uri, &export) &&
		    !export_facts_fit(&look->device, &export, &error))
			g_string_append_printf(misfits, "%s%s can't take the device over: %s",
					       misfits->len ? "; " : "", server, error->message);
	}
	return misfits->len ? g_strndup(misfits->str, MOST_TEXT) : NULL;
}

/* ---- in a thread */

static void
look_free(struct look *look)
{
	const int fd = look->fd;

	g_ptr_array_unref(look->uris);
	g_free(look);
	/* Last: it tells the reader that this is over. */
	if (fd >= 0)
		close(fd);
}

static void *
look_in_thread(void *data)
{
	struct look *look = data;
	char *misfits = look_carry_out(look);

	/* Nobody may want to know it any more. */
	if (misfits && write(look->fd, misfits, strlen(misfits)) < 0)
		log_debug("a look at the other servers was in vain");
	g_free(misfits);
	look_free(look);
	return NULL;
}

static int
start_thread(struct look *look)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int err = pthread_attr_init(&attributes);

	if (err)
		return err;
	pthread_attr_setstacksize(&attributes, STACK);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	err = pthread_create(&thread, &attributes, look_in_thread, look);
	pthread_attr_destroy(&attributes);
	return err;
}

int
other_servers_look(const struct source *source)
{
	const struct export_source *export = source->state;
	struct look *look;
	int ends[2] = {-1, -1}, err = 0;

	if (export->device.size == 0 || export->servers->len < 2)
		return -1;
	look = g_new(struct look, 1);
	*look = (struct look){
		.uris = g_ptr_array_new_with_free_func(g_free),
		.device = export->device,
		.tls = &source->plan->tls,
	};
	for (guint i = 0; i < export->servers->len; i++) {
		if (i != export->in_use)
			g_ptr_array_add(look->uris, g_strdup(export->servers->pdata[i]));
	}
	if (pipe2(ends, O_CLOEXEC) < 0)
		err = errno;
	look->fd = ends[1];
	if (err == 0)
		err = start_thread(look);
	if (err == 0)
		return ends[0];
	log_warning("the other servers can't be looked at: %s", g_strerror(err));
	look_free(look);
	if (ends[0] >= 0)
		close(ends[0]);
	return -1;
}

char *
other_servers_result(int fd)
{
	g_autoptr(GString) text = g_string_new(NULL);
	char bytes[256];
	ssize_t n;

	while ((n = read(fd, bytes, sizeof(bytes))) > 0 || (n < 0 && errno == EINTR))
		g_string_append_len(text, bytes, MAX(n, 0));
	close(fd);
	return text->len ? g_strdup(text->str) : NULL;
}
