/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The constants of the NBD specification (doc/proto.md of github.com/NetworkBlockDevice/nbd, and
 * its branch extension-ext-header), under the names and in the order of its sections.
 */
#ifndef NBD_PROTOCOL_H
#define NBD_PROTOCOL_H

#include <stdint.h>

/* ---- "Conventions" */

/* Bytes of the longest string: name, description, context, message. */
#define NBD_STRING_MAX 4096u

/* ---- "Newstyle negotiation", "Fixed newstyle negotiation"; sizes in bytes */

#define NBD_MAGIC              UINT64_C(0x4e42444d41474943) /* "NBDMAGIC" */
#define NBD_OPTION_MAGIC       UINT64_C(0x49484156454f5054) /* "IHAVEOPT" */
#define NBD_REP_MAGIC          UINT64_C(0x0003e889045565a9)

#define NBD_GREETING_SIZE      18 /* two magics, handshake flags */
#define NBD_CLIENT_FLAGS_SIZE  4
#define NBD_OPTION_HEADER_SIZE 16  /* magic, option, length */
#define NBD_REP_HEADER_SIZE    20  /* magic, option, type, length */
#define NBD_EXPORT_REPLY_SIZE  10  /* EXPORT_NAME: size, transmission flags, ... */
#define NBD_EXPORT_ZEROES      124 /* ... and these unless NO_ZEROES */

/* "Handshake flags" */
#define NBD_FLAG_FIXED_NEWSTYLE (1u << 0)
#define NBD_FLAG_NO_ZEROES      (1u << 1)

/* "Client flags" */
#define NBD_FLAG_C_FIXED_NEWSTYLE (1u << 0)
#define NBD_FLAG_C_NO_ZEROES      (1u << 1)

/* "Transmission flags" */
#define NBD_FLAG_HAS_FLAGS            (1u << 0)
#define NBD_FLAG_READ_ONLY            (1u << 1)
#define NBD_FLAG_SEND_FLUSH           (1u << 2)
#define NBD_FLAG_SEND_FUA             (1u << 3)
#define NBD_FLAG_ROTATIONAL           (1u << 4)
#define NBD_FLAG_SEND_TRIM            (1u << 5)
#define NBD_FLAG_SEND_WRITE_ZEROES    (1u << 6)
#define NBD_FLAG_SEND_DF              (1u << 7)
#define NBD_FLAG_CAN_MULTI_CONN       (1u << 8)
#define NBD_FLAG_SEND_RESIZE          (1u << 9)
#define NBD_FLAG_SEND_CACHE           (1u << 10)
#define NBD_FLAG_SEND_FAST_ZERO       (1u << 11)
#define NBD_FLAG_BLOCK_STATUS_PAYLOAD (1u << 12)

/* "Option types" */
enum nbd_opt {
	NBD_OPT_EXPORT_NAME = 1,
	NBD_OPT_ABORT = 2,
	NBD_OPT_LIST = 3,
	NBD_OPT_PEEK_EXPORT = 4, /* withdrawn */
	NBD_OPT_STARTTLS = 5,
	NBD_OPT_INFO = 6,
	NBD_OPT_GO = 7,
	NBD_OPT_STRUCTURED_REPLY = 8,
	NBD_OPT_LIST_META_CONTEXT = 9,
	NBD_OPT_SET_META_CONTEXT = 10,
	NBD_OPT_EXTENDED_HEADERS = 11,
};

/* "Option reply types" */
#define NBD_REP_ACK                 UINT32_C(1)
#define NBD_REP_SERVER              UINT32_C(2)
#define NBD_REP_INFO                UINT32_C(3)
#define NBD_REP_META_CONTEXT        UINT32_C(4)
#define NBD_REP_ERR(n)              (UINT32_C(0x80000000) + (n))
#define NBD_REP_ERR_UNSUP           NBD_REP_ERR(1)
#define NBD_REP_ERR_POLICY          NBD_REP_ERR(2)
#define NBD_REP_ERR_INVALID         NBD_REP_ERR(3)
#define NBD_REP_ERR_PLATFORM        NBD_REP_ERR(4)
#define NBD_REP_ERR_TLS_REQD        NBD_REP_ERR(5)
#define NBD_REP_ERR_UNKNOWN         NBD_REP_ERR(6)
#define NBD_REP_ERR_SHUTDOWN        NBD_REP_ERR(7)
#define NBD_REP_ERR_BLOCK_SIZE_REQD NBD_REP_ERR(8)
#define NBD_REP_ERR_TOO_BIG         NBD_REP_ERR(9)
#define NBD_REP_ERR_EXT_HEADER_REQD NBD_REP_ERR(10)

