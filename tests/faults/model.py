# SPDX-License-Identifier: BSD-3-Clause
"""What may be in an image, byte for byte, while clients write to it and vanish.

The image is divided into slots of odd sizes, and a write covers whole slots, with a pattern of its own.  For each slot the model
knows the writes whose bytes may be there:

* One that was acknowledged replaces all that had come to their end before it was sent: these may not be seen any more.
* One that was not acknowledged (an error, or its connection was lost) may have been carried out in any part, and stands beside
  what was there before; with its end nothing more of it may come, or `grace` seconds after its client has closed.
"""

IMAGE = 4 << 20  # bytes that slots cover; the image may be larger
NEVER = float("inf")


class Write:
    """One write; times are those of time.monotonic()."""

    def __init__(self, pattern, start, who):
        self.pattern = pattern  # 8 bytes, repeated from each multiple of 8
        self.start = start
        self.end = NEVER
        self.good = False
        self.who = who

    def data(self, offset, length):
        skip = offset % 8
        return (self.pattern * (length // 8 + 2))[skip:skip + length]

    def __str__(self):
        state = "acknowledged" if self.good else "under way" if self.end == NEVER else "not acknowledged"
        return f"{self.who} ({state}, sent at {self.start:.3f}, ended at {self.end:.3f})"


class Slot:
    def __init__(self, offset, length):
        self.offset, self.length = offset, length
        self.entries = [[Write(b"\0" * 8, 0, "what was there first"), NEVER]]  # a write, and when it was replaced
        self.entries[0][0].end = 0
        self.gone = []  # the last ones that were replaced, to name them


class Model:
    def __init__(self, random):
        self.random = random
        self.slots = []
        offset = 0
        while offset < IMAGE:
            length = random.choice((1, 7, 100, 511, 512, 512, 700, 4096, 4096, 4096, 4096, 5000, 8192, 16384, 65536))
            if random.random() < 0.6:  # whole blocks of direct transfers, too
                length = max(4096 - offset % 4096, (length + offset) // 4096 * 4096 - offset)
            length = min(length, IMAGE - offset)
            self.slots.append(Slot(offset, length))
            offset += length

    def extent(self, run):
        first, last = self.slots[run[0]], self.slots[run[1] - 1]
        return first.offset, last.offset + last.length - first.offset

    def begin(self, run, start, who, zeroes=False):
        pattern = b"\0" * 8 if zeroes else self.random.randbytes(8)
        write = Write(pattern, start, who)
        for slot in self.slots[run[0]:run[1]]:
            slot.entries.append([write, NEVER])
        return write

    def acknowledged(self, run, write, now):
        write.good, write.end = True, now
        for slot in self.slots[run[0]:run[1]]:
            for entry in slot.entries:
                if entry[0] is not write and entry[0].end < write.start and entry[1] == NEVER:
                    entry[1] = now

    def forget(self, oldest):
        """What was replaced before the oldest read that is under way was sent can't be seen rightly any more."""
        for slot in self.slots:
            for entry in slot.entries:
                if entry[1] < oldest:
                    slot.gone.append(entry[0])
            slot.gone = slot.gone[-20:]
            slot.entries = [entry for entry in slot.entries if entry[1] >= oldest]

    def compare(self, run, data, since):
        """What is wrong with data that was read from the slots of a run by a read that was sent at `since`, or None."""
        base = self.slots[run[0]].offset
        for slot in self.slots[run[0]:run[1]]:
            seen = data[slot.offset - base:slot.offset - base + slot.length]
            wrong = self.compare_slot(slot, seen, since)
            if wrong:
                return wrong
        return None

    @staticmethod
    def compare_slot(slot, seen, since):
        allowed = [entry[0] for entry in slot.entries if entry[1] > since]
        wanted = [write.data(slot.offset, slot.length) for write in allowed]
        if seen in wanted:
            return None
        for i, byte in enumerate(seen):
            if all(one[i] != byte for one in wanted):
                break
        else:
            return None  # parts of several
        whose = "nobody's"
        for write in [entry[0] for entry in slot.entries] + slot.gone:
            if write.data(slot.offset, slot.length)[i:i + 8] == seen[i:i + 8]:
                whose = f"of {write}"
        return (f"wrong byte at {slot.offset + i} of the slot {slot.offset}+{slot.length}: {whose}; allowed: " +
                "; ".join(map(str, allowed)))
