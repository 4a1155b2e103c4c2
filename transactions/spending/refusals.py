"""Reporting refusals: an audit entry and an event, which outlive the transaction that was rolled back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction

from notifications.emitting import emit
from relayer_service.audit import actors
from relayer_service.audit.recording import acted, record
from relayers.models import Relayer
from relayers.states import event_data
from transactions.events import TRANSACTION_REFUSED, RefusalData
from transactions.spending.holders import SpendingRefused, selector


@contextmanager
def recorded() -> Iterator[None]:
    """Report a refusal that is raised in this context, which contains the transaction that it rolls back."""
    try:
        yield
    except SpendingRefused as refusal:
        report(refusal)
        raise


def report(refusal: SpendingRefused) -> None:
    """Record and announce a refusal, with no more of its payload than receiver and function."""
    with transaction.atomic():
        relayer = Relayer.objects.select_related("notification").filter(pk=refusal.relayer_pk).first()
        if relayer is None:
            return
        record([acted(relayer, _reason(refusal))])
        emit(TRANSACTION_REFUSED, relayer.notification, _data(refusal, relayer))


def _reason(refusal: SpendingRefused) -> str:
    to, called = refusal.payload.to, selector(refusal.payload)
    target = f"to {to}" if to else "that creates a contract"
    function = f", function {called}" if called else ""
    rule = f"the spending rule {refusal.verdict.rule} of the {refusal.holder}"
    return f"Refused a transaction {target}{function} by {rule}."


def _data(refusal: SpendingRefused, relayer: Relayer) -> RefusalData:
    return RefusalData(
        **event_data(relayer),
        actor=str(actors.current()),
        reason=_reason(refusal),
        rule=refusal.verdict.rule,
        rule_of=refusal.holder,
        requested_by=actors.current().name,
        to=refusal.payload.to,
        selector=selector(refusal.payload) or None,
    )
