# SPDX-License-Identifier: BSD-3-Clause
"""What HTTP tells, compared with the control socket.

    PROGRAM HTTP-SOCKET NBD-SOCKET CONTROL HOSTILE-NAME
"""
import json
import os
import shutil
import subprocess
import sys

import nbd
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as older_families

import control
from http_unix import ask
from waiting import wait_until

where, nbd_socket, control_socket, hostile = sys.argv[1:]
PAGES = {"/": "text/html; charset=utf-8", "/page.css": "text/css; charset=utf-8",
         "/page.js": "text/javascript; charset=utf-8", "/icon.svg": "image/svg+xml",
         "/status.json": "application/json",
         "/metrics": "text/plain; version=0.0.4; charset=utf-8"}
OPEN = {"Accept": "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4"}

# ---- headers, methods, paths

for path, kind in PAGES.items():
    answer, text = ask(where, path)
    assert (answer.status, answer.getheader("Content-Type")) == (200, kind), (path, answer.status, answer.headers)
    csp = answer.getheader("Content-Security-Policy")
    assert "default-src 'none'" in csp and "unsafe" not in csp and "frame-ancestors 'none'" in csp, csp
    wanted = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}
    assert all(answer.getheader(name) == value for name, value in wanted.items()), answer.headers
    head, nothing = ask(where, path, "HEAD")
    assert (head.status, nothing, head.getheader("Content-Length")) == (200, b"", str(len(text))), (path, head.headers)
    if path in ("/", "/page.css", "/page.js"):
        outside = text.replace(b"http://www.w3.org/2000/svg", b"")
        assert b"http:" not in outside and b"https:" not in outside and b"innerHTML" not in outside, path
for method in ("POST", "PUT", "DELETE", "OPTIONS"):
    answer, text = ask(where, "/status.json", method)
    assert (answer.status, answer.getheader("Allow")) == (405, "GET, HEAD"), (method, answer.status)
assert ask(where, "/etc/passwd")[0].status == 404
assert len(control.status(control_socket)["exports"]) == 2

# ---- figures

h = nbd.NBD()
h.set_export_name("disk")
h.connect_unix(nbd_socket)
for i in range(5):
    h.pwrite(b"x" * 4096, i * 4096)
h.pread(8192, 0)
h.flush()
h.trim(4096, 0)
# All of these are requests, though the image hardly hears of them: a hole, and refusals.
for i in range(10):
    assert h.pread(1 << 20, 4 << 20) == bytes(1 << 20)
h.set_strict_mode(0)
for offset in (8 << 20, (8 << 20) - 100):
    try:
        h.pread(4096, offset)
        raise AssertionError("a read beyond the end succeeded")
    except nbd.Error:
        pass


def families():
    text = ask(where, "/metrics", headers=OPEN)[1].decode()
    assert text.endswith("# EOF\n") and text.count("\n# EOF") == 1, text[-200:]
    return {family.name: family for family in text_string_to_metric_families(text)}


def samples(family, **labels):
    """The values of a family's samples with these labels, by their other labels."""
    found = {}
    for sample in family.samples:
        if all(sample.labels.get(name) == value for name, value in labels.items()):
            found[tuple(value for name, value in sample.labels.items() if name not in labels)] = sample.value
    return found


def exports():
    """All that does not depend on the moment."""
    return json.loads(ask(where, "/status.json")[1])["exports"]


