"""JSON-RPC on the page of a relayer: its calls, and trying an estimate."""

from __future__ import annotations

import re
from collections.abc import Iterator
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

from relayers.chain.gas_price import GasPrice
from relayers.chain.networks import L1Fee
from relayers.models import Relayer
from rpc import itemised, panels
from rpc.fees.estimate import Estimate
from rpc.fees.prices import Quote
from rpc.fees.sources.base import SourcePrice
from rpc.models import CallCount, FeeToken
from tests.notifications.admin_pages import staff_who_may
from tests.relayers import factories as relayer_factories
from tests.relayers.faults import NodeServer, error
from tests.rpc import factories
from tests.rpc.estimates import local_network, node_answering, relayer_at, unsigned

pytestmark = pytest.mark.django_db

LIST = "/admin/relayers/relayer/"
INTERNAL = "The call failed for a reason inside the service; its log has it under the request id."


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
    form = {"fee_token": factories.TOKEN, "transaction": unsigned()} | changes
    headers = {"X-Requested-With": "fetch"} if script else {}
    values = {f"estimate-{name}": value for name, value in form.items()}
    return client.post(page_of(relayer, "estimate"), values, headers=headers)


def items(page: Any) -> list[tuple[str, str, str]]:
    return [(item.name, item.value, item.note) for item in page.context["items"]]


def test_an_estimate_is_itemised(admin_client: Client, node: NodeServer, token: FeeToken) -> None:
    relayer = relayer_at(node.url)
    page = try_estimate(admin_client, relayer)
    assert page.status_code == 200
    # 21,000 gas with a buffer of 10 %; 100 wei with a margin of 20 %, and the tip's floor of a million wei.
    assert items(page) == [
        ("Sender", relayer_factories.ADDRESS, ""),
        ("Gas", "21,000", "estimated by the node"),
        ("Gas with buffer", "23,100", "+ 10 %"),
        ("Base fee", "0.0000001 gwei", "of the next block"),
        ("Tip", "0.001 gwei", "from the last blocks, or the least that is set"),
        ("Price per gas", "0.00100012 gwei", "base fee + 20 %, and the tip"),
        ("Gas fee", "0.000000023102772 ETH", ""),
        ("Total in the native coin", "0.000000023102772 ETH", ""),
        ("Source: Fixed rate", "3012.5 USDC for 1 ETH", "an hour ago"),
        ("Conversion rate", "3012.5 USDC for 1 ETH", ""),
        ("Margin", "0.5 %", "of the token"),
        ("Estimated fee", "0.00007 USDC", "rounded up once"),
    ]
    text = page.content.decode()
    assert "<html" not in text
    assert "0.000000023102772 ETH" in text
    # It is no call of a caller.
    assert not CallCount.objects.exists()


def test_an_estimate_in_the_native_coin_has_no_price(admin_client: Client, node: NodeServer) -> None:
    policies = {"gas_limit_estimation": False, "eip1559_pricing": False, "gas_price_cap": 7}
    relayer = relayer_at(node.url, policies=policies)
    assert items(try_estimate(admin_client, relayer, fee_token="ETH")) == [
        ("Sender", relayer_factories.ADDRESS, ""),
        ("Gas", "50,000", "the transaction's own limit, as the policy says"),
        ("Price per gas", "0.000000007 gwei", "capped by the policy gas_price_cap"),
        ("Gas fee", "0.00000000000035 ETH", ""),
        ("Total in the native coin", "0.00000000000035 ETH", ""),
        ("Estimated fee", "0.00000000000035 ETH", "rounded up once"),
    ]


def sample(**changes: Any) -> Estimate:
    """An estimate whose parts are all there, each of another size."""
    price = SourcePrice("Fixed rate", Fraction(1, 3), int(timezone.now().timestamp()) - 120, 2**40)
    values: dict[str, Any] = {
        "network": local_network(l1_fee=L1Fee.OP_STACK),
        "sender": relayer_factories.ADDRESS,
        "gas": 21_001,
        "is_estimated": True,
        "gas_buffer_bps": 1_234,
        "gas_price": GasPrice(Fraction(1_000_000_003, 10_000), False),
        "l1_gas": 0,
        "l1_fee": 2**128 - 1,
        "operator_fee": 17,
        "blob_fee": Fraction(131_072 * 12_000, 10_000),
        "native": Fraction(10**18) + Fraction(1, 10**8),
        "symbol": "USDC",
        "decimals": 6,
        "margin_bps": 1,
        "quote": Quote(Fraction(1, 3), (price, price), 6),
        "units": 333_367,
    }
    return Estimate(**values | changes)


