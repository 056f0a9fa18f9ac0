# SPDX-License-Identifier: BSD-3-Clause
"""What is on a disk at each moment at which its power could fail.

    power_loss.py write CONFIG.json NAME MOUNTPOINT DEVICE LOGGED ROUNDS
    power_loss.py check DIRECTORY LOG TARGET COW CONFIG.json...

`write` writes files on the file system at MOUNTPOINT and blocks at the end of DEVICE, which has it, and
says in CONFIG.json what it wrote.  Whenever the kernel has told it that something is durable, it
puts a mark into the log of LOGGED, the dm-log-writes device under the image of DEVICE.

`check` makes from the log what was on that disk at each mark, and at the flushes in between, as if its cache
had lost everything that no flush and no FUA had asked for: dm-log-writes logs a write only when that
happens.  At each of these moments the file system of that disk is mounted as after a power
failure, then the one in the image; both have to be clean, and everything that was marked before has to be there.

The format of the log: drivers/md/dm-log-writes.c of the kernel.
"""
import ctypes
import errno
import fcntl
import hashlib
import json
import mmap
import os
import random
import stat
import struct
import subprocess
import sys

BLOCK = 4096
LEDGER = 64  # blocks of a file that exists before they are written again
RAW = 256    # blocks at the end of the device, after its file system

libc = ctypes.CDLL(None, use_errno=True)


def check_call(result, what):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def mount(source, target, kind, flags=0, data=""):
    check_call(libc.mount(source.encode(), target.encode(), kind.encode(), flags, data.encode()),
               f"mount {source} {target}")


def unmount(target):
    check_call(libc.umount2(target.encode(), 0), f"umount {target}")


class Mapper:
    """The device mapper's ioctls: a dmsetup for each step would take longer than the step."""

    CREATE, REMOVE, SUSPEND, LOAD, MESSAGE = 3, 4, 6, 9, 14

    def __init__(self):
        self.fd = os.open("/dev/mapper/control", os.O_RDWR)

    def call(self, number, name, payload=b"", targets=0):
        size = 312 + len(payload)
        header = struct.pack("<3I3Ii3IQ128s129s7x", 4, 0, 0, size, 312, targets, 0, 0, 0, 0, 0,
                             name.encode(), b"")
        buffer = bytearray(header + payload)
        fcntl.ioctl(self.fd, 3 << 30 | 312 << 16 | 0xfd << 8 | number, buffer, True)
        return struct.unpack_from("<Q", buffer, 40)[0]

    def message(self, name, text):
        self.call(self.MESSAGE, name, struct.pack("<Q", 0) + text.encode() + b"\0")

    def create(self, name, sectors, kind, parameters):
        number = self.call(self.CREATE, name)
        parameters = parameters.encode() + b"\0"
        parameters += bytes(-len(parameters) % 8)
        target = struct.pack("<QQiI16s", 0, sectors, 0, 40 + len(parameters), kind.encode())
        self.call(self.LOAD, name, target + parameters, 1)
        self.call(self.SUSPEND, name)  # which resumes, without its flag
        path = f"/dev/dm-{number & 0xff}"
        if not os.path.exists(path):
            os.mknod(path, 0o600 | stat.S_IFBLK, os.makedev(number >> 8 & 0xfff, number & 0xff))
        return path

    def remove(self, name):
        self.call(self.REMOVE, name)


def block(kind, place, generation):
    text = f"{kind} {place} {generation} ".encode()
    return text + random.Random(text).randbytes(BLOCK - len(text))


# ---- what is written


