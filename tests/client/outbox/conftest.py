"""The outbox in a database of the tests. The service does not install it: its table is made by its migration."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.state import ProjectState

from relayer_client import NO_RETRIES, Client
from relayer_client.outbox import claims, following, handing_over, sending
from relayer_client.outbox.models import OutboxTransaction, RelayerGeneration
from tests.client.outbox import shop
from tests.client.outbox.fake_service import FakeService, fake_service
from tests.client.running import Service, mine_always


@pytest.fixture(scope="package")
def outbox_table(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    names = ("0001_initial", "0002_safeguards")
    modules = [import_module(f"relayer_client.outbox.migrations.{name}") for name in names]
    with django_db_blocker.unblock():
        state = ProjectState()
        for name, module in zip(names, modules, strict=True):
            with connection.schema_editor() as editor:
                state = module.Migration(name, "relayer_outbox").apply(state, editor)
        yield
        with connection.schema_editor() as editor:
            editor.delete_model(OutboxTransaction)
            editor.delete_model(RelayerGeneration)


@pytest.fixture(autouse=True)
def long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses and leases that do not end by themselves; `make_due` ends them."""
    hour = timedelta(hours=1)
    monkeypatch.setattr(claims, "LEASE", hour)
    for module in (handing_over, following, sending):
        monkeypatch.setattr(module, "retry_pause", lambda *_: hour)
    monkeypatch.setattr(following, "poll_pause", lambda *_: hour)


@pytest.fixture
def outbox(outbox_table: None, db: None) -> None:
    """An empty outbox, in a transaction."""


@pytest.fixture
def shared_outbox(outbox_table: None, transactional_db: None) -> Iterator[None]:
    """An empty outbox, whose rows are committed."""
    yield
    OutboxTransaction.objects.all().delete()
    RelayerGeneration.objects.all().delete()


@pytest.fixture
def fake() -> Iterator[FakeService]:
    with fake_service() as server:
        yield server


@pytest.fixture
def client(fake: FakeService) -> Iterator[Client]:
    with Client(fake.url, "a-token", retries=NO_RETRIES) as found:
        yield found


@pytest.fixture(scope="package")
def shop_token(service: Service) -> str:
    """The address of a token that the relayer `shop` pays out."""
    mine_always(service.chain)
    return shop.prepare(service)
