from collections.abc import Collection
from copy import deepcopy
from typing import Any, ClassVar

from django.core.exceptions import ObjectDoesNotExist
from django.db import models
from django.db.models.fields.related_descriptors import ReverseOneToOneDescriptor

from relayer_service.database.clock import DatabaseNow
from relayer_service.database.prefixes import DigitsOrder
from relayer_service.storage.leases import Leased, LeasedQuerySet

# Balances that are unknown are the lowest.
BALANCE_ORDER = DigitsOrder("health__balance_text")
# Columns with readings of the account, and their values before the first one.
NO_READINGS: dict[str, Any] = {
    "nonce": None,
    "balance_text": "",
    "balance_at": None,
    "balance_is_low": False,
    "low_since": None,
    "balance_hours": [],
    "outflow_days": [],
    "runway_is_short": False,
}

# Each has its own index.
DISABLED = models.Q(system_disabled=True)
LOW_BALANCE = models.Q(balance_is_low=True)
UNKNOWN = models.Q(system_disabled=False) & (
    models.Q(checked_at=None) | models.Q(nonce=None) | models.Q(balance_text="")
)
WORKING = models.Q(system_disabled=False, balance_is_low=False) & models.Q(
    checked_at__isnull=False, nonce__isnull=False, balance_text__gt=""
)
# Still enabled: more failed checks disable it.
NODES_FAILING = models.Q(failed_checks__gt=0, system_disabled=False)
# Causes for which the health check fails, enabled or not.
BALANCE_USED_UP_SOON = "balance used up soon"
NO_NODE_ANSWERS, OTHER_ADDRESS = "no node answers", "address differs from the signer's"
CHECK_FAILURES = {
    NO_NODE_ANSWERS: models.Q(failed_checks__gt=0),
    OTHER_ADDRESS: models.Q(system_disabled=True, failed_checks=0),
}
# Low ones are listed as such.
USED_UP_SOON = models.Q(runway_is_short=True, balance_is_low=False)
INDEXED = {
    "disabled": DISABLED,
    "low_balance": LOW_BALANCE,
    "unknown": UNKNOWN,
    "working": WORKING,
    "nodes_failing": NODES_FAILING,
}
BY_NETWORK = [
    ("health_check_failures", ["system_disabled", "failing_since", "relayer"], CHECK_FAILURES[NO_NODE_ANSWERS]),
    ("health_other_address", ["failing_since", "relayer"], CHECK_FAILURES[OTHER_ADDRESS]),
    ("health_low_by_network", ["low_since", "relayer"], LOW_BALANCE),
    ("health_used_up_soon", ["relayer"], USED_UP_SOON),
]


def of_relayer(condition: models.Q) -> models.Q:
    """Return a condition of `RelayerHealth` as one of `Relayer`."""
    children: list[Any] = [
        of_relayer(child) if isinstance(child, models.Q) else (f"health__{child[0]}", child[1])
        for child in condition.children
        if isinstance(child, models.Q | tuple)
    ]
    return models.Q.create(children, condition.connector, condition.negated)


class HealthAccessor(ReverseOneToOneDescriptor):  # type: ignore[type-arg]  # Django cannot subscript it
    """Returns the health of a relayer; without a row, the health of a new relayer."""

    def __get__(self, instance: Any, cls: Any = None) -> Any:
        try:
            return super().__get__(instance, cls)
        except ObjectDoesNotExist:
            return RelayerHealth(relayer=instance)


class HealthKey(models.OneToOneField[Any, Any]):
    related_accessor_class = HealthAccessor

    def deconstruct(self) -> Any:
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.OneToOneField", args, kwargs


class HealthQuerySet(LeasedQuerySet):
    def check_again(self, relayers: Collection[int], **changes: Any) -> None:
        """Make relayers due, with these changes. A check in progress has read the old ones, so it loses its lease."""
        if self.filter(pk__in=relayers).update(due_at=DatabaseNow(), lease=None, **changes) < len(relayers):
            self.bulk_create([RelayerHealth(relayer_id=key) for key in relayers], ignore_conflicts=True)


class RelayerHealth(Leased):
    """What the health check finds out about a relayer, and when it is due. Only the service writes it."""

    class DisabledReason(models.TextChoices):
        NONCE_SYNC_FAILED = "NonceSyncFailed", "The nonce cannot be read from any node"

    relayer = HealthKey("relayers.Relayer", on_delete=models.CASCADE, primary_key=True, related_name="health")
    # A new relayer is due immediately.
    due_at = models.DateTimeField(null=True, db_index=True, default=DatabaseNow, editable=False)
    # A claim leaves `due_at` as it is: no index has this column, so that PostgreSQL updates none (a HOT update).
    leased_until = models.DateTimeField(null=True, editable=False)
    lease_end = "leased_until"

    # That of the relayer at its last check, for indexes.
    network = models.CharField(max_length=64, blank=True, editable=False)
    system_disabled = models.BooleanField(default=False, editable=False, help_text="Set by the health check.")
    disabled_reason_type = models.CharField(max_length=32, blank=True, editable=False, choices=DisabledReason)
    disabled_reason_details = models.TextField(blank=True, editable=False)
    checked_at = models.DateTimeField("last check", null=True, editable=False)
    # Amounts are text: not every database stores integers of 256 bits exactly.
    nonce = models.PositiveBigIntegerField(null=True, editable=False)
    balance_text = models.CharField("balance", max_length=78, blank=True, editable=False)
    balance_at = models.DateTimeField(null=True, editable=False, help_text="When the balance was last read.")
    balance_is_low = models.BooleanField(default=False, editable=False)
    balance_hours = models.JSONField(
        default=list, editable=False, help_text="The balance by hour; see `balance_hours.py`."
    )
    minimum_hours = models.JSONField(default=list, editable=False, help_text="The same of the minimum.")
    outflow_days = models.JSONField(default=list, editable=False, help_text="See `runway.py`.")
    runway_is_short = models.BooleanField(default=False, editable=False)
    failed_checks = models.PositiveIntegerField(default=0, editable=False, help_text="Consecutive failed checks.")
    good_checks = models.PositiveIntegerField(default=0, editable=False, help_text="Consecutive successful checks.")
    failing_since = models.DateTimeField(null=True, editable=False, help_text="When its checks started to fail.")
    low_since = models.DateTimeField(null=True, editable=False, help_text="When its balance fell below the minimum.")

    objects: ClassVar[Any] = HealthQuerySet.as_manager()

    class Meta:
        default_permissions = ()
        indexes = [
            *(models.Index("relayer", name=f"health_{name}", condition=each) for name, each in INDEXED.items()),
            # For counts by network on the overview, in the index alone.
            *(models.Index("network", *rest, name=name, condition=condition) for name, rest, condition in BY_NETWORK),
            models.Index("checked_at", "relayer", name="health_checked"),
            models.Index(DigitsOrder("balance_text"), "relayer", name="health_balance"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(system_disabled=True, disabled_reason_type="NonceSyncFailed")
                | models.Q(system_disabled=False, disabled_reason_type="", disabled_reason_details=""),
                name="health_reason_while_disabled",
            )
        ]

    def __str__(self) -> str:
        return f"the health of {self.relayer}"

    @property
    def balance(self) -> int | None:
        """The last balance that was read, in wei."""
        return int(self.balance_text) if self.balance_text else None

    def clear_readings(self) -> None:
        """Clear the readings of another account."""
        for name, value in deepcopy(NO_READINGS).items():
            setattr(self, name, value)

    @property
    def is_unknown(self) -> bool:
        return not self.system_disabled and (self.checked_at is None or self.nonce is None or not self.balance_text)
