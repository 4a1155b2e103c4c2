"""What the admin writes of a relayer: what was changed alone, beside others who write at the same time."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chain.nodes import failover
from notifications.models import Delivery
from relayers.console.forms import RelayerForm
from relayers.models import Relayer, RelayerHealth
from tests.relayers import factories
from tests.relayers.admin_pages import A, B, add, change, edit, open_form, rpc_url

pytestmark = pytest.mark.django_db

POLICIES = {"gas_price_cap": 2**53 + 1, "min_balance": 2**128 - 1, "private_transactions": False}


@pytest.mark.usefixtures("no_node")
def test_only_what_staff_changed_is_written(admin_client: Client) -> None:
    relayer = factories.relayer()
    for changes, columns in [
        ({}, set()),
        ({"name": "Another name"}, {"name"}),
        ({"network": "sepolia ", "policy_min_balance": "5"}, {"policies"}),
        ({"rpc_urls-0-url": B}, {"custom_rpc_urls", "masked_rpc_urls", "node_keys"}),
        # Its button asks for a reason.
        ({"paused": "on"}, set()),
    ]:
        with CaptureQueriesContext(connection) as queries:
            edit(admin_client, relayer, **changes)
        updates = [query["sql"] for query in queries if query["sql"].startswith('UPDATE "relayers_relayer"')]
        written = [re.findall(r'"(\w+)" = ', update.partition("WHERE")[0]) for update in updates]
        assert [set(names) for names in written] == ([columns] if columns else [])


def test_what_others_changed_since_the_page_was_opened_stays(admin_client: Client) -> None:
    relayer = factories.relayer(policies=POLICIES)
    sent = open_form(admin_client, change(relayer))
    now = timezone.now()
    seen = {"nonce": 5, "balance_text": "12", "checked_at": now, "failed_checks": 1}
    theirs = {"name": "Their name", "paused": True, "policies": POLICIES | {"min_balance": 7}}
    Relayer.objects.update(**theirs)
    RelayerHealth.objects.update(**seen)
    admin_client.post(change(relayer), sent | {"policy_gas_price_cap": "9"})
    changed = theirs | {"policies": POLICIES | {"min_balance": 7, "gas_price_cap": 9}}
    assert (RelayerHealth.objects.values(*seen).get(), Relayer.objects.values(*theirs).get()) == (seen, changed)


def test_nodes_are_checked_against_a_network_that_was_set_concurrently(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failover, "chain_ids", lambda urls: [5 for _ in urls])
    relayer = factories.relayer(rpc_urls=[rpc_url(A, 70)])
    sent = open_form(admin_client, change(relayer))
    Relayer.objects.update(network="my-chain", chain_id=5)
    admin_client.post(change(relayer), sent | {"rpc_urls-0-weight": "9"})
    relayer.refresh_from_db()
    assert (relayer.network, relayer.chain_id, relayer.custom_rpc_urls) == ("my-chain", 5, [rpc_url(A, 9)])


@pytest.mark.django_db(transaction=True)
def test_two_who_change_policies_at_the_same_moment_both_have_their_change_kept(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    relayer = factories.relayer(policies=POLICIES)
    sent = open_form(admin_client, change(relayer))
    values = RelayerForm.values

    def slowly(form: RelayerForm, cleaned: dict[str, Any]) -> dict[str, Any]:
        time.sleep(0.3)
        return values(form, cleaned)

    monkeypatch.setattr(RelayerForm, "values", slowly)

    def save(name: str) -> int:
        try:
            return admin_client.post(change(relayer), sent | {name: "9"}).status_code
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(save, ["policy_min_balance", "policy_gas_price_cap"])) == [302, 302]
    relayer.refresh_from_db()
    assert relayer.policies == POLICIES | {"min_balance": 9, "gas_price_cap": 9}


def test_a_relayer_that_is_added_paused_emits_an_event(admin_client: Client) -> None:
    add(admin_client, paused="on", notification=factories.notification().pk)
    assert Relayer.objects.get().paused
    assert Delivery.objects.get().event == "relayer.paused"
