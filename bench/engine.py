# SPDX-License-Identifier: BSD-3-Clause
"""The engine alone, without a server: runs of engine_load.c."""

import subprocess

NOT_HERE = 3  # engine-load's exit status if this machine or device lacks that way

# The settings of a run, and its results.
COLUMNS = (
    "part",
    "way",
    "depth",
    "contexts",
    "counter",
    "run",
    "position",
    "seconds",
    "reads",
    "iops",
    "p50_us",
    "p99_us",
    "submit_ns",
    "cpu_ns_per_read",
    "through_registered_buffers",
    "through_registered_files",
)


class EngineError(Exception):
    pass


class Engine:
    def __init__(self, program):
        self.program = program

    def run(self, path, seconds, way, *, depth=1, contexts=1, length=4096, direct=True, counter=None, submission=False):
        """Runs once on an image; returns a dict of COLUMNS. EngineError has the engine's own message."""
        command = [
            self.program,
            f"--way={way}",
            f"--depth={depth}",
            f"--contexts={contexts}",
            f"--length={length}",
            f"--seconds={seconds:g}",
            f"--direct-io={'on' if direct else 'off'}",
        ]
        if counter is not None:
            command.append(f"--counter={counter}")
        if submission:
            command.append("--submission")
        try:
            done = subprocess.run(
                command + [path],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=seconds + 60,
            )
        except (OSError, subprocess.TimeoutExpired) as e:
            raise EngineError(str(e)) from None
        if done.returncode != 0:
            reason = done.stderr.strip().removeprefix("engine-load: ").replace(path, "the image")
            raise EngineError(reason if done.returncode == NOT_HERE else f"engine-load failed: {reason}")
        reads, took, p50, p99, submit, cpu, buffers, files = (float(word) for word in done.stdout.split())
        if reads == 0:
            raise EngineError("engine-load read nothing")
        if way.endswith("buffers") and buffers < reads:
            raise EngineError("not all of the buffers could be registered with io_uring (see ulimit -l)")
        if way == "files" and files < reads:
            raise EngineError("the kernel registers no files")
        return {
            "way": way,
            "depth": depth,
            "contexts": contexts,
            "counter": counter,
            "seconds": took,
            "reads": int(reads),
            "iops": reads / took,
            "p50_us": p50 / 1000,
            "p99_us": p99 / 1000,
            "submit_ns": submit,
            "cpu_ns_per_read": cpu / reads * 1e9,
            "through_registered_buffers": int(buffers),
            "through_registered_files": int(files),
        }
