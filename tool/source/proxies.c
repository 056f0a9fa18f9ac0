/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/source/proxies.h"

#include "tool/failure.h"
#include "tool/source/background.h"
#include "tool/nap.h"
#include "tool/link/proxy.h"
#include "tool/link/server_process.h"

#include "common/log.h"
#include "common/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	BUFFER = 2 << 20, /* bytes; as that of the socket to the server */
	END_PATIENCE_MS = 5000,
};

/* ---- in the process of a proxy */

static int
compare_fds(gconstpointer a, gconstpointer b)
{
	return *(const int *)a - *(const int *)b;
}

/* The guard's descriptors must not stay open here, among them the sockets of other connections,
 * which would never end, and the pipe to the process that waits for the device. */
static void
close_all_but(int *fds, unsigned int count)
{
	unsigned int next = STDERR_FILENO + 1;

	qsort(fds, count, sizeof(*fds), compare_fds);
	for (unsigned int i = 0; i < count; i++) {
		if ((unsigned int)fds[i] > next)
			close_range(next, (unsigned int)fds[i] - 1, 0);
		next = (unsigned int)fds[i] + 1;
	}
	close_range(next, ~0U, 0);
}

/* The share of one process: every `step`th connection, from `first` on. */
struct share {
	struct source_connection *const *connections;
	unsigned int count, first, step;
};

/* Leaves the sockets to the child, and the sessions of other shares to other children. */
static int
become_proxy(const struct share *share, const int *theirs, const char *place)
{
	g_autofree struct proxied *proxied = g_new(struct proxied, share->count);
	g_autofree int *fds = g_new(int, 2 * share->count);
	unsigned int taken = 0;
	int r;

	for (unsigned int i = 0; i < share->count; i++) {
		struct source_connection *connection = share->connections[i];

		if (i % share->step != share->first) {
			source_connection_close(connection);
			continue;
		}
		fds[2 * taken] = theirs[i];
		fds[2 * taken + 1] = connection->fd;
		proxied[taken++] = (struct proxied){
			.kernel = theirs[i],
			.server = connection->fd,
			.session = g_steal_pointer(&connection->session),
		};
	}
	prctl(PR_SET_NAME, "nbdloop-proxy");
	background_enter();
	close_all_but(fds, 2 * taken);
	r = proxy_run(proxied, taken, place);
	if (r < 0)
		log_error("%s: the proxy can't work: %s", place, g_strerror(-r));
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* ---- starting */

static bool
start_all(struct proxies *proxies, struct share *share, const int *theirs, const char *place,
	  GError **error)
{
	share->step = MIN(share->count, thread_processors());
	for (share->first = 0; share->first < share->step; share->first++) {
		pid_t pid = fork();

		if (pid < 0)
			return failure_errno(error, errno, "a proxy can't be started");
		if (pid == 0)
			_exit(become_proxy(share, theirs, place));
		g_array_append_val(proxies->pids, pid);
	}
	return true;
}

/* Connections over which the kernel talks to proxies. */
static bool
make_pairs(int *ours, int *theirs, unsigned int count, GError **error)
{
	const int buffer = BUFFER;

	for (unsigned int i = 0; i < count; i++)
		ours[i] = theirs[i] = -1;
	for (unsigned int i = 0; i < count; i++) {
		int pair[2];

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
			return failure_errno(error, errno, "the sockets of a proxy can't be made");
		for (unsigned int j = 0; j < 2; j++)
			setsockopt(pair[j], SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof(buffer));
		ours[i] = pair[0];
		theirs[i] = pair[1];
	}
	return true;
}

bool
proxies_start(struct proxies *proxies, struct source_connection *const *connections,
	      unsigned int count, const char *place, GError **error)
{
	struct share share = {.connections = connections, .count = count};
	g_autofree int *ours = g_new(int, count), *theirs = g_new(int, count);
	bool started;

	if (!proxies->pids)
		proxies->pids = g_array_new(false, false, sizeof(pid_t));
	started = make_pairs(ours, theirs, count, error) &&
		  start_all(proxies, &share, theirs, place, error);
	for (unsigned int i = 0; i < count; i++) {
		/* The keys are wiped here: only the proxy has them. */
		source_connection_close(connections[i]);
		if (started)
			connections[i]->fd = ours[i];
	}
	server_sockets_close(theirs, count);
	if (!started)
		server_sockets_close(ours, count);
	return started;
}

/* ---- their end */

void
proxies_reap(struct proxies *proxies)
{
	for (guint i = 0; proxies->pids && i < proxies->pids->len;) {
		const pid_t pid = g_array_index(proxies->pids, pid_t, i);
		int status = 0;

		if (waitpid(pid, &status, WNOHANG) == 0) {
			i++;
			continue;
		}
		if (WIFSIGNALED(status))
			log_error("proxy %d was killed by signal %d (%s)", (int)pid,
				  WTERMSIG(status), strsignal(WTERMSIG(status)));
		g_array_remove_index_fast(proxies->pids, i);
	}
}

void
proxies_end(struct proxies *proxies)
{
	struct nap nap = nap_for(END_PATIENCE_MS);

	if (!proxies->pids)
		return;
	for (proxies_reap(proxies); proxies->pids->len > 0 && nap_take(&nap);)
		proxies_reap(proxies);
	for (guint i = 0; i < proxies->pids->len; i++) {
		kill(g_array_index(proxies->pids, pid_t, i), SIGKILL);
		waitpid(g_array_index(proxies->pids, pid_t, i), NULL, 0);
	}
	g_array_unref(proxies->pids);
	proxies->pids = NULL;
}
