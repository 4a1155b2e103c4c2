"""`status_reason`: why a transaction is not further, in every status."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from chain.networks import networks
from relayer_service.amounts import Currency
from relayers.models import Relayer, RelayerHealth
from spending.rules import Limit, Payload, verdicts
from tests.spending.payloads import ALICE, TOKEN, TRANSFER, call
from transactions.console.formatting import listed_reason, readable
from transactions.limits.holders import limit_verdict
from transactions.models import Attempt, Lane, Transaction
from transactions.records.reasons import Position, status_reason

AT = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
SINCE = "2026-01-01T12:00:00.000000Z"
HELD = {"since": SINCE, "details": "for the audit"}
FUNDS = {"waiting": "funds", "waiting_since": AT, "waiting_details": "0.5 ETH missing."}
NODES = {"waiting": "nodes", "waiting_since": AT, "waiting_details": ""}
DISABLED = {"system_disabled": True, "disabled_reason_details": "The nonce could not be read from any node."}
MINED = {"status": "mined", "nonce": 5, "block_number": 100}
AT_FINALITY = "It becomes final when its block is final."
QUEUED = "Position 3 of 12 in the queue of this relayer."


def test_what_is_late_is_so_by_the_clock_of_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transactions.records.reasons.shared_time", AT.timestamp)
    assert reason({"due_at": AT}, {"due_at": AT}, {}) == QUEUED


def reason(row: dict[str, Any], lane: dict[str, Any], relayer: dict[str, Any]) -> str:
    """Return the reason of rows that need not be stored: it takes no query."""
    account = Relayer(network="sepolia", paused=relayer.get("paused", False))
    RelayerHealth(relayer=account, **{name: value for name, value in relayer.items() if name != "paused"})
    now = datetime.now(UTC)
    held = Lane(chain_id=11155111, relayer=account, **{"due_at": now} | lane)
    pending = Transaction(relayer=account, lane=held, **{"due_at": now} | row)
    return status_reason(pending, held, Position(3, 12))


@pytest.mark.parametrize(
    ("row", "lane", "relayer", "expected"),
    [
        ({}, {}, {}, QUEUED),
        # An idle lane is not due before its next request.
        ({}, {"due_at": AT}, {}, QUEUED),
        ({"due_at": AT}, {}, {}, f"{QUEUED.rstrip('.')}; due since {SINCE}."),
        ({"due_at": AT}, {"due_at": AT - timedelta(hours=1)}, {},
         f"{QUEUED.rstrip('.')}; no worker has taken it since {SINCE}."),
        ({"due_at": AT}, {"chain_nonce": 4, "next_nonce": 20}, {},
         f"{QUEUED.rstrip('.')}; 16 nonces in flight, the maximum."),
        ({}, {}, {"paused": True}, "The relayer is paused."),
        ({}, FUNDS, DISABLED, "The relayer is disabled. The nonce could not be read from any node."),
        ({"status_reason": "The price is above the cap."}, {}, DISABLED,
         "The relayer is disabled. The nonce could not be read from any node."),
        ({}, {}, {**DISABLED, "paused": True}, "The relayer is paused."),
        ({"status": "sent", "nonce": 5}, {}, DISABLED, "No node has accepted it yet."),
        ({}, FUNDS, {}, f"{QUEUED.rstrip('.')}; another one waits for funds since {SINCE}: 0.5 ETH missing."),
        ({}, {"waiting": "signer", "waiting_since": AT}, {}, f"The signer fails since {SINCE}."),
        ({}, NODES, {}, f"No node answers since {SINCE}."),
        ({}, {"holds": {"operator": HELD}}, {}, f"The relayer is held since {SINCE}. Held by staff: for the audit."),
        ({}, {"holds": {"chain": {"since": SINCE}, "lost_commits": {"since": SINCE}}, **FUNDS}, {},
         f"The relayer is held since {SINCE}. The database may have lost commits (and 1 other)."),
        ({}, {"holds": {"lost_commits": {"since": SINCE}}, **FUNDS}, {},
         f"Waiting for funds since {SINCE}: 0.5 ETH missing."),
        ({"status_reason": "The price is above the cap."}, FUNDS, {}, "The price is above the cap."),
        ({"status_reason": "The price is above the cap."}, FUNDS, {"paused": True}, "The relayer is paused."),
        ({"requested_action": "expire", "action_reason": "valid_until has passed."}, {"holds": {"operator": HELD}}, {},
         "It will be closed without being sent: valid_until has passed."),
        ({"status": "sent", "nonce": 5}, FUNDS, {"paused": True}, "No node has accepted it yet."),
        ({"status": "sent", "nonce": 5, "last_attempt": Attempt(error="underpriced")}, {}, {},
         "No node has accepted it yet; the last answer was: underpriced."),
        ({"status": "sent", "nonce": 5}, NODES, {}, f"No node answers since {SINCE}."),
        ({"status": "submitted", "nonce": 5, "submitted_at": AT}, {"holds": {"operator": HELD}}, {},
         f"In the mempool since {SINCE}."),
        ({"status": "submitted", "nonce": 5, "submitted_at": AT}, {"chain_nonce": 5}, {},
         f"In the mempool since {SINCE}."),
        ({"status": "submitted", "nonce": 5, "submitted_at": AT}, {"chain_nonce": 3}, {},
         f"In the mempool since {SINCE}, behind 2 earlier nonces of this relayer."),
        ({"status": "submitted", "nonce": 5, "submitted_at": AT}, {"chain_nonce": 4}, {},
         f"In the mempool since {SINCE}, behind 1 earlier nonce of this relayer."),
        ({"status": "submitted", "nonce": 5}, NODES, {}, f"No node answers since {SINCE}."),
        ({"status": "submitted", "nonce": 5, "requested_action": "close", "action_reason": "No node accepts it."},
         {}, {}, "It is being replaced by a no-op: No node accepts it."),
        ({"status": "submitted", "nonce": 5, "requested_action": "replace"}, {}, {},
         "Its replacement is being signed."),
        ({"status": "submitted", "nonce": 5, "requested_action": "speed_up", "status_reason": "The cap is 1 gwei."},
         {}, {}, "It is being signed at a higher price. The cap is 1 gwei."),
        ({"status": "mined", "nonce": 5, "requested_action": "cancel", "mined_attempt": Attempt(purpose="send")}, {},
         {}, "1 of 6 confirmations. The cancellation came too late."),
        ({"status": "mined", "nonce": 5, "payload_version": 2, "mined_attempt": Attempt(purpose="send")}, {}, {},
         "1 of 6 confirmations. The replacement came too late: the transaction before it was mined."),
        ({"status": "mined", "nonce": 5, "payload_version": 2,
          "mined_attempt": Attempt(purpose="replace", payload_version=2)}, {}, {}, f"1 confirmation. {AT_FINALITY}"),
        # Another payload is signed for its nonce, and could be mined after a reorg.
        ({**MINED, "requested_action": "cancel", "mined_attempt": Attempt(purpose="send"),
          "last_attempt": Attempt(purpose="cancel")}, {"chain_block": 900}, {},
         f"801 confirmations. The cancellation came too late. {AT_FINALITY}"),
        ({**MINED, "payload_version": 2, "mined_attempt": Attempt(purpose="send"),
          "last_attempt": Attempt(purpose="bump", payload_version=2)}, {}, {},
         f"1 confirmation. The replacement came too late: the transaction before it was mined. {AT_FINALITY}"),
        ({**MINED, "payload_version": 2, "mined_attempt": Attempt(purpose="bump", payload_version=2)},
         {"chain_block": 105}, {}, "6 of 6 confirmations."),
        ({**MINED, "payload_version": 2, "mined_attempt": Attempt(purpose="bump", payload_version=2)},
         {"chain_block": 106}, {}, f"7 confirmations. {AT_FINALITY}"),
        (MINED, {"holds": {"lost_commits": HELD}}, {}, f"1 confirmation. {AT_FINALITY}"),
        ({"status": "mined", "nonce": 5, "block_number": 100}, {}, {}, "1 of 6 confirmations."),
        ({"status": "mined", "nonce": 5, "block_number": 100}, {"chain_block": 99}, {}, "1 of 6 confirmations."),
        ({"status": "mined", "nonce": 5, "block_number": 100}, {"chain_block": 900}, {}, "6 of 6 confirmations."),
        ({"status": "mined", "nonce": 5, "requested_action": "expire", "mined_attempt": Attempt(purpose="bump")}, {},
         {}, "1 of 6 confirmations."),
        ({"status": "mined", "nonce": 5, "requested_action": "expire", "action_reason": "valid_until has passed.",
          "mined_attempt": Attempt(purpose="expire")}, {}, {},
         f"1 confirmation of a no-op that replaced it: valid_until has passed. {AT_FINALITY}"),
        ({"status": "failed", "status_reason": "It reverted."}, {}, {}, "It reverted."),
        ({"status": "confirmed"}, FUNDS, {"paused": True}, ""),
    ],
)  # fmt: skip
def test_the_reason(row: dict[str, Any], lane: dict[str, Any], relayer: dict[str, Any], expected: str) -> None:
    assert reason(row, lane, relayer) == expected


def test_pages_show_amounts_of_a_reason_with_their_units() -> None:
    text = "Value 2000000000000000000 wei; 1 of 4000000000000000000 wei are left since 2026-01-01T12:00:00.000000Z."
    shown = "Value 2 POL; 1 wei of 4 POL are left since 2026-01-01 12:00 UTC."
    assert readable(text, networks()["polygon"]) == shown
    assert readable("Value 5 wei; 10 gwei.", None) == "Value 5 wei; 10 gwei."


def test_lists_round_amounts_up_and_have_the_exact_ones_as_tooltip() -> None:
    network = networks()["polygon"]
    text = "Waiting for funds: 123456789012345678 wei missing."
    assert listed_reason(text, network, {}) == (
        '<span title="Waiting for funds: 0.123456789012345678 POL missing.">'
        "Waiting for funds: 0.123457 POL missing.</span>"
    )
    assert listed_reason("2000000000000000000 wei missing.", network, {}) == "2 POL missing."


def test_pages_show_amounts_of_a_configured_token_with_its_symbol() -> None:
    payload = Payload(TOKEN, 0, call(TRANSFER, ALICE, 2**256 - 1))
    *_, verdict = verdicts({"tokens": [{"contract": TOKEN, "max_amount": "5000000"}]}, payload)
    limit = limit_verdict(Limit(f"token:{TOKEN}", 5_000_000), 4_999_999, 7_000_000)
    text = f"Refused: {verdict.text} {limit.text}"
    assert readable(text, networks()["polygon"], {("polygon", TOKEN): Currency("USDC", 6)}) == (
        f"Refused: Amount unlimited of the token {TOKEN}; the maximum of a transaction is 5 USDC. "
        f"Amount of the token {TOKEN}: 7 USDC; 0.000001 USDC of 5 USDC are left in 24 hours."
    )
    assert readable(text, networks()["polygon"], {("mainnet", TOKEN): Currency("USDC", 6)}) == text
