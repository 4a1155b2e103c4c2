"""Keys of signers that are replaced without the relayers that use them."""

from __future__ import annotations

import pytest

from relayers.health import probes
from signers.models import Signer
from tests.relayers.config_files import OTHER_KEY


def move_key(signer: Signer) -> None:
    """Replace a key as releases did that left relayers behind."""
    signer.set_config({"key": OTHER_KEY})
    signer.save()


def replace_meanwhile(signer: Signer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace a key after the signer's address was read."""
    ask = probes.read_address

    def ask_and_move(asked: Signer) -> tuple[str, str]:
        answer = ask(asked)
        move_key(signer)
        return answer

    monkeypatch.setattr(probes, "read_address", ask_and_move)
