"""A stand-in for a chain node: a few methods of JSON-RPC with fixed answers, single and in batches."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HARDHAT_CHAIN = 31337


@dataclass
class StandInNode:
    """What the node answers, and what it was asked."""

    chain_id: int = HARDHAT_CHAIN
    head_block: int = 20_000_123
    nonce: int = 7
    balance: int = 1_500_000_000_000_000_001
    url: str = ""
    asked: list[str] = field(default_factory=list)

    def answer(self, call: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(call["method"])
        results = {
            "eth_chainId": self.chain_id,
            "eth_blockNumber": self.head_block,
            "eth_getTransactionCount": self.nonce,
            "eth_getBalance": self.balance,
        }
        return {"jsonrpc": "2.0", "id": call["id"], "result": hex(results[call["method"]])}


@contextmanager
def serve(node: StandInNode) -> Iterator[StandInNode]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answers = [node.answer(call) for call in body] if isinstance(body, list) else node.answer(body)
            text = json.dumps(answers).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    node.url = f"http://127.0.0.1:{server.server_port}/v1/s3cret"
    yield node
    server.shutdown()
    thread.join()
    server.server_close()
