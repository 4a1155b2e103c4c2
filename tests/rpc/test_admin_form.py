"""The admin's form for fee tokens: sources of each kind, and what is forgotten when something changes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from relayer_service.background.tasks import queue
from rpc.models import FeeToken, PriceSource
from tests.notifications.admin_pages import staff_who_may, told
from tests.relayers.admin_pages import open_form
from tests.rpc import factories
from tests.rpc.admin_pages import add, edit, errors, fields, page_of, source_errors

pytestmark = pytest.mark.django_db

OTHER = "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"
NEEDED = "required for this kind of source"
PRICE: dict[str, Any] = {
    "rate_text": "3000",
    "rated_at": timezone.now(),
    "rate_error": "Why.",
    "rate_details": [{"name": "Fixed rate", "rate": "3000", "updated_at": 1}],
    "decimals": 6,
}
FORGOTTEN: dict[str, Any] = {"rate_text": "", "rated_at": None, "rate_error": "", "rate_details": []}
EMPTY: dict[str, Any] = {
    "rate_text": "",
    "max_age_seconds": None,
    "feed": "",
    "heartbeat_seconds": None,
    "native_feed": "",
    "native_heartbeat_seconds": None,
    "sequencer_feed": "",
    "sequencer_grace_seconds": 3600,
    "pair": "",
    "wrapped_native": "",
    "min_liquidity_text": "",
}
# What staff type for a source of each kind, and every column that it sets.
KINDS: dict[str, dict[str, str]] = {
    "fixed": {"rate_text": "0.0005", "max_age_seconds": "60"},
    "chainlink_usd": {
        "feed": OTHER.lower(),
        "heartbeat_seconds": "3600",
        "native_feed": factories.NATIVE_FEED,
        "native_heartbeat_seconds": "86400",
        "sequencer_feed": factories.PAIR,
        "sequencer_grace_seconds": "0",
    },
    "chainlink_native": {
        "feed": OTHER,
        "heartbeat_seconds": "3600",
        "sequencer_feed": "",
        "sequencer_grace_seconds": "60",
    },
    "uniswap_v2": {"pair": factories.PAIR, "wrapped_native": factories.WRAPPED, "min_liquidity_text": str(10**30)},
}
# Something in every field, some of it wrong.
EVERYTHING = {
    "rate_text": "7",
    "max_age_seconds": "-5",
    "feed": "0x12",
    "heartbeat_seconds": "x",
    "native_feed": "0x12",
    "native_heartbeat_seconds": "1.5",
    "sequencer_feed": "no address",
    "sequencer_grace_seconds": "",
    "pair": "0x12",
    "wrapped_native": "0x12",
    "min_liquidity_text": "-1",
    "still_correct": "on",
}


def source(values: dict[str, str], number: int = 0) -> dict[str, str]:
    return {f"sources-{number}-{name}": value for name, value in values.items()}


def price(token: FeeToken) -> dict[str, Any]:
    found: dict[str, Any] = FeeToken.objects.values(*PRICE).get(pk=token.pk)
    return found


def columns(found: PriceSource) -> dict[str, Any]:
    return {name: getattr(found, name) for name in EMPTY}


@pytest.fixture
def token() -> FeeToken:
    """One with a price, and with a fixed rate that was set an hour ago."""
    made = factories.fee_token(**PRICE)
    factories.fixed_source(made, rate_set_at=timezone.now() - timedelta(hours=1))
    return made


def test_a_token_is_added_with_its_address_in_the_case_of_its_checksum(admin_client: Client) -> None:
    add(admin_client, address=OTHER.lower(), margin_bps="50", max_spread_bps="75")
    values = FeeToken.objects.values("network", "symbol", "address", "enabled", "margin_bps", "max_spread_bps").get()
    assert values == {
        "network": "hardhat",
        "symbol": "USDC",
        "address": OTHER,
        "enabled": True,
        "margin_bps": 50,
        "max_spread_bps": 75,
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_source_keeps_the_fields_of_its_kind_and_no_others(admin_client: Client, kind: str) -> None:
    add(admin_client, **source(EVERYTHING | KINDS[kind] | {"kind": kind}))
    found = PriceSource.objects.get()
    typed: dict[str, Any] = {
        name: int(value) if name.endswith("_seconds") else value for name, value in KINDS[kind].items()
    }
    if "feed" in typed:
        typed["feed"] = OTHER
    assert (found.kind, columns(found)) == (kind, EMPTY | typed)
    assert bool(found.rate_set_at) is (kind == "fixed")


def test_a_source_that_becomes_one_of_another_kind_loses_what_it_had(admin_client: Client, token: FeeToken) -> None:
    for kind in ("uniswap_v2", "fixed"):
        edit(admin_client, token, **source(KINDS[kind] | {"kind": kind}))
        found = PriceSource.objects.get()
        assert {name for name, value in columns(found).items() if value != EMPTY[name]} == {*KINDS[kind]}
        assert bool(found.rate_set_at) is (kind == "fixed")


@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("typed", "faults"),
    [
        ({"kind": ""}, {"kind": ["This field is required."]}),
        (
            {"kind": "fixed", "rate_text": "3e3", "max_age_seconds": ""},
            {"rate_text": ["a decimal number is required, such as 0.0005 or 3000"], "max_age_seconds": [NEEDED]},
        ),
        (
            {"kind": "chainlink_native", "heartbeat_seconds": "0", "feed": "0x12"},
            {
                "feed": ["must be an EVM address: 0x and 40 hexadecimal digits"],
                "heartbeat_seconds": ["Ensure this value is greater than or equal to 1."],
            },
        ),
    ],
)
def test_a_fault_of_a_source_is_shown_at_its_field(
    admin_client: Client, typed: dict[str, str], faults: dict[str, list[str]]
) -> None:
    assert source_errors(add(admin_client, **source(typed))) == [faults]
    assert not FeeToken.objects.exists()


@pytest.mark.one_engine
def test_a_fault_of_a_token_is_shown_at_its_field(admin_client: Client) -> None:
    assert errors(add(admin_client, network="nowhere", symbol="US DC", address="0x12", margin_bps="10001")) == {
        "network": ["Select a valid choice. nowhere is not one of the available choices."],
        "symbol": ["spaces and control characters are not allowed"],
        "address": ["must be an EVM address: 0x and 40 hexadecimal digits"],
        "margin_bps": ["Ensure this value is less than or equal to 10000."],
    }
    assert errors(add(admin_client, symbol="ETH")) == {"symbol": ["ETH is the native coin of hardhat"]}
    assert not FeeToken.objects.exists()


def test_a_token_needs_a_source(admin_client: Client, token: FeeToken) -> None:
    page = edit(admin_client, token, **{"sources-0-DELETE": "on"})
    (formset,) = page.context_data["inline_admin_formsets"]
    assert formset.formset.non_form_errors() == ["A token needs at least one price source."]
    assert PriceSource.objects.exists()


def test_a_token_on_a_network_that_is_no_longer_known_can_be_looked_at(admin_client: Client) -> None:
    token = factories.fee_token(network="gone")
    factories.fixed_source(token)
    assert fields(admin_client.get(page_of(token)))["network"] == "gone"
    assert errors(edit(admin_client, token, margin_bps="1")) == {
        "network": ["unknown network: add it to NETWORKS_FILE"]
    }


@pytest.mark.parametrize(
    ("typed", "is_set_anew"),
    [({"rate_text": "3000.5"}, True), ({"still_correct": "on"}, True), ({"max_age_seconds": "60"}, False)],
)
def test_a_fixed_rate_is_set_anew_when_it_changes_or_when_staff_say_that_it_holds(
    admin_client: Client, token: FeeToken, typed: dict[str, str], is_set_anew: bool
) -> None:
    before = PriceSource.objects.get().rate_set_at
    now = timezone.now()
    edit(admin_client, token, **source(typed))
    after = PriceSource.objects.get().rate_set_at
    assert after
    assert before
    assert after >= now if is_set_anew else after == before


@pytest.mark.parametrize(
    ("typed", "after"),
    [
        ({"symbol": "USDT", "margin_bps": "5", "enabled": ""}, PRICE),
        ({"address": OTHER}, FORGOTTEN | {"decimals": None}),
        ({"network": "sepolia"}, FORGOTTEN | {"decimals": None}),
        ({"max_spread_bps": "5"}, FORGOTTEN | {"decimals": 6}),
        (source({"rate_text": "2"}), FORGOTTEN | {"decimals": 6}),
    ],
)
def test_a_price_is_forgotten_and_read_anew_when_what_it_depends_on_changes(
    admin_client: Client,
    token: FeeToken,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
    typed: dict[str, str],
    after: dict[str, Any],
) -> None:
    page = open_form(admin_client, page_of(token))
    form = {name: value for name, value in (page | typed).items() if (name, value) != ("enabled", "")}
    with django_capture_on_commit_callbacks(execute=True):
        assert admin_client.post(page_of(token), form).status_code == 302
    assert price(token) == after
    pushed = [(task.name, task.args) for task in queue.pending()]
    assert pushed == ([] if after is PRICE else [("read_price_now", (token.pk,))])


def test_the_price_of_a_new_token_is_read_at_once(
    admin_client: Client, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        add(admin_client)
    assert [task.args for task in queue.pending()] == [(FeeToken.objects.get().pk,)]


def test_bounds_read_concurrently_are_kept_and_no_change_of_a_source(admin_client: Client, token: FeeToken) -> None:
    factories.chainlink_native_source(token)
    page = open_form(admin_client, page_of(token))
    bounds = {"chain_id": 31337, "aggregator": OTHER, "minimum": "1", "maximum": "9", "read_at": 0}
    PriceSource.objects.filter(feed=factories.FEED).update(feed_bounds={factories.FEED: bounds})
    admin_client.post(page_of(token), page | {"margin_bps": "5"})
    assert price(token) == PRICE
    admin_client.post(page_of(token), page | source({"heartbeat_seconds": "60"}, 1))
    found = PriceSource.objects.get(kind="chainlink_native")
    assert (found.heartbeat_seconds, found.feed_bounds) == (60, {factories.FEED: bounds})


def test_concurrent_changes_are_not_reverted(admin_client: Client, token: FeeToken) -> None:
    page = open_form(admin_client, page_of(token))
    # Of staff, and of the worker.
    theirs = {"margin_bps": 77, "enabled": False, "address": OTHER, "rate_text": "2999", "decimals": 7}
    FeeToken.objects.update(**theirs)
    admin_client.post(page_of(token), page | {"symbol": "USDT"})
    assert FeeToken.objects.values("symbol", *theirs).get() == {"symbol": "USDT"} | theirs


def test_sources_are_added_and_removed(admin_client: Client, token: FeeToken) -> None:
    second = source(KINDS["uniswap_v2"] | {"kind": "uniswap_v2"}, 1) | {"sources-TOTAL_FORMS": "2"}
    edit(admin_client, token, **second)
    assert [found.kind for found in token.sources.all()] == ["fixed", "uniswap_v2"]
    edit(admin_client, token, **{"sources-0-DELETE": "on"})
    assert [found.kind for found in token.sources.all()] == ["uniswap_v2"]


def test_an_enabled_token_with_only_a_pair_is_saved_with_a_warning(admin_client: Client, token: FeeToken) -> None:
    typed = open_form(admin_client, page_of(token)) | source(KINDS["uniswap_v2"] | {"kind": "uniswap_v2"})
    page = admin_client.post(page_of(token), typed, follow=True)
    why = "pairs alone cannot set a price: add a source of another kind"
    assert told(page)[:-1] == [f"USDC on hardhat: the token has no price: {why}"]
    assert "was changed successfully" in told(page)[-1]
    assert PriceSource.objects.get().kind == "uniswap_v2"


def test_who_may_change_or_add_a_token_may_do_so_with_its_sources(client: Client, token: FeeToken) -> None:
    staff = staff_who_may(client, "change_feetoken", "view_feetoken", "add_feetoken")
    edit(staff, token, **source({"rate_text": "2"}))
    assert PriceSource.objects.get().rate_text == "2"
    add(staff, symbol="DAI", address=OTHER)
    assert [found.token.symbol for found in PriceSource.objects.all()] == ["USDC", "DAI"]


def test_a_token_is_deleted_with_its_sources(admin_client: Client, token: FeeToken) -> None:
    admin_client.post(page_of(token, "delete"), {"post": "yes"})
    assert (FeeToken.objects.count(), PriceSource.objects.count()) == (0, 0)
