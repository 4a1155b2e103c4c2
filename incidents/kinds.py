"""The kinds of incidents, and which causes of "Needs attention" belong to each.

An incident is a kind of cause on a network; while a node is down, its relayers and lanes report the same one.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import TextChoices

from relayer_service.console.overview.attention import Cause


class Kind(TextChoices):
    NODE_DOWN = "node_down", "Node down"
    CHAIN_HALTED = "chain_halted", "Chain halted"
    STUCK = "stuck", "Stuck transactions"
    FUNDS = "waiting_for_funds", "Waiting for funds"
    LOW_BALANCE = "low_balance", "Low balance"
    LIMIT = "limit_reached", "Limit reached"
    WEBHOOK = "webhook_failing", "Webhook failing"
    SIGNER = "signer_failing", "Signer failing"
    WORKER = "silent_worker", "Silent worker"
    HELD_LANE = "held_lane", "Held lane"
    CONTRADICTION = "contradiction", "Contradiction between nodes"
    FAILING = "transactions_failing", "Failing transactions"
    OTHER = "other", "Anything else"


# Its groups are its parts, of which there are few.
SERVICE_PART = "service.part"
# Their causes have each other as a consequence.
MERGED = {Kind.NODE_DOWN, Kind.CHAIN_HALTED, Kind.STUCK}
# By the kind of a cause, or by its key where only one group counts. What is missing here is `OTHER`.
KINDS = {
    "relayers.nodes": Kind.NODE_DOWN,
    "lanes.nodes": Kind.NODE_DOWN,
    "lanes.halted": Kind.CHAIN_HALTED,
    "lanes.behind": Kind.CHAIN_HALTED,
    "transactions.late": Kind.STUCK,
    "unsent": Kind.STUCK,
    "lanes.funds": Kind.FUNDS,
    "relayers.low": Kind.LOW_BALANCE,
    "relayers.runway": Kind.LOW_BALANCE,
    "transactions.limit": Kind.LIMIT,
    "webhooks.failing": Kind.WEBHOOK,
    "webhooks.gone": Kind.WEBHOOK,
    "lanes.signer": Kind.SIGNER,
    "relayers.no_address": Kind.SIGNER,
    f"{SERVICE_PART}:worker": Kind.WORKER,
    "service.workers": Kind.WORKER,
    "lanes.held": Kind.HELD_LANE,
    "transactions.disputed": Kind.CONTRADICTION,
    "transactions.failing": Kind.FAILING,
}


def kind_of(cause: Cause) -> Kind:
    return KINDS.get(cause.key) or KINDS.get(cause.kind) or Kind.OTHER


@dataclass(frozen=True)
class Problem:
    """The causes of one incident, as one reading found them."""

    kind: Kind
    causes: list[Cause]

    @property
    def key(self) -> str:
        return key_of(self.causes[0])

    @property
    def network(self) -> str:
        return self.causes[0].network

    @property
    def largest(self) -> list[Cause]:
        """The causes with the most rows, of those that count the same."""
        by_kind: dict[str, list[Cause]] = defaultdict(list)
        for cause in self.causes:
            by_kind[cause.kind].append(cause)
        return max(by_kind.values(), key=lambda causes: sum(cause.number for cause in causes))

    @property
    def number(self) -> int:
        return sum(cause.number for cause in self.largest)

    @property
    def title(self) -> str:
        """The title of the only cause, or what the titles of several have in common."""
        first = self.largest[0].title
        return first if len(self.largest) == 1 else first.partition(":")[0]

    @property
    def severe(self) -> bool:
        return any(cause.is_severe for cause in self.causes)

    @property
    def since(self) -> datetime | None:
        return min((cause.since for cause in self.causes if cause.since), default=None)


def key_of(cause: Cause) -> str:
    """Return the key of the incident of a cause: all groups of its kind that have its network are one."""
    kind = kind_of(cause)
    name = kind if kind in MERGED else cause.key if cause.kind == SERVICE_PART else cause.kind
    return f"{name}:{cause.network}"


def problems(causes: Iterable[Cause]) -> dict[str, Problem]:
    """Return what the causes are incidents of, by key."""
    found: dict[str, Problem] = {}
    for cause in causes:
        found.setdefault(key_of(cause), Problem(kind_of(cause), [])).causes.append(cause)
    return found
