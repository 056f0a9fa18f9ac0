# SPDX-License-Identifier: BSD-3-Clause
"""The base of all kinds of faults."""
from model import IMAGE


class Kind:
    """One run under a kind of fault. `vanish`: in this part of the load's turns, a client vanishes."""
    library = None
    vanish = 0.0
    clients = 6  # clients of the load
    size = IMAGE + (1 << 20)  # of the image, in bytes
    place = None  # directory for the image; None: the target's own
    harmless = False  # no client may see an error, and the server must start
    told = False  # the log must report it when the fault was injected
    servers = ("nbdloopd", "nbdkit")
    engines = ("io_uring", "aio", "threads")

    def __init__(self, random, server, engine):
        self.random, self.server, self.engine = random, server, engine
        self.what = ""  # describes the faults in a finding

    def prepare(self, target):
        """Called before the server starts."""

    def begin(self, target):
        """Called when the server serves."""

    def goes_on(self):
        """Whether the load must not end yet."""
        return False

    def end(self, target):
        """Called before the server is told to end: injects no more faults."""
        target.shared.set(armed=0)

    def reached(self, target, load):
        return sum(target.shared.counts().values())
