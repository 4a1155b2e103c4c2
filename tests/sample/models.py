from django.db import models
from django.utils import timezone

from relayer_service.leases import Leased


class Item(models.Model):
    """The smallest resource that has what all resources have."""

    id = models.CharField(max_length=255, primary_key=True)
    name = models.TextField()
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["created_at", "id"]
        indexes = [models.Index(fields=["created_at", "id"])]

    def __str__(self) -> str:
        return self.id


class Job(Leased):
    """A piece of work that a worker must do at least once."""

    done = models.IntegerField(default=0)
    seconds = models.FloatField(default=0)
