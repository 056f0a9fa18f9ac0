# SPDX-License-Identifier: BSD-3-Clause
"""Many: a server of many exports with as many idle clients, beside a server of one."""

import contextlib
import os
import resource
import socket
import struct
import subprocess
import tempfile

import memory
import rounds as rounds_module
import server as server_module
import table

ONE, MANY = "one export", "many exports"
COLUMNS = ("server", "run", "position", "rate", "server_us", "client_us")
IMAGE_BYTES = 1 << 20       # of an idle client's image, which is a hole
ROUNDS_PER_RUN = 4          # the difference is small: short turns, and many

OPTION_MAGIC = 0x49484156454F5054
OPT_GO = 7
REP_ACK = 1
CMD_READ = 0

TEXT = (
    "Two servers run at the same time: one has a single export, the other many, and an idle client on each of them, "
    "which has read a block once. One busy client reads 512 bytes of an image in memory, 32 reads under way "
    "(bench/load.c), from one of the two in turn. The rates should agree within 3 %. The images of the idle clients "
    "are on the disk, with direct I/O, so each of them has a context (ring, chunks, bounce buffers) in one thread."
)


class IdleClient:
    """A connection to an export, in the form of simple replies, without any request in flight."""

    def __init__(self, path, name):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self._take(18)
        payload = struct.pack(">I", len(name)) + name.encode() + struct.pack(">H", 0)
        self.socket.sendall(struct.pack(">I", 3) + struct.pack(">QII", OPTION_MAGIC, OPT_GO, len(payload)) + payload)
        while (reply := self._take_option_reply()) != REP_ACK:
            if reply & 1 << 31:
                raise server_module.ServerError(f"export '{name}' was refused: 0x{reply:x}")

    def _take(self, length):
        data = b""
        while len(data) < length:
            part = self.socket.recv(length - len(data))
            if not part:
                raise server_module.ServerError("the server has closed the connection of an idle client")
            data += part
        return data

    def _take_option_reply(self):
        _, _, reply, length = struct.unpack(">QIII", self._take(20))
        self._take(length)
        return reply

    def read_block(self):
        self.socket.sendall(struct.pack(">IHHQQI", 0x25609513, 0, CMD_READ, 1, 0, 4096))
        error = struct.unpack(">IIQ", self._take(16))[1]
        if error:
            raise server_module.ServerError(f"the read of an idle client failed: error {error}")
        self._take(4096)

    def close(self):
        self.socket.close()


class ManyServer(server_module.Server):
    """nbdloopd with a busy export, which has no name, and `count` others."""

    def __init__(self, label, program, image, directory, count):
        super().__init__("nbdloopd", {"nbdloopd": program}, [])
        self.label = label
        self.config = os.path.join(directory, "nbdloopd.conf")
        with open(self.config, "w", encoding="utf-8") as f:
            f.write(f"[server]\nmax-connections = 0\n[export]\nfile = {image}\ndirect-io = off\nread-only = on\n")
            for n in range(count):
                path = os.path.join(directory, f"{n}.img")
                with open(path, "wb") as other:
                    other.truncate(IMAGE_BYTES)
                f.write(f"[export {n}]\nfile = {path}\n")

    def command(self, image, directory, threads):
        words = super().command(image, directory, threads)
        return words[:-1] + ["--config", self.config]


