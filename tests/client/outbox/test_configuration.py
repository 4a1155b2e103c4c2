"""The setting RELAYER_CLIENT: its faults are named, its values never shown."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connection

from relayer_client import Client
from relayer_client.outbox.configuration import check_database, check_settings, open_client

GOOD = {"URL": "https://relayer.example.com", "TOKEN": "a-secret-token"}


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("a-secret-token", "RELAYER_CLIENT must be a dictionary."),
        (GOOD | {"URl": "x"}, "RELAYER_CLIENT has an unknown key: URl."),
        (
            GOOD | {"URL": "relayer.example.com"},
            "RELAYER_CLIENT['URL'] must begin with http:// or https://, and have no user name.",
        ),
        (GOOD | {"TOKEN": "a-secret-token\n"}, "RELAYER_CLIENT['TOKEN'] must be a string of ASCII characters."),
        (GOOD | {"CLIENT": "shop.client"}, "RELAYER_CLIENT['CLIENT'] replaces TOKEN and TIMEOUT: remove them."),
        ({"CLIENT": 1}, "RELAYER_CLIENT['CLIENT'] must be a function or its dotted path."),
        (GOOD | {"TIMEOUT": 0}, "RELAYER_CLIENT['TIMEOUT'] must be a number of seconds above 0."),
    ],
)
def test_a_fault_is_found_by_the_check_and_the_sender(settings: Any, value: Any, fault: str) -> None:
    settings.RELAYER_CLIENT = value
    (found,) = check_settings()
    assert (found.msg, found.id) == (fault, "relayer_client.E001")
    with pytest.raises(ImproperlyConfigured) as raised:
        open_client()
    assert str(raised.value) == fault
    assert "a-secret-token" not in f"{raised.value!r} {found!r}"


@pytest.mark.parametrize("name", ["URL", "TOKEN"])
def test_only_senders_need_a_url_and_a_token(settings: Any, name: str) -> None:
    settings.RELAYER_CLIENT = {key: value for key, value in GOOD.items() if key != name}
    assert check_settings() == []
    with pytest.raises(ImproperlyConfigured, match=f"^RELAYER_CLIENT has no {name}.$"):
        open_client()


def make_client() -> Client:
    return Client("https://relayer.example.com", "a-secret-token", timeout=7)


def test_a_factory_makes_the_client(settings: Any) -> None:
    for factory in (make_client, f"{__name__}.make_client"):
        settings.RELAYER_CLIENT = {"CLIENT": factory}
        assert check_settings() == []
        with open_client() as client:
            assert client._transport._pools._options["timeout"] == 7
    settings.RELAYER_CLIENT = {"CLIENT": dict}
    with pytest.raises(ImproperlyConfigured, match="must return a"):
        open_client()


def test_only_databases_that_are_tested_are_supported(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_database() == []
    for name, value in (("vendor", "mysql"), ("display_name", "MySQL")):
        monkeypatch.setattr(connection, name, value)
    (found,) = check_database()
    assert (found.id, found.msg) == ("relayer_client.E002", "The outbox supports PostgreSQL and SQLite, not MySQL.")


def test_nothing_shows_the_token(settings: Any) -> None:
    settings.RELAYER_CLIENT = GOOD
    with open_client() as client:
        assert "a-secret-token" not in f"{client!r} {client.relayer('sender')!r}"
