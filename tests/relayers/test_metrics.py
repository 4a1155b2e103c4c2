"""What Prometheus reads of relayers."""

import pytest
from django.db import DatabaseError
from django.utils import timezone

from relayer_service.observability import metrics
from relayers.models import Relayer
from tests.relayer_service.observability.test_metrics import samples
from tests.relayers import factories


def relayer_samples() -> dict[str, float]:
    found = samples(metrics.exposition().decode())
    return {name: value for name, value in found.items() if name.startswith("relayer_relayers")}


@pytest.mark.django_db
def test_relayers_are_counted_by_state() -> None:
    seen = {"checked_at": timezone.now(), "nonce": 0, "balance_text": "5"}
    factories.relayer(identifier="1", **seen)
    factories.relayer(identifier="2", **seen)
    factories.relayer(identifier="3", **seen, system_disabled=True, disabled_reason_type="NonceSyncFailed")
    factories.relayer(identifier="4", **seen, paused=True, balance_is_low=True)
    factories.relayer(identifier="5", **seen, balance_is_low=True)
    factories.relayer(identifier="6")
    assert relayer_samples() == {
        "relayer_relayers{state=active}": 2,
        "relayer_relayers{state=disabled}": 1,
        "relayer_relayers{state=paused}": 1,
        "relayer_relayers{state=low_balance}": 1,
        "relayer_relayers{state=no_address}": 0,
        "relayer_relayers{state=unknown}": 1,
        "relayer_relayers_low_balance{}": 2,
    }


@pytest.mark.django_db
def test_other_metrics_are_shown_while_relayers_cannot_be_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise DatabaseError("it is down")

    monkeypatch.setattr(Relayer.objects, "order_by", fail)
    found = samples(metrics.exposition().decode())
    assert not [name for name in found if name.startswith("relayer_relayers")]
    assert found["relayer_task_queue_depth{kind=waiting}"] == 0
    assert "The scrape by RelayerCollector failed" in caplog.text
