"""Nodes that report the chain ID in their URL, and count the calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.chain import faults


class StubNodes:
    def __init__(self, port: int) -> None:
        self.port = port
        self.asked: list[str] = []

    def url(self, chain_id: int, key: str = "node-key-SECRET") -> str:
        return f"http://127.0.0.1:{self.port}/{chain_id}/{key}"


@contextmanager
def stub_nodes() -> Iterator[StubNodes]:
    def behave(handler: faults.Handler, asked: Any) -> None:
        nodes.asked.append(handler.path)
        faults.answering({"result": hex(int(handler.path.split("/")[1]))})(handler, asked)

    with faults.node(behave) as server:
        nodes = StubNodes(server.server_port)
        yield nodes
