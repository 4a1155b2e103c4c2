"""EXTENSIONS: what is on in each profile, and names that stop the start."""

import os
import runpy

import dotenv
import pytest
from django.core.exceptions import ImproperlyConfigured

from relayer_service import extensions
from tests.servers import PROJECT


def read(monkeypatch: pytest.MonkeyPatch, **environment: str) -> list[str]:
    """Return the setting as a process reads it that starts with this environment alone."""
    monkeypatch.setattr(dotenv, "load_dotenv", lambda path: None)
    monkeypatch.delenv("EXTENSIONS")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found: list[str] = runpy.run_path(str(PROJECT / "relayer_service/settings.py"))["EXTENSIONS"]
    return found


def test_production_has_none_and_the_local_profile_all_unless_they_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert os.environ["EXTENSIONS"] == ""
    for environment, expected in [
        ({"PROFILE": "production"}, []),
        ({"PROFILE": "production", "EXTENSIONS": "quotes"}, ["quotes"]),
        ({"PROFILE": "local"}, list(extensions.BUILT)),
        ({"PROFILE": "local", "EXTENSIONS": ""}, []),
    ]:
        with monkeypatch.context() as patch:
            assert read(patch, **environment) == expected
    with pytest.raises(ImproperlyConfigured) as raised:
        read(monkeypatch, EXTENSIONS="quotes,moon")
    names = "lifecycle, quotes, signing, transactions"
    assert str(raised.value) == f"EXTENSIONS: moon is unknown; choose from: {names}"
