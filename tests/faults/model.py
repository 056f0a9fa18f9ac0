# SPDX-License-Identifier: BSD-3-Clause
"""What each byte of an image may be, while clients write to the image and vanish.

The image is divided into slots of odd sizes. A write covers whole slots, with a pattern of its own.
For each slot, the model knows the writes whose bytes may be there:

* An acknowledged write replaces all writes that had ended before it was sent: their bytes may not
  be seen any more.
* A write that was not acknowledged (it got an error, or its connection was lost) may have been
  carried out in any part: its bytes and the older ones may both be seen.  After its end, nothing of
  it may reach the image.  The write of a client that closed ends `grace` seconds later.
"""

IMAGE = 4 << 20  # bytes that the slots cover; the image may be larger
NEVER = float("inf")


class Write:
    """One write; times are those of time.monotonic()."""

    def __init__(self, pattern, start, who):
        self.pattern = pattern  # 8 bytes, repeated at each multiple of 8
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
        self.gone = []  # the writes that were replaced last; findings name them


class Model:
    def __init__(self, random):
        self.random = random
        self.slots = []
        offset = 0
        while offset < IMAGE:
            length = random.choice((1, 7, 100, 511, 512, 512, 700, 4096, 4096, 4096, 4096, 5000, 8192, 16384, 65536))
            if random.random() < 0.6:  # makes whole blocks, too, for direct I/O
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
        """Forgets writes that no read may see: they were replaced before the oldest read in flight
        was sent.
        """
        for slot in self.slots:
            for entry in slot.entries:
                if entry[1] < oldest:
                    slot.gone.append(entry[0])
            slot.gone = slot.gone[-20:]
            slot.entries = [entry for entry in slot.entries if entry[1] >= oldest]

    def compare(self, run, data, since):
        """Compares the data of a read from a run of slots, which was sent at `since`; returns what
        is wrong, or None.
        """
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
            return None  # parts of several writes
        whose = "nobody's"
        for write in [entry[0] for entry in slot.entries] + slot.gone:
            if write.data(slot.offset, slot.length)[i:i + 8] == seen[i:i + 8]:
                whose = f"of {write}"
        return (f"wrong byte at {slot.offset + i} of the slot {slot.offset}+{slot.length}: {whose}; allowed: " +
                "; ".join(map(str, allowed)))
