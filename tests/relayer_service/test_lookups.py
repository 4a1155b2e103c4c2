from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from relayer_service.storage.lookups import Lookup
from relayers.models import Relayer
from tests.relayers import factories

COLUMNS = ["identifier", "policies", "created_at", "signer__identifier"]
BY_NETWORK = Lookup(Relayer.objects.filter(paused=False).order_by("-sequence"), ["network", "name"], COLUMNS)
CREATED = datetime(2026, 11, 15, 8, 30, tzinfo=UTC)

pytestmark = pytest.mark.django_db


def test_it_gives_the_rows_with_these_values_as_the_orm_would() -> None:
    factories.relayer(identifier="a", policies={"gas_price_cap": 2**128 - 1}, created_at=CREATED)
    factories.relayer(identifier="b", created_at=CREATED)
    factories.relayer(identifier="c", network="mainnet")
    factories.relayer(identifier="d", name="other")
    factories.relayer(identifier="e", paused=True)
    assert [tuple(row) for row in BY_NETWORK.rows(network="sepolia", name="Relayer 1")] == [
        ("b", {}, CREATED, "signer-1"),
        ("a", {"gas_price_cap": 2**128 - 1}, CREATED, "signer-1"),
    ]


def test_it_asks_with_other_values_each_time_in_one_statement() -> None:
    factories.relayer(identifier="a")
    with CaptureQueriesContext(connection) as queries:
        found = [len(BY_NETWORK.rows(network="sepolia", name=name)) for name in ("Relayer 1", "'; --", "%s", "?")]
    assert found == [1, 0, 0, 0]
    assert len(queries) == 4


def test_a_value_that_is_not_given_is_an_error() -> None:
    with pytest.raises(KeyError):
        BY_NETWORK.rows(network="sepolia")
