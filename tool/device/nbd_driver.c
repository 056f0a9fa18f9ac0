/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/device/nbd_driver.h"

#include "tool/failure.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nbd-netlink.h>
#include <linux/nbd.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <netlink/netlink.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct nbd_driver {
	struct nl_sock *socket;
	int family;
};

/* A request to the kernel. */
struct netlink_request {
	struct nl_msg *message;
	int err; /* errno, or 0: why it can't be sent */
};

static void
request_cleanup(struct netlink_request *request)
{
	nlmsg_free(request->message);
}
#define REQUEST_CLEANUP __attribute__((cleanup(request_cleanup)))

/* The kernel's answer to one request. */
struct netlink_answer {
	int err; /* errno, or 0 */
	bool complete;
	int64_t index; /* the device's, or -1: it told none */
};

void
nbd_driver_close(struct nbd_driver *driver)
{
	if (driver->socket)
		nl_socket_free(driver->socket);
	g_free(driver);
}

/* ---- finding the driver */

static bool
load_module(GError **error)
{
	g_autofree char *found = g_find_program_in_path("modprobe");
	/* PATH may have none of the directories for administrators. */
	const char *argv[] = {found ? found : "/sbin/modprobe", "nbd", NULL};
	g_autofree char *said = NULL;
	int status = 0;

	if (!g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_STDOUT_TO_DEV_NULL, NULL, NULL, NULL,
			  &said, &status, NULL))
		return failure(
			error, ENOENT,
			"the kernel has no nbd driver loaded, and there is no modprobe to load it: "
			"install the package kmod");
	if (status == 0)
		return true;
	g_strdelimit(g_strstrip(said), "\n", ' ');
	return failure(
		error, ENODEV,
		"the kernel's nbd driver isn't loaded, and can't be: %s.  Load the module nbd, or boot a "
		"kernel that has it%s",
		*said ? said : "modprobe nbd failed", "; in a container, load it outside");
}

static bool
find_family(struct nbd_driver *driver)
{
	driver->family = genl_ctrl_resolve(driver->socket, NBD_GENL_FAMILY_NAME);
	return driver->family >= 0;
}

static bool
open_socket(struct nbd_driver *driver)
{
	if (driver->socket)
		nl_socket_free(driver->socket);
	driver->socket = nl_socket_alloc();
	return driver->socket && genl_connect(driver->socket) >= 0;
}

/*
 * The driver's netlink interface is only in the network namespace that the machine started with.  A
 * socket stays in the namespace where it was made: all else, such as a connection to a remote
 * server, belongs to this one.
 */
static bool
find_family_outside(struct nbd_driver *driver)
{
	int CLEANUP_CLOSE here = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	int CLEANUP_CLOSE first = open("/proc/1/ns/net", O_RDONLY | O_CLOEXEC);
	bool found;

	if (here < 0 || first < 0 || setns(first, CLONE_NEWNET) < 0)
		return false;
	found = open_socket(driver) && find_family(driver);
	return setns(here, CLONE_NEWNET) == 0 && found;
}

static bool
find_driver(struct nbd_driver *driver, GError **error)
{
	if (find_family(driver) || find_family_outside(driver))
		return true;
	if (!load_module(error))
		return false;
	if (find_family(driver) || find_family_outside(driver))
		return true;
	return failure(
		error, ENODEV,
		"the nbd driver is loaded, but can't be talked to here: its netlink interface is only in the "
		"network namespace that the machine started with.  Run nbdloop there, in a container with the host's network");
}

struct nbd_driver *
nbd_driver_open(GError **error)
{
	struct nbd_driver *NBD_DRIVER_CLEANUP driver = g_new0(struct nbd_driver, 1);

	if (geteuid() != 0)
		return FAILURE_NULL(error, EPERM,
				    "only root can attach and change block devices: use sudo");
	if (!open_socket(driver))
		return FAILURE_NULL(error, EPROTO, "no connection to the kernel (generic netlink)");
	if (!find_driver(driver, error))
		return NULL;
	return steal_pointer(&driver);
}

/* ---- asking it */

