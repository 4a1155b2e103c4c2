"""Relayers with problems on the overview, from one check to the next."""

from __future__ import annotations

import pytest
from django.test import Client

from relayers import health
from relayers.health import AccountReading
from relayers.models import Relayer
from tests.notifications.admin_pages import staff_who_may
from tests.notifications.clock import NOON, Clock, clock
from tests.relayer_service.admin.overview_pages import attention
from tests.relayers import factories

__all__ = ["clock"]

pytestmark = pytest.mark.django_db

ETHER = 10**18


def checked(reading: AccountReading) -> None:
    (relayer,) = Relayer.objects.all().claim(1, health.lease_length())
    health.write([(relayer, reading)])


@pytest.fixture
def relayer(clock: Clock) -> Relayer:
    made = factories.relayer(name="Treasury", due_at=NOON, policies={"min_balance": ETHER // 2})
    checked(AccountReading(nonce=7, balance=ETHER))
    return made


def relayers_of(client: Client) -> list[str]:
    """Return the lines about relayers, without the worker that does not run here."""
    found = attention(client)
    return [line for line in found if "Treasury" in line or line.startswith(("Relayers", "Disabled relayers"))]


@pytest.mark.usefixtures("relayer")
def test_a_relayer_that_runs_dry_is_named_until_it_is_topped_up_and_checked(client: Client, clock: Clock) -> None:
    staff = staff_who_may(client, "view_relayer")
    assert relayers_of(staff) == []
    for _ in range(3):
        # It is low since the first of these checks.
        clock.forward(120)
        checked(AccountReading(nonce=7, balance=ETHER // 10))
    assert relayers_of(staff) == [
        "Relayers with a low balance 1",
        (
            "Treasury (relayer-1) on sepolia Its balance is 0.1 ETH, below the minimum of 0.5 ETH. "
            "Since 2026-01-01 12:02 UTC, for 4 minutes"
        ),
    ]
    clock.forward(120)
    checked(AccountReading(nonce=7, balance=ETHER))
    assert relayers_of(staff) == []


@pytest.mark.usefixtures("relayer")
def test_a_relayer_whose_nodes_fail_is_named_before_and_after_it_is_disabled(client: Client, clock: Clock) -> None:
    staff = staff_who_may(client, "view_relayer")
    clock.forward(120)
    checked(AccountReading(reason="the connection failed"))
    assert relayers_of(staff) == [
        "Relayers with failing nodes 1",
        (
            "Treasury (relayer-1) on sepolia The last check failed on every node; "
            "after 2 failures in a row it is disabled."
        ),
    ]
    clock.forward(120)
    checked(AccountReading(reason="the connection failed"))
    assert relayers_of(staff) == [
        "Disabled relayers 1",
        (
            "Treasury (relayer-1) on sepolia The nonce could not be read from any node: the connection failed. "
            "Since 2026-01-01 12:04 UTC, for less than a minute"
        ),
    ]
