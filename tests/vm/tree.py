# SPDX-License-Identifier: BSD-3-Clause
"""A tree of files made in all the ways in which files come to be, and the check that it is still there.

    tree.py write DIRECTORY SEED [STEPS]   makes it
    tree.py check DIRECTORY SEED [STEPS]   works out again what was made, and compares

What must be there follows from the seed alone: nothing of it is taken from the file system that is looked at.
"""
import mmap
import os
import random
import sys

SIZES = (0, 1, 511, 512, 513, 4095, 4096, 4097, 20000, 65535, 131073, 300001)
BIG = 4  # MiB


class Model:
    """What the tree must hold."""

    def __init__(self):
        self.files = {}
        self.links = {}

    def write(self, name, offset, data, how):
        content = self.files.setdefault(name, bytearray())
        content.extend(bytes(max(0, offset + len(data) - len(content))))
        content[offset : offset + len(data)] = data

    def truncate(self, name, size):
        content = self.files[name]
        del content[size:]
        content.extend(bytes(size - len(content)))

    def rename(self, old, new):
        self.files[new] = self.files.pop(old)

    def remove(self, name):
        del self.files[name]

    def link(self, target, name):
        self.links[name] = target


class Tree(Model):
    """The same, done to real files as well."""

    def __init__(self, root):
        super().__init__()
        self.root = root

    def path(self, name):
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def write(self, name, offset, data, how):
        super().write(name, offset, data, how)
        fd = os.open(self.path(name), os.O_RDWR | os.O_CREAT, 0o644)
        if how == "mapped" and data:
            os.ftruncate(fd, len(self.files[name]))
            with mmap.mmap(fd, 0) as mapped:
                mapped[offset : offset + len(data)] = data
        else:
            while data:
                done = os.pwrite(fd, data, offset)
                data, offset = data[done:], offset + done
        if how == "synced":
            os.fsync(fd)
        os.close(fd)

    def truncate(self, name, size):
        super().truncate(name, size)
        os.truncate(self.path(name), size)

    def rename(self, old, new):
        super().rename(old, new)
        os.rename(self.path(old), self.path(new))

    def remove(self, name):
        super().remove(name)
        os.unlink(self.path(name))

    def link(self, target, name):
        super().link(target, name)
        os.symlink(target, self.path(name))


def make(tree, seed, steps):
    rng = random.Random(seed)
    pool = rng.randbytes((1 << 20) + 4096)  # to make all of it anew takes seconds in an emulated machine

    def data(size):
        start = rng.randrange(len(pool) - size)
        return pool[start : start + size]

    for step in range(steps):
        name = "/".join([f"d{rng.randrange(9)}" for _ in range(rng.randrange(4))] + [f"file{step}"])
        old = rng.choice(sorted(tree.files)) if tree.files else None
        kind = rng.randrange(12) if old else 0
        how = rng.choice(("plain", "plain", "plain", "mapped", "synced"))
        if kind < 6:
            tree.write(name, 0, data(rng.choice(SIZES)), how)
        elif kind == 6:
            tree.write(name, rng.randrange(1, 1 << 20), data(rng.choice(SIZES[1:])), how)  # a hole first
        elif kind < 9:
            offset = rng.randrange(len(tree.files[old]) + 1)
            tree.write(old, offset, data(rng.choice(SIZES[1:])), how)
        elif kind == 9:
            tree.truncate(old, rng.randrange(2 * len(tree.files[old]) + 1))
        elif kind == 10:
            tree.rename(old, name)
        elif step % 2:
            tree.remove(old)
        else:
            tree.link(old, name)
    for i in range(BIG):
        tree.write("big", i << 20, data(1 << 20), "plain")


def compare(root, model):
    found = set()
    for directory, _, names in os.walk(root):
        for name in names:
            found.add(os.path.relpath(os.path.join(directory, name), root))
    wanted = set(model.files) | set(model.links)
    for name in sorted(wanted - found):
        yield f"{name} is missing"
    for name in sorted(found - wanted):
        if not name.startswith("lost+found"):
            yield f"{name} is there, and should not be"
    for name in sorted(found & set(model.links)):
        if os.readlink(os.path.join(root, name)) != model.links[name]:
            yield f"the link {name} leads elsewhere"
    for name in sorted(found & set(model.files)):
        with open(os.path.join(root, name), "rb") as file:
            seen = file.read()
        content = model.files[name]
        if seen == content:
            continue
        at = next((i for i, (a, b) in enumerate(zip(seen, content)) if a != b), min(len(seen), len(content)))
        yield f"{name}: {len(seen)} bytes of {len(content)}, they differ from byte {at} on"


def main():
    what, root, seed = sys.argv[1:4]
    steps = int(sys.argv[4]) if len(sys.argv) > 4 else 100
    model = Tree(root) if what == "write" else Model()
    make(model, seed, steps)
    if what == "check":
        wrong = list(compare(root, model))
        if wrong:
            sys.exit("\n".join(wrong[:20] + [f"{len(wrong)} files are wrong in {root}"]))


main()
