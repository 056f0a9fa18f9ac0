/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/nbd_driver.h"

#include "tool/failure.h"

#include "common/cleanup.h"

#include <errno.h>
#include <linux/nbd-netlink.h>
#include <linux/nbd.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <netlink/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct nbd_driver {
	struct nl_sock *socket;
	int family;
};

static void
message_cleanup(struct nl_msg **message)
{
	nlmsg_free(*message);
}
#define MESSAGE_CLEANUP __attribute__((cleanup(message_cleanup)))

/* What the kernel answers to one request. */
struct answer {
	int err;             /* errno, or 0 */
	bool complete;
	int64_t index;       /* the device's, or -1: it told none */
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

	if (!g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_STDOUT_TO_DEV_NULL, NULL, NULL, NULL, &said, &status, NULL))
		return failure(error, ENOENT, "the kernel has no nbd driver loaded, and there is no modprobe to load it: "
			       "install the package kmod");
	if (status == 0)
		return true;
	g_strdelimit(g_strstrip(said), "\n", ' ');
	return failure(error, ENODEV, "the kernel's nbd driver isn't loaded, and can't be: %s.  Load the module nbd, or boot a "
		       "kernel that has it%s", *said ? said : "modprobe nbd failed",
		       "; in a container, load it outside");
}

static bool
find_family(struct nbd_driver *driver)
{
	driver->family = genl_ctrl_resolve(driver->socket, NBD_GENL_FAMILY_NAME);
	return driver->family >= 0;
}

static bool
find_driver(struct nbd_driver *driver, GError **error)
{
	if (find_family(driver))
		return true;
	if (!load_module(error))
		return false;
	if (find_family(driver))
		return true;
	return failure(error, ENODEV, "the nbd driver is loaded, but can't be talked to here: its netlink interface is only in the "
		       "network namespace that the machine started with.  Run nbdloop there, in a container with the host's network");
}

struct nbd_driver *
nbd_driver_open(GError **error)
{
	struct nbd_driver *NBD_DRIVER_CLEANUP driver = g_new0(struct nbd_driver, 1);

	if (geteuid() != 0) {
		failure(error, EPERM, "only root can attach and change block devices: use sudo");
		return NULL;
	}
	driver->socket = nl_socket_alloc();
	if (!driver->socket || genl_connect(driver->socket) < 0) {
		failure(error, EPROTO, "no connection to the kernel (generic netlink)");
		return NULL;
	}
	if (!find_driver(driver, error))
		return NULL;
	return steal_pointer(&driver);
}

/* ---- asking it */

static int
take_error(struct sockaddr_nl *from, struct nlmsgerr *message, void *data)
{
	struct answer *answer = data;

	(void)from;
	answer->err = -message->error;
	answer->complete = true;
	return NL_STOP;
}

static int
take_acknowledgement(struct nl_msg *message, void *data)
{
	struct answer *answer = data;

	(void)message;
	answer->complete = true;
	return NL_STOP;
}

static int
take_reply(struct nl_msg *message, void *data)
{
	struct nlattr *attributes[NBD_ATTR_MAX + 1];
	struct answer *answer = data;

	if (genlmsg_parse(nlmsg_hdr(message), 0, attributes, NBD_ATTR_MAX, NULL) == 0 && attributes[NBD_ATTR_INDEX])
		answer->index = nla_get_u32(attributes[NBD_ATTR_INDEX]);
	return NL_OK;
}

/* Returns 0 or an errno. */
static int
ask(const struct nbd_driver *driver, struct nl_msg *message, struct answer *answer)
{
	struct nl_cb *callbacks = nl_cb_alloc(NL_CB_DEFAULT);
	int r = nl_send_auto(driver->socket, message);

	*answer = (struct answer){.index = -1};
	g_assert(callbacks);
	nl_cb_err(callbacks, NL_CB_CUSTOM, take_error, answer);
	nl_cb_set(callbacks, NL_CB_ACK, NL_CB_CUSTOM, take_acknowledgement, answer);
	nl_cb_set(callbacks, NL_CB_VALID, NL_CB_CUSTOM, take_reply, answer);
	while (r >= 0 && !answer->complete)
		r = nl_recvmsgs(driver->socket, callbacks);
	nl_cb_put(callbacks);
	return answer->complete ? answer->err : EPROTO;
}

static struct nl_msg *
message_new(const struct nbd_driver *driver, uint8_t command)
{
	struct nl_msg *message = nlmsg_alloc();

	/* As of all small allocations: GLib's own end the program, too. */
	g_assert(message);
	g_assert(genlmsg_put(message, NL_AUTO_PORT, NL_AUTO_SEQ, driver->family, 0, 0, command, NBD_GENL_VERSION));
	return message;
}

