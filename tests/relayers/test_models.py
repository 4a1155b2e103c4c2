"""The rules of the model."""

from __future__ import annotations

import pytest

from relayers.models import Relayer
from tests.relayers import factories


@pytest.mark.django_db
def test_a_relayer_that_is_not_saved_yet_can_be_validated() -> None:
    relayer = Relayer(identifier="relayer-1", name="Relayer 1", network="sepolia", signer=factories.signer())
    relayer.full_clean()
    relayer.save()
    assert Relayer.objects.get().health.due_at
