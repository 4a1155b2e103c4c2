"""Fee tokens over REST, by the rules of the admin and of fleet files."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from relayer_service.background.tasks import queue
from relayer_service.models import AuditEntry
from rpc.models import FeeToken, PriceSource
from tests.api import Api
from tests.concurrency import in_threads
from tests.contract import bodies
from tests.rpc.config_tokens import CHAINLINK_NATIVE, CHAINLINK_USD, FIXED, LINK_ADDRESS, UNISWAP_V2, USDC_ADDRESS

LIST = "/api/v1/fee-tokens"
PATH = f"{LIST}/mainnet:USDC"
# Amounts are strings, so that no JSON reader rounds them.
EVERY_KIND = [FIXED, CHAINLINK_USD, CHAINLINK_NATIVE, UNISWAP_V2 | {"min_liquidity": str(2**128 - 1)}]
BODY: dict[str, Any] = {"network": "mainnet", "symbol": "USDC", "address": USDC_ADDRESS, "sources": EVERY_KIND}
SHOWN = {"id": "mainnet:USDC", **BODY, "enabled": True, "margin_bps": 0, "max_spread_bps": 200}


def create(api: Api, **changes: Any) -> None:
    assert api.post(LIST, BODY | changes).status == 201


def test_a_fee_token_is_created_read_listed_changed_and_deleted(
    manager: Api, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        answer = manager.post(LIST, BODY | {"address": USDC_ADDRESS.lower()})
    assert (answer.status, answer.body) == (201, bodies.success(SHOWN))
    # Its price is read without waiting for the next run.
    pushed = [task.args for task in queue.pending() if task.name == "read_price_now"]
    assert pushed == [(FeeToken.objects.get().pk,)]
    assert manager.get(PATH).body == bodies.success(SHOWN)
    assert manager.get(LIST).body == bodies.page([SHOWN], total_items=1)
    faults = manager.patch(PATH, {"symbol": "USDT", "network": "sepolia"}).body["metadata"]["logs"]
    assert [entry["message"].partition(":")[0] for entry in faults] == ["symbol", "network"]
    patch = {"enabled": False, "margin_bps": 7, "sources": [FIXED]}
    assert manager.patch(PATH, patch).body == bodies.success(SHOWN | patch)
    read = {"decimals": 6, "rate_text": "3000.5", "rate_error": "The node returned an error."}
    FeeToken.objects.update(rated_at=datetime(2026, 1, 1, tzinfo=UTC), **read)
    shown = {"decimals": 6, "rate": "3000.5", "rated_at": "2026-01-01T00:00:00.000000Z"}
    shown["rate_error"] = "The node returned an error."
    assert manager.get(PATH).body == bodies.success(SHOWN | patch | shown)
    # A changed contract forgets what was read.
    manager.patch(PATH, {"address": LINK_ADDRESS})
    assert [*FeeToken.objects.values_list("decimals", "rate_text")] == [(None, "")]
    deleted = manager("DELETE", PATH)
    assert (deleted.status, deleted.body) == (200, bodies.success("Fee token deleted successfully"))
    assert not PriceSource.objects.exists()
    gone = manager.get(PATH)
    assert (gone.status, gone.body) == (404, bodies.failure("Fee token with ID mainnet:USDC not found"))
    entries = AuditEntry.objects.filter(actor__startswith="terraform").order_by("pk")
    assert [entry.action for entry in entries] == ["created", "changed", "changed", "deleted"]
    assert entries[1].changes["margin_bps"] == [0, 7]


FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"network": "nowhere"}, "network: unknown network: add it to NETWORKS_FILE"),
    ({"symbol": "ETH"}, "symbol: ETH is the native coin of mainnet"),
    ({"address": "0x1"}, "address: must be an EVM address: 0x and 40 hexadecimal digits"),
    ({"margin_bps": 10_001}, "margin_bps: a whole number from 0 to 10000 is required"),
    ({"sources": [{"kind": "fixed", "rate": "1"}]}, "sources[0].max_age_seconds: this field is required"),
    ({"sources": [FIXED | {"feed": LINK_ADDRESS}]}, "sources[0].feed: unknown field"),
    ({"sources": [FIXED | {"rate": "0"}]}, "sources[0].rate: the rate must be above zero"),
    (
        {"sources": [UNISWAP_V2 | {"min_liquidity": str(2**128)}]},
        f"sources[0].min_liquidity: a whole number from 0 to {2**128 - 1} is required",
    ),
    ({"sources": [{"kind": "coin_toss"}]}, "sources[0].kind: must be one of: fixed, chainlink_usd, "),
    ({"decimals": 6}, "decimals: this field is read-only"),
]


def test_what_makes_no_fee_token_is_refused(manager: Api) -> None:
    for changes, fault in FAULTS:
        answer = manager.post(LIST, BODY | changes)
        assert answer.status == 400
        assert answer.body["metadata"]["logs"][0]["message"].startswith(fault)
    assert not FeeToken.objects.exists()
    # One without a source is accepted with a note, and once.
    answers = [manager.post(LIST, BODY | {"sources": []}, headers={"Idempotency-Key": "4b1e-7"}) for _ in range(2)]
    note = "sources: a token without a price source is not supported"
    assert [answer.body for answer in answers] == [bodies.success(SHOWN | {"sources": []}, logs=[note])] * 2
    assert FeeToken.objects.count() == 1


@pytest.mark.parametrize("changes", [{"address": LINK_ADDRESS}, {"symbol": "LINK"}])
def test_a_symbol_and_an_address_are_there_once_a_network(manager: Api, changes: dict[str, Any]) -> None:
    create(manager)
    answer = manager.post(LIST, BODY | changes)
    taken = "A fee token with this symbol or address already exists on this network"
    assert (answer.status, answer.body) == (409, bodies.failure(taken))
    create(manager, symbol="LINK", address=LINK_ADDRESS, sources=[FIXED])
    answer = manager.patch(PATH, {"address": LINK_ADDRESS, "margin_bps": 9})
    assert (answer.status, answer.body) == (409, bodies.failure(taken))
    assert [*FeeToken.objects.values_list("symbol", "margin_bps")] == [("LINK", 0), ("USDC", 0)]


def test_a_rate_keeps_its_age_until_it_is_changed_or_confirmed(manager: Api) -> None:
    create(manager)
    before = timezone.now() - timedelta(days=1)
    PriceSource.objects.update(rate_set_at=before)
    kept = [source.pk for source in PriceSource.objects.all()]

    def age() -> Any:
        return PriceSource.objects.get(kind="fixed").rate_set_at

    manager.patch(PATH, {"sources": [*reversed(EVERY_KIND)]})
    manager.patch(PATH, {"margin_bps": 1, "confirm_rates": False})
    assert ([source.pk for source in PriceSource.objects.all()], age()) == (kept, before)
    assert manager.patch(PATH, {"confirm_rates": True}).body == bodies.success(SHOWN | {"margin_bps": 1})
    assert age() > before
    PriceSource.objects.update(rate_set_at=before)
    manager.patch(PATH, {"sources": [FIXED | {"max_age_seconds": 5}]})
    assert age() == before
    manager.patch(PATH, {"sources": [FIXED | {"rate": "3001"}]})
    assert age() > before


def test_fee_tokens_are_filtered_and_paged_with_a_constant_number_of_queries(manager: Api) -> None:
    for number in range(3):
        create(manager, symbol=f"T{number}", address=f"0x{number:040x}", sources=[FIXED])
    create(manager, network="sepolia")

    def found(query: str) -> tuple[list[str], int]:
        body = manager.get(f"{LIST}?{query}").body
        return [each["id"] for each in body["data"]], body["pagination"]["total_items"]

    assert found("network=mainnet&per_page=2&page=2") == (["mainnet:T2"], 3)
    assert found("q=us") == (["sepolia:USDC"], 1)
    assert found("per_page=0") == ([], 4)
    with CaptureQueriesContext(connection) as queries:
        found("per_page=4")
    assert len([query for query in queries if "rpc_" in query["sql"]]) == 3


@pytest.mark.django_db(transaction=True)
def test_of_concurrent_requests_one_creates(manager: Api) -> None:
    assert sorted(in_threads(*[lambda: manager.post(LIST, BODY).status] * 3)) == [201, 409, 409]
    assert FeeToken.objects.count() == 1
