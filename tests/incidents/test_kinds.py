"""Which causes of "Needs attention" are which kind of incident."""

from typing import Any

from incidents.kinds import KINDS, Kind, kind_of, problems
from notifications.console import overview as webhooks
from relayer_service.console.overview.attention import Cause
from relayers.console import overview as of_relayers
from transactions.console import overview as sending


def cause(kind: str, group: str = "", **changes: Any) -> Cause:
    values: dict[str, Any] = {"title": f"{group}: {kind}", "number": 1, "unit": "relayer", "url": "/"}
    return Cause(kind, group, **values | changes)


def test_every_kind_has_a_cause_that_an_app_reports() -> None:
    reported = {*of_relayers.problems(), *sending.rows_by_kind(), webhooks.FAILING, webhooks.GONE}
    reported |= {"service.workers", "service.part:worker"}
    assert KINDS.keys() - reported == set()
    assert {*KINDS.values(), Kind.OTHER} == {*Kind}


def test_a_cause_of_no_named_kind_is_another_problem_of_its_own() -> None:
    causes = [cause("service.part", "database"), cause("tokens.expiring"), cause("service.part", "worker")]
    assert [kind_of(each) for each in causes] == [Kind.OTHER, Kind.OTHER, Kind.WORKER]
    assert len(problems(causes)) == 3


def test_other_problems_of_a_network_do_not_hide_each_other() -> None:
    kinds = ("relayers.low", "relayers.runway", "prices.failed", "relayers.address", "topups")
    assert len(problems(cause(kind, "sepolia", network="sepolia") for kind in kinds)) == len(kinds)


def test_the_cause_with_the_most_rows_names_a_problem() -> None:
    lanes = cause("lanes.nodes", "sepolia", number=9, unit="lane", network="sepolia", variant="danger")
    nodes = cause("relayers.nodes", "sepolia", number=31, network="sepolia")
    (problem,) = problems([lanes, nodes]).values()
    assert (problem.title, problem.number, problem.severe) == ("sepolia: relayers.nodes", 31, True)
