"""Some random sequences against the table of transitions; `python -m tests.transactions.sequences 10000` runs many."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chain.networks import networks
from tests.amounts import amount
from tests.transactions.sequences import rights, sequence

pytestmark = [pytest.mark.django_db, pytest.mark.one_engine]


@pytest.fixture(autouse=True)
def network(settings: Any, tmp_path: Path) -> Iterator[None]:
    settings.NETWORKS_FILE = sequence.write_network(tmp_path)
    settings.EXTENSIONS = ["lifecycle", "transactions"]
    networks.cache_clear()
    yield
    networks.cache_clear()


def test_random_sequences_follow_the_table_and_end() -> None:
    found = {seed: sequence.run(seed, checks_gate=True) for seed in range(amount(some=10, enough=30))}
    assert {seed: (each.violations, each.steps) for seed, each in found.items() if each.violations} == {}


def test_random_tokens_and_staff_exceed_no_right() -> None:
    found = {seed: rights.run(seed) for seed in range(amount(some=10, enough=15))}
    assert {seed: (each.violations, each.steps) for seed, each in found.items() if each.violations} == {}
