"""JSON-RPC on the page of a relayer: its calls, and trying an estimate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest
from django.db import connection
from django.db.models import PROTECT
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from chain.fees.gas_price import GasPrice
from chain.fees.native_fee import Gas, NativeFee
from chain.fees.network_fees import Charges
from chain.networks import NetworkKind
from chain.nodes.head import Head
from relayer_service.amounts import NOTHING, Amount
from relayer_service.observability.call_counts import RELAYER, CallCount
from relayers.models import Relayer
from rpc import counters
from rpc.console import fee_breakdown, try_it
from rpc.console.fee_breakdown import Item
from rpc.fees.prices import Quote
from rpc.fees.quote import FeeQuote, TokenFee
from rpc.fees.sources.base import SourcePrice
from rpc.models import FeeToken
from tests.chain.answering_node import local_network, node_answering, unsigned
from tests.chain.faults import NodeServer, error
from tests.notifications.admin_pages import staff_who_may
from tests.relayers import factories as relayer_factories
from tests.rpc import factories
from tests.rpc.estimates import relayer_at
from transactions.models import TopUp

pytestmark = pytest.mark.django_db

LIST = "/admin/relayers/relayer/"
INTERNAL = "The call failed because of an internal error. The service's log has the cause under the request ID."


@pytest.fixture
def node() -> Iterator[NodeServer]:
    """A node whose contracts all answer 6, and whose estimates are those of `estimates.ANSWERS`."""
    with node_answering(eth_call={"result": f"0x{6:064x}"}) as node:
        yield node


@pytest.fixture
def token() -> FeeToken:
    made = factories.fee_token(margin_bps=50)
    factories.fixed_source(made, "3012.5", rate_set_at=timezone.now() - timedelta(minutes=61))
    return made


def page_of(relayer: Relayer, page: str = "change") -> str:
    return f"{LIST}{relayer.pk}/{page}/"


def try_estimate(client: Client, relayer: Relayer, script: bool = True, **changes: Any) -> Any:
    form = {"fee_token": factories.TOKEN, "speed": "", "transaction": unsigned()} | changes
    headers = {"X-Requested-With": "fetch"} if script else {}
    values = {f"try-{name}": value for name, value in form.items()}
    return client.post(page_of(relayer, "estimate"), values, headers=headers)


def items(page: Any) -> list[tuple[str, str, str, str]]:
    return lines(page.context["items"])


def lines(found: Sequence[Item]) -> list[tuple[str, str, str, str]]:
    return [(item.name, item.value, item.maximum, item.note) for item in found]


def test_a_quote_is_itemised(admin_client: Client, node: NodeServer, token: FeeToken) -> None:
    relayer = relayer_at(node.url)
    page = try_estimate(admin_client, relayer)
    assert page.status_code == 200
    found = items(page)
    assert found.pop(0)[:2] == ("Block", "7")
    # 21,000 gas; 100 wei with a margin of 20 %, and the priority fee's floor of a million wei.
    assert found == [
        ("Sender", relayer_factories.ADDRESS, "", ""),
        ("Gas", "21,000", "", "estimated by the node"),
        ("Gas paid for", "21,000", "21,000", "no buffer"),
        ("Base fee", "0.0000001 gwei", "", "next block, from the fee history"),
        ("Priority fee", "0.001 gwei", "", ""),
        ("Gas price", "0.0010001 gwei", "0.00100012 gwei", "the base fee may rise by 20 %"),
        ("Gas fee", "0.0000000210021 ETH", "0.00000002100252 ETH", ""),
        ("Total in the native coin", "0.0000000210021 ETH", "0.00000002100252 ETH", ""),
        ("Source: Fixed rate", "3012.5 USDC for 1 ETH", "", "an hour ago"),
        ("Conversion rate", "3012.5 USDC for 1 ETH", "", ""),
        ("Margin", "0.5 %", "", "of the token"),
        ("Fee in USDC", "0.000064 USDC", "0.000064 USDC", "rounded up once"),
    ]
    text = page.content.decode()
    assert "<html" not in text
    assert "0.00000002100252 ETH" in text
    # It is no call of a caller.
    counters.flush()
    assert not CallCount.objects.exists()


def test_a_quote_in_the_native_coin_has_no_price(admin_client: Client, node: NodeServer) -> None:
    policies = {"gas_limit_estimation": False, "eip1559_pricing": False, "gas_price_cap": 95}
    relayer = relayer_at(node.url, policies=policies)
    found = {item[0]: item[1:] for item in items(try_estimate(admin_client, relayer, fee_token="ETH"))}
    assert [*found][2:] == ["Gas", "Gas price", "Gas fee", "Total in the native coin", "Fee in ETH"]
    assert found["Gas"] == ("50,000", "", "the transaction's gas limit, by policy")
    assert found["Gas price"][2] == "capped by the policy gas_price_cap"


def test_without_a_token_the_quote_is_in_all_of_the_network(
    admin_client: Client, node: NodeServer, token: FeeToken
) -> None:
    factories.pair_source(factories.fee_token(symbol="SPOT", address=factories.FEED))
    found = items(try_estimate(admin_client, relayer_at(node.url), fee_token="", speed="fastest"))
    reason = "pairs alone cannot set a price: add a source of another kind"
    assert ("SPOT", "no fee", "", f"SPOT on hardhat: {reason}.") in found
    assert found[-1][0] == "Fee in USDC"


def sample(**changes: Any) -> FeeQuote:
    """A quote whose parts are all there, each of another size."""
    values: dict[str, Any] = {
        "network": local_network(kind=NetworkKind.OP_STACK),
        "head": Head(1_234, int(timezone.now().timestamp()) - 120, 0, 30_000_000),
        "sender": relayer_factories.ADDRESS,
        "gas": Gas(21_001, True, 1_234, Amount(21_001, Fraction(235_925_234, 10_000))),
        "price": GasPrice(Fraction(100_000), Fraction(1_000_000_003, 10_000)),
        "charges": Charges(Amount(2**128 - 1, 2**128), Amount(16, 17)),
        "blob_fee": Amount(131_072, Fraction(131_072 * 12_000, 10_000)),
    }
    fee = NativeFee(**values | changes)
    price = SourcePrice("Fixed rate", Fraction(1, 3), int(timezone.now().timestamp()) - 120, 2**40)
    quote = Quote(Fraction(1, 3), (price, price), 6)
    return FeeQuote(fee, {"USDC": TokenFee("USDC", factories.TOKEN, 1, quote, 333_300, 333_367)})


def test_every_part_is_shown_exactly() -> None:
    rate = f"0.{'3' * 40} USDC for 1 ETH"
    two_minutes = "2\xa0minutes ago"
    assert lines(fee_breakdown.items(sample())) == [
        ("Block", "1,234", "", two_minutes),
        ("Sender", relayer_factories.ADDRESS, "", ""),
        ("Gas", "21,001", "", "estimated by the node"),
        ("Gas paid for", "21,001", "23,592.5234", "buffer of 12.34 %"),
        ("Gas price", "0.0001 gwei", "0.0001000000003 gwei", "reported by the node"),
        ("Gas fee", "0.0000000021001 ETH", "0.00000000235925234707775702 ETH", ""),
        (
            "L1 data fee",
            "340282366920938463463.374607431768211455 ETH",
            "340282366920938463463.374607431768211456 ETH",
            "may rise by 10 %",
        ),
        ("Operator fee", "0.000000000000000016 ETH", "0.000000000000000017 ETH", ""),
        ("Blob fee", "0.000000000000131072 ETH", "0.0000000000001572864 ETH", ""),
        (
            "Total in the native coin",
            "340282366920938463463.374607433868442543 ETH",
            "340282366920938463463.37460743412762110647775702 ETH",
            "",
        ),
        ("Source: Fixed rate", rate, "", two_minutes),
        ("Source: Fixed rate", rate, "", two_minutes),
        ("Conversion rate", rate, "", "the median"),
        ("Margin", "0.01 %", "", "of the token"),
        ("Fee in USDC", "0.3333 USDC", "0.333367 USDC", "rounded up once"),
    ]


def test_the_l1_gas_of_arbitrum_is_a_part_of_the_gas() -> None:
    found = fee_breakdown.items(sample(charges=Charges(l1_gas=1_234), blob_fee=NOTHING))
    assert lines(found)[2:5] == [
        ("Gas", "21,001", "", "estimated by the node"),
        ("L1 gas", "1,234", "", "included in the gas above"),
        ("Gas paid for", "21,001", "23,592.5234", "buffer of 12.34 %"),
    ]
    assert {item.name for item in found}.isdisjoint({"L1 data fee", "Operator fee", "Blob fee"})
    # A price of the transaction's own is named.
    found = fee_breakdown.items(sample(price=GasPrice(Fraction(1), Fraction(2), is_own=True)))
    assert [item.note for item in found if item.name == "Gas price"] == ["limited by the transaction's gas price"]


def test_an_error_is_the_one_that_a_caller_would_get(admin_client: Client, token: FeeToken) -> None:
    reverted = error(3, "execution reverted", data="0x")
    with node_answering(eth_call={"result": f"0x{6:064x}"}, eth_estimateGas=reverted) as node:
        relayer = relayer_at(node.url)
        page, alone = (try_estimate(admin_client, relayer, script=script) for script in (True, False))
    assert (page.context["error"]["code"], page.context["error"]["message"]) == (-32003, "Execution reverted")
    text = page.content.decode()
    assert "Execution reverted" in text
    assert "(-32003)" in text
    assert page.context["error"]["description"] in text
    # Without a script the answer is a page of its own.
    text = alone.content.decode()
    for part in ("<html", "Try it: Relayer 1", "Execution reverted", unsigned(), f'href="{page_of(relayer)}"'):
        assert part in text
    assert node.url not in text


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"transaction": "<b>0x</b>"}, "Encoded transaction: Not valid: it must start with 0x."),
        ({"transaction": " "}, "Receiver: Enter a receiver, or the creation code of a contract as data."),
        ({"fee_token": "DOGE"}, "Fee token: Select a valid choice. DOGE is not one of the available choices."),
    ],
)
def test_invalid_input_of_the_form_is_reported(
    admin_client: Client, node: NodeServer, token: FeeToken, changes: dict[str, Any], fault: str
) -> None:
    text = try_estimate(admin_client, relayer_at(node.url), **changes).content.decode()
    assert fault in text
    assert "<b>" not in text
    assert node.requests == []


def test_an_unexpected_failure_is_logged_and_reported_with_a_fixed_text(
    admin_client: Client,
    node: NodeServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    settings: Settings,
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("s3cret")

    relayer = relayer_at(node.url)
    with monkeypatch.context() as patch:
        patch.setattr(try_it, "quote", fail)
        page = try_estimate(admin_client, relayer, fee_token="ETH")
    assert page.context["error"] == {"code": -32603, "message": "Internal error", "description": INTERNAL}
    assert "s3cret" not in page.content.decode()
    assert "An estimate failed" in caplog.text
    settings.ENCRYPTION_KEYS = {"2": bytes(range(50, 82))}
    page = try_estimate(admin_client, relayer, fee_token="ETH")
    assert page.context["error"]["description"] == try_it.UNREADABLE


def test_a_relayer_on_a_network_of_its_own_has_no_estimate(admin_client: Client, node: NodeServer) -> None:
    relayer = relayer_at(node.url, network="my-chain", chain_id=31337)
    form = admin_client.get(page_of(relayer)).context["try_form"]
    assert form.fields["fee_token"].choices == [("", "All tokens of the network"), ("native", "The native coin")]
    assert try_estimate(admin_client, relayer, fee_token="native").context["error"]["code"] == -32005


def test_the_enabled_tokens_of_the_network_and_its_coin_are_offered(admin_client: Client, token: FeeToken) -> None:
    factories.fee_token(symbol="DAI", address=factories.FEED)
    factories.fee_token(symbol="OFF", address=factories.PAIR, enabled=False)
    factories.fee_token(network="sepolia", symbol="OTHER")
    form = admin_client.get(page_of(relayer_factories.relayer(network="hardhat"))).context["try_form"]
    assert form.fields["fee_token"].choices == [
        ("", "All tokens of the network"),
        (factories.FEED, "DAI"),
        (factories.TOKEN, "USDC"),
        ("ETH", "ETH, the native coin"),
    ]


def test_the_page_shows_calls_and_the_form_without_asking_a_node(client: Client, node: NodeServer) -> None:
    viewer, relayer = staff_who_may(client, "view_relayer"), relayer_at(node.url)
    add_calls(relayer, 1)
    text = viewer.get(page_of(relayer)).content.decode()
    assert "Calls: 1 · Client errors: 0 · Failed: 1" in text
    assert f'action="{page_of(relayer, "estimate")}"' in text
    assert f'data-status-url="{page_of(relayer, "status")}"' in text
    assert node.requests == []
    # Those who may only look try an estimate, too.
    assert items(try_estimate(viewer, relayer, fee_token="ETH"))[-1][0] == "Fee in ETH"


def add_calls(relayer: Relayer, count: int) -> None:
    CallCount.objects.bulk_create(
        CallCount(
            kind=RELAYER,
            subject=str(relayer.pk),
            start=timezone.now(),
            method=f"method{number}",
            outcome="-32000",
            calls=1,
        )
        for number in range(count)
    )


def test_the_page_makes_as_many_queries_with_many_calls_and_tokens_as_with_few(admin_client: Client) -> None:
    relayer = relayer_factories.relayer(network="hardhat")
    admin_client.get(page_of(relayer))
    with CaptureQueriesContext(connection) as few:
        admin_client.get(page_of(relayer))
    add_calls(relayer, 100)
    for number in range(50):
        factories.fee_token(symbol=f"T{number}", address=f"0x{number:040}")
    with CaptureQueriesContext(connection) as many:
        admin_client.get(page_of(relayer))
    assert len(many) == len(few)


def test_no_estimate_is_made_for_others_nor_for_a_page_of_another_site(
    client: Client, node: NodeServer, token: FeeToken, admin_user: Any
) -> None:
    relayer = relayer_at(node.url)
    assert try_estimate(client, relayer).url.startswith("/admin/login/")
    assert try_estimate(staff_who_may(client, "view_feetoken"), relayer).status_code == 403
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(admin_user)
    assert try_estimate(strict, relayer).status_code == 403
    assert node.requests == []


def add_top_up(relayer: Relayer) -> None:
    TopUp.objects.create(relayer=relayer, state="blocked", amount_text="1", balance_text="0", block=1)


def test_a_relayer_is_deleted_with_its_top_ups_which_are_not_listed(admin_client: Client) -> None:
    relayer = relayer_factories.relayer()
    add_top_up(relayer)
    page = admin_client.get(page_of(relayer, "delete"))
    assert page.context["deleted_objects"] == ["relayer-1"]
    assert dict(page.context["model_count"]) == {"relayers": 1, "top ups": 1}
    admin_client.post(page_of(relayer, "delete"), {"post": "yes"})
    assert (Relayer.objects.count(), TopUp.objects.count()) == (0, 0)


def test_rows_that_protect_a_relayer_are_counted_and_keep_it(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TopUp._meta.get_field("relayer").remote_field, "on_delete", PROTECT)
    relayer = relayer_factories.relayer()
    add_top_up(relayer)
    page = admin_client.post(page_of(relayer, "delete"), {"post": "yes"})
    assert page.context["protected"] == ["1 top ups"]
    assert Relayer.objects.exists()
