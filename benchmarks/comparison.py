"""The service beside its controls: the same answers first, then the rates of all in turns."""

from collections.abc import Callable

from benchmarks import load
from benchmarks.load import Request
from benchmarks.report import Row, medians
from benchmarks.targets import GRANIAN, GUNICORN, LIMIT, SERVICE, Server
from benchmarks.turns import in_turns

ROUNDS, FAST_ROUNDS = 9, 2
TURN_SECONDS, FAST_TURN_SECONDS = 1.0, 0.5


def rates(
    servers: dict[str, Server],
    request: Callable[[Server], Request],
    *,
    fast: bool,
    after_turn: Callable[[], None] = lambda: None,
) -> dict[str, list[float]]:
    """Return how many requests each server answers in a second, in each round, with eight callers."""
    seconds = FAST_TURN_SECONDS if fast else TURN_SECONDS

    def turn(server: Server) -> Callable[[], float]:
        def measure() -> float:
            rate = load.rate(server.port, request(server), seconds)
            after_turn()
            return rate

        return measure

    turns = {name: turn(server) for name, server in servers.items()}
    return in_turns(turns, FAST_ROUNDS if fast else ROUNDS)


def rows(
    figure: str, found: dict[str, list[float]], *, stock: float, goal: float | None = None, limit: float | None = None
) -> list[Row]:
    """Return the rate of the service as a ratio to that of each control."""
    rate = medians(found)

    def row(control: str, words: str, at_least: float | None, goal: float | None = None) -> Row:
        compared = {name: found[name] for name in (SERVICE, control)}
        return Row(
            figure,
            round(rate[SERVICE] / rate[control], 2),
            "x",
            words,
            at_least=at_least,
            goal=goal,
            beside={f"{name}/s": round(rate[name]) for name in compared},
        )

    return [
        row(GUNICORN, f"{GUNICORN}, 64 threads", stock, goal),
        row(GRANIAN, f"{GRANIAN}, 4 threads", None),
        row(LIMIT, "limit on the shipped server", limit),
    ]
