"""Transactions, their statuses and actions, and the timeline of each."""

from typing import Any

from django.db import models
from django.db.models import F, Q

from relayer_service.database.clock import DatabaseNow
from relayer_service.database.prefixes import prefix_index
from relayer_service.observability import tracing
from relayer_service.storage.resources import MAX_IDENTIFIER_LENGTH, Resource
from relayers.models import Relayer
from spending.models import SpendingPolicy
from transactions.models.attempts import Attempt
from transactions.models.lanes import Lane


class Status(models.TextChoices):
    PENDING = "pending", "Pending"
    SENT = "sent", "Sent"
    SUBMITTED = "submitted", "Submitted"
    MINED = "mined", "Mined"
    CONFIRMED = "confirmed", "Confirmed"
    FAILED = "failed", "Failed"
    CANCELED = "canceled", "Canceled"
    EXPIRED = "expired", "Expired"


# Broadcast, or about to be: the nonce is committed, and nothing final is known.
IN_FLIGHT = (Status.SENT, Status.SUBMITTED)
OPEN = (Status.PENDING, *IN_FLIGHT, Status.MINED)
UNSUCCESSFUL = (Status.FAILED, Status.CANCELED, Status.EXPIRED)
FINAL = (Status.CONFIRMED, *UNSUCCESSFUL)
# By columns that change once or twice: `status` is in no index, so that about half of the updates touch none (HOT).
# The check constraints below keep these equivalent to `status`.
IS_OPEN = Q(finished_at=None)
IS_PENDING = Q(finished_at=None, nonce=None)
HAS_OPEN_NONCE = Q(finished_at=None, nonce__isnull=False)
IS_IN_FLIGHT = HAS_OPEN_NONCE & Q(status__in=IN_FLIGHT)
IS_CONFIRMED = Q(finished_at__isnull=False, unsuccessful=None)
IS_UNSUCCESSFUL = Q(unsuccessful__isnull=False)
IS_IN_STATUS: dict[str, Q] = {
    Status.PENDING: IS_PENDING,
    **{status: HAS_OPEN_NONCE & Q(status=status) for status in (*IN_FLIGHT, Status.MINED)},
    Status.CONFIRMED: IS_CONFIRMED,
    **{status: Q(unsuccessful=status) for status in UNSUCCESSFUL},
}
# They wait until a spending limit has room, or until nodes that contradict each other agree.
IS_OVER_LIMIT = IS_PENDING & Q(reason_code="limit")
IS_DISPUTED = IS_IN_STATUS[Status.MINED] & ~Q(status_reason="")
# Final rows that may not have executed the dearest of their payloads, as far as one node has reported.
UNCORROBORATED = Q(corroborated_at=None, finished_at__isnull=False) & (IS_UNSUCCESSFUL | Q(payload_version__gt=1))
HAS_KEY = Q(idempotency_key__isnull=False)
# The columns of the indexes of a relayer's lists.
LISTED_BY = ["relayer", "-sequence", "kind"]


