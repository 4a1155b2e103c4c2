"""Pausing a relayer, and the events of its state."""

from __future__ import annotations

from django.db import transaction

from notifications.events import RELAYER_PAUSED, RELAYER_RESUMED, RelayerData, emit
from relayer_service.audit.recording import changed, record
from relayers.models import Relayer


def event_data(relayer: Relayer) -> RelayerData:
    return RelayerData(
        relayer_id=relayer.identifier,
        name=relayer.name,
        network=relayer.network,
        network_type=relayer.network_type,
    )


def set_paused(relayer: Relayer, paused: bool, reason: str = "") -> bool:
    """Pause or resume a relayer, emit the event and record it with its reason; return False if it was so already."""
    with transaction.atomic():
        if not write_paused(relayer, paused):
            return False
        record([changed(relayer, {"paused": not paused}, {"paused": paused}, reason)])
    return True


def write_paused(relayer: Relayer, paused: bool) -> bool:
    """Pause or resume a relayer and emit the event, for callers that record the change with others."""
    with transaction.atomic():
        if not Relayer.objects.filter(pk=relayer.pk, paused=not paused).update(paused=paused):
            return False
        relayer.paused = paused
        if relayer.notification is not None:
            emit(RELAYER_PAUSED if paused else RELAYER_RESUMED, relayer.notification, event_data(relayer))
    return True
