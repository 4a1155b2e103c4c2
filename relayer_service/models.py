from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import models
from django.utils import timezone


class PeriodicRunManager(models.Manager["PeriodicRun"]):
    def claim(self, name: str, slot: int) -> PeriodicRun | None:
        """Claim a slot of time for one run; of many callers with the same slot, one gets it."""
        now = timezone.now()
        self.get_or_create(name=name, defaults={"slot": 0, "started_at": now})
        if not self.filter(name=name, slot__lt=slot).update(slot=slot, started_at=now):
            return None
        return PeriodicRun(name=name, slot=slot, started_at=now)


class PeriodicRun(models.Model):
    """The newest run of one piece of periodic work."""

    name = models.CharField(max_length=100, primary_key=True)
    slot = models.BigIntegerField(help_text="The number of the interval that ran last.")
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, help_text="When a run last ended well.")
    seconds = models.FloatField(null=True, help_text="How long that run took.")
    failed = models.BooleanField(default=False, help_text="Whether the newest run failed; the log has its error.")

    objects = PeriodicRunManager()

    class Meta:
        ordering = ["name"]
        verbose_name = "periodic work"
        verbose_name_plural = "periodic work"

    def __str__(self) -> str:
        return self.name

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Record how the run ends."""
        started = time.monotonic()
        row = PeriodicRun.objects.filter(name=self.name)
        try:
            yield
        except BaseException:
            row.update(failed=True)
            raise
        row.update(failed=False, finished_at=timezone.now(), seconds=time.monotonic() - started)
