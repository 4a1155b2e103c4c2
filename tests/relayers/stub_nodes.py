"""Nodes that tell the chain id that their URL names, and count how often they are asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class StubNodes:
    def __init__(self, port: int) -> None:
        self.port = port
        self.asked: list[str] = []

    def url(self, chain_id: int, key: str = "node-key-SECRET") -> str:
        return f"http://127.0.0.1:{self.port}/{chain_id}/{key}"


@contextmanager
def stub_nodes() -> Iterator[StubNodes]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            nodes.asked.append(self.path)
            result = hex(int(self.path.split("/")[1]))
            body = json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": result}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    nodes = StubNodes(server.server_port)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield nodes
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