static int
receive_error(struct sockaddr_nl *from, struct nlmsgerr *message, void *data)
{
	struct netlink_answer *answer = data;

	(void)from;
	answer->err = -message->error;
	answer->complete = true;
	return NL_STOP;
}

static int
receive_acknowledgement(struct nl_msg *message, void *data)
{
	struct netlink_answer *answer = data;

	(void)message;
	answer->complete = true;
	return NL_STOP;
}

static int
receive_reply(struct nl_msg *message, void *data)
{
	struct nlattr *attributes[NBD_ATTR_MAX + 1];
	struct netlink_answer *answer = data;

	if (genlmsg_parse(nlmsg_hdr(message), 0, attributes, NBD_ATTR_MAX, NULL) == 0 &&
	    attributes[NBD_ATTR_INDEX])
		answer->index = nla_get_u32(attributes[NBD_ATTR_INDEX]);
	return NL_OK;
}

/* Begins a request, to which attributes can be put; that it can't be made is told when it is asked.
 */
static struct netlink_request
request_begin(const struct nbd_driver *driver, uint8_t command)
{
	struct netlink_request request = {.message = nlmsg_alloc()};

	if (!request.message || !genlmsg_put(request.message, NL_AUTO_PORT, NL_AUTO_SEQ,
					     driver->family, 0, 0, command, NBD_GENL_VERSION))
		request.err = ENOMEM;
	return request;
}

/* A message is a page: there is room for hundreds of sockets, but not for a backend of any length.
 */
static void
put(struct netlink_request *request, int attribute, const void *value, size_t size)
{
	if (!request->err && nla_put(request->message, attribute, (int)size, value) < 0)
		request->err = EMSGSIZE;
}

static void
put_u32(struct netlink_request *request, int attribute, uint32_t value)
{
	put(request, attribute, &value, sizeof(value));
}

static void
put_u64(struct netlink_request *request, int attribute, uint64_t value)
{
	put(request, attribute, &value, sizeof(value));
}

static void
put_backend(struct netlink_request *request, const char *backend)
{
	if (backend)
		put(request, NBD_ATTR_BACKEND_IDENTIFIER, backend, strlen(backend) + 1);
}

/* Returns what nest_end() takes: NULL, there is no room. */
static struct nlattr *
nest_begin(struct netlink_request *request, int attribute)
{
	struct nlattr *nest = request->err ? NULL : nla_nest_start(request->message, attribute);

	if (!nest && !request->err)
		request->err = EMSGSIZE;
	return nest;
}

static void
nest_end(struct netlink_request *request, struct nlattr *nest)
{
	if (nest)
		nla_nest_end(request->message, nest);
}

static void
put_sockets(struct netlink_request *request, const int *sockets, unsigned int count)
{
	struct nlattr *list = nest_begin(request, NBD_ATTR_SOCKETS);

	for (unsigned int i = 0; i < count; i++) {
		struct nlattr *item = nest_begin(request, NBD_SOCK_ITEM);

		put_u32(request, NBD_SOCK_FD, (uint32_t)sockets[i]);
		nest_end(request, item);
	}
	nest_end(request, list);
}

/* Sends it and waits for the answer.  Returns 0 or an errno. */
static int
ask(const struct nbd_driver *driver, const struct netlink_request *request,
    struct netlink_answer *answer)
{
	struct nl_cb *callbacks;
	int r;

	*answer = (struct netlink_answer){.index = -1};
	if (request->err)
		return request->err;
	callbacks = nl_cb_alloc(NL_CB_DEFAULT);
	if (!callbacks)
		return ENOMEM;
	nl_cb_err(callbacks, NL_CB_CUSTOM, receive_error, answer);
	nl_cb_set(callbacks, NL_CB_ACK, NL_CB_CUSTOM, receive_acknowledgement, answer);
	nl_cb_set(callbacks, NL_CB_VALID, NL_CB_CUSTOM, receive_reply, answer);
	r = nl_send_auto(driver->socket, request->message);
	while (r >= 0 && !answer->complete)
		r = nl_recvmsgs(driver->socket, callbacks);
	nl_cb_put(callbacks);
	return answer->complete ? answer->err : EPROTO;
}

