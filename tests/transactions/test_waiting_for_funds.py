"""A relayer that waits for funds looks like it, from its first turn until its requests have ended."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils.html import strip_tags
from pytest_django import Settings

from relayer_service.database.clock import database_now
from relayers.models import RelayerHealth
from signers.backends.base import SignerError
from tests.relayer_service.admin.overview_pages import attention
from tests.relayers import factories as relayers
from tests.transactions import factories
from tests.transactions.hardhat import RECEIVER, LocalChain
from tests.transactions.single_turns import take_turn
from transactions.console.formatting import lane_reason
from transactions.lanes import leasing
from transactions.models import Lane, Transaction, Waiting
from transactions.records.reasons import status_reason
from transactions.requests import actions

pytestmark = pytest.mark.django_db

# Rounded up: whoever sends that sends enough.
BADGE = "waiting for funds 0.300001 ETH missing"


def test_a_lane_waits_for_funds_as_long_as_its_rows_do(local_chain: LocalChain) -> None:
    relayer = relayers.relayer(network="hardhat", rpc_urls=[{"url": local_chain.url, "weight": 100}])
    lane = leasing.claim(factories.lane(relayer).pk)
    assert lane is not None
    local_chain.rpc("hardhat_setBalance", relayer.address, hex(10**18))
    row = factories.transaction(lane, to=RECEIVER, value_text=str(2 * 10**18))
    take_turn(lane)
    first = Lane.objects.get()
    assert (first.waiting, int(first.missing_text) // 10**18) == ("funds", 1)
    # It is not due in this turn.
    Transaction.objects.update(due_at=database_now() + timedelta(minutes=1))
    take_turn(lane)
    assert Lane.objects.values("waiting", "waiting_since", "missing_text").get() == {
        "waiting": "funds", "waiting_since": first.waiting_since, "missing_text": first.missing_text,
    }  # fmt: skip
    # All that wait count, due or not, and one whose cost is unknown makes it a minimum.
    other = factories.transaction(lane, to=RECEIVER, value_text=str(3 * 10**18))
    take_turn(lane)
    total = Lane.objects.get()
    assert int(total.missing_text) // 10**18 == 4
    assert " ETH missing for 2 transactions. They can cost 5.0" in total.waiting_details
    other.refresh_from_db()
    row.refresh_from_db()
    reasons = {status_reason(each, total) for each in (row, other)}
    assert reasons == {f"Waiting for funds: {total.waiting_details}"}
    Transaction.objects.filter(pk=other.pk).update(waiting_cost_text=None)
    Transaction.objects.filter(pk=row.pk).update(due_at=database_now())
    take_turn(lane)
    assert Lane.objects.get().missing == (int(first.missing_text), True)
    assert Lane.objects.get().waiting_details.startswith("At least 1.")
    other.delete()
    # Another one that can be paid is sent meanwhile.
    small = factories.transaction(lane, to=RECEIVER, value_text="1")
    take_turn(lane)
    small.refresh_from_db()
    assert (small.status, Lane.objects.get().waiting) == ("submitted", "funds")

    actions.cancel(row.pk, by="ops")
    take_turn(lane)
    assert Lane.objects.get().waiting == ""


def test_a_failing_signer_does_not_hide_what_is_missing(
    local_chain: LocalChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    relayer = relayers.relayer(network="hardhat", rpc_urls=[{"url": local_chain.url, "weight": 100}])
    lane = leasing.claim(factories.lane(relayer).pk)
    assert lane is not None
    local_chain.rpc("hardhat_setBalance", relayer.address, hex(10**18))
    for value in (1, 2 * 10**18):
        factories.transaction(lane, to=RECEIVER, value_text=str(value))

    def fail(*args: object) -> None:
        raise SignerError("The signer is down.")

    monkeypatch.setattr("transactions.lanes.turn.sign", fail)
    take_turn(lane)
    lane = Lane.objects.get()
    assert (lane.waiting, int(lane.missing_text) // 10**18, lane.needs_funds) == ("signer", 1, True)


def test_a_lane_that_waits_for_nothing_lacks_no_funds() -> None:
    lane = factories.lane(relayers.relayer(), missing_text="5")
    assert (lane.needs_funds, lane_reason(lane)) == (False, "")


def test_what_no_account_can_have_stops_no_lane(local_chain: LocalChain) -> None:
    relayer = relayers.relayer(network="hardhat", rpc_urls=[{"url": local_chain.url, "weight": 100}])
    lane = leasing.claim(factories.lane(relayer).pk)
    assert lane is not None
    for _ in range(10):
        factories.transaction(lane, to=RECEIVER, value_text=str(2**256 - 1))
    for _ in range(3):
        take_turn(lane)
    assert Lane.objects.get().missing_text == "9" * 78
    assert {row.reason_code for row in Transaction.objects.all()} == {"funds"}


def test_what_waits_for_funds_links_to_the_top_up_of_its_relayer(admin_client: Client) -> None:
    lane = factories.lane(relayers.relayer(), waiting="funds", waiting_details="0.3 ETH missing.")
    assert lane.relayer
    fund = f'href="/admin/relayers/relayer/{lane.relayer.pk}/change/#fund"'
    for columns, is_linked in (({"reason_code": "funds"}, True), ({}, False)):
        row = factories.transaction(lane, **columns)
        page = admin_client.get(f"/admin/transactions/transaction/{row.pk}/change/")
        assert (fund in page.text) is is_linked


def test_it_is_shown_on_every_page_within_a_minute(admin_client: Client, settings: Settings) -> None:
    settings.EXTENSIONS = ["transactions"]
    checked: dict[str, Any] = {"balance_text": "5", "nonce": 7, "checked_at": database_now()}
    relayer = relayers.relayer(name="Treasury", **checked)
    waiting: dict[str, Any] = {
        "waiting": "funds",
        "waiting_details": f"{3 * 10**17 + 1} wei missing. It can cost 1 ETH.",
    }
    since = database_now() - timedelta(seconds=40)
    lane = factories.lane(relayer, waiting_since=since, missing_text=str(3 * 10**17 + 1), **waiting)
    factories.transaction(lane, created_at=since, reason_code="funds", status_reason="Waiting for funds.")

    def text(path: str) -> str:
        return " ".join(strip_tags(admin_client.get(path).content.decode()).split())

    pages = [
        "/admin/relayers/relayer/",
        f"/admin/relayers/relayer/{relayer.pk}/change/",
        f"/admin/relayers/relayer/{relayer.pk}/status/",
        "/admin/transactions/lane/",
        f"/admin/transactions/lane/{lane.pk}/change/",
    ]
    assert [path for path in pages if BADGE not in text(path)] == []
    assert (
        admin_client.get(pages[-1]).context["stuck"]["headline"].startswith("Waiting for funds: 0.300001 ETH missing.")
    )
    assert 'title="0.300000000000000001 ETH"' in admin_client.get(pages[0]).content.decode()
    # On the card of the request, too.
    exact = "Waiting for funds: 0.300000000000000001 ETH missing. It can cost 1 ETH."
    assert f'title="{exact}"' in admin_client.get(pages[4]).text
    top_up = "0.300001 ETH missing for all transactions that wait."
    assert top_up in text(pages[1])
    (line,) = (each for each in attention(admin_client) if "lanes that wait for funds" in each)
    assert "Waiting for funds: 0.300001 ETH missing." in line

    def listed(state: str) -> int:
        page = admin_client.get("/admin/relayers/relayer/", {"state": state})
        return len(page.context["cl"].result_list)

    assert [listed("waiting for funds"), listed("active")] == [1, 0]
    # What is missing is not known to have arrived while no node answers, which is one problem more.
    held = leasing.claim(lane.pk)
    assert held is not None
    leasing.set_waiting(held, Waiting.NODES, "the node timed out")
    RelayerHealth.objects.update(failed_checks=1, failing_since=since)
    Lane.objects.update(waiting_since=since - timedelta(minutes=1))
    assert [listed("waiting for funds"), listed("active")] == [1, 0]
    found = [each.partition(" Treasury")[0] for each in attention(admin_client) if each.startswith("sepolia")]
    assert sorted(found) == ["sepolia: lanes that wait for funds 1 lane", "sepolia: no node answers 1 relayer"]
    Lane.objects.update(waiting_details="No node answered: connection failed.")
    assert "missing. No node answers: connection failed." in text(pages[3])
    # A relayer that waits for nothing is shown as before.
    Lane.objects.update(waiting="", missing_text="")
    assert BADGE not in text(pages[0])
    assert [listed("waiting for funds"), listed("active")] == [0, 1]
