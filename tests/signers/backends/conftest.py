from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between tries, which are not waited for."""
    made: list[float] = []
    monkeypatch.setattr("signers.backends.http.sleep", made.append)
    monkeypatch.setattr("signers.backends.turnkey.sleep", made.append)
    return made
