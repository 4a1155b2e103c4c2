"""Statistics of the calls through relayers."""

from datetime import timedelta

from django.db import models

from relayer_service.storage.latencies import DurationCounts
from relayers.models import Relayer


class CallCount(DurationCounts):
    """The calls of a method through a relayer in one minute, by outcome, with their durations."""

    relayer = models.ForeignKey(Relayer, on_delete=models.CASCADE, related_name="call_counts")
    minute = models.DateTimeField(db_index=True)
    method = models.CharField(max_length=64)
    outcome = models.CharField(max_length=32, help_text="`ok`, or the code of the error.")
    calls = models.PositiveBigIntegerField(default=0)
    milliseconds = models.PositiveBigIntegerField(default=0, help_text="Of all calls together.")
    slowest_milliseconds = models.PositiveBigIntegerField(default=0)

    # One more day than the longest chart has.
    RETENTION = timedelta(days=31)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["relayer", "minute", "method", "outcome"], name="call_count_once_a_minute")
        ]

    def __str__(self) -> str:
        return f"{self.method} {self.outcome} at {self.minute:%Y-%m-%d %H:%M}"


class CallHour(DurationCounts):
    """The calls through all relayers in one hour, by outcome, with their durations."""

    hour = models.DateTimeField()
    outcome = models.CharField(max_length=32, help_text="`ok`, or the code of the error.")
    calls = models.PositiveBigIntegerField(default=0)
    milliseconds = models.PositiveBigIntegerField(default=0, help_text="Of all calls together.")
    slowest_milliseconds = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["hour", "outcome"], name="call_hour_once_an_outcome")]
        # Only the overview shows them.
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.outcome} at {self.hour:%Y-%m-%d %H:%M}"
