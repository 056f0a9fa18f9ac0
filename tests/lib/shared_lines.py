# SPDX-License-Identifier: BSD-3-Clause
"""Tells which cache lines several threads of a program used, from what shared_lines.c has counted.

    shared_lines.py PROGRAM RECORD FUNCTION REQUESTS [total]

Looks at the threads that begin in FUNCTION ("worker/worker.c:worker_main"), of which each has served
REQUESTS meanwhile.  Prints how often they wrote the same lines, and by which functions.

Fails when two of them wrote one line more often than once in 100 requests, or one so often found a line written that it
read; with "total", also when all lines together were written by two so often.
"""
import collections
import subprocess
import sys

PER_REQUESTS = 100
SHOWN = 10  # lines


class Code:
    """Functions and source lines of code addresses."""

    def __init__(self, program):
        self.program = program
        self.names = {}

    def learn(self, addresses):
        """Looks up all addresses together: addr2line takes long to start."""
        # The recorded address is the one after the access.
        asked = "".join(f"{address - 1:#x}\n" for address in addresses)
        said = subprocess.run(["addr2line", "-afie", self.program], input=asked, capture_output=True,
                              text=True, check=True).stdout.splitlines()
        for line in said:
            if line.startswith("0x"):
                address = int(line, 16) + 1
                frames = self.names[address] = []
            else:
                frames.append(line)

    def name(self, address):
        """FUNCTION, the outermost one of inlined functions, and its source file with one directory."""
        frames = self.names[address]
        file, _, number = frames[1].split(" (")[0].rpartition(":")
        return f"{'/'.join(file.split('/')[-2:])}:{number} {' in '.join(frames[0:3:2])}"

    def function(self, address):
        """DIRECTORY/FILE:FUNCTION that an address belongs to, whatever is inlined there."""
        name, place = self.names[address][-2:]
        return f"{'/'.join(place.rpartition(':')[0].split('/')[-2:])}:{name}"


class Use:
    """The accesses of a thread to a line."""

    def __init__(self):
        self.count = {"read": 0, "write": 0}
        self.turns = {"read": 0, "write": 0}  # accesses after another thread's write
        self.places = {"read": [], "write": []}


class Record:
    def __init__(self, path):
        self.threads = {}
        self.lines = collections.defaultdict(lambda: collections.defaultdict(Use))
        self.lost = None
        with open(path) as file:
            for kind, *words in map(str.split, file):
                getattr(self, "take_" + kind)(*words)

    def take_thread(self, number, code):
        self.threads[int(number)] = int(code, 16)

    def take_line(self, address, thread, access, count, turns, *places):
        use = self.lines[int(address, 16)][int(thread)]
        use.count[access] = int(count)
        use.turns[access] = int(turns)
        use.places[access] = [int(place, 16) for place in places if place != "0"]

    def take_lost(self, count):
        self.lost = int(count)

    def addresses(self):
        uses = [use for line in self.lines.values() for use in line.values()]
        return {*self.threads.values(), *(place for use in uses for places in use.places.values() for place in places)}


def written_by_two(uses):
    """How often at least two of the threads wrote it."""
    return sorted((use.count["write"] for use in uses), reverse=True)[1]


def found_written(uses):
    """How often one thread read what another one had written since its last read."""
    return max(use.turns["read"] for use in uses)


def show(code, address, line):
    print(f"  line {address:#x}")
    for thread, use in sorted(line.items()):
        for access, count in use.count.items():
            if count:
                print(f"    thread {thread}: {count} {access}s, {use.turns[access]} after another's write:"
                      f" {', '.join(map(code.name, use.places[access]))}")


class Judge:
    def __init__(self, code, record, function, requests):
        loops = {number for number, place in record.threads.items() if code.function(place) == function}
        self.code, self.requests = code, requests
        self.lines = {address: {thread: use for thread, use in line.items() if thread in loops}
                      for address, line in record.lines.items()}
        self.shared = {address: line for address, line in self.lines.items() if len(line) > 1}
        self.loops = loops
        self.failed = False

    def too_often(self, count):
        return count * PER_REQUESTS > self.requests

    def complain(self, text):
        print(f"FAILED: {text}")
        self.failed = True

    def check_that_it_saw(self):
        """A thread that serves requests writes to memory for each request."""
        if len(self.loops) < 2:
            self.complain(f"{len(self.loops)} of the threads are those that were asked for")
        for loop in sorted(self.loops):
            most = max((line[loop].count["write"] for line in self.lines.values() if loop in line), default=0)
            if most < self.requests * 0.9:
                self.complain(f"thread {loop} wrote no line more than {most} times")

    def check_lines(self, what, measure):
        counts = {address: measure(line.values()) for address, line in self.shared.items()}
        bad = sum(map(self.too_often, counts.values()))
        total = sum(counts.values())
        print(f"{what}: {sum(count > 0 for count in counts.values())} lines,"
              f" {100 * total / self.requests:.2f} times in 100 requests, of one line at most"
              f" {100 * max(counts.values(), default=0) / self.requests:.2f}")
        if bad:
            self.complain(f"{what} too often: {bad} lines")
        for address in sorted(counts, key=counts.get, reverse=True)[:SHOWN]:
            if counts[address]:
                show(self.code, address, self.shared[address])
        return total

    def tell_turns(self):
        turns = sum(use.turns["write"] for line in self.shared.values() for use in line.values())
        print(f"writes after another thread's: {100 * turns / self.requests / len(self.loops):.2f} in 100 requests")


def main():
    program, path, function, requests = sys.argv[1:5]
    record = Record(path)
    code = Code(program)
    code.learn(record.addresses())
    judge = Judge(code, record, function, int(requests))
    if record.lost != 0:
        judge.complain(f"{record.lost} accesses were not counted")
    judge.check_that_it_saw()
    total = judge.check_lines("written by two threads", written_by_two)
    judge.check_lines("read after another thread's write", found_written)
    judge.tell_turns()
    if sys.argv[5:] == ["total"] and judge.too_often(total):
        judge.complain("written by two threads too often: all lines together")
    sys.exit(judge.failed)


main()
