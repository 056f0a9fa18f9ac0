# SPDX-License-Identifier: BSD-3-Clause
"""The page, compared with the status.

    PROGRAM BROWSER ADDRESS NBD-SOCKET CONTROL KEYS PICTURES PID

Leaves the server killed.
"""
import atexit
import os
import re
import signal
import subprocess
import sys
import threading
import time

import nbd

import control
from chromium import Chromium
from waiting import wait_until

browser, address, socket, control_socket, keys, pictures, pid = sys.argv[1:]
TOKEN = "0123456789abcdef-token"
USER = "<img src=x onerror=alert(1)>"


def connect(export, user=None):
    h = nbd.NBD()
    h.set_export_name(export)
    if user:
        h.set_tls(nbd.TLS_REQUIRE)
        h.set_tls_psk_file(keys)
        h.set_tls_username(user)
    h.connect_unix(socket)
    return h


names = [export["name"] for export in control.status(control_socket)["exports"]]
handles = [connect(names[0]), connect(names[0], USER), connect(names[1]), connect("slow")]
over = threading.Event()


def load(h, size, pause):
    n = 0
    while not over.is_set():
        h.pwrite(b"x" * size, n * size % (32 << 20))
        h.pread(size, n * size % (32 << 20))
        n += 1
        time.sleep(pause * (1 + n % 50 / 25))


threads = [threading.Thread(target=load, args=arguments, daemon=True)
           for arguments in zip(handles, (65536, 4096, 4096, 4096), (.01, .005, .02, 0))]
for thread in threads:
    thread.start()

page = Chromium(browser)
atexit.register(page.close)
page.call("Page.navigate", url=address)

# ---- the token

wait_until("the page asks for the token", lambda: page.run("document.readyState === 'complete' && !document.getElementById('ask').hidden"))
assert page.run("document.activeElement === document.body"), "no field takes the keys by itself"
for wrong in ("0123456789abcdef-t\u0151ken", "0123456789abcdef-tokem", TOKEN):
    page.run(f"document.getElementById('notice').textContent = ''; document.getElementById('token').value = '{wrong}'; document.querySelector('#ask button').click()")
    if wrong != TOKEN:
        wait_until("another token is refused", lambda: "not the server" in page.run("document.getElementById('notice').textContent") and not page.run("document.getElementById('ask').hidden"))
EXPORTS = "document.querySelectorAll('#exports > details').length"
wait_until("the exports are shown", lambda: page.run(EXPORTS) == 5)
refused = [event for event in page.complaints() if "401" in str(event)]
assert page.complaints() == refused, page.complaints()

# ---- pictures, while there is load