class Transaction(Resource):
    """A transaction that a client requested, or a nonce of the lane that was used otherwise (`kind`)."""

    class Kind(models.TextChoices):
        REQUEST = "request", "Request"
        GAP = "gap", "No-op that closes a nonce"
        EXTERNAL = "external", "Sent by another program"

    class Pricing(models.TextChoices):
        SPEED = "speed", "By speed"
        LEGACY = "legacy", "Gas price"
        EIP1559 = "eip1559", "Maximum fees"

    class Speed(models.TextChoices):
        SAFE_LOW = "safeLow", "safeLow"
        AVERAGE = "average", "average"
        FAST = "fast", "fast"
        FASTEST = "fastest", "fastest"

    class Action(models.TextChoices):
        """What the lane has to do with a row: a no-op at its nonce, another payload, or a higher price."""

        CANCEL = "cancel", "Cancel"
        REPLACE = "replace", "Replace"
        SPEED_UP = "speed_up", "Speed up"
        EXPIRE = "expire", "Expire"
        CLOSE = "close", "Close: no node accepts it"

    class Reason(models.TextChoices):
        """What programs read of `status_reason`, where something depends on it."""

        FUNDS = "funds", "The balance does not cover it"
        LIMIT = "limit", "A spending limit does not allow it now"
        NONCE_USED = "nonce_used", "Its nonce was used, by none of its attempts"

    # Without a constraint: final transactions outlive their relayer. Accepting locks the lane, which has one.
    relayer = models.ForeignKey(
        Relayer, on_delete=models.DO_NOTHING, null=True, db_constraint=False, db_index=False, related_name="+"
    )
    lane = models.ForeignKey(Lane, on_delete=models.PROTECT, db_index=False, related_name="transactions")
    epoch = models.PositiveIntegerField(default=0, help_text="The lane's epoch of its nonce.")
    kind = models.CharField(max_length=16, choices=Kind, default=Kind.REQUEST)
    requested_by = models.CharField(max_length=255, blank=True, help_text="The token or user that requested it.")
    # The family of the token that requested it; empty for staff, the service and earlier releases.
    requester = models.CharField(max_length=32, blank=True, default="", db_default="", editable=False)
    # Without a constraint, which would lock this table while it is added. Planning fails a row whose policy is gone.
    token_spending = models.ForeignKey(
        SpendingPolicy,
        on_delete=models.DO_NOTHING,
        null=True,
        db_constraint=False,
        db_index=False,
        related_name="+",
        help_text="The spending rules of the token that requested it.",
    )
    idempotency_key = models.CharField(max_length=255, null=True)  # noqa: DJ001  # unique where it is set
    request_digest = models.CharField(max_length=64, blank=True)
    traceparent = models.CharField(
        max_length=tracing.MAX_LENGTH,
        blank=True,
        default="",
        db_default="",
        help_text="The trace of the request that sent it.",
    )

    # What a client finds its transaction by: set once, as indexes have them, and NULL in most rows.
    external_id = models.CharField(  # noqa: DJ001  # NULL where there is none, as for keys
        "external ID", max_length=MAX_IDENTIFIER_LENGTH, null=True, help_text="The client's own ID; not unique."
    )
    metadata = models.JSONField(null=True, help_text="The client's own pairs of strings.")

    status = models.CharField(max_length=16, choices=Status, default=Status.PENDING)
    status_reason = models.TextField(blank=True, help_text="Why it is in this status, and not further.")
    # NULL, or the code of an earlier reason, if a release before 0.1.0 wrote the reason.
    reason_code = models.CharField(  # noqa: DJ001  # SQLite adds it without a new table, which would lose triggers
        max_length=16, choices=Reason, null=True, editable=False
    )
    waiting_cost_text = models.CharField(  # noqa: DJ001  # as for `reason_code`
        "maximum cost", max_length=78, null=True, editable=False, help_text="In wei, while it waits for funds."
    )
    # +1 with every change: each writer compares the version that it has read.
    version = models.PositiveIntegerField(default=1)
    # Of a pending row, when it is considered next; of one in flight, since when a replacement is to be signed.
    due_at = models.DateTimeField(default=DatabaseNow, editable=False)
    tries = models.PositiveIntegerField(default=0, help_text="How often it was considered and had to wait.")
    requested_action = models.CharField(max_length=16, blank=True, choices=Action)
    action_reason = models.TextField(blank=True)
    action_actor = models.TextField(
        blank=True, default="", db_default="", help_text="Who requested the last action, such as `token payments`."
    )
    action_note = models.TextField(
        blank=True, default="", db_default="", help_text="The reason that was sent with the last action."
    )

    noop_price_text = models.CharField(
        "price of the no-op",
        max_length=78,
        blank=True,
        default="",
        db_default="",
        help_text="The maximum price of gas with which staff cancel it; empty for that of the market.",
    )

    payload_version = models.PositiveIntegerField(
        default=1,
        db_default=1,
        help_text="+1 with every replacement: attempts have the version that they were signed with.",
    )
    to = models.CharField(max_length=42, blank=True, help_text="The receiver; empty to create a contract.")
    recipient = models.CharField(  # noqa: DJ001  # as for `reason_code`
        max_length=42, null=True, editable=False, help_text="Who gets the ERC-20 tokens, or may spend them."
    )
    # Amounts are text: not every database stores integers of 256 bits exactly.
    value_text = models.CharField("value", max_length=78, default="0")
    data = models.BinaryField(default=b"")
    requested_gas_limit = models.PositiveBigIntegerField(null=True)
    pricing = models.CharField(max_length=8, choices=Pricing, default=Pricing.SPEED)
    speed = models.CharField(max_length=8, choices=Speed, blank=True, default=Speed.FAST)
    gas_price_text = models.CharField("gas price", max_length=78, blank=True)
    max_fee_text = models.CharField("max fee per gas", max_length=78, blank=True)
    max_priority_fee_text = models.CharField("max priority fee per gas", max_length=78, blank=True)
    valid_until = models.DateTimeField()

    is_private = models.BooleanField(
        "private",
        default=False,
        db_default=False,
        help_text="Its payload goes to private nodes alone; it stays so when the policy changes.",
    )

    nonce = models.PositiveBigIntegerField(null=True)
    # Without constraints, which would need an index each: an attempt is deleted with its transaction alone.
    last_attempt = models.ForeignKey(
        Attempt,
        on_delete=models.DO_NOTHING,
        null=True,
        db_constraint=False,
        db_index=False,
        related_name="+",
        help_text="The newest one.",
    )
    mined_attempt = models.ForeignKey(
        Attempt, on_delete=models.DO_NOTHING, null=True, db_constraint=False, db_index=False, related_name="+"
    )
    sent_at = models.DateTimeField(null=True)
    submitted_at = models.DateTimeField(null=True)
    mined_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True, help_text="When it reached a final status.")
    unsuccessful = models.CharField(  # noqa: DJ001  # a condition of indexes, which SQLite proves of NULL alone
        max_length=16, null=True, editable=False, help_text="Its final status, unless it is confirmed."
    )

    block_number = models.PositiveBigIntegerField(null=True)
    block_hash = models.CharField(max_length=66, blank=True)
    succeeded = models.BooleanField(null=True)
    gas_used = models.PositiveBigIntegerField(null=True)
    effective_gas_price_text = models.CharField("effective gas price", max_length=78, blank=True)
    l1_fee_text = models.CharField(
        "L1 fee", max_length=78, blank=True, default="", db_default="", help_text="On top of gas, if reported."
    )
    contract_address = models.CharField(max_length=42, blank=True)
    revert_data = models.BinaryField(default=b"")
    corroborated_at = models.DateTimeField(null=True, help_text="When a second node reported the same result.")
    contradicted_at = models.DateTimeField(
        null=True, help_text="When the chain was found to contradict its final status."
    )

    # Of a transaction found on the chain after commits may have been lost: its request may be lost.
    unclaimed_until = models.DateTimeField(null=True, help_text="Until when requests with its payload wait for staff.")
    claim_released = models.BooleanField(default=False, help_text="Staff decided that it is not a repeated request.")

    class Meta(Resource.Meta):
        constraints = [
            # Every nonce of a lane belongs to exactly one row.
            models.UniqueConstraint(
                fields=["lane", "epoch", "nonce"], condition=Q(nonce__isnull=False), name="transaction_nonce"
            ),
            models.UniqueConstraint(
                fields=["relayer", "idempotency_key"], condition=HAS_KEY, name="transaction_idempotency_key"
            ),
            # A lane outlives its relayer: a retry through the next relayer of the account is the same request.
            models.UniqueConstraint(
                fields=["lane", "idempotency_key"], condition=HAS_KEY, name="transaction_lane_key"
            ),
            models.CheckConstraint(
                condition=~Q(status=Status.PENDING) | Q(nonce=None), name="transaction_pending_without_nonce"
            ),
            models.CheckConstraint(
                condition=~Q(status__in=[Status.SENT, Status.SUBMITTED, Status.MINED]) | Q(nonce__isnull=False),
                name="transaction_nonce_once_sent",
            ),
            models.CheckConstraint(
                condition=~Q(status__in=[Status.MINED, Status.CONFIRMED]) | Q(mined_attempt__isnull=False),
                name="transaction_mined_attempt",
            ),
            models.CheckConstraint(
                condition=~Q(status__in=FINAL) | Q(requested_action=""), name="transaction_final_without_action"
            ),
            models.CheckConstraint(
                condition=Q(status__in=OPEN, finished_at=None, unsuccessful=None)
                | Q(IS_CONFIRMED, status=Status.CONFIRMED)
                | Q(finished_at__isnull=False, unsuccessful=F("status"), status__in=UNSUCCESSFUL),
                name="transaction_status",
            ),
        ]
        indexes = [
            models.Index("lane", "nonce", name="transaction_unfinished", condition=IS_OPEN),
            models.Index("lane", "sequence", name="transaction_queue", condition=IS_PENDING),
            models.Index("lane", "due_at", "sequence", name="transaction_queue_due", condition=IS_PENDING),
            models.Index("lane", "valid_until", name="transaction_valid_until", condition=IS_PENDING),
            models.Index("finished_at", name="transaction_finished", condition=Q(finished_at__isnull=False)),
            models.Index("finished_at", name="transaction_unverified", condition=UNCORROBORATED),
            models.Index("lane", name="transaction_over_limit", condition=IS_OVER_LIMIT),
            models.Index("lane", name="transaction_unclaimed", condition=Q(unclaimed_until__isnull=False)),
            # For lists. The kind comes last, so that totals are counted from the index alone.
            models.Index(fields=LISTED_BY, name="transaction_relayer"),
            models.Index(fields=LISTED_BY, name="transaction_relayer_queue", condition=IS_PENDING),
            models.Index(fields=LISTED_BY, name="transaction_relayer_in_flight", condition=HAS_OPEN_NONCE),
            models.Index(fields=LISTED_BY, name="transaction_confirmed", condition=IS_CONFIRMED),
            # Few rows, as most transactions are confirmed.
            models.Index(
                fields=["unsuccessful", *LISTED_BY], name="transaction_relayer_ended", condition=IS_UNSUCCESSFUL
            ),
            models.Index(fields=["unsuccessful", "-sequence"], name="transaction_ended", condition=IS_UNSUCCESSFUL),
            models.Index(fields=["kind", "-sequence"], name="transaction_other_kind", condition=~Q(kind="request")),
            prefix_index("identifier", name="transaction_identifier_prefix"),
            prefix_index("to", name="transaction_to_prefix"),
            prefix_index("recipient", name="transaction_recipient", where_set=True),
            # For searches by what clients and staff know of a transaction.
            prefix_index("idempotency_key", name="transaction_key_prefix", where_set=True),
            prefix_index("external_id", name="transaction_external_id", where_set=True),
            models.Index(fields=["requester", "-sequence"], name="transaction_requester"),
            models.Index(fields=["created_at"], name="transaction_created"),
            models.Index(
                fields=["relayer", "-finished_at", "-sequence", "kind"],
                name="transaction_relayer_finished",
                condition=Q(finished_at__isnull=False),
            ),
        ]

    @property
    def value(self) -> int:
        return int(self.value_text)

    @property
    def attempt(self) -> Attempt | None:
        """The attempt in a block, or else the newest one; without a nonce, its attempts were of a former one."""
        return self.mined_attempt or (None if self.nonce is None else self.last_attempt)

    @property
    def is_ending(self) -> bool:
        """Whether it will be closed: without a nonce at once, otherwise by a no-op unless it is mined first."""
        return self.requested_action in NOOP_PURPOSES

    def audited(self) -> dict[str, Any]:
        return {"status": self.status, "nonce": self.nonce}


