from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from chain import attempts
from tests import servers
from tests.concurrency import PATIENCE_SECONDS
from tests.notifications.clock import clock
from tests.notifications.test_tls import refused_tls
from tests.relayers import faults
from tests.relayers.factories import ADDRESS

__all__ = ["clock", "refused_tls"]


@pytest.fixture(scope="session")
def hardhat() -> Iterator[str]:
    """The URL of a real Ethereum node."""
    with ExitStack() as stack:
        try:
            url = stack.enter_context(servers.hardhat())
        except servers.Unavailable as reason:
            pytest.skip(str(reason))
        # Its first answer takes a while.
        attempts.attempt(url, [attempts.Call("eth_getBalance", [ADDRESS, "latest"])], None, PATIENCE_SECONDS)
        yield url


@pytest.fixture(scope="session")
def faulty(hardhat: str) -> Iterator[dict[str, str]]:
    """The URLs of nodes that fail, by how they do."""
    with ExitStack() as stack:
        urls = {name: stack.enter_context(faults.node(one, hardhat)).url for name, one in faults.FAULTS.items()}
        yield urls | {"refuse": stack.enter_context(faults.refusing())}


@pytest.fixture
def quick_nodes(settings: Any) -> None:
    """Let nodes have less time than they have by default, so that those that hang cost little."""
    settings.NODE_ATTEMPT_SECONDS = 2
    settings.NODE_MAX_ANSWER_BYTES = 1_000_000
