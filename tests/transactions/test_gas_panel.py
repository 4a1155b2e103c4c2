"""What a relayer's transactions paid for gas per day, on its page."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from tests.notifications.admin_pages import staff_who_may
from tests.relayers import factories as relayer_factories
from tests.transactions import factories
from transactions.console import panels
from transactions.models import Lane

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
GWEI = 10**9


@pytest.fixture
def lane(settings: Any) -> Lane:
    settings.EXTENSIONS = ["transactions"]
    return factories.lane(relayer_factories.relayer())


def paid(lane: Lane, nonce: int, days_ago: int, **changes: Any) -> None:
    receipt = {"gas_used": 21_000, "effective_gas_price_text": str(10 * GWEI)}
    factories.transaction(
        lane, nonce=nonce, status="failed", finished_at=timezone.now() - days_ago * DAY, **(receipt | changes)
    )


def url(lane: Lane) -> str:
    assert lane.relayer
    return f"/admin/relayers/relayer/{lane.relayer.pk}/change/"


def panel(client: Client, lane: Lane) -> Any:
    return client.get(url(lane)).context["gas_panel"]


def test_the_gas_of_each_day_is_summed_from_receipts(
    admin_client: Client, lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert panel(admin_client, lane) == {}
    paid(lane, 0, days_ago=1)
    paid(lane, 1, days_ago=1, effective_gas_price_text=str(30 * GWEI))
    paid(lane, 2, days_ago=0)
    paid(lane, 3, days_ago=31)
    paid(lane, 4, days_ago=0, gas_used=None)
    shown = panel(admin_client, lane)
    (dataset,) = json.loads(shown["chart"]["data"])["datasets"]
    assert (dataset["label"], dataset["data"][-3:]) == ("Gas (ETH)", ["0", "0.00084", "0.00021"])
    assert json.loads(shown["chart"]["options"])["scales"]["y"]["ticks"]["format"]["notation"] == "standard"
    assert (shown["total"], shown["is_partial"]) == ("0.00105 ETH", False)
    # Only the newest ones.
    monkeypatch.setattr(panels, "MAX_SUMMED", 1)
    paid(lane, 5, days_ago=0)
    shown = panel(admin_client, lane)
    assert (shown["total"], shown["is_partial"], shown["summed"]) == ("0.00021 ETH", True, "1")
    page = staff_who_may(admin_client, "view_relayer").get(url(lane))
    assert "gas_panel" not in page.context