class Many:
    def __init__(self, bench, count, seconds):
        self.bench = bench
        self.count = count
        self.seconds = seconds
        self.runs = []
        self.memory = []        # (what, RSS, address space), in bytes
        self.sheet = bench.report.sheet("many.csv", COLUMNS)

    def run(self):
        try:
            with contextlib.ExitStack() as stack:
                self._run(stack)
        except (OSError, server_module.ServerError) as e:
            self.bench.report.failures.append(rounds_module.Failure("Many", "nbdloopd", str(e)))

    def _start(self, stack, label, image, count):
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="many-", dir=self.bench.scratch))
        server = ManyServer(label, self.bench.programs["nbdloopd"], image.path, directory, count)
        running = server_module.Running(server, image, directory, None)
        stack.callback(running.kill)
        return running

    def _note(self, what, running):
        running.quiesce()
        self.memory.append((what, running.memory("VmRSS"), running.memory("VmSize")))

    def _idle_clients(self, stack, running, names):
        clients = [IdleClient(running.socket, name) for name in names]
        for one in clients:
            stack.callback(one.close)
        return clients

    def _run(self, stack):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        image = memory.MemoryImage(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-run-", dir=memory.DIRECTORY))
        )
        rounds_module.progress(f"Many, {self.count} exports")
        others = [str(n) for n in range(self.count - 1)]
        with contextlib.ExitStack() as crowd:
            crowded = self._start(crowd, ONE, image, 1)
            self._idle_clients(crowd, crowded, ["0"])
            self._note("1 export, 1 client", crowded)
            self._idle_clients(crowd, crowded, ["0"] * (self.count - 1))
            self._note(f"1 export, {self.count} clients", crowded)
        one = self._start(stack, ONE, image, 0)
        many = self._start(stack, MANY, image, self.count - 1)
        self._note(f"{self.count} exports, no client", many)
        clients = self._idle_clients(stack, many, others)
        self._note(f"{self.count} exports, a client on each", many)
        for client in clients:
            client.read_block()
        self._note("the same, each has read a block", many)
        for round_ in range(1, self.bench.settings.runs * ROUNDS_PER_RUN + 1):
            for position, running in enumerate(rounds_module.turns([one, many], round_), 1):
                run = self._load(running) | {"run": round_, "position": position}
                self.sheet.add(run)
                self.runs.append(run)
        self._note("the same, after all runs", many)
        one.stop()
        many.stop()

    def _load(self, running):
        cpu = running.cpu_seconds()
        done = subprocess.run(
            [self.bench.load, running.socket, "1", "32", "512", f"{self.seconds:g}", "batched", "read"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise server_module.ServerError(f"{running.server.label}: {done.stderr.strip()}\n{running.said()}")
        answered, took, client_cpu = (float(word) for word in done.stdout.split())
        return {
            "server": running.server.label,
            "rate": answered / took,
            "server_us": (running.cpu_seconds() - cpu) / answered * 1e6,
            "client_us": client_cpu / answered * 1e6,
        }

    def report(self):
        report = self.bench.report
        report.add(f"## Many: {self.count} exports, {self.count - 1} idle clients", "", TEXT, "")
        one, many = ([r for r in self.runs if r["server"] == label] for label in (ONE, MANY))
        if not many:
            report.add("Nothing could be measured; the reasons are at the end.", "")
            return
        report.add(f"{len(many)} runs of each, of {self.seconds:g} s.", "")
        lines = table.head(["server", "requests/s", f"to {ONE}", "server CPU, us per request", "ratio of CPU"], 1)
        speed, word = table.ratio_text(many, one, "rate")
        cost, _ = table.ratio_text(many, one, "server_us", ("**dearer**", "**cheaper**"))
        for label, runs, texts in ((ONE, one, ("1", "1")), (MANY, many, (speed, cost))):
            lines.append(
                table.row(
                    [
                        label,
                        table.with_range(table.spread(runs, "rate")),
                        texts[0],
                        table.plain(table.spread(runs, "server_us")),
                        texts[1],
                    ]
                )
            )
        report.add(*lines, "")
        report.tally("Many", MANY, ONE, [word] if word else [])
        report.add(*self._memory_table(), "")

    def _memory_table(self):
        lines = table.head(["server", "resident memory, MB", "address space, MB"], 1)
        for what, rss, size in self.memory:
            lines.append(table.row([what, f"{rss / 1e6:.1f}", f"{size / 1e6:,.0f}"]))
        rss = [one[1] for one in self.memory]
        if len(rss) < 5:
            return lines
        others = self.count - 1
        client, export = (rss[1] - rss[0]) / others, (rss[2] - rss[0]) / others
        lines += [
            "",
            f"KB for each, of resident memory: export {export / 1e3:.1f}, idle client {client / 1e3:.1f}, context "
            f"{(rss[3] - rss[2]) / others / 1e3 - client / 1e3:.1f}, context that has served a read "
            f"{(rss[4] - rss[2]) / others / 1e3 - client / 1e3:.1f}. The bounce buffers of a context, up to 16 MiB, "
            "are address space until they are used.",
        ]
        return lines
