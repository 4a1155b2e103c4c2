"""What transactions count on spending limits."""

from django.db import models

from spending.models import SpendingLimit
from transactions.models.transactions import Transaction


class Charge(models.Model):
    """What a transaction counts on a spending limit. A limit stores the sum of its charges by hour."""

    # Whoever writes a charge has inserted or locked both, so the database does not check them once more.
    transaction = models.ForeignKey(
        Transaction, on_delete=models.CASCADE, related_name="charges", db_index=False, db_constraint=False
    )
    limit = models.ForeignKey(
        SpendingLimit, on_delete=models.CASCADE, related_name="+", db_index=False, db_constraint=False
    )
    # Until the transaction is mined or ends, it has no hour (`OPEN_HOUR`).
    hour = models.PositiveIntegerField(help_text="The hour since 1970 that it counts in.")
    amount_text = models.CharField("amount", max_length=78)
    reserved_text = models.CharField(
        "reserved", max_length=78, help_text="What it can come to: counted again if a reorg removes the receipt."
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["transaction", "limit"], name="charge_limit")]
        indexes = [models.Index(fields=["limit", "hour"], name="charge_hour")]

    def __str__(self) -> str:
        return f"{self.amount_text} on limit {self.limit_id}"