# An action that ends a row, by the purpose of the no-op that takes its nonce.
NOOP_PURPOSES: dict[str, Attempt.Purpose] = {
    Transaction.Action.CANCEL: Attempt.Purpose.CANCEL,
    Transaction.Action.EXPIRE: Attempt.Purpose.EXPIRE,
    Transaction.Action.CLOSE: Attempt.Purpose.CLOSE,
}
NOOPS = {*NOOP_PURPOSES.values(), Attempt.Purpose.GAP}


class MetadataPair(models.Model):
    """A pair of the metadata of a transaction, to find it by. Triggers write and delete it with the transaction."""

    pk = models.CompositePrimaryKey("transaction", "key")
    transaction = models.ForeignKey(
        Transaction, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    key = models.CharField(max_length=40)
    value = models.CharField(max_length=500)

    class Meta:
        indexes = [models.Index(fields=["key", "value", "-transaction"], name="metadata_pair")]

    def __str__(self) -> str:
        return f"{self.key}:{self.value}"


class StatusChange(models.Model):
    """One entry of the timeline of a transaction."""

    transaction = models.ForeignKey(Transaction, on_delete=models.CASCADE, related_name="changes", db_index=False)
    version = models.PositiveIntegerField()
    from_status = models.CharField(max_length=16, choices=Status, blank=True)
    to_status = models.CharField(max_length=16, choices=Status)
    at = models.DateTimeField()
    reason = models.TextField(blank=True)
    # Without a constraint, as in `Transaction`.
    attempt = models.ForeignKey(
        Attempt, on_delete=models.DO_NOTHING, null=True, db_constraint=False, related_name="+", db_index=False
    )
    block_number = models.PositiveBigIntegerField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["transaction", "version"], name="status_change_version")]

    def __str__(self) -> str:
        return f"{self.from_status} to {self.to_status}"
