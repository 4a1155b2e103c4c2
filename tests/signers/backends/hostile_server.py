"""A server that answers whatever it is asked without an end, or as slowly as it can."""

from __future__ import annotations

import socketserver
import threading
from typing import Any, Self

PART = b" " * 65_536
# Where an endless answer ends after all, so that a client which reads on fails a test and not the machine.
ENDLESS = 64 * 1024 * 1024
PAUSE_SECONDS = 0.02
SLOW_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n" + b"{}".ljust(100)


class HostileServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, *, slow: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.slow = slow
        # How much of its longest answer it was able to send.
        self.sent = 0
        self.leave = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.leave.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that hung up."""


class _Handler(socketserver.StreamRequestHandler):
    server: HostileServer

    def handle(self) -> None:
        while self.rfile.readline().strip():
            pass
        if self.server.slow:
            self.drip()
        else:
            self.flood()

    def drip(self) -> None:
        for position in range(len(SLOW_ANSWER)):
            self.wfile.write(SLOW_ANSWER[position : position + 1])
            if self.server.leave.wait(PAUSE_SECONDS):
                return

    def flood(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
        for sent in range(len(PART), ENDLESS + 1, len(PART)):
            self.wfile.write(PART)
            self.server.sent = max(self.server.sent, sent)
