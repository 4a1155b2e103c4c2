"""A selection of the scenarios: the rules keep the invariants, and each rule is needed."""

from __future__ import annotations

import pytest

from tests.model.__main__ import SCENARIOS

# Quick ones; `python -m tests.model` searches all.
QUICK = (
    "loss1",
    "depths",
    "devchain",
    "window",
    "windowreorg",
    "beside",
    "besideearly",
    "besidehead",
    "besidelimitearly",
    "alonehead",
    "alonelimit",
    "alonelimitreplace",
)


@pytest.mark.parametrize("name", QUICK)
def test_the_rules_keep_the_invariants(name: str) -> None:
    result = SCENARIOS[name].search()
    assert (result.complete, result.violations) == (True, {})


@pytest.mark.parametrize(
    ("rule", "name", "invariant"),
    [
        ("gate", "gateexternal", "I6"),
        ("proof", "alone", "I1"),
        ("agreement", "beside", "I1"),
        ("comparison", "beside", "I2"),
        ("missing_contradicts", "besideearly", "I2"),
        ("believed_heads", "alonehead", "I1"),
        ("believed_heads", "besidehead", "I1"),
        ("open_counts", "window", "I7"),
        ("dated_when_mined", "window", "I7"),
        ("dated_when_final", "windowreorg", "I7"),
        ("dating_needs_agreement", "besidelimitearly", "I7"),
        ("release_needs_agreement", "besidelimit", "I7"),
        ("single_node_keeps", "alonelimit", "I7"),
    ],
)
def test_without_a_rule_an_invariant_is_violated(rule: str, name: str, invariant: str) -> None:
    found = SCENARIOS[name].search(without=rule, until=invariant)
    assert invariant in found.violations


@pytest.mark.parametrize(
    ("name", "invariants"), [("alonesigned", {"I1", "I4"}), ("alonelimitearly", {"I7"}), ("lossreported", {"I1"})]
)
def test_what_no_rule_prevents_is_known(name: str, invariants: set[str]) -> None:
    assert set(SCENARIOS[name].search().violations) == SCENARIOS[name].remains == invariants
