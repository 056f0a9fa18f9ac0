# SPDX-License-Identifier: BSD-3-Clause
"""A recording of what a machine's /sys and /proc tell about its nbd devices, for tests.

    system_tree.py record DEVICE... >FILE    of this machine: nbd0 nbd1
    system_tree.py make FILE DIRECTORY       a copy of them in DIRECTORY/sys and DIRECTORY/proc

A line is "PATH: a line of the file" or "PATH -> TARGET", the paths without their first slash.
"""
import os
import sys

OF_DEVICE = ["dev", "size", "ro", "partscan", "queue/logical_block_size", "pid", "backend", "stat", "inflight"]
OF_PARTITION = ["dev", "partition"]


def record_file(path):
    try:
        with open(path, encoding="utf-8") as f:
            for line in f:
                print(f"{path[1:]}: {line}", end="")
    except OSError:
        pass


def record_links(directory):
    for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else []:
        print(f"{directory[1:]}/{name} -> {os.readlink(os.path.join(directory, name))}")


def record(devices):
    for device in devices:
        directory = f"/sys/block/{device}"
        for name in OF_DEVICE:
            record_file(f"{directory}/{name}")
        record_links(f"{directory}/holders")
        for name in sorted(os.listdir(directory)):
            if name.startswith(f"{device}p"):
                for own in OF_PARTITION:
                    record_file(f"{directory}/{name}/{own}")
                record_links(f"{directory}/{name}/holders")
    record_file("/proc/swaps")
    record_file("/proc/self/mountinfo")


def make(recording, directory):
    with open(recording, encoding="utf-8") as f:
        lines = [line for line in f if line.strip() and not line.startswith("#")]
    for line in lines:
        path, separator, rest = line.partition(": ")
        if not separator or " -> " in path:
            path, _, rest = line.partition(" -> ")
            separator = ""
        place = os.path.join(directory, path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if separator:
            with open(place, "a", encoding="utf-8") as f:
                f.write(rest)
        else:
            os.symlink(rest.rstrip("\n"), place)


if sys.argv[1] == "record":
    record(sys.argv[2:])
else:
    make(sys.argv[2], sys.argv[3])
