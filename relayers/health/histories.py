"""What the health check keeps of a relayer's balances, and the event about a balance that will be used up soon."""

import logging
from datetime import datetime
from typing import Any

from notifications.emitting import emit
from notifications.models import Notification
from relayers import events
from relayers.health import runway
from relayers.health.balance_hours import with_reading
from relayers.models import RelayerHealth
from relayers.states import event_data

logger = logging.getLogger(__name__)


def histories(health: RelayerHealth, balance: int, now: datetime) -> dict[str, Any]:
    """Return the columns with the history of a balance and its minimum, and whether it will be used up soon."""
    changes: dict[str, Any] = {}
    minimum = health.relayer.policies.get("min_balance")
    text = "" if minimum is None else str(minimum)
    if text != (health.minimum_hours[-1][1] if health.minimum_hours else ""):
        changes["minimum_hours"] = with_reading(health.minimum_hours, text, now)
    if balance != health.balance:
        changes["balance_hours"] = with_reading(health.balance_hours, str(balance), now)
        changes["outflow_days"] = runway.with_outflow(health.outflow_days, health.balance, balance, now)
    outflows = changes.get("outflow_days", health.outflow_days)
    found = runway.runway(balance, outflows, health.balance_hours, now)
    return changes | {"runway_is_short": runway.is_short(found, was_short=health.runway_is_short)}


def announce_runway(health: RelayerHealth, changes: dict[str, Any], now: datetime) -> None:
    """Log and emit that a balance will be used up soon; the instance still has the old readings."""
    relayer, balance = health.relayer, int(changes["balance_text"])
    found = runway.runway(balance, changes.get("outflow_days", health.outflow_days), health.balance_hours, now)
    assert found is not None
    extra = {"fields": {"relayer": relayer.identifier, "network": relayer.network, "runway_days": found.whole_days}}
    logger.warning("The balance of relayer %s lasts %s at this rate", relayer, found.text, extra=extra)
    if notification := Notification.objects.filter(relayers=relayer).first():
        data = events.RelayerRunwayData(
            **event_data(relayer),
            balance=str(balance),
            outflow_per_day=str(found.outflow_per_day),
            runway_days=found.whole_days,
            threshold_days=runway.SHORT_DAYS,
        )
        emit(events.RELAYER_BALANCE_RUNWAY, notification, data)
