"""Reporting refusals: an audit entry and an event, which outlive the transaction that was rolled back.

Of each rule, relayer and token, one of both in a minute: the entry counts the others, the next event has their count.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction

from notifications.emitting import emit
from relayer_service.audit import actors
from relayer_service.audit.recording import record_repeated
from relayers.models import Relayer
from relayers.pausing import event_data
from transactions.events import TRANSACTION_REFUSED, RefusalData
from transactions.limits.holders import SpendingRefused, selector


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
        rows = Relayer.objects.select_related("notification").select_for_update(of=("self",), no_key=True)
        relayer = rows.filter(pk=refusal.relayer_pk).first()
        if relayer and (count := record_repeated(relayer, _reason(refusal), _cause(refusal))):
            data = RefusalData(
                **event_data(relayer),
                actor=str(actors.current()),
                reason=_reason(refusal),
                rule=refusal.verdict.rule,
                rule_of=refusal.holder,
                requested_by=actors.current().name,
                to=refusal.payload.to,
                selector=selector(refusal.payload) or None,
                count=count,
            )
            emit(TRANSACTION_REFUSED, relayer.notification, data)


def _cause(refusal: SpendingRefused) -> str:
    return f"by the spending rule {refusal.verdict.rule} of the {refusal.holder}."


def _reason(refusal: SpendingRefused) -> str:
    to, called = refusal.payload.to, selector(refusal.payload)
    target = f"to {to}" if to else "that creates a contract"
    function = f", function {called}" if called else ""
    return f"Refused a transaction {target}{function} {_cause(refusal)}"
