"""Statistics of nodes, and the nodes that staff have taken out. A node is known by its key, never by its URL."""

from datetime import timedelta
from typing import Any

from django.db import models

from chain.node_calls import KEY_LENGTH
from relayer_service.storage.latencies import DurationCounts


class NodeCalls(DurationCounts):
    """The calls of all processes to a node in ten minutes, with their durations and its last head block."""

    node = models.CharField(max_length=KEY_LENGTH, help_text="The keyed hash of its URL.")
    slot = models.DateTimeField(db_index=True, help_text="The start of the ten minutes.")
    calls = models.PositiveBigIntegerField(default=0)
    failed = models.PositiveBigIntegerField(default=0)
    slowest_milliseconds = models.PositiveBigIntegerField(default=0)
    head = models.PositiveBigIntegerField(null=True)
    head_at = models.DateTimeField(null=True, help_text="The time of that block, or else when it was first seen.")
    answered_at = models.DateTimeField(null=True)
    failed_at = models.DateTimeField(null=True)
    last_fault = models.CharField(max_length=200, default="")

    LENGTH = timedelta(minutes=10)
    # More than the page shows.
    RETENTION = timedelta(hours=2)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["node", "slot"], name="node_calls_once_a_slot")]
        # Only the page of nodes shows them.
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.node} at {self.slot:%Y-%m-%d %H:%M}"


class NodeOutage(models.Model):
    """A node that staff have taken out until a time: it is called after all others."""

    node = models.CharField(max_length=KEY_LENGTH, unique=True, help_text="The keyed hash of its URL.")
    url = models.CharField(max_length=2048, help_text="Masked.")
    network = models.CharField(max_length=64)
    until = models.DateTimeField()
    by = models.CharField(max_length=150)
    reason = models.CharField(max_length=500)

    class Meta:
        verbose_name = "node taken out"
        verbose_name_plural = "nodes taken out"
        # Part of the page of nodes.
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.url} ({self.network})"

    def audited(self) -> dict[str, Any]:
        return {"node": self.url, "network": self.network, "taken_out_until": self.until.isoformat(timespec="seconds")}
