# SPDX-License-Identifier: BSD-3-Clause
"""The page, compared with the status.

    PROGRAM BROWSER ADDRESS NBD-SOCKET CONTROL KEYS PICTURES
"""
import atexit
import re
import subprocess
import sys
import threading
import time

import nbd

import control
from chromium import Chromium
from waiting import wait_until

browser, address, socket, control_socket, keys, pictures = sys.argv[1:]
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
handles = [connect(names[0]), connect(names[0], USER), connect(names[1])]
over = threading.Event()


def load(h, size, pause):
    n = 0
    while not over.is_set():
        h.pwrite(b"x" * size, n * size % (32 << 20))
        h.pread(size, n * size % (32 << 20))
        n += 1
        time.sleep(pause * (1 + n % 50 / 25))


threads = [threading.Thread(target=load, args=arguments, daemon=True)
           for arguments in zip(handles, (65536, 4096, 4096), (.01, .005, .02))]
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
wait_until("the exports are shown", lambda: page.run("document.querySelectorAll('#exports > details').length") == 2)
refused = [event for event in page.complaints() if "401" in str(event)]
assert page.complaints() == refused, page.complaints()

# ---- pictures, while there is load

time.sleep(20)
page.look(pictures + "/light.png", 1200, 900, False)
page.look(pictures + "/dark.png", 1200, 900, True)
page.look(pictures + "/phone.png", 390, 844, True, 2)
page.look(pictures + "/phone-light.png", 390, 844, False, 2)
wide = page.run("document.documentElement.scrollWidth - document.documentElement.clientWidth")
assert wide <= 0, f"on a phone, the page is {wide} pixels too wide"

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
assert tiles[3:] == ["0", "3"], tiles
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


before = used(0, 500)
begun = time.monotonic()
after = used(500, 3000)
print(f"heap in bytes, nodes, listeners after 500 changes: {before}; after 3000: {after}; "
      f"{(time.monotonic() - begun) / 2.5:.2f} ms each")
assert after[0] < before[0] * 1.1 + 200000 and after[1] <= before[1] + 50 and after[2] <= before[2], (before, after)
assert page.complaints() == refused, page.complaints()[len(refused):]
for h in handles:
    h.shutdown()
print("version of the browser:", subprocess.run([browser, "--version"], capture_output=True, text=True).stdout.strip())
