# SPDX-License-Identifier: BSD-3-Clause
"""What all kinds of faults have."""
from model import IMAGE


class Kind:
    """One run of it.  `vanish` is the part of the turns of the load in which a client vanishes."""
    library = None
    vanish = 0.0
    clients = 6  # of the load
    size = IMAGE + (1 << 20)  # of the image, bytes
    place = None  # a directory for the image
    harmless = False  # no client may see an error
    told = False  # the log says something when it was reached
    servers = ("nbdloopd", "nbdkit")
    engines = ("io_uring", "aio", "threads")

    def __init__(self, random, server, engine):
        self.random, self.server, self.engine = random, server, engine
        self.what = ""  # for the reader of a finding

    def prepare(self, target):
        """Before the server starts."""

    def begin(self, target):
        """It serves."""

    def goes_on(self):
        """The load is not to end yet."""
        return False

    def end(self, target):
        """No more faults."""
        target.shared.set(armed=0)

    def reached(self, target, load):
        return sum(target.shared.counts().values())
