"""Relayers whose node goes down and comes back, and what workers do about it."""

from __future__ import annotations

import json
from typing import Any

from incidents import delivery, watching
from incidents.models import AlertMessage, AlertRoute, Incident
from relayer_service.console.overview.incidents import all_subjects
from relayers.models import RelayerHealth
from tests.notifications.clock import NOON, Clock
from tests.notifications.receivers import Receiver
from tests.relayers import factories

NETWORK = "hardhat"
TITLE = f"{NETWORK}: no node answers"


def relayers(number: int, network: str = NETWORK, **changes: Any) -> None:
    for position in range(number):
        factories.relayer(
            identifier=f"{network}-{position}",
            name=f"{network} {position}",
            network=network,
            address=f"0x{position + 1:040x}",
            due_at=NOON.replace(year=2100),
            nonce=1,
            balance_text="5",
            checked_at=NOON,
            **changes,
        )


def node_down(clock: Clock, number: int | None = None, *, disabled: bool = True, network: str = NETWORK) -> None:
    """Have checks fail: of so many relayers, or all."""
    keys = RelayerHealth.objects.filter(network=network).order_by("pk").values_list("pk", flat=True)[:number]
    values: dict[str, Any] = {"failed_checks": 2, "failing_since": clock.now, "system_disabled": disabled}
    if disabled:
        values |= {"disabled_reason_type": "NonceSyncFailed", "disabled_reason_details": "no node answers"}
    RelayerHealth.objects.filter(pk__in=list(keys)).update(**values)


def node_up() -> None:
    values = {"failed_checks": 0, "failing_since": None, "system_disabled": False}
    RelayerHealth.objects.update(**values, disabled_reason_type="", disabled_reason_details="")


def watch(clock: Clock, seconds: int = 10) -> None:
    """Move the clock: a worker reads after ten seconds, and at the end."""
    for step in (10, seconds - 10):
        if step:
            clock.forward(step)
            watching.watch()


def run(clock: Clock, seconds: int) -> None:
    """Let workers watch and send for some time."""
    for _ in range(seconds // 10):
        watch(clock)
        delivery.send_due()


def written(route: AlertRoute | None = None) -> list[str]:
    messages = AlertMessage.objects.filter(**({"route": route} if route else {})).order_by("pk")
    return [f"{message.event}: {message.data['summary']}" for message in messages]


def incidents() -> list[Incident]:
    return list(Incident.objects.filter(kind="node_down").order_by("pk"))


def bodies(receiver: Receiver) -> list[dict[str, Any]]:
    return [json.loads(request.body) for request in receiver.requests]


def keys() -> set[str]:
    return {cause.key for subject in all_subjects()[0] for cause in subject.causes}