# HTTP's figures may be a tenth of a second old.
wait_until("the status is the control socket's", lambda: exports() == control.status(control_socket)["exports"], seen=exports)
status = control.status(control_socket)
assert status["http"] == where, status["http"]
disk, other = status["exports"]
assert other["name"] == hostile, (other["name"], hostile)
assert status["host"] == os.uname().nodename and 0 <= status["uptime"] < 600, (status["host"], status["uptime"])
assert disk["limited"] > 0 and disk["limited_us"] > 0 and disk["limited_now"] == 0 and disk["limits"]["iops"]["write"] == 50, disk
answered = disk["answered"]
assert (answered["read"]["requests"], answered["read"]["bytes"], answered["read"]["errors"]) == (13, 8192 + (10 << 20), 2), answered
assert (answered["write"]["requests"], answered["write"]["bytes"]) == (5, 5 * 4096), answered
assert answered["flush"]["requests"] == 1 and answered["discard"] == {"requests": 1, "bytes": 4096, "errors": 0}, answered
assert disk["counters"]["writes"] == 5 and disk["counters"]["write_bytes"] == 5 * 4096, disk["counters"]
wait_until("the metrics are not older", lambda: samples(families()["nbdloop_operations"], export="disk")[("write",)] == 5)
metrics = families()
OPS = {"read": "reads", "write": "writes", "flush": "flushes", "discard": "discards", "zero": "zeroes"}
for export in (disk, other):
    name, counters = export["name"], export["counters"]
    assert samples(metrics["nbdloop_operations"], export=name) == {(op,): counters[OPS[op]] for op in OPS}, name
    assert samples(metrics["nbdloop_transferred_bytes"], export=name) == \
        {(op,): counters[op + "_bytes"] for op in ("read", "write")}
    for counter in ("errors", "read_modify_writes", "short_transfers", "retries"):
        assert samples(metrics["nbdloop_" + counter], export=name) == {(): counters[counter]}, counter
    assert samples(metrics["nbdloop_bounced_chunks"], export=name) == {(): counters["bounced"]}
    assert samples(metrics["nbdloop_registered_operations"], export=name) == {(): counters["registered"]}
    assert samples(metrics["nbdloop_connections"], export=name) == {(): export["connections"]}
    assert samples(metrics["nbdloop_requests_in_flight"], export=name) == {(): export["requests"]}
    assert samples(metrics["nbdloop_export_size_bytes"], export=name) == {(): 8 << 20}
    for limit, metric in (("iops", "iops_limit"), ("bandwidth", "bandwidth_limit_bytes")):
        assert samples(metrics["nbdloop_export_" + metric], export=name) == \
            {(op,): export["limits"][limit][op] for op in ("both", "read", "write")}, (export["limits"], metric)
        assert samples(metrics["nbdloop_export_client_" + metric], export=name) == \
            {(op,): export["client_limits"][limit][op] for op in ("both", "read", "write")}, export["client_limits"]
    assert samples(metrics["nbdloop_held_requests"], export=name) == {(): export["limited"]}, export
    assert samples(metrics["nbdloop_held_seconds"], export=name) == {(): export["limited_us"] / 1e6}, export
    assert samples(metrics["nbdloop_requests_held"], export=name) == {(): 0}, export
    for op, buckets in export["latency_us"].items():
        below = samples(metrics["nbdloop_request_duration_seconds"], export=name, op=op)
        assert len(below) == 32, below
        assert below[("+Inf",)] == export["answered"][op]["requests"], (op, below, export["answered"])
        for i in range(32):
            bound = "+Inf" if i == 31 else f"{2 ** i / 1e6:.6f}"
            assert below[(bound,)] == sum(buckets[:i + 1]), (op, bound, below, buckets)
    info = [sample.labels for sample in metrics["nbdloop_export"].samples if sample.labels["export"] == name]
    facts = {"export": name, "file": export["file"], "engine": export["engine"], "page_cache": export["page_cache"],
             "direct_io": "on" if export["direct_io"] else "off", "read_only": "on" if export["read_only"] else "off",
             "lock": export["lock"], "snapshot_of": ""}
    assert info == [facts], (info, facts)
for metric, field in (("requests", "requests"), ("request_bytes", "bytes"), ("request_errors", "errors")):
    assert samples(metrics["nbdloop_" + metric], export="disk") == \
        {(op,): answered[field] for op, answered in disk["answered"].items()}, metric
assert samples(metrics["nbdloop_request_duration_seconds"], export="disk", op="write")[("+Inf",)] == 5
assert samples(metrics["nbdloop_exports"]) == {(): 2} and samples(metrics["nbdloop_threads"]) == {(): 2}
assert samples(metrics["nbdloop_build"]) == {("nbdloopd", status["version"]): 1}
assert samples(metrics["nbdloop_server"]) == {("off", "off", status["sandbox"]): 1}
assert metrics["nbdloop_request_duration_seconds"].unit == "seconds"

# ---- who doesn't ask for OpenMetrics gets the older text, with the same samples


def told(found):
    return {(sample.name, tuple(sample.labels.items())): sample.value for family in found for sample in family.samples}


def same():
    answer, text = ask(where, "/metrics", headers=OPEN)
    assert answer.getheader("Content-Type") == "application/openmetrics-text; version=1.0.0; charset=utf-8", answer.headers
    open_told = told(text_string_to_metric_families(text.decode()))
    text = ask(where, "/metrics")[1]
    text_told = told(older_families(text.decode()))
    assert len(text_told) > 100, len(text_told)
    # Prometheus's own judge of that text, where it is installed; it knows no OpenMetrics.
    if shutil.which("promtool"):
        subprocess.run(["promtool", "check", "metrics"], input=text, check=True)
    return text_told == open_told


wait_until("both formats have the same samples", same)