static bool
backend_is_shown(unsigned int index)
{
	g_autofree char *path = g_strdup_printf("/sys/block/nbd%u/backend", index);

	return access(path, F_OK) == 0;
}

static struct netlink_request
connect_request(const struct nbd_driver *driver, const struct nbd_driver_attachment *attachment)
{
	struct netlink_request request = request_begin(driver, NBD_CMD_CONNECT);

	if (attachment->index != NBD_DRIVER_ANY)
		put_u32(&request, NBD_ATTR_INDEX, (uint32_t)attachment->index);
	put_u64(&request, NBD_ATTR_SIZE_BYTES, attachment->size);
	put_u64(&request, NBD_ATTR_BLOCK_SIZE_BYTES, attachment->block_size);
	put_u64(&request, NBD_ATTR_SERVER_FLAGS, attachment->flags);
	put_u64(&request, NBD_ATTR_TIMEOUT, attachment->timeout);
	put_u64(&request, NBD_ATTR_DEAD_CONN_TIMEOUT, attachment->dead_timeout);
	put_sockets(&request, attachment->sockets, attachment->socket_count);
	put_backend(&request, attachment->backend);
	return request;
}

bool
nbd_driver_connect(struct nbd_driver *driver, const struct nbd_driver_attachment *attachment,
		   unsigned int *index, GError **error)
{
	struct netlink_request REQUEST_CLEANUP request = connect_request(driver, attachment);
	struct netlink_answer answer;
	int err = ask(driver, &request, &answer);

	if (err == EPERM)
		return failure(
			error, err,
			"attaching block devices is not allowed here: it needs the capability "
			"CAP_SYS_ADMIN, outside of containers without privileges");
	if (err || answer.index < 0)
		return failure(error, err ? err : EPROTO, "the kernel's nbd driver refuses: %s",
			       g_strerror(err ? err : EPROTO));
	*index = (unsigned int)answer.index;
	if (backend_is_shown(*index))
		return true;
	nbd_driver_disconnect(driver, *index, NULL);
	return failure(
		error, EOPNOTSUPP,
		"this kernel is too old: its nbd driver can't say what a device is attached to.  "
		"Linux 5.14 and later can");
}

bool
nbd_driver_disconnect(struct nbd_driver *driver, unsigned int index, GError **error)
{
	struct netlink_request REQUEST_CLEANUP request = request_begin(driver, NBD_CMD_DISCONNECT);
	struct netlink_answer answer;
	int err;

	put_u32(&request, NBD_ATTR_INDEX, index);
	err = ask(driver, &request, &answer);
	if (err)
		return failure(error, err, "the kernel doesn't detach /dev/nbd%u: %s", index,
			       g_strerror(err));
	return true;
}

bool
nbd_driver_change(struct nbd_driver *driver, unsigned int index,
		  const struct nbd_driver_change *change, GError **error)
{
	struct netlink_request REQUEST_CLEANUP request = request_begin(driver, NBD_CMD_RECONFIGURE);
	struct netlink_answer answer;
	int err;

	put_u32(&request, NBD_ATTR_INDEX, index);
	put_backend(&request, change->backend);
	if (change->size)
		put_u64(&request, NBD_ATTR_SIZE_BYTES, *change->size);
	if (change->timeout)
		put_u64(&request, NBD_ATTR_TIMEOUT, *change->timeout);
	if (change->end_on_close)
		put_u64(&request, NBD_ATTR_CLIENT_FLAGS, NBD_CFLAG_DISCONNECT_ON_CLOSE);
	if (change->socket)
		put_sockets(&request, change->socket, 1);
	err = ask(driver, &request, &answer);
	if (err)
		return failure(error, err, "the kernel doesn't change /dev/nbd%u: %s", index,
			       g_strerror(err));
	return true;
}

bool
nbd_driver_uses_socket(int socket)
{
	struct timeval timeout = {0};
	socklen_t length = sizeof(timeout);

	return getsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &timeout, &length) == 0 &&
	       (timeout.tv_sec || timeout.tv_usec);
}
