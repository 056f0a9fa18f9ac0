# SPDX-License-Identifier: BSD-3-Clause
"""The sections of bench/run that are made of cells and servers, for --quick and for --full.

Peers run with their best known settings: for nbdkit as many threads as requests, 64 threads for
nbd-server, direct I/O and io_uring (or native AIO) for QEMU, and a unix socket for all.
"""

import itertools

from grid import Grid

POOL = "file:threads=64"
ALONE = "file:threads=1"
PLUGIN = "loop:threads=64"
BUFFERED_DEVICE = "loop-device:direct-io=off"

PEERS = (
    "file",
    "file-none",
    "qemu-nbd",
    "qemu-nbd-native",
    "qemu-storage-daemon",
    "nbd-server",
    "loop-device",
    BUFFERED_DEVICE,
    "raw",
)


def cell_name(workload, depth, connections):
    """nbdkit has 16 threads for each connection by default."""
    return f"{workload}/d{depth}/c{connections}" + (f"/t{depth}" if depth > 16 else "")


def memory_grid(quick):
    servers = ("nbdloopd", "nbdloopd:direct-io=off", "loop-device", BUFFERED_DEVICE)
    if not quick:
        servers += ("loop", "loop:direct-io=off")
    pairs = (
        ("nbdloopd", "nbdloopd:direct-io=off"),
        ("loop-device", BUFFERED_DEVICE),
        ("nbdloopd", "loop-device"),
        ("nbdloopd", BUFFERED_DEVICE),
    )
    workloads = ("randread", "randwrite") if quick else ("randread", "read", "randwrite", "write")
    return Grid(
        "S1",
        "direct and buffered, four synchronous jobs",
        'After Linux commit bc07c10a36 ("block: loop: support DIO & AIO"): what direct I/O to the image is worth. '
        "Four jobs, "
        "each with one request under way (psync), each with its own part of the disk: over NBD by fio's nbd engine "
        "with one connection for each job, and on the kernel's loop device. There is no file system inside here, "
        "since this part needs no kernel client: the growth of Cached is the image's alone. Direct should have less "
        "in memory and fewer context switches.",
        tuple(f"{workload}-4k/d1/c4" for workload in workloads),
        servers,
        "nbdloopd:direct-io=off",
        pairs,
        raw="psync",
        memory=True,
    )


def connections_grid(quick, counts):
    servers = ("nbdloopd", "file") if quick else ("nbdloopd", "loop", "file", "qemu-nbd", "raw")
    workloads = ("randread",) if quick else ("randread", "mixed")
    return tuple(
        Grid(
            "S3" if workload == "randread" else "S3-mixed",
            f"{name} over more and more connections",
            "After Linux commit fe0f07d08e (i_dio_count): what one connection does, several should do several times, "
            "until the processors or the disk are used up. Each connection keeps 32 requests in flight.",
            tuple(cell_name(f"{workload}-4k", 32, count) for count in counts),
            servers,
            "file",
            tuple(("nbdloopd", peer) for peer in servers[1:]),
            over="connections",
        )
        for workload, name in (("randread", "4 KiB random reads"), ("mixed", "4 KiB random, 70 % reads"))
        if workload in workloads
    )


def concurrency_grid(quick):
    servers = (ALONE, POOL, PLUGIN, "nbdloopd", "nbdloopd-unmerged") + (() if quick else ("raw",))
    return Grid(
        "S4",
        "one request at a time, a pool, merging",
        'After Linux commit b5dd2f6047 ("block: loop: improve performance via blk-mq"): 4 KiB at depth 64, '
        "one job, one "
        f"connection. `{ALONE}` is a server with a single thread, `{POOL}` nbdkit's pool of threads, `{PLUGIN}` the "
        "plugin in the same pool; `nbdloopd-unmerged` is nbdloopd built for this bench so that it merges no adjacent "
        "requests. In the kernel, blk-mq made random reads many times faster, and writes neither slower nor faster.",
        tuple(f"{workload}-4k/d64/c1" for workload in ("randread", "read", "randwrite", "write")),
        servers,
        ALONE,
        (("nbdloopd", ALONE), ("nbdloopd", POOL), ("nbdloopd", "nbdloopd-unmerged"), (PLUGIN, POOL)),
    )


def cache_grid(quick):
    keep, drop = (f"nbdloopd:direct-io=off:page-cache={pages}" for pages in ("keep", "drop"))
    peers = ("file", "nbd-server")
    cells = (cell_name("randwrite-4k", 32, 1),)
    if not quick:
        cells = tuple(
            cell_name(f"{pattern}-4k", depth, 1) for pattern in ("randwrite", "flush") for depth in (1, 8, 32, 128)
        )
        cells += (cell_name("randread-4k", 32, 1), cell_name("read-1m", 8, 1), cell_name("write-1m", 8, 1))
    return Grid(
        "Cache",
        "bursts of small writes, and the pages that they leave",
        "Servers that use the page cache answer small writes before a disk has them. `page-cache=drop` should keep up "
        "with them, and leave as few pages of the image as direct I/O: see the column `page cache`.",
        cells,
        ("nbdloopd", keep, drop) + peers,
        "file",
        tuple((ours, peer) for ours in (drop, "nbdloopd") for peer in peers) + ((drop, keep), (drop, "nbdloopd")),
    )


def peers_grid(quick):
    cells = (cell_name("randread-4k", 32, 1), cell_name("mixed-4k", 32, 4))
    if not quick:
        cells = tuple(
            cell_name(f"{pattern}-{block}", depth, count)
            for pattern, block, count, depth in itertools.product(
                ("randread", "randwrite", "mixed", "flush"), ("4k", "64k", "1m"), (1, 4), (1, 8, 32, 128)
            )
        )
    return Grid(
        "Peers",
        "what else could be used",
        "Each peer at its best known settings, on the same image. `raw` is fio on the image without any server, and "
        "`loop-device` the kernel's own loop driver with fio on the device: neither passes a socket, and their CPU is "
        "in no column. `tN` in a cell's name is nbdkit's -t. `loop-device:direct-io=off` is the buffered one.",
        cells,
        ("nbdloopd", "loop") + PEERS,
        "file",
        tuple(("nbdloopd", peer) for peer in PEERS) + (("loop", "file"),),
    )
