from django.conf import settings
from django.db import models, transaction
from django.dispatch import receiver

from relayer_client.erc20 import transfer
from relayer_client.outbox import enqueue
from relayer_client.outbox.signals import transaction_finished


class Payout(models.Model):
    order = models.CharField(max_length=50, unique=True)
    to = models.CharField(max_length=42)
    amount = models.PositiveBigIntegerField()
    status = models.CharField(max_length=20, default="requested")

    def __str__(self):
        return self.order


def pay(order, to, amount):
    """Pay out tokens: the payout and its transaction are committed together, or not at all."""
    with transaction.atomic():
        payout = Payout.objects.create(order=order, to=to, amount=amount)
        call = transfer(settings.TOKEN_CONTRACT, to, amount, decimals=0)
        enqueue("shop", key=f"payout-{order}", **call)
    return payout


@receiver(transaction_finished)
def finish(transaction, **kwargs):
    """Record the end; this is committed together with the row of the outbox."""
    Payout.objects.filter(order=transaction.key.removeprefix("payout-")).update(status=transaction.status)
