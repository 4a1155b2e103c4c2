"""Lists narrowed by query parameters, which the contract ignores."""

from typing import Any

import pytest

from relayer_service.api import page_sql
from tests.api import Api
from tests.contract import bodies
from tests.relayers import factories

SEEN = {"checked_at": "2026-01-01T00:00:00Z", "nonce": 1, "balance_text": "5"}


def fleet() -> None:
    factories.relayer(identifier="a", **SEEN)
    factories.relayer(identifier="b", network="base", paused=True, balance_is_low=True, **SEEN)
    factories.relayer(identifier="c", signer=factories.signer("signer-2"), **SEEN)


def found(api: Api, query: str) -> list[str]:
    answer = api.get(f"/api/v1/relayers?{query}")
    ids = [relayer["id"] for relayer in answer.body["data"]]
    assert answer.body["pagination"]["total_items"] == len(ids)
    return ids


QUERIES = {
    "network=base": ["b"],
    "network=%00": [],
    "state=paused": ["b"],
    "state=low_balance": ["b"],
    "state=active": ["a", "c"],
    "signer_id=signer-2": ["c"],
    "signer_id=signer-1&state=active": ["a"],
    "q=B": ["b"],
    "q=relayer+1": ["a", "b", "c"],
    "q=elayer": [],
    "q=c&network=sepolia": ["c"],
}


def test_relayers_are_found_by_what_they_are(api: Api, settings: Any) -> None:
    fleet()
    assert {query: found(api, query) for query in QUERIES} == QUERIES
    for query, fault in {
        "state=happy": "state: must be one of: active, disabled, paused, low_balance, no_address, unknown",
        "network=a&network=b": "network: given more than once",
    }.items():
        answer = api.get(f"/api/v1/relayers?{query}")
        assert (answer.status, answer.body) == (400, bodies.bad_request(fault))
    settings.EXTENSIONS = []
    assert found(api, "network=base&state=happy") == ["a", "b", "c"]


@pytest.mark.parametrize("resource", ["signers", "notifications"])
def test_the_other_lists_are_found_by_the_beginning_of_an_id(manager: Api, resource: str) -> None:
    factories.signer("signer-2")
    factories.notification("signer-3")
    answer = manager.get(f"/api/v1/{resource}?q=SIG")
    assert [row["id"][:7] for row in answer.body["data"]] == ["signer-"]
    assert manager.get(f"/api/v1/{resource}?q=igner").body["data"] == []
    # With or without a slash.
    assert manager.get(f"/api/v1/{resource}/?q=SIG").body == answer.body
    networks = manager.get("/api/v1/networks/?q=HARDH").body["data"]
    assert [network["id"] for network in networks] == ["evm:hardhat"]


def test_a_narrowed_list_shows_the_same_is_paged_and_its_total_capped(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet()
    whole = api.get("/api/v1/relayers").body["data"]
    second = api.get("/api/v1/relayers?state=active&per_page=1&page=2").body
    assert second == bodies.page([whole[2]], current_page=2, per_page=1, total_items=2)
    monkeypatch.setattr(page_sql, "MAX_COUNTED", 1)
    answer = api.get("/api/v1/relayers?state=active&per_page=0").body
    assert answer == bodies.page([], per_page=0, total_items=1, logs=["total_items is capped: there are more than 1"])
