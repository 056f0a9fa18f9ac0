# SPDX-License-Identifier: BSD-3-Clause
"""fio, the client of every cell, over NBD or on the image itself."""

import json
import os
import resource
import subprocess

# Seconds that fio may take beyond --seconds, for its start and the last flush.
GRACE_SECONDS = 300


class ClientError(Exception):
    pass


def fio_command(cell, image, seconds, seed, target):
    """One job is one connection; each has its own part of the image.

    A run ends after `seconds` or when every block of the image was touched
    once, whichever comes first: a second pass would be served from the page
    cache by the servers that use it. Writes end with a flush, which counts.
    """
    part = image.size // cell.connections // cell.block * cell.block
    command = [
        "fio", "--name=bench", "--thread", "--group_reporting", "--output-format=json",
        f"--rw={cell.kind.rw}", f"--bs={cell.block}", f"--iodepth={cell.depth}",
        f"--numjobs={cell.connections}", f"--size={part}", f"--offset_increment={part}",
        f"--runtime={round(seconds * 1000)}ms", f"--randseed={seed}",
        "--clat_percentiles=0", "--lat_percentiles=1", "--percentile_list=50:99:99.9",
        *cell.kind.options,
    ]
    if cell.kind.mixed:
        command.append("--unified_rw_reporting=mixed")
    if cell.writes:
        command.append("--end_fsync=1")
    return command + target


def target_nbd(uri):
    return ["--ioengine=nbd", f"--uri={uri}"]


def target_raw(path, engine):
    return [f"--ioengine={engine}", f"--filename={path}", "--direct=1",
            "--fallocate=none", "--allow_file_create=0"]


def fio_run(command, seconds):
    """Runs fio; returns its figures, or raises with its own message."""
    before = children_cpu()
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", timeout=seconds + GRACE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise ClientError(f"fio did not end within {seconds + GRACE_SECONDS} s") from None
    said = done.stderr.strip()
    # The nbd engine prints a line per connection before the JSON.
    start = done.stdout.find("{\n")
    if done.returncode != 0 or start < 0:
        raise ClientError(f"fio failed (status {done.returncode}): {said or done.stdout[:400]}")
    job = json.loads(done.stdout[start:])["jobs"][0]
    side = next((job[s] for s in ("mixed", "write", "read") if job.get(s, {}).get("total_ios")), {"total_ios": 0})
    # fio may fail to connect and still exit with 0.
    if job["error"] or not side["total_ios"] or not side["runtime"]:
        raise ClientError(f"fio did no I/O (error {job['error']}): {said}")
    percentiles = side["lat_ns"]["percentile"]
    run_s = side["runtime"] / 1000
    return {
        "seconds": run_s,
        "ios": side["total_ios"],
        "ios_per_flush": side["total_ios"] / job["sync"]["total_ios"] if job.get("sync", {}).get("total_ios") else None,
        "bytes": side["io_bytes"],
        "iops": side["total_ios"] / run_s,
        "mb_s": side["io_bytes"] / run_s / 1e6,
        "p50_us": percentiles["50.000000"] / 1000,
        "p99_us": percentiles["99.000000"] / 1000,
        "p999_us": percentiles["99.900000"] / 1000,
        "client_cpu_s": (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] / 1000,
        "client_process_cpu_s": children_cpu() - before,     # its start and end are included
        "client_switches": job["ctx"],
    }


def children_cpu():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def raw_engine(image):
    """io_uring if this machine allows it, else libaio."""
    for engine in ("io_uring", "libaio"):
        probe = ["fio", "--name=probe", "--thread", "--output-format=json", "--rw=read",
                 "--bs=4096", "--size=4096"] + target_raw(image.path, engine)
        done = subprocess.run(probe, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False)
        if done.returncode == 0:
            return engine
    raise ClientError(f"fio cannot read {os.path.basename(image.path)} with O_DIRECT by io_uring "
                      f"or libaio: {done.stderr.strip()[:400]}")
