# SPDX-License-Identifier: BSD-3-Clause
"""Waiting with a time limit."""
import os
import time

FACTOR = int(os.environ.get("NBDLOOP_TIME_FACTOR", 1))
TIMEOUT = 60 * FACTOR  # seconds; for a machine that is busy with other tests, or whose disk is slow


def wait_until(what, true, seconds=TIMEOUT, pause=0.02, seen=None):
    """Returns as soon as `true()` is true; after `seconds`, fails with `what` and the value of `seen()`."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"waited in vain until {what}" + (f": {seen()}" if seen else "")
        time.sleep(pause)
