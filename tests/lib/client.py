# SPDX-License-Identifier: BSD-3-Clause
"""Functions that clients of libnbd share. (raw_nbd.py: clients that compose the bytes themselves.)"""
import nbd

from waiting import wait_until


def connect(where, name=None, structured=True, allocation=False, unaligned=False):
    """A connected handle.  `where`: an NBD URI, or the path of a unix socket.

    `name`: the export's, on a unix socket; `structured`: structured replies are asked for;
    `allocation`: so is the context base:allocation; `unaligned`: any offset and length may be sent.
    """
    h = nbd.NBD()
    h.set_request_structured_replies(structured)
    if name is not None:
        h.set_export_name(name)
    if allocation:
        h.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
    if unaligned:
        h.set_strict_mode(h.get_strict_mode() & ~nbd.STRICT_ALIGN)
    if where.startswith("/"):
        h.connect_unix(where)
    else:
        h.connect_uri(where)
    return h


def send_all(h):
    """Sends what the handle has queued."""
    while h.aio_get_direction() & nbd.AIO_DIRECTION_WRITE:
        h.aio_notify_write()


def noting(results, what):
    """A completion callback that appends (what, error) to `results`."""
    def completion(err):
        results.append((what, err.value))
        return 1
    return completion


def take(h):
    """Receives until nothing is in flight."""
    while h.aio_in_flight() > 0:
        h.poll(1000)


def is_over(h):
    return h.aio_is_dead() or h.aio_is_closed()


def wait_for_end(h):
    """Receives until the server has closed the connection."""
    def over():
        try:
            if not is_over(h):
                h.poll(1000)
        except nbd.Error:
            return True
        return is_over(h)
    wait_until("the connection ends", over, pause=0)
