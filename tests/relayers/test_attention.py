"""Relayers with problems on the overview, from one check to the next."""

from __future__ import annotations

import pytest
from django.test import Client

from relayers.health import checking
from relayers.health.checking import AccountReading
from relayers.models import Relayer, RelayerHealth
from tests.notifications.admin_pages import staff_who_may
from tests.notifications.clock import NOON, Clock
from tests.relayer_service.admin.overview_pages import attention
from tests.relayers import factories

pytestmark = pytest.mark.django_db

ETHER = 10**18


def checked(reading: AccountReading) -> None:
    (relayer,) = RelayerHealth.objects.select_related("relayer").claim(1, checking.lease_length())
    checking.write([(relayer, reading)])


@pytest.fixture
def relayer(clock: Clock) -> Relayer:
    made = factories.relayer(name="Treasury", due_at=NOON, policies={"min_balance": ETHER // 2})
    checked(AccountReading(nonce=7, balance=ETHER))
    return made


def relayers_of(client: Client) -> list[str]:
    """Return the lines about relayers, without the worker that does not run here."""
    return [line for line in attention(client) if line.startswith("sepolia")]


@pytest.mark.usefixtures("relayer")
def test_a_relayer_that_runs_dry_is_named_until_it_is_topped_up_and_checked(client: Client, clock: Clock) -> None:
    staff = staff_who_may(client, "view_relayer")
    assert relayers_of(staff) == []
    for _ in range(3):
        # It is low since the first of these checks.
        clock.forward(120)
        checked(AccountReading(nonce=7, balance=ETHER // 10))
    assert relayers_of(staff) == [
        (
            "sepolia: balance below the minimum 1 relayer Treasury (relayer-1) : "
            "Its balance is 0.1 ETH , below the minimum of 0.5 ETH . Since 2026-01-01 12:02 UTC, for 4 minutes"
        )
    ]
    clock.forward(120)
    checked(AccountReading(nonce=7, balance=10 * ETHER))
    assert relayers_of(staff) == []
    assert Relayer.objects.get().health.low_since is None


@pytest.mark.usefixtures("relayer")
def test_a_balance_that_lasts_less_than_the_threshold_is_named(admin_client: Client, clock: Clock) -> None:
    clock.forward(120)
    checked(AccountReading(nonce=7, balance=ETHER * 6 // 10))
    assert relayers_of(admin_client) == [
        "sepolia: balance used up soon 1 relayer Treasury (relayer-1) : At this rate used up in 36 hours."
    ]
    page = admin_client.get("/admin/relayers/relayer/?network=sepolia&problem=balance+used+up+soon")
    assert [each.name for each in page.context["cl"].result_list] == ["Treasury"]
    # Below the minimum it is one row.
    clock.forward(120)
    checked(AccountReading(nonce=7, balance=ETHER // 10))
    assert [line.partition(" 1 ")[0] for line in relayers_of(admin_client)] == ["sepolia: balance below the minimum"]


@pytest.mark.usefixtures("relayer")
def test_failing_nodes_are_one_cause_before_and_after_they_disable_a_relayer(client: Client, clock: Clock) -> None:
    staff = staff_who_may(client, "view_relayer")
    for text, length in [
        ("Last check failed: no node returned the nonce. Disabled after 2 consecutive failures", "less than a minute"),
        ("The nonce could not be read from any node: connection failed", "2 minutes"),
    ]:
        clock.forward(120)
        checked(AccountReading(reason="connection failed"))
        since = f"Since 2026-01-01 12:02 UTC, for {length}"
        nodes = "Nodes: https://ethereum-sepolia-rpc.publicnode.com"
        line = f"sepolia: no node answers 1 relayer Treasury (relayer-1) : {text}. {nodes} {since}"
        assert relayers_of(staff) == [line]
    relayer = Relayer.objects.get()
    relayer.set_rpc_urls([{"url": f"https://{name}.example.com/v2/SECRET", "weight": 1} for name in "abcd"])
    relayer.save()
    masked = ", ".join(f"https://{name}.example.com/***" for name in "abc")
    assert f". Nodes: {masked} and 1 more Since " in relayers_of(staff)[0]
    clock.forward(120)
    checked(AccountReading(nonce=7, balance=ETHER))
    assert relayers_of(staff) == []
    assert Relayer.objects.get().health.failing_since is None
