"""Prometheus metrics of transactions and lanes, by network and never by relayer, as there may be many relayers.

Counters are per process. `Changes` counts what a change of status shows, once it is committed; the code that accepts,
signs, broadcasts and watches counts the rest.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import Count, Min, Q, QuerySet
from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric

from chain.networks import network_by_chain_id
from relayer_service.database.clock import database_now
from relayer_service.observability.metrics import BUCKETS, StateCollector, shared
from relayer_service.storage.resources import first_state
from transactions.models import (
    FINAL,
    IN_FLIGHT,
    IS_IN_FLIGHT,
    IS_OPEN,
    NEEDS_FUNDS,
    Lane,
    Status,
    Transaction,
    Waiting,
)
from transactions.records.queues import with_oldest_due

# Up to the eight hours after which a request usually expires.
STAGE_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3_600, 14_400, 28_800)
# By status, the stage that it ends.
STAGES: dict[str, str] = {
    Status.SENT: "to_sent",
    Status.SUBMITTED: "to_submitted",
    Status.MINED: "to_mined",
    **dict.fromkeys(FINAL, "to_final"),
}

ACCEPTED = Counter("relayer_transactions_accepted_total", "Transactions that were accepted.", ["network"])
SETTLED = Counter(
    "relayer_transactions_settled_total",
    "Transactions that reached a final status, by kind: requests, no-ops (`gap`) and those of other programs.",
    ["network", "kind", "status"],
)
STAGE_SECONDS = Histogram(
    "relayer_transaction_seconds",
    "Time from the acceptance of a request until it was first sent, submitted, mined, or final.",
    ["network", "stage"],
    buckets=STAGE_BUCKETS,
)
ATTEMPTS = Counter("relayer_transaction_attempts_total", "Signed attempts, by purpose.", ["network", "purpose"])
BROADCASTS = Counter("relayer_transaction_broadcasts_total", "Broadcasts, by outcome.", ["network", "outcome"])
BUMPS_STOPPED = Counter(
    "relayer_transaction_bumps_stopped_total", "Price rises that a ceiling did not allow.", ["network", "ceiling"]
)
REORGED = Counter("relayer_transactions_reorged_total", "Mined transactions that a reorg removed.", ["network"])
CONTRADICTED = Counter(
    "relayer_transactions_contradicted_total", "Final transactions that the chain contradicted later.", ["network"]
)
NONCES_TAKEN = Counter("relayer_nonces_taken_total", "Nonces that another program used.", ["network"])
GAS_PAID = Counter("relayer_transaction_gas_paid_wei_total", "Paid for gas of final transactions.", ["network"])
TOP_UPS = Counter("relayer_top_ups_total", "Automatic top-ups that ended, by state.", ["network", "state"])
SIGNER_SECONDS = Histogram(
    "relayer_signer_seconds", "Time that a signer took for a transaction.", ["type"], buckets=BUCKETS
)
WATCH_SECONDS = Histogram(
    "relayer_chain_watch_seconds", "Time to read a chain once for all its lanes.", ["network"], buckets=BUCKETS
)

OPEN_ROWS = """
SELECT lane.chain_id, counted.lane, counted.status, counted.number
FROM ({}) AS counted JOIN transactions_lane AS lane ON lane.id = counted.lane
"""


def network_label(chain_id: int) -> str:
    network = network_by_chain_id(chain_id)
    return network.name if network else str(chain_id)


def count(counter: Counter, chain_id: int, *labels: str) -> None:
    """Add one to a counter of a network, with its other labels."""
    counter.labels(network_label(chain_id), *labels).inc()


def observe_attempts(chain_id: int, purpose: str) -> None:
    count(ATTEMPTS, chain_id, purpose)


def observation(row: Transaction, before: str, now: datetime, is_first: bool) -> Callable[[], None]:
    """Return what counts a change of status once it is committed; the row is read before it changes again.

    `is_first` is whether it never had this status before.
    """
    network, kind, status = network_label(row.lane.chain_id), row.kind, row.status
    paid = (row.gas_used or 0) * int(row.effective_gas_price_text or 0)
    # `created_at` is by the clock of the process that accepted it.
    seconds = max(0.0, (now - row.created_at).total_seconds())

    def observe() -> None:
        if before == Status.MINED and status in (Status.PENDING, *IN_FLIGHT):
            REORGED.labels(network).inc()
        if kind == Transaction.Kind.REQUEST and is_first and status in STAGES:
            STAGE_SECONDS.labels(network, STAGES[status]).observe(seconds)
        # A contradicted transaction may become final a second time.
        if status in FINAL and before not in FINAL:
            SETTLED.labels(network, kind, status).inc()
            GAS_PAID.labels(network).inc(paid)

    return observe


class LaneCollector(StateCollector):
    name, text, states = "relayer_lanes", "Lanes, by state.", ["running", "held", *Waiting.values]

    def rows(self) -> QuerySet[Any]:
        # Before `held`: a held lane that cannot pay for what would end its hold waits for funds.
        conditions = {str(Waiting.FUNDS): NEEDS_FUNDS, "held": Q(held_since__isnull=False)}
        conditions |= {str(each): Q(waiting=each) for each in Waiting if each != Waiting.FUNDS}
        lanes: QuerySet[Any] = Lane.objects.order_by().annotate(state=first_state(conditions, "running"))
        return lanes

    def more(self) -> Iterable[Metric]:
        """Yield what open transactions show. They are counted by lane first: the lanes are joined after."""
        now = database_now()
        rows = Transaction.objects.filter(IS_OPEN).order_by()
        sql, parameters = rows.values_list("lane", "status").annotate(number=Count("*")).query.sql_with_params()
        open_rows: dict[tuple[str, str], int] = defaultdict(int)
        in_flight: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        queues: dict[str, int] = defaultdict(int)
        with connection.cursor() as cursor:
            cursor.execute(OPEN_ROWS.format(sql), parameters)
            found = cursor.fetchall()
        for chain_id, lane, status, count in found:
            network = network_label(chain_id)
            open_rows[network, status] += count
            if status == Status.PENDING:
                queues[network] = max(queues[network], count)
            if status in IN_FLIGHT:
                in_flight[network][lane] += count
        heads = rows.filter(IS_IN_FLIGHT).values_list("lane__chain_id").annotate(Min("lane__head_since"))
        ages = {network_label(chain): (now - head).total_seconds() if head else 0.0 for chain, head in heads}
        text = "Transactions without a final status."
        yield gauge("relayer_transactions_open", text, ["network", "status"], open_rows)
        text = "Maximum number of nonces in flight of a lane."
        maximums = {name: max(counts.values()) for name, counts in in_flight.items()}
        yield by_network("relayer_lane_in_flight_max", text, maximums)
        yield by_network("relayer_lane_queue_length_max", "Maximum number of queued requests of a lane.", queues)
        text = "Maximum time that a lane has waited for its lowest nonce in flight to be mined."
        yield by_network("relayer_lane_head_age_seconds_max", text, ages)
        oldest = with_oldest_due().order_by().values_list("chain_id").annotate(Min("oldest_due"))
        waits = {network_label(chain): max(0.0, (now - (due or now)).total_seconds()) for chain, due in oldest}
        text = "Time that the oldest due request without a nonce has waited; 0 if there is none."
        yield by_network("relayer_transaction_oldest_due_seconds", text, waits)


def by_network(name: str, text: str, values: dict[str, Any]) -> Metric:
    return gauge(name, text, ["network"], {(network,): value for network, value in values.items()})


def gauge(name: str, text: str, labels: list[str], values: Mapping[Any, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, value in sorted(values.items()):
        family.add_metric([*key], value)
    return family


shared.register(LaneCollector())
