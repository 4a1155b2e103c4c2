from pathlib import Path

import pytest

from tests.chain.answering_node import change_network
from tests.transactions.hardhat import local_chain, local_node
from tests.transactions.lab import lab, mempool, mempool_node

__all__ = ["change_network", "lab", "local_chain", "local_node", "mempool", "mempool_node"]

# Of the tests with a chain of their own, those that `make test` runs, too.
QUICK_FILE = "test_turns.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests with a chain of their own as long."""
    for item in items:
        has_chain = {"local_node", "mempool_node"} & set(getattr(item, "fixturenames", ()))
        if has_chain and item.path.is_relative_to(Path(__file__).parent) and item.path.name != QUICK_FILE:
            item.add_marker(pytest.mark.long)
