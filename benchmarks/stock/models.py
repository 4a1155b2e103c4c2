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


class Notification(models.Model):
    id = models.CharField(max_length=255, primary_key=True)

    class Meta:
        db_table = "stock_notification"

    def __str__(self) -> str:
        return self.id


class Relayer(models.Model):
    id = models.CharField(max_length=255, primary_key=True)
    name = models.CharField(max_length=255)
    network = models.CharField(max_length=64)
    network_type = models.CharField(max_length=16)
    address = models.CharField(max_length=64, null=True)  # noqa: DJ001  # a member that is left out
    signer = models.ForeignKey(Signer, on_delete=models.PROTECT)
    notification = models.ForeignKey(Notification, on_delete=models.PROTECT, null=True)
    paused = models.BooleanField()
    system_disabled = models.BooleanField()
    disabled_reason = models.JSONField(null=True)
    custom_rpc_urls = models.JSONField(null=True)
    policies = models.JSONField(null=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "stock_relayer"
        ordering = ["created_at", "id"]
        indexes = [models.Index(fields=["created_at", "id"])]

    def __str__(self) -> str:
        return self.id
