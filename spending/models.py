"""Spending rules of a relayer or a token, and how much of their limits is used."""

from django.db import models


class SpendingPolicy(models.Model):
    """The rules of one holder: a relayer, or a token and the tokens that succeed it."""

    rules = models.JSONField(default=dict, help_text="As `rules.validate_rules` returns them.")

    class Meta:
        verbose_name_plural = "spending policies"

    def __str__(self) -> str:
        return f"spending policy {self.pk}"


class SpendingLimit(models.Model):
    """What was spent of one limit, by hour. Whoever adds to it has locked the row."""

    policy = models.ForeignKey(SpendingPolicy, on_delete=models.CASCADE, related_name="limits", db_index=False)
    name = models.CharField(max_length=64, help_text="`value`, `gas`, or `token:` and the address of a contract.")
    # By hour since 1970, the amount as decimal text: not every database adds integers of 256 bits exactly.
    hours = models.JSONField(default=dict)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["policy", "name"], name="spending_limit_name")]

    def __str__(self) -> str:
        return f"{self.name} of {self.policy_id}"
