"""Top-ups of relayers from their funding relayers."""

from django.db import models
from django.db.models import Q

from relayer_service.database.clock import DatabaseNow
from relayers.models import Relayer
from transactions.models.transactions import Transaction


class TopUp(models.Model):
    """Coins that a relayer gets from its funding relayer, or the reason why it does not get them."""

    class State(models.TextChoices):
        BLOCKED = "blocked", "Blocked"
        OPEN = "open", "In progress"
        SUCCEEDED = "succeeded", "Succeeded"
        FAILED = "failed", "Failed"

    relayer = models.ForeignKey(Relayer, on_delete=models.CASCADE, db_index=False, related_name="top_ups")
    # Of the funding relayer.
    transaction = models.OneToOneField(Transaction, on_delete=models.CASCADE, null=True, related_name="top_up")
    state = models.CharField(max_length=16, choices=State)
    reason = models.TextField(blank=True, help_text="Why it is blocked, or has failed.")
    refused_by = models.TextField(
        blank=True, default="", db_default="", editable=False, help_text="The funding relayer and its spending rule."
    )
    amount_text = models.CharField("amount", max_length=78)
    # What caused it.
    balance_text = models.CharField("balance", max_length=78)
    block = models.PositiveBigIntegerField(help_text="The block that the balance was read at.")
    created_at = models.DateTimeField(default=DatabaseNow)
    final_block = models.PositiveBigIntegerField(
        null=True, help_text="Nothing of it changes in later blocks: a balance read there shows its effect."
    )
    failures = models.PositiveIntegerField(default=0, help_text="How many in a row have failed, up to this one.")
    due_at = models.DateTimeField(
        null=True, help_text="When a blocked or failed one is tried again; empty once the balance is sufficient."
    )

    class Meta:
        constraints = [
            # Whatever runs twice, a shortage is topped up once.
            models.UniqueConstraint(
                fields=["relayer"], condition=Q(state__in=["blocked", "open"]), name="top_up_open"
            ),
            models.CheckConstraint(
                condition=Q(state="blocked", transaction=None) | (~Q(state="blocked") & Q(transaction__isnull=False)),
                name="top_up_transaction",
            ),
        ]
        indexes = [
            models.Index(fields=["relayer", "-id"], name="top_up_relayer"),
            models.Index("id", name="top_up_unresolved", condition=Q(state="open") | Q(due_at__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"{self.amount_text} wei for {self.relayer}"

    @property
    def amount(self) -> int:
        return int(self.amount_text)
