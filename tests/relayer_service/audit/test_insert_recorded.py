"""A new row and its entry are inserted together, as the ORM would write them: in one statement on PostgreSQL."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import IntegrityError, models, transaction

from notifications.models import Notification
from relayer_service.audit.actors import ActorKind, acting_as
from relayer_service.audit.recording import created, insert_recorded, record
from relayer_service.models import AuditEntry
from relayers.models import Relayer
from signers.models import Signer
from tests.api import Api
from tests.relayers import factories

pytestmark = pytest.mark.both_engines

MOMENT = datetime(2026, 11, 15, 12, 30, tzinfo=UTC)
SIGNER = {"id": "new", "type": "provider_a_kms", "config": {"key_id": "a", "region": "b"}}


def new_signer() -> Signer:
    signer = Signer(identifier="new é 'x' %s", type="provider_d", created_at=MOMENT, last_error="none")
    signer.set_config({"api_private_key": "secret", "api_public_key": "é", "organization_id": '"'})
    return signer


def new_notification() -> Notification:
    notification = Notification(identifier="new", created_at=MOMENT)
    notification.set_url("https://user:password@hooks.example.com/path")
    notification.set_signing_key("k" * 32)
    return notification


def new_relayer() -> Relayer:
    policies = {"gas_price_cap": 2**70}
    relayer = Relayer(identifier="new", network="sepolia", signer=factories.signer(), policies=policies)
    relayer.name, relayer.created_at = "New", MOMENT
    relayer.set_rpc_urls([{"url": "https://node.example.com/key", "weight": 100}])
    return relayer


def stored(row: models.Model) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return all columns of a row as they read, and those of its entry, without keys and the time of recording."""

    def columns(row: models.Model) -> dict[str, Any]:
        return {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}

    found, entry = type(row)._base_manager.get(pk=row.pk), AuditEntry.objects.for_row(row).get()
    key = row._meta.pk
    assert key
    return (
        {name: value for name, value in columns(found).items() if name != key.attname},
        {name: value for name, value in columns(entry).items() if name not in {"id", "at", "object_pk"}},
    )


def save_and_record(row: models.Model) -> None:
    row.save(force_insert=True)
    record([created(row)])


@pytest.mark.django_db
@pytest.mark.parametrize("new", [new_signer, new_notification, new_relayer])
def test_row_and_entry_are_those_that_the_orm_writes(new: Callable[[], models.Model]) -> None:
    found = []
    for insert in (save_and_record, insert_recorded):
        row = new()
        with transaction.atomic(), acting_as(ActorKind.COMMAND, "a command"):
            insert(row)
            found.append(stored(row))
            transaction.set_rollback(True)
    assert found[0] == found[1]


@pytest.mark.django_db(transaction=True)
def test_without_its_entry_no_row_is_inserted_and_one_with_it_can_be_saved_again() -> None:
    with pytest.raises(IntegrityError):
        insert_recorded(new_signer(), reason=None)  # type: ignore[arg-type]  # what the database refuses
    assert not Signer.objects.exists()
    signer = new_signer()
    insert_recorded(signer)
    assert (signer._state.adding, signer._state.db) == (False, "default")
    signer.last_error = "another"
    signer.save()
    assert Signer.objects.get().last_error == "another"


@pytest.mark.django_db(transaction=True)
def test_an_id_that_is_taken_leaves_no_entry(api: Api) -> None:
    assert [api.post("/api/v1/signers", SIGNER).status for _ in range(2)] == [201, 409]
    assert AuditEntry.objects.filter(object_type="signer").count() == 1
