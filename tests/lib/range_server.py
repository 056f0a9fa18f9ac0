# SPDX-License-Identifier: BSD-3-Clause
"""A web server of one file that knows ranges, and misbehaves as it is told.

    PROGRAM FILE MODE-FILE PORT-FILE [CERTIFICATE KEY]

It writes its port into PORT-FILE when it listens.  For each request, it reads a word from MODE-FILE:

    fine          what a good server does; weak, plain: the same with a weak ETag, with neither ETag nor
                  Last-Modified; date: with Last-Modified alone
    slow          4 KiB every 20 ms
    flaky         every second request is reset in the middle of the body
    short         closes the connection in the middle of the body
    less, more    a Content-Length, and a body, of half, and of twice, the range
    endless       a body that never ends, in pieces
    headers       headers that never end
    silent        takes the request, and never answers
    reset         resets the connection at once
    whole         status 200 with the whole file
    elsewhere     the range of the bytes one further
    bigger        says that the file is larger
    unnamed       a 206 without Content-Range
    packed        says that the body is compressed
    other         another ETag, whatever the request's conditions
    changed       412 to If-Match and If-Unmodified-Since
    NUMBER        that status
    to:URL        redirects there; what is asked for at /there is sent as in the mode fine

Each request is a line of standard output.
"""
import email.utils
import os
import re
import socket
import ssl
import struct
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

path, mode_file, port_file = sys.argv[1:4]
count = 0
lock = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # One send for the headers and the first bytes.
    wbufsize = 1 << 16

    def log_message(self, *args):
        pass

    def do_GET(self):
        global count
        with open(mode_file) as f:
            mode = f.read().strip()
        if self.path.startswith("/there"):
            mode = "fine"
        with lock:
            count += 1
            number = count
            print(f"{self.path} {self.headers.get('Range')} {mode}", flush=True)
        if mode.startswith("to:"):
            self.answer(302, [("Location", mode[3:]), ("Content-Length", "0")])
        elif mode.isdigit():
            self.answer(int(mode), [("Content-Length", "6")], b"sorry\n")
        elif mode == "silent":
            time.sleep(600)
        elif mode == "reset":
            self.reset()
        elif mode == "headers":
            self.send_response(206)
            while True:
                self.send_header("X-More", "x" * 1000)
                self.flush_headers()
        else:
            self.send_range(mode, number)

    def answer(self, status, headers, body=b""):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def reset(self):
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def send_range(self, mode, number):
        with open(path, "rb") as f:
            status = os.fstat(f.fileno())
            first, last = map(int, re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"]).groups())
            if first >= status.st_size:
                return self.answer(416, [("Content-Range", f"bytes */{status.st_size}"), ("Content-Length", "0")])
            last = min(last, status.st_size - 1)
            f.seek(first)
            body = f.read(last + 1 - first)
            if mode == "whole":
                f.seek(0)
                return self.answer(200, [("Content-Length", str(status.st_size))], f.read())
        tag = f'"{status.st_mtime_ns:x}-{status.st_size:x}"'
        date = email.utils.formatdate(status.st_mtime, usegmt=True)
        if mode == "changed" or self.headers.get("If-Match", tag) != tag:
            return self.answer(412, [("Content-Length", "0")])
        total, length, headers = status.st_size, len(body), []
        if mode == "elsewhere":
            first, last = first + 1, last + 1
        if mode == "bigger":
            total += 512
        if mode != "unnamed":
            headers.append(("Content-Range", f"bytes {first}-{last}/{total}"))
        if mode == "packed":
            headers.append(("Content-Encoding", "gzip"))
        if mode not in ("plain", "date"):
            headers.append(("ETag", {"weak": "W/" + tag, "other": '"other"'}.get(mode, tag)))
        if mode != "plain":
            headers.append(("Last-Modified", date))
        if mode == "less":
            body = body[:length // 2]
        if mode == "more":
            body += body
        if mode == "endless":
            self.answer(206, headers + [("Transfer-Encoding", "chunked")])
            while True:
                self.wfile.write(b"1000\r\n" + body[:4096].ljust(4096) + b"\r\n")
        headers.append(("Content-Length", str(len(body))))
        if mode == "short" or (mode == "flaky" and number % 2):
            self.answer(206, headers, body[:length // 2])
            if mode == "flaky":
                return self.reset()
            self.close_connection = True
        elif mode == "slow":
            self.answer(206, headers)
            for at in range(0, length, 4096):
                self.wfile.write(body[at:at + 4096])
                self.wfile.flush()
                time.sleep(0.02)
        else:
            self.answer(206, headers, body)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass  # most clients here hang up


server = Server(("127.0.0.1", 0), Handler)
if len(sys.argv) > 4:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*sys.argv[4:])
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
with open(port_file + ".new", "w") as f:
    f.write(str(server.server_address[1]))
os.rename(port_file + ".new", port_file)
server.serve_forever()