/* A page holds hundreds of sockets. */
static void
put_sockets(struct nl_msg *message, const int *sockets, unsigned int count)
{
	struct nlattr *list = nla_nest_start(message, NBD_ATTR_SOCKETS);

	for (unsigned int i = 0; list && i < count; i++) {
		struct nlattr *item = nla_nest_start(message, NBD_SOCK_ITEM);

		g_assert(item && nla_put_u32(message, NBD_SOCK_FD, (uint32_t)sockets[i]) == 0);
		nla_nest_end(message, item);
	}
	g_assert(list);
	nla_nest_end(message, list);
}

static void
put_u64(struct nl_msg *message, int attribute, uint64_t value)
{
	g_assert(nla_put_u64(message, attribute, value) == 0);
}

static void
put_backend(struct nl_msg *message, const char *backend)
{
	if (backend)
		g_assert(nla_put_string(message, NBD_ATTR_BACKEND_IDENTIFIER, backend) == 0);
}

static bool
backend_is_shown(unsigned int index)
{
	g_autofree char *path = g_strdup_printf("/sys/block/nbd%u/backend", index);

	return access(path, F_OK) == 0;
}

static struct nl_msg *
connect_message(const struct nbd_driver *driver, const struct nbd_driver_attachment *attachment)
{
	struct nl_msg *message = message_new(driver, NBD_CMD_CONNECT);

	if (attachment->index != NBD_DRIVER_ANY)
		g_assert(nla_put_u32(message, NBD_ATTR_INDEX, (uint32_t)attachment->index) == 0);
	put_u64(message, NBD_ATTR_SIZE_BYTES, attachment->size);
	put_u64(message, NBD_ATTR_BLOCK_SIZE_BYTES, attachment->block_size);
	put_u64(message, NBD_ATTR_SERVER_FLAGS, attachment->flags);
	put_u64(message, NBD_ATTR_TIMEOUT, attachment->timeout);
	put_u64(message, NBD_ATTR_DEAD_CONN_TIMEOUT, attachment->dead_timeout);
	put_sockets(message, attachment->sockets, attachment->socket_count);
	put_backend(message, attachment->backend);
	return message;
}

bool
nbd_driver_connect(struct nbd_driver *driver, const struct nbd_driver_attachment *attachment, unsigned int *index,
		   GError **error)
{
	struct nl_msg *MESSAGE_CLEANUP message = connect_message(driver, attachment);
	struct answer answer;
	int err = ask(driver, message, &answer);

	if (err == EPERM)
		return failure(error, err, "the kernel allows nobody here to attach block devices: it needs the capability "
			       "CAP_SYS_ADMIN, outside of containers without privileges");
	if (err || answer.index < 0)
		return failure(error, err ? err : EPROTO, "the kernel's nbd driver refuses: %s", g_strerror(err ? err : EPROTO));
	*index = (unsigned int)answer.index;
	if (backend_is_shown(*index))
		return true;
	nbd_driver_disconnect(driver, *index, NULL);
	return failure(error, EOPNOTSUPP, "this kernel is too old: its nbd driver can't say what a device is attached to.  "
		       "Linux 5.14 and later can");
}

bool
nbd_driver_disconnect(struct nbd_driver *driver, unsigned int index, GError **error)
{
	struct nl_msg *MESSAGE_CLEANUP message = message_new(driver, NBD_CMD_DISCONNECT);
	struct answer answer;
	int err;

	g_assert(nla_put_u32(message, NBD_ATTR_INDEX, index) == 0);
	err = ask(driver, message, &answer);
	if (err)
		return failure(error, err, "the kernel doesn't detach /dev/nbd%u: %s", index, g_strerror(err));
	return true;
}

bool
nbd_driver_change(struct nbd_driver *driver, unsigned int index, const struct nbd_driver_change *change, GError **error)
{
	struct nl_msg *MESSAGE_CLEANUP message = message_new(driver, NBD_CMD_RECONFIGURE);
	struct answer answer;
	int err;

	g_assert(nla_put_u32(message, NBD_ATTR_INDEX, index) == 0);
	put_backend(message, change->backend);
	if (change->size)
		put_u64(message, NBD_ATTR_SIZE_BYTES, *change->size);
	if (change->timeout)
		put_u64(message, NBD_ATTR_TIMEOUT, *change->timeout);
	if (change->end_on_close)
		put_u64(message, NBD_ATTR_CLIENT_FLAGS, NBD_CFLAG_DISCONNECT_ON_CLOSE);
	if (change->socket)
		put_sockets(message, change->socket, 1);
	err = ask(driver, message, &answer);
	if (err)
		return failure(error, err, "the kernel doesn't change /dev/nbd%u: %s", index, g_strerror(err));
	return true;
}

bool
nbd_driver_took(int socket)
{
	struct timeval timeout = {0};
	socklen_t length = sizeof(timeout);

	return getsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &timeout, &length) == 0 && (timeout.tv_sec || timeout.tv_usec);
}
