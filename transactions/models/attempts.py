"""The signed attempts of transactions."""

from django.db import models

from transactions.models.lanes import Lane

# No account has more; callers may ask for more.
MAX_AMOUNT = 10**78 - 1


def amount_text(amount: int | None) -> str:
    """Return an amount as columns store it, at most the largest that they can; "" if there is none."""
    return "" if amount is None else str(min(amount, MAX_AMOUNT))


class Attempt(models.Model):
    """Signed bytes, committed before they are broadcast. Immutable, except for the outcomes of its broadcasts."""

    class Purpose(models.TextChoices):
        SEND = "send", "Send"
        BUMP = "bump", "Raise the price"
        REPLACE = "replace", "Replace the payload"
        CANCEL = "cancel", "No-op: canceled"
        EXPIRE = "expire", "No-op: expired"
        CLOSE = "close", "No-op: refused"
        GAP = "gap", "No-op: unused nonce"
        EXTERNAL = "external", "Found on the chain"

    transaction = models.ForeignKey("Transaction", on_delete=models.CASCADE, related_name="attempts", db_index=False)
    number = models.PositiveIntegerField()
    purpose = models.CharField(max_length=16, choices=Purpose)
    payload_version = models.PositiveIntegerField(default=1, db_default=1)
    lane = models.ForeignKey(Lane, on_delete=models.PROTECT, related_name="+", db_index=False)
    epoch = models.PositiveIntegerField()
    nonce = models.PositiveBigIntegerField()
    hash = models.CharField(max_length=66)
    raw = models.BinaryField(help_text="The signed transaction; empty if it was found on the chain.")
    gas_limit = models.PositiveBigIntegerField()
    gas_price_text = models.CharField("gas price", max_length=78, blank=True)
    max_fee_text = models.CharField("max fee per gas", max_length=78, blank=True)
    max_priority_fee_text = models.CharField("max priority fee per gas", max_length=78, blank=True)
    # The maximum that it can cost in wei, with its value and charges for L1.
    max_cost_text = models.CharField(max_length=78, default="0")
    signed_at = models.DateTimeField()
    private_since = models.PositiveBigIntegerField(
        null=True, help_text="The head block when it first went to private nodes; empty if it goes to public ones."
    )
    # What is known of its broadcasts. From its commit on, it counts as broadcast, whatever these say.
    broadcasts = models.PositiveIntegerField(default=0)
    first_broadcast_at = models.DateTimeField(null=True)
    last_broadcast_at = models.DateTimeField(null=True)
    broadcast_block = models.PositiveBigIntegerField(null=True, help_text="The head block at its last broadcast.")
    accepted_at = models.DateTimeField(null=True)
    rejections = models.PositiveIntegerField(
        default=0, db_default=0, help_text="Broadcasts to which every node answered that it does not accept it."
    )
    rejected_since = models.DateTimeField(null=True, help_text="When all nodes rejected it first.")
    outcome = models.CharField(max_length=32, blank=True, help_text="Of the last broadcast.")
    error = models.CharField(max_length=200, blank=True)
    minimum_price_text = models.CharField(
        "minimum price", max_length=78, blank=True, help_text="Named by the node that refused its price."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["transaction", "number"], name="attempt_number"),
            models.UniqueConstraint(fields=["lane", "epoch", "hash"], name="attempt_hash"),
        ]
        indexes = [models.Index("hash", name="attempt_hash_lookup")]

    def __str__(self) -> str:
        return self.hash
