"""The log of status changes: one line each, once committed, from which the life of a transaction can be told."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from django.db import transaction
from pytest_django import DjangoCaptureOnCommitCallbacks

from relayer_service.observability.logs import TextFormatter
from tests.relayers import factories as relayer_factories
from tests.transactions import factories
from tests.transactions.test_metrics import move
from transactions import changes
from transactions.models import Status
from transactions.records.states import Cause

pytestmark = pytest.mark.django_db


def test_each_committed_change_is_one_line_with_nonce_hash_and_cause(
    caplog: pytest.LogCaptureFixture, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    caplog.set_level(logging.INFO, changes.__name__)
    row = factories.transaction(factories.lane(relayer_factories.relayer()), nonce=7, status=Status.SENT)
    attempt = factories.attempt(row)
    with django_capture_on_commit_callbacks(execute=True), transaction.atomic():
        move(row, Cause.RECEIVED)
        transaction.set_rollback(True)
    assert not caplog.records
    with django_capture_on_commit_callbacks(execute=True):
        move(row, Cause.RECEIVED)
        row.refresh_from_db()
        move(row, Cause.MINED, mined_attempt=attempt)
    records: list[Any] = caplog.records
    assert [record.fields for record in records] == [
        {
            "transaction": row.identifier,
            "relayer": "relayer-1",
            "from_status": before,
            "status": status,
            "nonce": 7,
            "hash": attempt.hash,
            "cause": cause,
            "reason": "",
        }
        for before, status, cause in (("sent", "submitted", Cause.RECEIVED), ("submitted", "mined", Cause.MINED))
    ]
    assert {record.getMessage() for record in records} == {"Status changed"}
    assert all(f"nonce=7 hash={attempt.hash} cause=" in TextFormatter().format(record) for record in records)
    assert all(record.redacted for record in records)
