"""The measured resources as plain models, in tables of their own."""

from django.db import models
from django.utils import timezone


class Signer(models.Model):
    id = models.CharField(max_length=255, primary_key=True)
    type = models.CharField(max_length=32)
    config = models.JSONField()
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "stock_signer"
        ordering = ["created_at", "id"]
        indexes = [models.Index(fields=["created_at", "id"])]

    def __str__(self) -> str:
        return self.id
