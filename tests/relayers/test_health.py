"""The health check: what a reading means, and what comes of it."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from chain.nodes import attempts
from relayer_service.database.clock import database_now
from relayers.health import checking, runway
from relayers.health.checking import AccountReading, check_due, judge
from relayers.models import Relayer, RelayerHealth
from tests.chain import faults
from tests.chain.faults import SECRET, Behaviour, by_method, error, good, node
from tests.notifications.clock import NOON, Clock
from tests.relayers import factories
from tests.relayers.health_checks import (
    CHAIN,
    NO_REASON,
    READ,
    REASON,
    TEN_THOUSAND,
    UNREAD,
    bodies,
    check,
    make_due,
    on_nodes,
    state,
)


def in_memory(**values: Any) -> RelayerHealth:
    of_relayer = {name: values.pop(name) for name in ("address", "paused", "policies") if name in values}
    relayer = Relayer(**{"identifier": "relayer-1", "address": factories.ADDRESS} | of_relayer)
    return RelayerHealth(relayer=relayer, **values)


def telling(nonce: dict[str, Any] | None = None, balance: dict[str, Any] | None = None) -> Behaviour:
    """Be a node of the right chain that answers this of every account."""
    zero = {"result": "0x0"}
    return by_method(
        eth_chainId={"result": hex(CHAIN)}, eth_getTransactionCount=nonce or zero, eth_getBalance=balance or zero
    )


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "SUCCESSES_TO_ENABLE", 2)


GOOD = {"nonce": 7, "balance_text": "100", "failed_checks": 0}
BAD = {"good_checks": 0}


@pytest.mark.parametrize(
    ("before", "reading", "changes"),
    [
        # A good check.
        ({}, READ, GOOD | {"good_checks": 1}),
        ({"good_checks": 1}, READ, GOOD | {"good_checks": 2}),
        ({"good_checks": 2}, READ, GOOD | {"good_checks": 2}),
        # The first failure is let pass, the second is not.
        ({"good_checks": 2}, UNREAD, BAD | {"failed_checks": 1}),
        ({"failed_checks": 1}, UNREAD, BAD | {"failed_checks": 2} | REASON),
        # One that is disabled stays so, with the newest reason.
        (REASON | {"disabled_reason_details": "Another."}, UNREAD, BAD | {"failed_checks": 1} | REASON),
        # It is enabled by the second good check in a row.
        (REASON | {"failed_checks": 2}, READ, GOOD | {"good_checks": 1}),
        (REASON | {"good_checks": 1}, READ, GOOD | {"good_checks": 2} | NO_REASON),
        # A nonce without a balance is a good check.
        ({}, AccountReading(nonce=7), {"nonce": 7, "failed_checks": 0, "good_checks": 1}),
        # Paused by staff, it is checked like any other.
        ({"paused": True, "failed_checks": 1}, UNREAD, BAD | {"failed_checks": 2} | REASON),
    ],
)
def test_a_reading_is_judged_with_patience(
    before: dict[str, Any], reading: AccountReading, changes: dict[str, Any]
) -> None:
    assert judge(in_memory(**before), reading) == {"balance_is_low": False} | changes


@pytest.mark.parametrize(
    ("policies", "balance", "low"),
    [
        ({}, 0, False),
        ({"min_balance": 100}, 99, True),
        ({"min_balance": 100}, 100, False),
        ({"min_balance": 0}, 0, False),
        ({"min_balance": 2**128 - 1}, 2**128 - 2, True),
        ({"min_balance": 100}, None, False),
    ],
)
def test_a_balance_is_low_below_the_least_and_not_where_it_was_never_known(
    policies: dict[str, Any], balance: int | None, low: bool
) -> None:
    assert judge(in_memory(policies=policies), AccountReading(7, balance))["balance_is_low"] is low


def test_a_relayer_without_an_address_is_neither_good_nor_bad() -> None:
    assert judge(in_memory(address="", failed_checks=1), AccountReading()) == {}


@pytest.mark.django_db
def test_a_good_check_writes_what_the_chain_says_of_a_paused_relayer_too(hardhat: str, settings: Any) -> None:
    settings.HEALTH_CHECK_SECONDS = 60
    on_nodes(hardhat, paused=True)
    started = timezone.now()
    relayer = check()
    assert (relayer.health.nonce, relayer.health.balance, relayer.health.balance_is_low) == (0, TEN_THOUSAND, False)
    assert (state(relayer), relayer.health.failed_checks, relayer.health.good_checks) == (NO_REASON, 0, 1)
    assert (relayer.health.lease, relayer.paused) == (None, True)
    assert relayer.health.checked_at is not None
    assert relayer.health.due_at is not None
    assert started <= relayer.health.checked_at <= database_now()
    assert 54 <= (relayer.health.due_at - relayer.health.checked_at).total_seconds() <= 66


@pytest.mark.django_db
def test_a_relayer_is_disabled_when_all_nodes_fail_and_enabled_when_one_answers(hardhat: str, clock: Clock) -> None:
    data = {"relayer_id": "relayer-1", "name": "Relayer 1", "network": "local", "network_type": "evm"}
    with node(good, hardhat) as one:
        on_nodes(one.url, notification=factories.notification())
        assert state(check()) == NO_REASON
        one.behaviour = faults.status(503)
        assert state(check()) == NO_REASON
        details = "The nonce could not be read from any node: returned HTTP 503."
        assert state(check()) == REASON | {"disabled_reason_details": details}
        check()
        one.behaviour = good
        assert state(check())["system_disabled"]
        assert state(check()) == NO_REASON
    timestamp = "2026-01-01T12:00:00.000000Z"
    reason = {"type": "NonceSyncFailed", "details": details}
    disabled = data | {"actor": "health check", "reason": details, "disabled_reason": reason}
    enabled = data | {"actor": "health check", "reason": "The nonce was read again."}
    assert bodies() == [
        {"type": "relayer.disabled", "timestamp": timestamp, "data": disabled},
        {"type": "relayer.enabled", "timestamp": timestamp, "data": enabled},
    ]


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["refuse", "wrong chain", "no nonce", "nonsense"])
def test_one_bad_node_of_several_never_disables(hardhat: str, faulty: dict[str, str], name: str) -> None:
    refusal, nonsense = error(-32601, "no such method"), {"result": "banana"}
    with (
        node(telling(nonce=refusal, balance=refusal)) as no_nonce,
        node(telling(nonce=nonsense, balance=nonsense)) as talks_nonsense,
    ):
        bad = faulty | {"no nonce": no_nonce.url, "nonsense": talks_nonsense.url}
        on_nodes(bad[name], hardhat)
        for _ in range(6):
            relayer = check()
            assert (state(relayer), relayer.health.nonce, relayer.health.balance) == (NO_REASON, 0, TEN_THOUSAND)


@pytest.mark.django_db
def test_a_nonce_that_cannot_be_one_is_none_and_the_largest_numbers_are_exact() -> None:
    details = "The nonce could not be read from any node: no node returned a nonce."
    with node(telling(nonce={"result": "banana"})) as one:
        on_nodes(one.url)
        check()
        for nonce in ("banana", "-0x1", "0x", "0x8000000000000000", "0x" + "f" * 64, "0x" + "f" * 9999, 7):
            one.behaviour = telling(nonce={"result": nonce})
            assert state(check()) == REASON | {"disabled_reason_details": details}
        one.behaviour = telling(nonce={"result": hex(2**63 - 1)}, balance={"result": hex(2**256 - 1)})
        relayer = check()
    assert (relayer.health.nonce, relayer.health.balance) == (2**63 - 1, 2**256 - 1)


@pytest.mark.django_db
@pytest.mark.parametrize("fault", [telling(balance=error(-32000, "no balances today")), faults.status(503)])
def test_a_check_that_cannot_read_the_balance_keeps_the_last_one_and_its_time(
    fault: Behaviour, hardhat: str, clock: Clock
) -> None:
    with node(good, hardhat) as one:
        on_nodes(one.url, policies={"min_balance": TEN_THOUSAND + 1})
        relayer = check()
        known = (TEN_THOUSAND, NOON, True)
        assert (relayer.health.balance, relayer.health.balance_at, relayer.health.balance_is_low) == known
        one.behaviour = fault
        for _ in range(2):
            clock.forward(60)
            relayer = check()
        assert (relayer.health.balance, relayer.health.balance_at, relayer.health.balance_is_low) == known
        assert relayer.health.checked_at == clock.now
        one.behaviour = good
        assert check().health.balance_at == clock.now


@pytest.mark.django_db
def test_a_balance_that_one_node_does_not_return_is_read_from_the_next(hardhat: str) -> None:
    with node(telling(balance=error(-32000, "no balances today"))) as one:
        on_nodes(one.url, hardhat)
        assert {check().health.balance for _ in range(6)} == {TEN_THOUSAND}


@pytest.mark.django_db
def test_a_low_and_a_recovered_balance_emit_one_event_each(
    hardhat: str, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def told(name: str, balance: str, minimum: str) -> dict[str, Any]:
        data = {"relayer_id": "relayer-1", "name": "Relayer 1", "network": "local", "network_type": "evm"}
        amounts = {"balance": balance, "min_balance": minimum}
        return {"type": name, "timestamp": "2026-01-01T12:00:00.000000Z", "data": data | amounts}

    def holding(wei: int) -> Behaviour:
        return telling(balance={"result": hex(wei)})

    monkeypatch.setattr(runway, "SHORT_DAYS", 0)
    unreadable = telling(balance=error(-32000, "no balances today"))
    with node(holding(100), hardhat) as one:
        on_nodes(one.url, notification=factories.notification(), policies={"min_balance": 100})
        for behaviour in (holding(99), holding(98), unreadable, holding(97), holding(101), holding(102), holding(0)):
            one.behaviour = behaviour
            check()
        # Without a minimum nothing is too low.
        Relayer.objects.update(policies={})
        check()
    assert bodies() == [
        told("relayer.low_balance", "99", "100"),
        told("relayer.balance_recovered", "101", "100"),
        told("relayer.low_balance", "0", "100"),
        told("relayer.balance_recovered", "0", "0"),
    ]
    warnings = [each for each in caplog.records if each.levelname == "WARNING"]
    assert [each.getMessage() for each in warnings] == ["The balance of relayer relayer-1 is low"] * 2
    assert warnings[0].fields == {"relayer": "relayer-1", "network": "local"}  # type: ignore[attr-defined]


@pytest.mark.django_db
def test_details_and_logs_hold_no_url_and_no_key(
    faulty: dict[str, str], caplog: pytest.LogCaptureFixture, quick_nodes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "ATTEMPT_SECONDS", 0.3)
    on_nodes(*faulty.values())
    check()
    relayer = check()
    assert relayer.health.system_disabled
    assert "127.0.0.1" not in relayer.health.disabled_reason_details
    assert "://" not in relayer.health.disabled_reason_details
    assert SECRET not in relayer.health.disabled_reason_details
    assert not [record for record in caplog.records if SECRET in str(record.__dict__)]


@pytest.mark.django_db
def test_what_is_wrong_with_a_relayer_fails_it_alone(hardhat: str) -> None:
    on_nodes(hardhat, identifier="good")
    on_nodes(hardhat, identifier="sealed")
    on_nodes(hardhat, identifier="no address", address="")
    on_nodes(network="nowhere", identifier="no node")
    # The ciphertext of another row does not open.
    moved: Any = Relayer.objects.filter(identifier="good").values_list("custom_rpc_urls", flat=True).get()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE relayers_relayer SET custom_rpc_urls = %s WHERE identifier = 'sealed'", [moved.text])
    for _ in range(2):
        make_due()
        assert check_due() == 4
    found = {relayer.identifier: relayer for relayer in Relayer.objects.all()}
    details = "The nonce could not be read from any node: {}."
    assert {name: state(relayer) for name, relayer in found.items()} == {
        "good": NO_REASON,
        "sealed": REASON | {"disabled_reason_details": details.format("its RPC URLs cannot be decrypted")},
        "no address": NO_REASON,
        "no node": REASON | {"disabled_reason_details": details.format("no RPC URL is configured")},
    }
    skipped = found["no address"].health
    assert (found["good"].health.nonce, skipped.nonce, skipped.balance) == (0, None, None)
    assert skipped.checked_at is not None
