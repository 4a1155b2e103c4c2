"""The rules of the model."""

from __future__ import annotations

import pytest

from relayer_service.database.clock import database_now
from relayers.models import Relayer, RelayerHealth
from tests.api import Api
from tests.relayers import factories
from tests.relayers.health_checks import REASON
from transactions.requests.relayer_lookup import read_relayer


@pytest.mark.django_db
def test_a_relayer_that_is_not_saved_yet_can_be_validated() -> None:
    relayer = Relayer(identifier="relayer-1", name="Relayer 1", network="sepolia", signer=factories.signer())
    relayer.full_clean()
    relayer.save()
    assert Relayer.objects.get().health.due_at


@pytest.mark.django_db
def test_a_relayer_without_a_row_of_its_health_is_like_a_new_one(api: Api) -> None:
    relayer = factories.relayer(**REASON, nonce=5)
    RelayerHealth.objects.all().delete()
    found = Relayer.objects.get()
    assert (found.states, found.health.nonce, found.health.due_at is None) == (["unknown"], None, False)
    (listed,) = api.get("/api/v1/relayers").body["data"]
    assert (listed["system_disabled"], "disabled_reason" in listed) == (False, False)
    assert read_relayer("relayer-1")[0].health.system_disabled is False
    # Whoever changes it adds the row.
    RelayerHealth.objects.check_again([relayer.pk])
    assert RelayerHealth.objects.filter(due_at__lte=database_now()).exists()