/* Information types of NBD_REP_INFO, and their lengths in bytes, the type included */
#define NBD_INFO_EXPORT          0
#define NBD_INFO_NAME            1
#define NBD_INFO_DESCRIPTION     2
#define NBD_INFO_BLOCK_SIZE      3
#define NBD_INFO_EXPORT_SIZE     12
#define NBD_INFO_BLOCK_SIZE_SIZE 14

/* ---- "Size constraints" */

#define NBD_MIN_BLOCK_MAX     (1u << 16) /* largest minimum that may be advertised */
#define NBD_PREFERRED_DEFAULT (1u << 12)
#define NBD_PAYLOAD_DEFAULT   (1u << 25) /* bytes; a server should accept any payload up to this */

/* ---- "base:allocation metadata context" */

#define NBD_BASE_ALLOCATION "base:allocation"
#define NBD_STATE_HOLE      (1u << 0)
#define NBD_STATE_ZERO      (1u << 1)

/* ---- QEMU's metadata contexts "qemu:dirty-bitmap:NAME" (docs/interop/nbd.txt of QEMU) */

#define NBD_DIRTY_BITMAP "qemu:dirty-bitmap:"
#define NBD_STATE_DIRTY  (1u << 0)

/* ---- "Request message"; sizes in bytes */

#define NBD_REQUEST_MAGIC          UINT32_C(0x25609513)
#define NBD_EXTENDED_REQUEST_MAGIC UINT32_C(0x21e41c71)
#define NBD_REQUEST_SIZE           28
#define NBD_EXTENDED_REQUEST_SIZE  32

/* "Request types" */
enum nbd_cmd {
	NBD_CMD_READ = 0,
	NBD_CMD_WRITE = 1,
	NBD_CMD_DISC = 2,
	NBD_CMD_FLUSH = 3,
	NBD_CMD_TRIM = 4,
	NBD_CMD_CACHE = 5,
	NBD_CMD_WRITE_ZEROES = 6,
	NBD_CMD_BLOCK_STATUS = 7,
};

/* "Command flags" */
#define NBD_CMD_FLAG_FUA         (1u << 0)
#define NBD_CMD_FLAG_NO_HOLE     (1u << 1)
#define NBD_CMD_FLAG_DF          (1u << 2)
#define NBD_CMD_FLAG_REQ_ONE     (1u << 3)
#define NBD_CMD_FLAG_FAST_ZERO   (1u << 4)
#define NBD_CMD_FLAG_PAYLOAD_LEN (1u << 5)

/* ---- Replies; sizes in bytes */

#define NBD_SIMPLE_REPLY_MAGIC     UINT32_C(0x67446698)
#define NBD_STRUCTURED_REPLY_MAGIC UINT32_C(0x668e33ef)
#define NBD_EXTENDED_REPLY_MAGIC   UINT32_C(0x6e8a278c)
#define NBD_SIMPLE_REPLY_SIZE      16
#define NBD_STRUCTURED_REPLY_SIZE  20
#define NBD_EXTENDED_REPLY_SIZE    32

/* "Structured and extended header reply flags" */
#define NBD_REPLY_FLAG_DONE (1u << 0)

/* "Structured reply types" */
#define NBD_REPLY_TYPE_NONE             0
#define NBD_REPLY_TYPE_OFFSET_DATA      1
#define NBD_REPLY_TYPE_OFFSET_HOLE      2
#define NBD_REPLY_TYPE_BLOCK_STATUS     5
#define NBD_REPLY_TYPE_BLOCK_STATUS_EXT 6
#define NBD_REPLY_TYPE_ERROR            0x8001
#define NBD_REPLY_TYPE_ERROR_OFFSET     0x8002

#define NBD_EXTENTS_MAX                 (1u << 20) /* extents of a BLOCK_STATUS chunk, at most */

/* "Error values" */
enum nbd_error {
	NBD_SUCCESS = 0,
	NBD_EPERM = 1,
	NBD_EIO = 5,
	NBD_ENOMEM = 12,
	NBD_EINVAL = 22,
	NBD_ENOSPC = 28,
	NBD_EOVERFLOW = 75,
	NBD_ENOTSUP = 95,
	NBD_ESHUTDOWN = 108,
};

#endif
