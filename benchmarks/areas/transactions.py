"""Transactions: accepting, recovering, listing, queueing, pruning, on PostgreSQL and Redis; a day of fees."""

from benchmarks.databases import Bench
from benchmarks.report import Row
from benchmarks.sending import accepting, fees, latency, listing, pruning, queues, recovery


def measure(bench: Bench) -> list[Row]:
    parts = (accepting, latency, recovery, listing, queues, pruning, fees)
    return [row for part in parts for row in part.rows(bench)]
