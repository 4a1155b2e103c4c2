"""`python -m tests.model`: search every scenario, print states, seconds and the shortest trace of each violation."""

from __future__ import annotations

import argparse
import sys
import time

from tests.model import lane_state, payment_state
from tests.model.lane_scenarios import LANE_SCENARIOS
from tests.model.payment_scenarios import PAYMENT_SCENARIOS
from tests.model.search import Result, Scenario

SCENARIOS = LANE_SCENARIOS | PAYMENT_SCENARIOS
RULES = lane_state.RULES | payment_state.RULES


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(SCENARIOS)}")
    parser.add_argument("--ablate", action="store_true", help="search with all rules but one, for each rule")
    parser.add_argument("--decided", action="store_true", help="search without the rules that are only proposed")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(SCENARIOS):
        parser.error(f"Unknown scenario: {', '.join(sorted(unknown))}.")
    runs = [run for name in options.names or SCENARIOS for run in search(name, options)]
    print(f"{sum(states for states, _ in runs):,} states in all")
    return 0 if options.ablate or options.decided or all(expected for _, expected in runs) else 1


def search(name: str, options: argparse.Namespace) -> list[tuple[int, bool]]:
    """Search one scenario, and return for each run its states and whether only what remains was found."""
    scenario = SCENARIOS[name]
    print(f"{name}: {scenario.what}")
    rules = scenario.rules + (() if options.decided else scenario.proposed)
    runs = [(f"without {rule} ({RULES[rule]})", rule) for rule in rules] if options.ablate else [("", "")]
    found = []
    for label, without in runs:
        began = time.monotonic()
        result = scenario.search(without=without, proposed=not options.decided)
        print_result(scenario, result, label or f"with {', '.join(rules) or 'no rule'}", time.monotonic() - began)
        found.append((result.states, result.complete and set(result.violations) == scenario.remains))
    return found


def print_result(scenario: Scenario, result: Result, label: str, seconds: float) -> None:
    limit = "" if result.complete else " (limit reached)"
    print(f"  {label}: {result.states:,} states{limit}, {seconds:.1f} s", flush=True)
    if not result.violations:
        print("    all invariants hold")
    for key, violation in sorted(result.violations.items()):
        print(f"    {violation.message}{' (remains)' if key in scenario.remains else ''}")
        for number, step in enumerate(violation.trace, 1):
            print(f"      {number}. {step}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
