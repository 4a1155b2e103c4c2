"""What is killed, when, and how many transactions and workers there are."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, Self

SQLITE, POSTGRESQL = "SQLite", "PostgreSQL"

# What happens in a case besides kills, and the steps (`transactions/records/crash_points.py`) at which it is killed.
ACCEPT, SEND, BUMP, SEAL, REQUEUE = "accept", "send", "bump", "seal", "requeue"
CANCEL, REPLACE, SPEED_UP = "cancel", "replace", "speed-up"
POINTS: dict[str, tuple[str, ...]] = {
    ACCEPT: ("accepted", "accept_committed"),
    SEND: (
        "claimed",
        "read",
        "planned",
        "signed",
        "before_commit",
        "commit_sent",
        "committed",
        "before_broadcast",
        "broadcast_first",
        "broadcast",
        "outcomes_written",
        "settled",
    ),
    # A price is raised, nonces are closed with no-ops, a row is queued again as its nonce was used elsewhere.
    BUMP: ("before_commit", "committed", "broadcast"),
    SEAL: ("before_commit", "committed", "broadcast"),
    REQUEUE: ("settled", "identified", "committed"),
    # Of the first transaction, once all are submitted.
    CANCEL: ("requested", "request_committed", "before_commit", "committed", "broadcast"),
    REPLACE: ("requested", "request_committed", "before_commit", "committed", "broadcast"),
    SPEED_UP: ("request_committed", "before_commit", "committed"),
}
# Of automatic top-ups, in order; the last two come after the commit (`tests/transactions/test_topups.py`).
TOP_UP_POINTS = ("top_up_read", "accepted", "top_up_written", "top_up_committed", "top_up_settled")
# Steps that only tests have, each at one of the code: the commit is sent and its answer not read, and nodes have got
# the first transactions of a batch only.
REFINED = {"commit_sent": "before_commit", "broadcast_first": "broadcast"}
# These decide what a block costs and which transactions it has, so each has a chain for itself.
QUIET = {BUMP, REQUEUE, CANCEL, REPLACE, SPEED_UP}
# Steps of the process that a client calls, not of a worker.
REQUEST_STEPS = {"requested", "request_committed"}
# In CI, where kills that do not hide each other follow each other in one case: what is not committed is done again.
CHAINS: dict[str, tuple[tuple[str, ...], ...]] = {
    ACCEPT: (("accepted",), ("accept_committed",)),
    SEND: (
        ("claimed", "read", "planned", "signed", "before_commit"),
        ("commit_sent",),
        ("committed", "before_broadcast", "broadcast_first"),
        ("broadcast", "settled"),
        ("outcomes_written",),
    ),
    BUMP: (("before_commit", "committed", "broadcast"),),
    SEAL: (("before_commit", "committed", "broadcast"),),
    REQUEUE: (("settled",), ("identified", "committed")),
    CANCEL: (("requested",), ("request_committed",), ("before_commit", "committed", "broadcast")),
    REPLACE: (("requested",), ("request_committed",), ("before_commit", "committed", "broadcast")),
    SPEED_UP: (("request_committed",), ("before_commit", "committed")),
}
# In CI on PostgreSQL.
FEW: dict[str, tuple[tuple[str, ...], ...]] = {
    SEND: (("before_commit", "committed"), ("commit_sent",), ("broadcast", "settled"))
}


@dataclass(frozen=True)
class Case:
    engine: str
    scenario: str
    # In turn, each as `step:count`: the process ends when it reaches the step for the count-th time.
    kills: tuple[str, ...]
    transactions: int = 2
    workers: int = 1
    # Whether new workers start at once, or when the lease of the killed one is over.
    after_lease: bool = False
    # Whether the database connections are cut at the step, instead of a kill.
    cuts: bool = False
    seed: int | None = None

    @property
    def must_be_reached(self) -> bool:
        """Whether each kill happens for certain: a random one may come too late."""
        return self.seed is None

    @property
    def kills_request(self) -> bool:
        """Whether the process ends that a client calls to change a transaction."""
        return self.kills[0].partition(":")[0] in REQUEST_STEPS

    def __str__(self) -> str:
        what = "cut" if self.cuts else "kill"
        restart = "after lease" if self.after_lease else "at once"
        seed = "" if self.seed is None else f"-seed {self.seed}"
        return (
            f"{self.engine}-{self.scenario}-{what} {' '.join(self.kills)}-"
            f"{self.transactions}x{self.workers}-{restart}{seed}"
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        return cls(**values | {"kills": tuple(values["kills"])})


def every_point(engine: str, *, transactions: int = 2, workers: int = 1, after_lease: bool = False) -> list[Case]:
    return [
        Case(engine, scenario, (f"{step}:1",), transactions, workers, after_lease)
        for scenario, steps in POINTS.items()
        for step in steps
    ]


def in_chains(engine: str, chains: dict[str, tuple[tuple[str, ...], ...]]) -> list[Case]:
    return [
        Case(engine, scenario, tuple(f"{step}:1" for step in steps))
        for scenario, cases in chains.items()
        for steps in cases
    ]


def random_case(engine: str, seed: int) -> Case:
    """One to four kills one after the other, at any step of sending, for the first time or a later one."""
    chosen = random.Random(seed)
    kills = tuple(f"{chosen.choice(POINTS[SEND])}:{chosen.randint(1, 3)}" for _ in range(chosen.randint(1, 4)))
    return Case(
        engine,
        SEND,
        kills,
        transactions=chosen.randint(1, 16),
        workers=chosen.randint(1, 2),
        after_lease=chosen.random() < 0.5,
        seed=seed,
    )


def everything(seeds: int) -> Iterator[Case]:
    for engine, transactions, workers, after_lease in product((SQLITE, POSTGRESQL), (1, 2, 16), (1, 2), (False, True)):
        yield from every_point(engine, transactions=transactions, workers=workers, after_lease=after_lease)
    for transactions, workers, step in product((1, 2, 16), (1, 2), ("before_commit", "committed", "settled")):
        yield Case(POSTGRESQL, SEND, (f"{step}:1",), transactions, workers, cuts=True)
    for engine, seed in product((SQLITE, POSTGRESQL), range(seeds)):
        yield random_case(engine, seed)
