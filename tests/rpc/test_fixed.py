"""A rate that staff have set: for as long as it holds, and not a second longer."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import pytest

from rpc.fees.sources.base import NoPrice, SourcePrice
from rpc.fees.sources.fixed import Fixed
from rpc.models import FeeToken, PriceSource
from tests.chain.answering_node import local_network

SET_AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON = 1_767_268_800


def price(now: int, **changes: Any) -> SourcePrice:
    values = {"rate_text": "2481.9375", "rate_set_at": SET_AT, "max_age_seconds": 600} | changes
    source = Fixed.from_row(PriceSource(kind=PriceSource.Kind.FIXED, **values), FeeToken(), local_network())
    assert source.calls() == []
    return source.price([], 6, now)


def test_a_rate_counts_up_to_its_age_limit_and_is_stale_a_second_later() -> None:
    assert price(NOON + 600) == SourcePrice("Fixed rate", Fraction(39_711, 16), NOON, NOON + 600)
    with pytest.raises(NoPrice, match=r"^is stale: its rate is older than its age limit$"):
        price(NOON + 601)


@pytest.mark.parametrize("missing", [{"rate_set_at": None}, {"max_age_seconds": None}])
def test_a_rate_of_unknown_age_is_no_price(missing: dict[str, Any]) -> None:
    with pytest.raises(NoPrice, match=r"^has no rate$"):
        price(NOON, **missing)


def test_a_rate_is_exact() -> None:
    assert price(NOON, rate_text="9" * 60 + "." + "9" * 60).rate == Fraction(10**120 - 1, 10**60)