def test_every_part_is_told_exactly() -> None:
    rate = f"0.{'3' * 40} USDC for 1 ETH"
    assert [(item.name, item.value, item.note) for item in itemised.items(sample())] == [
        ("Sender", relayer_factories.ADDRESS, ""),
        ("Gas", "21,001", "estimated by the node"),
        ("Gas with buffer", "23,592.5234", "+ 12.34 %"),
        ("Price per gas", "0.0001000000003 gwei", "as the node gives it"),
        ("Gas fee", "0.00000000235925234707775702 ETH", ""),
        ("L1 data fee", "340282366920938463463.374607431768211455 ETH", ""),
        ("Operator fee", "0.000000000000000017 ETH", ""),
        ("Blob fee", "0.0000000000001572864 ETH", ""),
        ("Total in the native coin", "1.00000000000000000000000001 ETH", ""),
        ("Source: Fixed rate", rate, "2\xa0minutes ago"),
        ("Source: Fixed rate", rate, "2\xa0minutes ago"),
        ("Conversion rate", rate, "the median"),
        ("Margin", "0.01 %", "of the token"),
        ("Estimated fee", "0.333367 USDC", "rounded up once"),
    ]


def test_the_l1_gas_of_arbitrum_is_a_part_of_the_gas() -> None:
    found = itemised.items(sample(network=local_network(l1_fee=L1Fee.ARBITRUM), l1_gas=1_234, blob_fee=Fraction(0)))
    assert [(item.name, item.value, item.note) for item in found[1:4]] == [
        ("Gas", "21,001", "estimated by the node"),
        ("L1 gas", "1,234", "a part of the gas above"),
        ("Gas with buffer", "23,592.5234", "+ 12.34 %"),
    ]
    assert {item.name for item in found}.isdisjoint({"L1 data fee", "Operator fee", "Blob fee"})


def test_an_error_is_the_one_that_a_caller_would_get(admin_client: Client, token: FeeToken) -> None:
    reverted = error(3, "execution reverted", data="0x")
    with node_answering(eth_call={"result": f"0x{6:064x}"}, eth_estimateGas=reverted) as node:
        page = try_estimate(admin_client, relayer_at(node.url))
    assert (page.context["error"]["code"], page.context["error"]["message"]) == (-32003, "Execution reverted")
    text = page.content.decode()
    assert "Execution reverted" in text
    assert "(-32003)" in text
    assert page.context["error"]["description"] in text


def test_what_cannot_be_decoded_is_a_fault_of_the_transaction(
    admin_client: Client, node: NodeServer, token: FeeToken
) -> None:
    page = try_estimate(admin_client, relayer_at(node.url), transaction="<b>0x</b>")
    assert page.context["error"]["code"] == -32602
    assert page.context["error"]["description"].startswith("transaction: ")
    assert "<b>" not in page.content.decode()
    assert node.requests == []


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"transaction": " "}, "Transaction: This field is required."),
        ({"fee_token": "DOGE"}, "Fee token: Select a valid choice. DOGE is not one of the available choices."),
    ],
)
def test_what_the_form_does_not_take_is_told(
    admin_client: Client, node: NodeServer, token: FeeToken, changes: dict[str, Any], fault: str
) -> None:
    page = try_estimate(admin_client, relayer_at(node.url), **changes)
    assert fault in page.content.decode()
    assert node.requests == []


