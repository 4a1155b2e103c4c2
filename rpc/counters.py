"""Counting JSON-RPC calls by relayer, hour, method and outcome, and over all relayers by hour and outcome."""

from collections.abc import Sequence
from datetime import timedelta

from django.utils import timezone

from relayer_service.background.counts import PendingCounts
from relayer_service.observability import call_counts
from relayer_service.observability.call_counts import ALL_RELAYERS, RELAYER, CallCount, Counted, Key, Tally
from rpc import metrics

METHOD_LENGTH = CallCount._meta.get_field("method").max_length
OUTCOME_LENGTH = CallCount._meta.get_field("outcome").max_length
# One more day than the longest chart has.
RETENTION = timedelta(days=31)


def count(relayer_pk: int, method: str, outcome: str, seconds: float) -> None:
    """Count a call of a registered method or of `unknown`; the outcome is `ok` or an error's code."""
    metrics.CALLS.labels(method, outcome).inc()
    metrics.LATENCY.labels(method).observe(seconds)
    now = timezone.now()
    hour = now.replace(minute=0, second=0, microsecond=0)
    key = Key(RELAYER, hour, str(relayer_pk), method[:METHOD_LENGTH], outcome[:OUTCOME_LENGTH])
    counter.add(key, Tally.of_call(seconds, now))


def write(rows: Sequence[Counted]) -> None:
    totals: dict[Key, Tally] = {}
    for key, tally in rows:
        totals.setdefault(Key(ALL_RELAYERS, key.start, outcome=key.outcome), Tally()).add(tally)
    call_counts.write([*rows, *totals.items()])


counter: PendingCounts[Key, Tally] = PendingCounts("call counts", write)
flush = counter.flush