def look(number):
    """Pictures of the page with so many exports, on a phone and a desk, in the light and the dark."""
    for where, width, height, scale in (("desk", 1200, 900, 1), ("between", 820, 900, 1), ("phone", 390, 844, 2)):
        for dark in (False, True):
            page.look(f"{pictures}/{number}-{where}-{'dark' if dark else 'light'}.png", width, height, dark, scale)
        wide = page.run("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{where}: the page is {wide} pixels too wide"


CHIPS = "Object.fromEntries([...document.querySelectorAll('#exports > details')].map((one) => [one.dataset.export, [...one.querySelectorAll('.name .chips li')].map((chip) => chip.textContent)]))"
SHOWN = "[...document.querySelectorAll('#exports > details:not([hidden])')].map((one) => one.dataset.export)"


def choose(what, value):
    """Sets an element of the form as a user would."""
    page.run(f"{{ const one = document.getElementById('{what}'); one[one.type === 'checkbox' ? 'checked' : 'value'] = {value}; "
             "one.dispatchEvent(new Event('input', {bubbles: true})); }")


def chips():
    return page.run(CHIPS)


time.sleep(20)
page.run("document.querySelector('#exports summary').click()")
look(5)
wait_until("a limit shows how many requests it holds, and how long",
           lambda: any(re.fullmatch("[01] requests? held, wait [0-9.]+ ms", chip) for chip in chips()["slow"]), seen=chips)
assert "limit 20/s" in chips()["slow"], chips()
assert chips()["only"] == ["read-only"] and chips()["guest"] == ["looks like qcow2, served raw"], chips()
assert chips()["disk"] == [], chips()
page.run("document.querySelectorAll('#exports > details').forEach((one) => one.open = true)")
wait_until("plots are drawn", lambda: page.run("document.querySelectorAll('.plot').length") == 5 * 6)
words = page.run("document.querySelector('.plots').innerText")
assert all(word in words for word in ("median (p50)", "p99", "held by a limit", "2 min ago", "now")), words
wait_until("what is busiest comes first", lambda: (choose("sort", "'busiest'"), page.run(SHOWN))[1][0] == "disk", seen=lambda: page.run(SHOWN))
choose("sort", "'name'")
assert page.run(SHOWN) == [names[1], "disk", "guest", "only", "slow"], page.run(SHOWN)
wait_until("what is idle is hidden", lambda: (choose("idle", "true"), page.run(SHOWN))[1] == [names[1], "disk", "slow"], seen=lambda: page.run(SHOWN))
choose("idle", "false")
choose("search", "'GUEST'")
assert page.run(SHOWN) == ["guest"] and page.run("at('shown').textContent") == "1 of 5 exports", page.run("at('shown').textContent")
choose("search", "''")

# ---- figures

over.set()
for thread in threads:
    thread.join()
COUNTERS = """Object.fromEntries([...document.querySelectorAll('#exports > details')].map((one) => [one.dataset.export,
    Object.fromEntries([...one.querySelectorAll('[data-counter]')].map((dd) => [dd.dataset.counter, Number(dd.textContent.replaceAll(',', ''))]))]))"""


def wanted():
    return {export["name"]: export["counters"] for export in control.status(control_socket)["exports"]}


wait_until("the page's figures are the status's", lambda: page.run(COUNTERS) == wanted(), seen=lambda: (page.run(COUNTERS), wanted()))
status = control.status(control_socket)
rows = page.run("[...document.querySelectorAll('#exports tbody tr')].map((row) => Number(row.dataset.id)).sort()")
assert rows == sorted(connection["id"] for connection in status["connections"]), rows
tiles = page.run("[...document.querySelectorAll('#totals .value')].map((value) => value.textContent.trim())")
assert tiles[4:] == ["0", "4"], tiles
wait_until("without load, rates are 0", lambda: page.run("document.querySelector('#totals .value').textContent") == "0 B/s")

# ---- hostile names

text = page.run("document.body.innerText")
for hostile in [names[1], USER]:
    assert hostile in text, hostile
assert f"psk:{USER}" in text or f"psk:{USER}".replace(" ", "%20") in text, re.findall("psk:.*", text)
assert page.run("document.querySelectorAll('b.bold, img:not([src=\"icon.svg\"]), script:not([src=\"page.js\"])').length") == 0
assert page.run("document.querySelectorAll('summary b b, summary script').length") == 0

# ---- without a mouse: all that can be used takes the focus, and a key folds an export

for kind in ("rawKeyDown", "keyUp"):
    page.run("document.querySelector('#exports summary').focus()")
    page.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")
    if kind == "rawKeyDown":
        page.call("Input.dispatchKeyEvent", type="char", key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")
wait_until("a key folds an export", lambda: not page.run("document.querySelector('#exports > details').open"))

# ---- memory: the page's own code shows many states, in which exports and clients come and go

page.run("at('pause').click()")
CHANGES = """(async () => {
    const status = await (await fetch('status.json', {headers: {Authorization: 'Bearer ' + token}})).json();
    for (let i = %d; i < %d; i++) {
        const now = structuredClone(status);
        for (const one of now.exports) {
            one.name += i %% 7 === 0 ? i : '';
            one.requests = i %% 9;
            for (const name of Object.keys(one.counters))
                one.counters[name] += i * 1000;
            for (const op of Object.values(one.answered))
                op.requests += i * 1000;
            one.latency_us.read = Array.from({length: 20}, (_, n) => i * n);
        }
        for (const one of now.connections)
            one.id += i;
        page.show(now, 1);
    }
    return true;
})()"""


def used(first, last):
    page.run(CHANGES % (first, last))
    page.call("HeapProfiler.collectGarbage")
    counters = page.call("Memory.getDOMCounters")
    return page.call("Runtime.getHeapUsage")["usedSize"], counters["nodes"], counters["jsEventListeners"]


before = used(0, 1500)  # all code is compiled, and the history is full
begun = time.monotonic()
after = used(1500, 4000)
print(f"heap in bytes, nodes, listeners after 1500 changes: {before}; after 4000: {after}; "
      f"{(time.monotonic() - begun) / 2.5:.2f} ms each")
assert after[0] < before[0] * 1.1 + 200000 and after[1] <= before[1] + 50 and after[2] <= before[2], (before, after)
assert page.complaints() == refused, page.complaints()[len(refused):]

# ---- many exports, of which one is in trouble; and one alone

for i in range(55):
    control.ask(control_socket, f"add many-{i:02}={os.path.dirname(control_socket)}/other.img,read-only=on,lock=off")
page.run("at('pause').click()")
wait_until("60 exports are shown", lambda: page.run(EXPORTS) == 60)
page.run("document.querySelectorAll('#exports > details[open]').forEach((one) => one.open = false)")
many = connect("many-40")
many.set_strict_mode(0)
try:
    many.pread(4096, 64 << 20)
    raise AssertionError("a read beyond the end succeeds")
except nbd.Error:
    pass
wait_until("trouble comes first", lambda: page.run(SHOWN)[0] == "many-40", seen=lambda: page.run(SHOWN))
assert chips()["many-40"][0] == "1 error in the last two minutes" and "read-only" in chips()["many-40"], chips()["many-40"]
choose("trouble", "false")
assert page.run(SHOWN)[0] == names[1], page.run(SHOWN)
choose("trouble", "true")
look(60)
many.shutdown()
for h in handles:
    h.shutdown()
for export in control.status(control_socket)["exports"]:
    if export["name"] != "disk":
        control.ask(control_socket, f"remove export={export['name']}")
wait_until("one export is shown", lambda: page.run(EXPORTS) == 1)
assert page.run("at('choice').hidden"), "one export needs no choice"
page.run("document.querySelector('#exports > details').open = true")
look(1)

# ---- without a server, its last figures are grey

os.kill(int(pid), signal.SIGKILL)
wait_until("the page says that the server is gone", lambda: page.run("at('notice').textContent").startswith("No answer from the server since"))
assert page.run("getComputedStyle(at('exports')).opacity") == "0.45", "old figures look like new ones"
page.look(pictures + "/gone.png", 1200, 900, False)
print("version of the browser:", subprocess.run([browser, "--version"], capture_output=True, text=True).stdout.strip())