class Writer:
    def __init__(self, name, mountpoint, device, logged):
        self.name, self.mountpoint, self.logged = name, mountpoint, logged
        self.mapper = Mapper()
        self.random = random.Random(name)
        self.marks = {}
        self.count = 0
        for kind in "ledger", "table":
            with open(f"{mountpoint}/{kind}", "wb") as f:
                for place in range(LEDGER):
                    f.write(block(kind, place, 0))
                f.flush()
                os.fsync(f.fileno())
        direct = os.O_WRONLY | os.O_DIRECT | os.O_DSYNC
        self.ledger_fd = os.open(f"{mountpoint}/ledger", direct)
        self.table_fd = os.open(f"{mountpoint}/table", os.O_WRONLY)
        self.raw_fd = os.open(device, direct)
        self.raw_start = os.lseek(self.raw_fd, 0, os.SEEK_END) - RAW * BLOCK
        self.generations = {}
        self.aligned = mmap.mmap(-1, BLOCK)

    def mark(self, kind, *facts):
        self.count += 1
        text = f"{self.name}:{self.count}"
        self.mapper.message(self.logged, f"mark {text}")
        self.marks[text] = [kind, *facts]

    def write_file(self, number, synced):
        name = f"{'file' if synced else 'noise'}-{number}"
        data = self.random.randbytes(self.random.choice([100, 4096, 40000, 300000]))
        with open(f"{self.mountpoint}/{name}", "wb") as f:
            f.write(data)
            f.flush()
            if synced:
                os.fsync(f.fileno())
        if synced:
            self.mark("file", name, hashlib.sha256(data).hexdigest())

    def append(self, number):
        """A file that grows: fdatasync() has to bring its size along."""
        with open(f"{self.mountpoint}/journal", "ab") as f:
            f.write(block("journal", number, 1))
            f.flush()
            os.fdatasync(f.fileno())
        self.mark("journal", number)

    def write_block(self, kind, fd, start, places):
        """
        A write of the ledger becomes a FUA write, one of the device a FUA write and a flush.  One of the table is a
        plain write and a flush: nothing of the file changes but its data, so there is nothing for its journal.
        """
        place = self.random.randrange(places)
        generation = self.generations.get((kind, place), 0) + 1
        self.generations[kind, place] = generation
        self.aligned[:] = block(kind, place, generation)
        os.pwrite(fd, self.aligned, start + place * BLOCK)
        if kind == "table":
            os.fdatasync(fd)
        self.mark(kind, place, generation)

    def run(self, rounds):
        self.mark("start")
        for i in range(rounds):
            self.write_file(i, synced=False)
            self.write_file(i, synced=True)
            self.write_block("ledger", self.ledger_fd, 0, LEDGER)
            self.append(i)
            self.write_block("table", self.table_fd, 0, LEDGER)
            # Few places: some are written again.
            self.write_block("raw", self.raw_fd, self.raw_start, 4)
        for fd in self.ledger_fd, self.table_fd, self.raw_fd:
            os.close(fd)


def write(path, name, mountpoint, device, logged, rounds):
    writer = Writer(name, mountpoint, device, logged)
    writer.run(int(rounds))
    latest = [[kind, place, generation] for (kind, place), generation in writer.generations.items()]
    with open(path, "w") as f:
        json.dump({"name": name, "raw_start": writer.raw_start, "marks": writer.marks, "latest": latest}, f)


# ---- what survived


class Log:
    MAGIC = 0x6a736677736872
    FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8
    BLKZEROOUT = 0x127f

    def __init__(self, path, target):
        self.fd = os.open(path, os.O_RDONLY)
        self.target = os.open(target, os.O_RDWR)
        magic, version, self.entries, self.sector = struct.unpack("<QQQI", os.pread(self.fd, 28, 0))
        if magic != self.MAGIC or version != 1:
            raise SystemExit(f"{path} has no log of dm-log-writes")
        self.position = self.sector

    def replay_one(self):
        """Carries out the next entry, and returns its flags, and its text if it is a mark."""
        head = os.pread(self.fd, self.sector, self.position)
        sector, count, flags, length = struct.unpack_from("<4Q", head)
        self.position += self.sector
        self.entries -= 1
        if flags & self.MARK:
            return flags, head[32:32 + length].rstrip(b"\0").decode()
        size = count * self.sector
        if flags & self.DISCARD:
            fcntl.ioctl(self.target, self.BLKZEROOUT, struct.pack("<QQ", sector * self.sector, size))
        elif size:
            data = os.pread(self.fd, size, self.position)
            os.pwrite(self.target, data, sector * self.sector)
            self.position += size
        return flags, None


class Loop:
    SET_FD, CLR_FD, CTL_GET_FREE = 0x4C00, 0x4C01, 0x4C82

    def __init__(self, path):
        with open("/dev/loop-control", "rb") as control:
            self.path = f"/dev/loop{fcntl.ioctl(control, self.CTL_GET_FREE)}"
        self.fd = os.open(self.path, os.O_RDWR)
        image = os.open(path, os.O_RDWR)
        fcntl.ioctl(self.fd, self.SET_FD, image)
        os.close(image)

    def close(self):
        fcntl.ioctl(self.fd, self.CLR_FD)
        os.close(self.fd)


