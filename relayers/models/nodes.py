"""The nodes that staff have taken out. A node is known by its key, never by its URL."""

from typing import Any

from django.db import models

from chain.nodes.observers import KEY_LENGTH


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
