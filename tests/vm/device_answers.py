# SPDX-License-Identifier: BSD-3-Clause
"""How long a device does not answer.

    device_answers.py probe DEVICE OFFSET RECORD    begins a read and a write of 4 KiB every 50 ms, in the
                                                    64 blocks from OFFSET on, until SIGTERM; notes each in
                                                    RECORD when it is answered. Status 1: one has failed
    device_answers.py pause FROM TO RECORD          prints the longest time without an answer to a read, and
                                                    to a write, since FROM (seconds since 1970). Status 1:
                                                    none of those that were begun after TO has an answer yet
"""
import mmap
import os
import signal
import sys
import threading
import time

BLOCK, BLOCKS, PAUSE = 4096, 64, 0.05


class Probe:
    def __init__(self, device, offset, record):
        self.fd = os.open(device, os.O_RDWR | os.O_DIRECT)
        self.offset, self.record = offset, open(record, "w", buffering=1)
        self.failed, self.over = None, False

    def request(self, kind, number):
        buffer = mmap.mmap(-1, BLOCK)
        offset = self.offset + number % BLOCKS * BLOCK
        start = time.time()
        try:
            done = (os.preadv if kind == "read" else os.pwritev)(self.fd, [buffer], offset)
            assert done == BLOCK, done
        except (OSError, AssertionError) as error:
            self.failed = f"{kind} at {offset}: {error}"
            return
        self.record.write(f"{kind} {start:.3f} {time.time():.3f}\n")

    def run(self):
        threads, number = [], 0
        while not self.over and not self.failed:
            for kind in "read", "write":
                threads.append(threading.Thread(target=self.request, args=(kind, number)))
                threads[-1].start()
            number += 1
            threads = [thread for thread in threads if thread.is_alive()]
            time.sleep(PAUSE)
        for thread in threads:
            thread.join()
        return self.failed

    def end(self, *_):
        self.over = True


def pause(begin, end, record):
    with open(record) as file:
        requests = [line.split() for line in file]
    pauses = {}
    for kind in "read", "write":
        answers = sorted((float(answer), float(start)) for what, start, answer in requests if what == kind)
        if answers[-1][0] < begin or max(start for _, start in answers) < end:
            return f"no {kind} is answered yet"
        pauses[kind] = max(after[0] - before[0] for before, after in zip(answers, answers[1:]) if after[0] >= begin)
    print(*(f"{1000 * seconds:.0f} ms without a {kind}" for kind, seconds in pauses.items()), sep=", ")
    return None


if sys.argv[1] == "probe":
    probe = Probe(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    signal.signal(signal.SIGTERM, probe.end)
    sys.exit(probe.run())
sys.exit(pause(float(sys.argv[2]), float(sys.argv[3]), sys.argv[4]))
