"""The automatic top-up of a relayer: its columns, and what is wrong with one. `serializers/` has its API fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from django.db import models

if TYPE_CHECKING:
    from relayers.models import Relayer

TOP_UP_COLUMNS = {
    "funding_relayer_id": "funding_relayer",
    "minimum": "top_up_minimum_text",
    "target": "top_up_target_text",
    "daily_limit": "top_up_daily_limit_text",
}
CLEARED = {column: None if column == "funding_relayer" else "" for column in TOP_UP_COLUMNS.values()}
NO_TOP_UP = models.Q(**CLEARED)
WITH_TOP_UP = models.Q(funding_relayer__isnull=False) & ~(
    models.Q(top_up_minimum_text="") | models.Q(top_up_target_text="") | models.Q(top_up_daily_limit_text="")
)


class TopUpAmounts(NamedTuple):
    """When the funding relayer sends a relayer coins, and how many; in wei."""

    minimum: int
    target: int
    # In any 24 hours.
    daily_limit: int


def top_up_faults(relayer: Relayer) -> dict[str, str]:
    """Return what is wrong with the automatic top-up of a relayer, by API name."""
    values = {name: getattr(relayer, column) for name, column in TOP_UP_COLUMNS.items()}
    if not any(values.values()):
        return {}
    if missing := [name for name, value in values.items() if not value]:
        return {f"top_up.{name}": "this field is required" for name in missing}
    if fault := funding_fault(relayer):
        return {"top_up.funding_relayer_id": fault}
    minimum, target, daily_limit = (int(values[name]) for name in TopUpAmounts._fields)
    if not minimum:
        return {"top_up.minimum": "must be above 0"}
    if target <= minimum:
        return {"top_up.target": "must be above the minimum"}
    if daily_limit < target:
        # Otherwise an empty account would never be topped up.
        return {"top_up.daily_limit": "must not be below the target"}
    return {}


def funding_fault(relayer: Relayer) -> str:
    """Return why a relayer cannot be funded by its funding relayer; "" if it can.

    Two changes at the same time can still complete a cycle: no coins are sent in one.
    """
    funding: Relayer | None = relayer.funding_relayer
    assert funding is not None
    if funding.expected_chain_id != relayer.expected_chain_id:
        return "must be on the same chain"
    seen: set[str] = set()
    while funding is not None and funding.identifier not in seen:
        if funding.identifier == relayer.identifier:
            return "a relayer cannot fund itself, directly or through others"
        seen.add(funding.identifier)
        funding = funding.funding_relayer
    return ""
