"""Workers and callers that are killed at each step of sending: nothing is lost, doubled or stuck."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.db import connection, connections

from tests import processes, servers
from tests.chain.hardhat import contracts
from tests.chaos import campaign
from tests.chaos.cases import (
    CHAINS,
    FEW,
    POINTS,
    POSTGRESQL,
    REFINED,
    SEND,
    SQLITE,
    TOP_UP_POINTS,
    Case,
    in_chains,
    random_case,
)
from tests.servers import PROJECT

SEEDS = 3


def chosen_cases(vendor: str) -> list[Case]:
    engine = SQLITE if vendor == "sqlite" else POSTGRESQL
    cases = in_chains(engine, CHAINS if engine == SQLITE else FEW)
    if engine == POSTGRESQL:
        cases.append(Case(engine, SEND, ("before_commit:1",), cuts=True))
    return [*cases, *(random_case(engine, seed) for seed in range(SEEDS))]


@pytest.mark.long
@pytest.mark.django_db(transaction=True)
def test_nothing_is_lost_doubled_or_stuck_after_a_kill_at_any_step(tmp_path: Path) -> None:
    cases = chosen_cases(connection.vendor)
    url = processes.database_url()
    # PostgreSQL copies only a database that nobody uses.
    connections.close_all()
    if connection.vendor == "postgresql":
        connection.close_pool()  # type: ignore[attr-defined]  # of PostgreSQL
    try:
        contracts()
        with campaign.chains() as chains:
            results = list(campaign.run(cases, {cases[0].engine: url}, chains, tmp_path))
    except servers.Unavailable as reason:
        pytest.skip(str(reason))

    assert {str(result.case): result.violations for result in results if result.violations} == {}
    assert {result.case for result in results} == set(cases)
    assert sum(result.kills for result in results) >= sum(len(case.kills) for case in cases if case.must_be_reached)


def test_every_step_of_the_code_is_killed_at() -> None:
    named = set()
    for file in (PROJECT / "transactions").rglob("*.py"):
        named |= set(re.findall(r"\bstep\(\"([^\"]+)\"\)", file.read_text()))
    chained = {scenario: [step for steps in cases for step in steps] for scenario, cases in CHAINS.items()}
    assert {scenario: sorted(steps) for scenario, steps in chained.items()} == {
        scenario: sorted(steps) for scenario, steps in POINTS.items()
    }
    assert named == {*TOP_UP_POINTS, *(step for steps in POINTS.values() for step in steps)} - REFINED.keys()
