"""Keys of signers that are replaced without the relayers that use them."""

from __future__ import annotations

import pytest

from chain import nodes
from signers.models import Signer
from tests.relayers.config_files import OTHER_KEY


def move_key(signer: Signer) -> None:
    """Replace a key as releases did that left relayers behind."""
    signer.set_config({"key": OTHER_KEY})
    signer.save()


def replace_meanwhile(signer: Signer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace a key after the signer was asked for its address, when the nodes are asked for their chain."""

    def chain_ids(urls: list[str]) -> list[int | str]:
        move_key(signer)
        return []

    monkeypatch.setattr(nodes, "chain_ids", chain_ids)
