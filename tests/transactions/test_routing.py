"""Which nodes an attempt goes to: whatever changes later, a payload that was accepted as private stays so."""

from __future__ import annotations

from typing import Any

import pytest

from transactions.models import Attempt, Transaction
from transactions.records.routing import Route, choose, private_since

Purpose = Attempt.Purpose
HEAD = 100
ON, OFF = {"private_transactions": True}, {"private_transactions": False}


def attempt(purpose: Purpose, since: int | None, version: int = 1) -> Attempt:
    return Attempt(purpose=purpose, private_since=since, payload_version=version)


PUBLIC_SEND, PRIVATE_SEND = attempt(Purpose.SEND, None), attempt(Purpose.SEND, 80)


@pytest.mark.parametrize(
    ("purpose", "row", "policies", "attempts", "fallback", "expected"),
    [
        # The first attempt: by the row, and by the policy at the time of signing.
        (Purpose.SEND, {}, {}, [], None, None),
        (Purpose.SEND, {}, OFF, [], None, None),
        (Purpose.SEND, {}, ON, [], None, HEAD),
        (Purpose.SEND, {"is_private": True}, OFF, [], None, HEAD),
        # Higher prices go where the payload is.
        (Purpose.BUMP, {"is_private": True}, OFF, [PRIVATE_SEND], None, 80),
        (Purpose.BUMP, {"is_private": True}, OFF, [PRIVATE_SEND, attempt(Purpose.BUMP, 80)], 10, 80),
        (Purpose.BUMP, {}, ON, [PUBLIC_SEND], None, None),
        # A replacement is another payload.
        (Purpose.REPLACE, {"payload_version": 2}, ON, [PUBLIC_SEND], None, HEAD),
        (Purpose.REPLACE, {"payload_version": 2, "is_private": True}, OFF, [PRIVATE_SEND], None, HEAD),
        (Purpose.REPLACE, {"payload_version": 2}, OFF, [PUBLIC_SEND], None, None),
        # No-ops cancel where the payload is.
        (Purpose.CANCEL, {"is_private": True}, ON, [PRIVATE_SEND], None, HEAD),
        (Purpose.EXPIRE, {"is_private": True}, OFF, [PRIVATE_SEND], None, HEAD),
        (Purpose.CANCEL, {"is_private": True}, ON, [PRIVATE_SEND, attempt(Purpose.EXPIRE, 90)], None, 90),
        (Purpose.CANCEL, {"is_private": True}, ON, [PRIVATE_SEND], 20, None),
        (Purpose.CANCEL, {"is_private": True}, ON, [PRIVATE_SEND], 21, HEAD),
        (Purpose.CANCEL, {"is_private": True}, ON, [PUBLIC_SEND, attempt(Purpose.REPLACE, 90, 2)], None, None),
        (Purpose.CANCEL, {}, ON, [PUBLIC_SEND], None, None),
        (Purpose.CLOSE, {"is_private": True}, ON, [PRIVATE_SEND], None, None),
        (Purpose.GAP, None, ON, [], None, None),
    ],
)
def test_an_attempt_is_private_since_its_payload_is(
    purpose: Purpose,
    row: dict[str, Any] | None,
    policies: dict[str, Any],
    attempts: list[Attempt],
    fallback: int | None,
    expected: int | None,
) -> None:
    signed = None if row is None else Transaction(**row)
    assert private_since(purpose, signed, policies, attempts, HEAD, fallback) == expected


@pytest.mark.parametrize(
    ("purpose", "since", "fallback", "head", "expected"),
    [
        (Purpose.SEND, None, None, HEAD, Route.PUBLIC),
        (Purpose.SEND, None, 5, None, Route.PUBLIC),
        (Purpose.SEND, 0, None, 10**9, Route.PRIVATE),
        (Purpose.BUMP, 80, 21, HEAD, Route.PRIVATE),
        (Purpose.BUMP, 80, 20, HEAD, Route.PUBLIC),
        (Purpose.REPLACE, 80, 20, None, Route.PRIVATE),
        # A node that is behind knows of fewer blocks.
        (Purpose.SEND, 101, 1, HEAD, Route.PRIVATE),
        (Purpose.CANCEL, 75, None, HEAD, Route.PRIVATE),
        (Purpose.CANCEL, 74, None, HEAD, Route.PUBLIC),
        (Purpose.EXPIRE, 75, 1, HEAD, Route.PRIVATE),
        (Purpose.CANCEL, 74, None, None, Route.PRIVATE),
    ],
)
def test_an_attempt_goes_to_public_nodes_only_if_its_blocks_have_passed(
    purpose: Purpose, since: int | None, fallback: int | None, head: int | None, expected: Route
) -> None:
    assert choose(attempt(purpose, since), fallback, head) is expected
