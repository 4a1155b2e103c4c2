"""Sending: what a transaction costs workers, nodes and the database, and how many are confirmed in a second."""

from benchmarks.sending.cost import rows as measure

__all__ = ["measure"]
