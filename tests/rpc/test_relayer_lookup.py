"""The relayer of a JSON-RPC call: a row that threads share."""

from __future__ import annotations

from typing import Any

import pytest
from pytest_django import Settings

from relayer_service.api.exceptions import NotFound
from relayers.models import Relayer, RelayerHealth, find_relayer
from rpc import dispatch, relayer_lookup
from rpc.relayer_lookup import find_cached_relayer
from tests.chain.answering_node import unsigned
from tests.chain.faults import SECRET
from tests.rpc.estimates import failure, relayer_at

pytestmark = pytest.mark.django_db

URL = f"http://127.0.0.1:9/{SECRET}"
PARAMS: dict[str, Any] = {"fee_token": "ETH", "network": "hardhat", "transaction": unsigned()}


def test_it_has_what_methods_need_of_the_row() -> None:
    row = relayer_at(URL, policies={"gas_price_cap": 2**128 - 1})
    found = find_cached_relayer("relayer-1")
    assert (found.pk, found.network, found.network_type) == (row.pk, "hardhat", "evm")
    assert (found.address, found.policies) == (row.address, {"gas_price_cap": 2**128 - 1})
    assert found.node_urls() == [(URL, 100)]
    assert SECRET not in repr(found)


@pytest.mark.parametrize("identifier", ["RELAYER-1", "relayer-1\0"])
def test_an_unknown_id_is_not_found(identifier: str) -> None:
    relayer_at(URL)
    with pytest.raises(NotFound, match="not found"):
        find_cached_relayer(identifier)


def test_what_decides_about_money_reads_the_row_as_it_is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relayer_lookup, "CACHE_SECONDS", 60)
    relayer_at(URL)
    before = find_cached_relayer("relayer-1")
    disabled = {"system_disabled": True, "disabled_reason_type": "NonceSyncFailed"}
    Relayer.objects.update(paused=True, policies={"gas_price_cap": 1})
    RelayerHealth.objects.update(**disabled)
    assert find_cached_relayer("relayer-1") is before
    found = find_relayer("relayer-1")
    assert (found.paused, found.health.system_disabled, found.policies) == (True, True, {"gas_price_cap": 1})


def test_urls_that_cannot_be_decrypted_fail_only_what_asks_a_node(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    relayer_at(URL)
    settings.ENCRYPTION_KEYS = {"2": bytes(range(50, 82))}
    found = find_cached_relayer("relayer-1")
    wrong = dispatch.answer(found, "feeEstimate", PARAMS | {"network": "base"})
    assert wrong == failure(-32602, "Invalid params", "network: must be hardhat or evm")
    assert dispatch.answer(found, "feeEstimate", PARAMS)["error"]["code"] == -32603
    # The log says which key is missing.
    assert "DecryptionError: " in caplog.text