def test_an_unexpected_failure_is_logged_and_told_in_fixed_words(
    admin_client: Client, node: NodeServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("s3cret")

    monkeypatch.setattr(panels, "estimate", fail)
    page = try_estimate(admin_client, relayer_at(node.url), fee_token="ETH")
    assert page.context["error"] == {"code": -32603, "message": "Internal error", "description": INTERNAL}
    assert "s3cret" not in page.content.decode()
    assert "An estimate failed" in caplog.text


def test_urls_that_cannot_be_opened_are_told(admin_client: Client, node: NodeServer, settings: Settings) -> None:
    relayer = relayer_at(node.url)
    settings.ENCRYPTION_KEYS = {"2": bytes(range(50, 82))}
    page = try_estimate(admin_client, relayer, fee_token="ETH")
    assert page.context["error"]["description"] == panels.UNREADABLE


def test_a_relayer_on_a_network_of_its_own_has_no_estimate(admin_client: Client, node: NodeServer) -> None:
    relayer = relayer_at(node.url, network="my-chain", chain_id=31337)
    form = admin_client.get(page_of(relayer)).context["estimate_form"]
    assert form.fields["fee_token"].choices == [("native", "The native coin")]
    assert try_estimate(admin_client, relayer, fee_token="native").context["error"]["code"] == -32005


def test_without_a_script_the_answer_is_a_page_of_its_own(
    admin_client: Client, node: NodeServer, token: FeeToken
) -> None:
    relayer = relayer_at(node.url)
    page = try_estimate(admin_client, relayer, script=False)
    text = page.content.decode()
    for part in ("<html", "Try an estimate: Relayer 1", "0.00007 USDC", unsigned(), f'href="{page_of(relayer)}"'):
        assert part in text
    assert node.url not in text


def test_the_enabled_tokens_of_the_network_and_its_coin_are_offered(admin_client: Client, token: FeeToken) -> None:
    factories.fee_token(symbol="DAI", address=factories.FEED)
    factories.fee_token(symbol="OFF", address=factories.PAIR, enabled=False)
    factories.fee_token(network="sepolia", symbol="OTHER")
    form = admin_client.get(page_of(relayer_factories.relayer(network="hardhat"))).context["estimate_form"]
    assert form.fields["fee_token"].choices == [
        (factories.FEED, "DAI"),
        (factories.TOKEN, "USDC"),
        ("ETH", "ETH, the native coin"),
    ]


def test_the_page_shows_calls_and_the_form_without_asking_a_node(admin_client: Client, node: NodeServer) -> None:
    relayer = relayer_at(node.url)
    add_calls(relayer, 1)
    text = admin_client.get(page_of(relayer)).content.decode()
    assert "Calls: 1 · Failed: 1" in text
    assert f'action="{page_of(relayer, "estimate")}"' in text
    assert f'data-status-url="{page_of(relayer, "status")}"' in text
    assert node.requests == []


def test_the_add_page_shows_neither(admin_client: Client) -> None:
    text = admin_client.get(f"{LIST}add/").content.decode()
    assert "data-estimate" not in text
    assert "JSON-RPC calls" not in text


def add_calls(relayer: Relayer, count: int) -> None:
    minute = timezone.now().replace(second=0, microsecond=0)
    CallCount.objects.bulk_create(
        CallCount(relayer=relayer, minute=minute, method=f"method{number}", outcome="-32000", calls=1)
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


def test_staff_who_may_only_look_try_an_estimate(client: Client, node: NodeServer, token: FeeToken) -> None:
    viewer = staff_who_may(client, "view_relayer")
    relayer = relayer_at(node.url)
    assert page_of(relayer, "estimate") in viewer.get(page_of(relayer)).content.decode()
    assert items(try_estimate(viewer, relayer))[-1][1] == "0.00007 USDC"


def test_other_staff_and_strangers_get_no_estimate(client: Client, node: NodeServer, token: FeeToken) -> None:
    relayer = relayer_at(node.url)
    assert try_estimate(client, relayer).url.startswith("/admin/login/")
    other = staff_who_may(client, "view_feetoken")
    assert try_estimate(other, relayer).status_code == 403
    assert node.requests == []


def test_no_estimate_is_made_for_a_page_of_another_site(node: NodeServer, token: FeeToken, admin_user: Any) -> None:
    relayer = relayer_at(node.url)
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin_user)
    assert try_estimate(client, relayer).status_code == 403
    assert node.requests == []
    page = client.get(page_of(relayer)).content.decode()
    (csrf,) = set(re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page))
    form = {"csrfmiddlewaretoken": csrf, "estimate-fee_token": "ETH", "estimate-transaction": unsigned()}
    assert client.post(page_of(relayer, "estimate"), form).status_code == 200


def test_an_estimate_is_only_posted_and_only_of_what_exists(admin_client: Client) -> None:
    relayer = relayer_factories.relayer()
    assert admin_client.get(page_of(relayer, "estimate")).status_code == 405
    assert admin_client.post(f"{LIST}{relayer.pk + 1}/estimate/").status_code == 404


@pytest.mark.parametrize("count", [0, 1000])
def test_a_relayer_is_deleted_with_its_counts_which_are_not_listed(admin_client: Client, count: int) -> None:
    relayer = relayer_factories.relayer()
    add_calls(relayer, count)
    page = admin_client.get(page_of(relayer, "delete"))
    assert page.context["deleted_objects"] == ["relayer-1"]
    assert dict(page.context["model_count"]) == {"relayers": 1, "call counts": count}
    admin_client.post(page_of(relayer, "delete"), {"post": "yes"})
    assert (Relayer.objects.count(), CallCount.objects.count()) == (0, 0)


def test_rows_that_protect_a_relayer_are_counted_and_keep_it(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CallCount._meta.get_field("relayer").remote_field, "on_delete", PROTECT)
    relayer = relayer_factories.relayer()
    add_calls(relayer, 2)
    page = admin_client.post(page_of(relayer, "delete"), {"post": "yes"})
    assert page.context["protected"] == ["2 call counts"]
    assert Relayer.objects.exists()


def test_staff_who_may_not_delete_relayers_do_not(client: Client) -> None:
    editor = staff_who_may(client, "view_relayer", "change_relayer")
    relayer = relayer_factories.relayer()
    assert editor.post(page_of(relayer, "delete"), {"post": "yes"}).status_code == 403
    assert Relayer.objects.exists()