def fsck(device, what):
    done = subprocess.run(["e2fsck", "-fn", device], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        return [f"the file system of {what} is damaged: {done.stdout.decode(errors='replace')}"]
    return []


class Expected:
    """What of one configuration has been marked so far."""

    def __init__(self, path):
        with open(path) as f:
            facts = json.load(f)
        self.name, self.raw_start, self.marks = facts["name"], facts["raw_start"], facts["marks"]
        self.latest = {(kind, place): generation for kind, place, generation in facts["latest"]}
        self.files, self.blocks = {}, {}
        self.started = False

    def marked(self, text):
        kind, *facts = self.marks[text]
        if kind == "start":
            self.started = True
        elif kind == "file":
            self.files[facts[0]] = facts[1]
        elif kind == "journal":
            self.blocks["journal", facts[0]] = 1
        else:
            self.blocks[kind, facts[0]] = facts[1]

    def check_files(self, mountpoint):
        problems = []
        for name, wanted in self.files.items():
            try:
                with open(f"{mountpoint}/{name}", "rb") as f:
                    if hashlib.sha256(f.read()).hexdigest() != wanted:
                        problems.append(f"{name}, whose fsync() had returned, has other contents")
            except OSError as error:
                problems.append(f"{name}, whose fsync() had returned: {error.strerror}")
        return problems

    def check_blocks(self, mountpoint, image):
        problems = []
        wrote = {"ledger": "an O_DSYNC write in a file", "journal": "an fdatasync() of a longer file",
                 "table": "an fdatasync()", "raw": "an O_DSYNC write on the device"}
        for (kind, place), generation in self.blocks.items():
            path, start = (image, self.raw_start) if kind == "raw" else (f"{mountpoint}/{kind}", 0)
            try:
                with open(path, "rb") as f:
                    f.seek(start + place * BLOCK)
                    seen = f.read(BLOCK)
            except OSError as error:
                problems.append(f"{kind}: {error.strerror}")
                continue
            later = range(generation, self.latest.get((kind, place), generation) + 1)
            if seen not in [block(kind, place, i) for i in later]:
                problems.append(f"block {place} of {kind} is older than {wrote[kind]} that had returned: "
                                f"generation {generation}, seen {seen[:24]!r}")
        return problems


class Checker:
    def __init__(self, directory, log, target, cow, configurations):
        self.directory, self.target, self.cow = directory, target, cow
        self.mapper = Mapper()
        self.log = Log(log, target)
        self.expected = {e.name: e for e in map(Expected, configurations)}
        self.cuts = 0
        self.outer, self.inner = f"{directory}/outer", f"{directory}/inner"
        for path in self.outer, self.inner:
            os.makedirs(path, exist_ok=True)
        self.sectors = os.lseek(self.log.target, 0, os.SEEK_END) // 512

    def check_image(self, expected):
        image = f"{self.outer}/{expected.name}.img"
        loop = Loop(image)
        try:
            try:
                mount(loop.path, self.inner, "ext4")
            except OSError as error:
                return [f"the file system in the image can't be mounted: {error.strerror}"]
            problems = expected.check_files(self.inner) + expected.check_blocks(self.inner, loop.path)
            unmount(self.inner)
            return problems + fsck(loop.path, "the image")
        finally:
            loop.close()

    def check_disk(self, disk, expected):
        try:
            mount(disk, self.outer, "ext4")
        except OSError as error:
            return [f"the file system under the image can't be mounted: {error.strerror}"]
        try:
            problems = self.check_image(expected)
        except OSError as error:
            problems = [str(error)]
        unmount(self.outer)
        # Mounting it has checked most already.
        if self.cuts % 4 == 0:
            problems += fsck(disk, "the disk under the image")
        return problems

    def cut(self, expected, when):
        """What is mounted writes: to a snapshot, so that the log goes on where it was."""
        self.cuts += 1
        os.fsync(self.log.target)
        disk = self.mapper.create("cut", self.sectors, "snapshot", f"{self.target} {self.cow} N 8")
        problems = self.check_disk(disk, expected)
        self.mapper.remove("cut")
        if problems:
            raise SystemExit(f"power cut {when}:\n" + "\n".join(problems[:8]))

    def run(self):
        current, last, flushes = None, "the start", 0
        while self.log.entries:
            flags, mark = self.log.replay_one()
            if mark is None:
                if not flags & (Log.FLUSH | Log.FUA):
                    continue
                flushes += 1
                # Some of those between two marks; right before a mark nothing happens that the mark
                # won't show.
                if current and current.started and flushes % 5 == 0:
                    self.cut(current, f"at flush or FUA write {flushes} after {last}")
                continue
            name = mark.rpartition(":")[0]
            if name not in self.expected:
                continue
            current = self.expected[name]
            current.marked(mark)
            last = f"{mark} ({current.marks[mark][0]})"
            self.cut(current, f"at the mark {last}")
            flushes = 0
        for expected in self.expected.values():
            self.cut(expected, "at the end")
            wanted, seen = len(expected.marks), sum(1 for _ in expected.files)
            if not seen or not wanted:
                raise SystemExit(f"nothing of {expected.name} is in the log")
        print(f"{self.cuts} power cuts, nothing lost")


def main():
    command, *arguments = sys.argv[1:]
    if command == "write":
        write(*arguments)
    else:
        directory, log, target, cow, *configurations = arguments
        Checker(directory, log, target, cow, configurations).run()


if __name__ == "__main__":
    main()
