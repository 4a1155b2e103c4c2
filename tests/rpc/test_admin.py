"""Fee tokens in the admin: the list, the last price, reading it now, and who may do what."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from rpc.console import formatting
from rpc.models import FeeToken
from tests.chain.answering_node import node_answering
from tests.chain.faults import NodeServer
from tests.notifications.admin_pages import rows, staff_who_may, told
from tests.rpc import factories
from tests.rpc.admin_pages import LIST, page_of, text
from tests.rpc.estimates import relayer_at
from tests.servers import free_port

pytestmark = pytest.mark.django_db

RATE = "2481.813415533446655334466553344665533447"


@pytest.fixture
def node() -> Iterator[NodeServer]:
    with node_answering(eth_call={"result": f"0x{6:064x}"}) as node:
        yield node


def address(number: int) -> str:
    return f"0x{number:040}"


def shown(number: int) -> str:
    return f"{address(number)[:-6]} {address(number)[-6:]} Copy"


def priced(minutes: int = 0, rate: str = RATE) -> dict[str, Any]:
    """The columns of a token whose price was read so many minutes ago, and was two hours old then."""
    then = timezone.now() - timedelta(minutes=minutes)
    two_hours = then - timedelta(hours=2)
    details = [
        {"name": "Fixed rate", "rate": rate, "updated_at": int(then.timestamp())},
        {"name": "Chainlink, token/native", "rate": rate, "updated_at": int(two_hours.timestamp())},
    ]
    return {"rate_text": rate, "rated_at": then, "rate_details": details, "decimals": 6}


def tokens() -> None:
    """A token in each state, and in as many of the states after it as can be."""
    now_failed = {"rate_error": "Why."}
    rows: dict[str, dict[str, Any]] = {
        "OK": priced(1),
        "STALE": priced(4),
        "FAILED": priced(60) | now_failed,
        "NEVER": {},
        "OFF": priced(60) | now_failed | {"enabled": False},
    }
    for number, (symbol, values) in enumerate(rows.items()):
        token = factories.fee_token(symbol=symbol, address=address(number), margin_bps=number, **values)
        factories.fixed_source(token)
        factories.chainlink_native_source(token)


def test_the_list_shows_what_matters(admin_client: Client) -> None:
    tokens()
    sources = "Fixed rate Chainlink, token/native"

    def price(symbol: str, age: str) -> str:
        return f"≈ 2,481.8134 {symbol} for 1 ETH {age}"

    page = admin_client.get(LIST)
    assert rows(page) == [
        ["FAILED", "hardhat", shown(2), "failed", price("FAILED", "3 hours ago"), sources, "2 bps"],
        ["NEVER", "hardhat", shown(3), "not read yet", "unknown", sources, "3 bps"],
        ["OFF", "hardhat", shown(4), "off", price("OFF", "3 hours ago"), sources, "4 bps"],
        ["OK", "hardhat", shown(0), "ok", price("OK", "2 hours ago"), sources, "0 bps"],
        ["STALE", "hardhat", shown(1), "stale", price("STALE", "2 hours ago"), sources, "1 bps"],
    ]
    assert f'title="{RATE} OK for 1 ETH"' in page.content.decode()


@pytest.mark.parametrize(
    ("rate", "shown"),
    [
        ("3012.5", "3,012.5"),
        ("1000000000000000000", "1,000,000,000,000,000,000"),
        ("1234567.89", "≈ 1,234,567.9"),
        ("0.000012345678912345", "≈ 0.000012345679"),
        ("99999999.9", "≈ 100,000,000"),
    ],
)
def test_a_rate_is_shortened_and_marked_where_digits_are_left_out(rate: str, shown: str) -> None:
    assert formatting.short(FeeToken(rate_text=rate)) == shown


def test_the_list_is_filtered_and_searched(admin_client: Client) -> None:
    tokens()
    wanted = {
        **{f"state={state}": [symbol] for state, symbol in (("ok", "OK"), ("stale", "STALE"), ("failed", "FAILED"))},
        "state=not+read+yet": ["NEVER"],
        "state=off": ["OFF"],
        "network=hardhat&state=ok": ["OK"],
        "network=sepolia": [],
        "q=stal": ["STALE"],
        f"q={address(3)[:42].upper()}": ["NEVER"],
        "q=hardhat": [],
    }
    assert {query: [row[0] for row in rows(admin_client.get(f"{LIST}?{query}"))] for query in wanted} == wanted
    assert admin_client.get(f"{LIST}?sources__rate_text__startswith=3").status_code == 400


def add_tokens(first: int, last: int) -> None:
    for number in range(first, last):
        token = factories.fee_token(symbol=f"T{number}", address=address(number), **priced())
        factories.fixed_source(token)
        factories.chainlink_native_source(token)


def test_lists_and_pages_make_as_many_queries_for_many_tokens_and_sources_as_for_few(admin_client: Client) -> None:
    add_tokens(0, 5)
    admin_client.get(LIST)
    with CaptureQueriesContext(connection) as few:
        assert len(rows(admin_client.get(LIST))) == 5
    add_tokens(5, 100)
    with CaptureQueriesContext(connection) as many:
        assert len(rows(admin_client.get(LIST))) == 50
    assert len(many) == len(few)
    token = FeeToken.objects.first()
    assert token is not None
    admin_client.get(page_of(token))
    with CaptureQueriesContext(connection) as few:
        admin_client.get(page_of(token))
    for _ in range(5):
        factories.fixed_source(token)
    with CaptureQueriesContext(connection) as many:
        admin_client.get(page_of(token))
    assert len(many) == len(few)


def test_the_page_of_a_token_shows_its_last_price_and_that_of_each_source(admin_client: Client) -> None:
    token = factories.fee_token(rate_error="<b>Why.</b>", **priced(1))
    page = admin_client.get(page_of(token))
    price = page.context["price"]
    assert {name: text(value) for name, value in price["facts"].items()} == {
        "State": "failed",
        "Price": f"{RATE} USDC for 1 ETH",
        "Decimals": "6",
        "Last read": "a minute ago",
    }
    assert price["table"] == {
        "headers": ["Source", "Price", "Age"],
        "rows": [
            ["Fixed rate", f"{RATE} USDC for 1 ETH", "a minute ago"],
            ["Chainlink, token/native", f"{RATE} USDC for 1 ETH", "2\xa0hours ago"],
        ],
    }
    assert "&lt;b&gt;Why.&lt;/b&gt;" in page.content.decode()


def test_a_price_is_read_now_from_the_page_of_its_token(admin_client: Client, node: NodeServer) -> None:
    relayer_at(node.url)
    token = factories.fee_token()
    factories.fixed_source(token)
    page = admin_client.get(page_of(token))
    assert f'action="{page_of(token, "read")}"' in page.content.decode()
    assert {name: text(value) for name, value in page.context["price"]["facts"].items()} == {
        "State": "not read yet",
        "Price": "unknown",
        "Decimals": "not read yet",
        "Last read": "never",
    }
    assert node.requests == []
    assert admin_client.get(page_of(token, "read")).status_code == 405
    page = admin_client.post(page_of(token, "read"), follow=True)
    assert told(page) == ["Prices read: USDC on hardhat."]
    assert FeeToken.objects.get().rate_text == "3000"
    assert admin_client.post(f"{LIST}{token.pk + 1}/read/").status_code == 404


def test_many_prices_are_read_now_and_each_failure_is_reported(admin_client: Client, node: NodeServer) -> None:
    relayer_at(node.url)
    relayer_at(f"http://127.0.0.1:{free_port()}/s3cret", identifier="dead", network="sepolia")
    chosen = [factories.fee_token(symbol=f"T{number}", address=address(number)) for number in range(2)]
    chosen.append(factories.fee_token(network="sepolia"))
    left = factories.fee_token(symbol="LEFT", address=address(7))
    for token in [*chosen[:1], chosen[2], left]:
        factories.fixed_source(token)
    form = {"action": "read_selected_prices", "_selected_action": [token.pk for token in chosen]}
    page = admin_client.post(LIST, form, follow=True)
    assert told(page) == [
        "Prices read: T0 on hardhat.",
        "T1 on hardhat: it has no price source.",
        "USDC on sepolia: No node answered: connection failed.",
    ]
    left.refresh_from_db()
    assert left.rated_at is None


def test_staff_who_may_only_look_see_everything_and_change_nothing(client: Client, node: NodeServer) -> None:
    viewer = staff_who_may(client, "view_feetoken")
    relayer_at(node.url)
    token = factories.fee_token(**priced())
    factories.fixed_source(token, "2999.5")
    factories.pair_source(token)
    page = viewer.get(page_of(token)).content.decode()
    for part in (
        f"{RATE} USDC for 1 ETH",
        "Fixed rate: rate 2999.5, age limit 86400",
        f"Uniswap v2 pair: pair {factories.PAIR}, wrapped native {factories.WRAPPED}, minimum liquidity {10**18}",
        f'title="{token.address}"',
    ):
        assert part in page
    for part in ('name="symbol"', 'name="sources-0-kind"', 'name="_save"', page_of(token, "read")):
        assert part not in page
    assert 'name="action"' not in viewer.get(LIST).content.decode()
    form = {"network": "hardhat", "symbol": "THEIRS", "sources-TOTAL_FORMS": "0", "sources-INITIAL_FORMS": "0"}
    assert viewer.post(page_of(token), form).status_code == 403
    assert viewer.post(page_of(token, "read")).status_code == 403
    viewer.post(LIST, {"action": "read_selected_prices", "_selected_action": [token.pk]})
    assert FeeToken.objects.get().symbol == "USDC"
    assert node.requests == []


def test_a_price_is_not_read_for_others_nor_for_a_page_of_another_site(
    client: Client, node: NodeServer, admin_user: Any
) -> None:
    relayer_at(node.url)
    token = factories.fee_token()
    assert client.post(page_of(token, "read")).url.startswith("/admin/login/")  # type: ignore[attr-defined]
    assert staff_who_may(client, "view_signer").post(page_of(token, "read")).status_code == 403
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(admin_user)
    assert strict.post(page_of(token, "read")).status_code == 403
    assert node.requests == []
