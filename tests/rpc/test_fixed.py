"""A rate that staff have set: for as long as it holds, and not a second longer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest
from django.utils import timezone

from rpc.fees.sources.base import NoPrice, SourcePrice
from rpc.fees.sources.fixed import Fixed
from rpc.models import FeeToken, PriceSource
from tests.chain.answering_node import local_network
from tests.chain.fixtures import Deployed
from tests.chain.hardhat import Chain
from tests.rpc.estimates import ask, failure, relayer_at
from tests.rpc.factories import fee_token, fixed_source

SET_AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON = 1_767_268_800


def price(now: int, **changes: Any) -> SourcePrice:
    values = {"rate_text": "2481.9375", "rate_set_at": SET_AT, "max_age_seconds": 600} | changes
    source = Fixed.from_row(PriceSource(kind=PriceSource.Kind.FIXED, **values), FeeToken(), local_network())
    assert source.calls() == []
    return source.price([], 6, now)


@pytest.mark.parametrize("age", [0, 1, 599, 600])
def test_a_rate_counts_up_to_its_age_limit(age: int) -> None:
    assert price(NOON + age) == SourcePrice("Fixed rate", Fraction(39_711, 16), NOON, NOON + 600)


@pytest.mark.parametrize("age", [601, 86_400])
def test_a_rate_is_stale_a_second_later(age: int) -> None:
    with pytest.raises(NoPrice, match=r"^is stale: its rate is older than its age limit$"):
        price(NOON + age)


@pytest.mark.parametrize("missing", [{"rate_set_at": None}, {"max_age_seconds": None}])
def test_a_rate_of_unknown_age_is_no_price(missing: dict[str, Any]) -> None:
    with pytest.raises(NoPrice, match=r"^has no rate$"):
        price(NOON, **missing)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("1", Fraction(1)),
        ("0." + "0" * 17 + "1", Fraction(1, 10**18)),
        ("1" + "0" * 18, Fraction(10**18)),
        ("0.1", Fraction(1, 10)),
        ("9" * 60 + "." + "9" * 60, Fraction(10**120 - 1, 10**60)),
    ],
)
def test_a_rate_is_exact(text: str, rate: Fraction) -> None:
    assert price(NOON, rate_text=text).rate == rate


@pytest.mark.django_db
def test_a_fee_is_quoted_at_a_rate_that_was_set(chain: Chain, deployed: Deployed) -> None:
    token = fee_token(address=deployed.token_6)
    source = fixed_source(token, "2481.9375")
    relayer = relayer_at(chain.url)
    assert ask(relayer, "USDC")["result"]["conversion_rate"] == "2481.9375"
    PriceSource.objects.filter(pk=source.pk).update(rate_set_at=timezone.now() - timedelta(days=1, seconds=2))
    assert ask(relayer, "USDC") == failure(
        -32002,
        "Price unavailable",
        "USDC on hardhat: the source “Fixed rate” is stale: its rate is older than its age limit.",
    )
