"""Fee tokens in `load_config`: what a file names is made so, all of it or nothing."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from relayer_service.database.clock import database_now
from relayer_service.fleet.planning import plan
from relayer_service.fleet.sections import ConcurrentChange
from rpc.models import FeeToken, PriceSource
from tests.concurrency import PATIENCE_SECONDS
from tests.relayers import config_files
from tests.relayers.config_files import load, rows
from tests.rpc.config_tokens import (
    CHAINLINK_NATIVE,
    CHAINLINK_USD,
    EVERY_KIND,
    FIXED,
    LINK_ADDRESS,
    NATIVE_USD,
    PAIR,
    SPARSE,
    TOKEN_NATIVE,
    TOKEN_USD,
    UNISWAP_V2,
    USDC,
    USDC_ADDRESS,
    WRAPPED,
    document,
)

pytestmark = pytest.mark.django_db

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
BOUNDS = {
    TOKEN_USD: {"chain_id": 1, "aggregator": PAIR, "minimum": "1", "maximum": "9", "read_at": 0},
    NATIVE_USD: {"chain_id": 1, "aggregator": PAIR, "minimum": "2", "maximum": "8", "read_at": 0},
}
TOKEN_COLUMNS = ("network", "symbol", "address", "enabled", "margin_bps", "max_spread_bps")


def sources(**having: Any) -> list[dict[str, Any]]:
    """Return the columns of sources that are set, but for their keys."""
    found = PriceSource.objects.filter(**having).order_by("pk").values()
    hidden = {"id", "token_id", "feed_bounds"}
    return [
        {name: value for name, value in row.items() if name not in hidden and value not in {"", None}} for row in found
    ]


def test_a_file_creates_a_token_with_sources_of_every_kind(tmp_path: Path) -> None:
    before = timezone.now()
    assert load(document(USDC), tmp_path) == (
        ["fee token USDC on mainnet: created", "1 created, 0 updated, 0 unchanged."],
        [],
    )
    assert FeeToken.objects.values(*TOKEN_COLUMNS).get() == {name: USDC[name] for name in TOKEN_COLUMNS}
    fixed, *others = sources(token__symbol="USDC")
    assert before <= fixed.pop("rate_set_at") <= database_now()
    assert [fixed, *others] == [
        {"kind": "fixed", "rate_text": "3000.50", "max_age_seconds": 86_400, "sequencer_grace_seconds": 3_600},
        CHAINLINK_USD,
        CHAINLINK_NATIVE,
        {
            "kind": "uniswap_v2",
            "pair": PAIR,
            "wrapped_native": WRAPPED,
            "min_liquidity_text": "340282366920938463463374607431768211455",
            "sequencer_grace_seconds": 3_600,
        },
    ]


def test_what_a_sparse_token_leaves_out_is_as_in_the_admin(tmp_path: Path) -> None:
    source = CHAINLINK_NATIVE | {"feed": TOKEN_NATIVE.lower()}
    load(document(SPARSE | {"address": LINK_ADDRESS.lower(), "sources": [source]}), tmp_path)
    assert PriceSource.objects.get().feed == TOKEN_NATIVE
    assert FeeToken.objects.values(*TOKEN_COLUMNS).get() == {
        "network": "mainnet",
        "symbol": "LINK",
        "address": LINK_ADDRESS,
        "enabled": True,
        "margin_bps": 0,
        "max_spread_bps": 200,
    }


def test_fee_tokens_come_after_the_relayers(tmp_path: Path) -> None:
    content = {**document(SPARSE), **config_files.document(config_files.SPARSE)}
    output, _ = load(content, tmp_path)
    assert output == [
        "signer signer-1: created",
        "webhook hook-1: created",
        "relayer relayer-1: created",
        "fee token LINK on mainnet: created",
        "4 created, 0 updated, 0 unchanged.",
    ]


def test_a_second_run_changes_nothing_and_keeps_the_age_of_a_rate(tmp_path: Path) -> None:
    load(document(USDC, SPARSE), tmp_path)
    PriceSource.objects.filter(kind="fixed").update(rate_set_at=LONG_AGO)
    PriceSource.objects.filter(kind="chainlink_usd").update(feed_bounds=BOUNDS)
    FeeToken.objects.update(decimals=6, rate_text="3000.5", rated_at=LONG_AGO, rate_error="x", rate_details=[{}])
    before = rows()
    again = USDC | {"sources": [UNISWAP_V2, FIXED, CHAINLINK_NATIVE, CHAINLINK_USD], "address": USDC_ADDRESS.lower()}
    assert load(document(again, SPARSE), tmp_path) == (
        [
            "fee token USDC on mainnet: unchanged",
            "fee token LINK on mainnet: unchanged",
            "0 created, 0 updated, 2 unchanged.",
        ],
        [],
    )
    assert rows() == before


@pytest.mark.parametrize(
    ("changed", "decimals", "is_price_kept"),
    [
        ({"enabled": True, "margin_bps": 5}, 6, True),
        ({"sources": [FIXED]}, 6, False),
        ({"address": LINK_ADDRESS}, None, False),
    ],
)
def test_what_was_read_is_forgotten_where_it_would_be_read_otherwise(
    tmp_path: Path, changed: dict[str, Any], decimals: int | None, is_price_kept: bool
) -> None:
    load(document(USDC), tmp_path)
    price = {"rate_text": "3000.5", "rated_at": LONG_AGO, "rate_error": "x", "rate_details": [{"kind": "fixed"}]}
    FeeToken.objects.update(decimals=6, **price)
    load(document(USDC | changed), tmp_path)
    nothing: dict[str, Any] = {"rate_text": "", "rated_at": None, "rate_error": "", "rate_details": []}
    expected = {"decimals": decimals} | (price if is_price_kept else nothing)
    assert FeeToken.objects.values(*expected).get() == expected


def test_what_a_token_leaves_out_is_the_default_but_it_stays_disabled(tmp_path: Path) -> None:
    load(document(USDC), tmp_path)
    left_out = {"network": "mainnet", "symbol": "USDC", "address": LINK_ADDRESS, "sources": EVERY_KIND}
    output, _ = load(document(left_out), tmp_path)
    assert output == [
        "fee token USDC on mainnet: updated (address, margin_bps, max_spread_bps)",
        "0 created, 1 updated, 0 unchanged.",
    ]
    token = FeeToken.objects.get()
    assert (token.address, token.margin_bps, token.max_spread_bps, token.enabled) == (LINK_ADDRESS, 0, 200, False)


def test_a_source_that_is_different_is_replaced_and_the_others_keep_their_rows(tmp_path: Path) -> None:
    load(document(USDC), tmp_path)
    PriceSource.objects.filter(kind="fixed").update(rate_set_at=LONG_AGO)
    before = {source.kind: source for source in PriceSource.objects.all()}
    other = CHAINLINK_USD | {"heartbeat_seconds": 5}
    output, _ = load(document(USDC | {"sources": [other, UNISWAP_V2, FIXED]}), tmp_path)
    assert output[0] == "fee token USDC on mainnet: updated (sources)"
    after = {source.kind: source for source in PriceSource.objects.all()}
    assert after.keys() == {"fixed", "chainlink_usd", "uniswap_v2"}
    assert (after["fixed"].pk, after["fixed"].rate_set_at) == (before["fixed"].pk, LONG_AGO)
    assert after["uniswap_v2"].pk == before["uniswap_v2"].pk
    assert after["chainlink_usd"].pk != before["chainlink_usd"].pk
    assert after["chainlink_usd"].heartbeat_seconds == 5


def test_a_fixed_rate_is_as_old_as_it_is_until_the_file_changes_it(tmp_path: Path) -> None:
    load(document(SPARSE), tmp_path)
    PriceSource.objects.update(rate_set_at=LONG_AGO)
    output, _ = load(document(SPARSE | {"sources": [FIXED | {"max_age_seconds": 5}, CHAINLINK_USD]}), tmp_path)
    assert output[0] == "fee token LINK on mainnet: updated (sources)"
    found = PriceSource.objects.order_by("pk").values_list("kind", "max_age_seconds", "rate_set_at")
    assert list(found) == [("fixed", 5, LONG_AGO), ("chainlink_usd", None, None)]
    before = timezone.now()
    load(document(SPARSE | {"sources": [FIXED | {"rate": "3000.51"}]}), tmp_path)
    rate_set_at = PriceSource.objects.get().rate_set_at
    assert rate_set_at is not None
    assert before <= rate_set_at <= database_now()


def test_two_sources_that_are_alike_are_two(tmp_path: Path) -> None:
    load(document(SPARSE | {"sources": [FIXED, FIXED]}), tmp_path)
    assert (
        load(document(SPARSE | {"sources": [FIXED, FIXED]}), tmp_path)[0][-1] == "0 created, 0 updated, 1 unchanged."
    )
    load(document(SPARSE), tmp_path)
    assert PriceSource.objects.count() == 1


def test_a_token_without_a_price_is_a_warning_unless_it_is_disabled(tmp_path: Path) -> None:
    only_pairs = "the token has no price: pairs alone cannot set a price: add a source of another kind"
    for sources, fault in (
        ([], "a token without a price source is not supported"),
        ([UNISWAP_V2, UNISWAP_V2 | {"pair": TOKEN_USD}], only_pairs),
    ):
        _, errors = load(document(SPARSE | {"sources": sources}, USDC | {"sources": sources}), tmp_path)
        assert errors == [f"Warning: fee_tokens[0].sources: {fault}"]


def test_the_bounds_of_a_feed_stay_where_something_else_of_its_source_changes(tmp_path: Path) -> None:
    load(document(SPARSE | {"sources": [CHAINLINK_USD]}), tmp_path)
    PriceSource.objects.update(feed_bounds=BOUNDS)
    other = CHAINLINK_USD | {"heartbeat_seconds": 5, "native_feed": TOKEN_NATIVE}
    load(document(SPARSE | {"sources": [other]}), tmp_path)
    assert PriceSource.objects.get().feed_bounds == {TOKEN_USD: BOUNDS[TOKEN_USD]}


def test_tokens_can_exchange_their_addresses(tmp_path: Path) -> None:
    load(document(USDC, SPARSE), tmp_path)
    exchanged = [USDC | {"address": LINK_ADDRESS}, SPARSE | {"address": USDC_ADDRESS}]
    before = rows()
    dry = "Dry run, nothing was changed: 0 created, 2 updated, 0 unchanged."
    assert load(document(*exchanged), tmp_path, "--dry-run")[0][-1] == dry
    assert rows() == before
    assert load(document(*exchanged), tmp_path)[0][-1] == "0 created, 2 updated, 0 unchanged."
    assert dict(FeeToken.objects.values_list("symbol", "address")) == {"USDC": LINK_ADDRESS, "LINK": USDC_ADDRESS}


@pytest.mark.django_db(transaction=True)
def test_a_load_waits_for_who_is_changing_a_source_and_then_refuses(tmp_path: Path) -> None:
    load(document(SPARSE), tmp_path)
    planned = plan(document(SPARSE | {"margin_bps": 7, "sources": []}))
    has_changed = threading.Event()

    def change() -> None:
        try:
            with transaction.atomic():
                PriceSource.objects.update(rate_text="9")
                has_changed.set()
                time.sleep(0.3)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        changing = pool.submit(change)
        assert has_changed.wait(PATIENCE_SECONDS)
        with pytest.raises(ConcurrentChange):
            planned.apply()
        changing.result()
    assert FeeToken.objects.get().margin_bps == 0
    assert PriceSource.objects.get().rate_text == "9"


@pytest.mark.parametrize(
    "meanwhile",
    [
        lambda: FeeToken.objects.update(enabled=True),
        lambda: PriceSource.objects.filter(kind="fixed").update(rate_set_at=LONG_AGO),
        lambda: PriceSource.objects.filter(kind="uniswap_v2").delete(),
        lambda: FeeToken.objects.all().delete(),
        lambda: FeeToken.objects.create(network="mainnet", symbol="LINK", address=PAIR),
        lambda: FeeToken.objects.create(network="mainnet", symbol="OTHER", address=LINK_ADDRESS),
    ],
)
def test_concurrent_changes_are_not_overwritten(tmp_path: Path, meanwhile: Any) -> None:
    load(document(USDC), tmp_path)
    relayers = config_files.document(config_files.SPARSE)
    planned = plan({**relayers, **document(USDC | {"margin_bps": 7}, SPARSE)})
    meanwhile()
    before = rows()
    with pytest.raises(ConcurrentChange):
        planned.apply()
    # Nothing of the lists before it either.
    assert rows() == before


def test_a_price_and_bounds_read_concurrently_are_kept(tmp_path: Path) -> None:
    load(document(USDC), tmp_path)
    planned = plan(document(USDC | {"margin_bps": 7}))
    FeeToken.objects.update(decimals=6, rate_text="3000.5", rated_at=LONG_AGO)
    PriceSource.objects.filter(kind="chainlink_usd").update(feed_bounds=BOUNDS)
    planned.apply()
    token = FeeToken.objects.get()
    assert (token.margin_bps, token.decimals, token.rate_text, token.rated_at) == (7, 6, "3000.5", LONG_AGO)
    assert PriceSource.objects.get(kind="chainlink_usd").feed_bounds == BOUNDS
