"""Reading the environment: a bad value names its variable and never shows a secret."""

from collections.abc import Callable
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from relayer_service.configuration import environment

NAME = "A_SETTING"
KEY_1 = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
KEY_2 = "Hx4dHBsaGRgXFhUUExIREA8ODQwLCgkIBwYFBAMCAQA="
KEYRING_FAULT = (
    "A_SETTING must be a list of id:key pairs, each id unique and alphanumeric, each key 32 bytes in base64"
)


Read = Callable[[], Any]
boolean: Read = partial(environment.boolean, NAME, default=False)
integer: Read = partial(environment.integer, NAME, 5, minimum=1)
integers: Read = partial(environment.integers, NAME, "0, 5,300", maximum=10**17)
choice: Read = partial(environment.choice, NAME, "json", {"json", "text"})
choices: Read = partial(environment.choices, NAME, "json,text", ["json", "text", "yaml"])
listing: Read = partial(environment.listing, NAME, "a")
networks: Read = partial(environment.networks, NAME, "10.0.0.0/8")
host: Read = partial(environment.host, NAME, "127.0.0.1")
rate: Read = partial(environment.rate, NAME, "100/s")
text: Read = partial(environment.text, NAME, "a text")


def test_a_variable_that_is_not_set_has_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NAME, raising=False)
    found = [read() for read in (boolean, integer, integers, choice, choices, listing, networks, host, rate, text)]
    assert found == [
        *(False, 5, [0, 5, 300], "json", ["json", "text"], ["a"]),
        *([ip_network("10.0.0.0/8")], "127.0.0.1", "100/s", "a text"),
    ]


@pytest.mark.parametrize(
    ("read", "value", "expected"),
    [
        (boolean, "true", True),
        (boolean, "YES", True),
        (boolean, "1", True),
        (boolean, "on", True),
        (boolean, "False", False),
        *[(boolean, value, False) for value in ("no", "0", "off")],
        (integer, "1", 1),
        (integer, "007", 7),
        (integers, "7", [7]),
        (integers, " 0, 60,,007 ,", [0, 60, 7]),
        (choice, "text", "text"),
        (choices, "", []),
        (choices, " yaml, json,,yaml ", ["yaml", "json"]),
        (listing, "", []),
        (listing, " a, b,,c ,", ["a", "b", "c"]),
        (networks, "", []),
        (networks, "192.0.2.1, 2001:db8::/32", [ip_network("192.0.2.1/32"), ip_network("2001:db8::/32")]),
        (host, "0.0.0.0", "0.0.0.0"),
        (host, "relayer-1.example.com", "relayer-1.example.com"),
        (host, "::", "[::]"),
        (host, "[2001:DB8::1]", "[2001:db8::1]"),
        (rate, "", ""),
        (rate, "0/s", "0/s"),
        (rate, "5/10m", "5/10m"),
        (rate, "5/10", "5/10"),
        (rate, "1000/d", "1000/d"),
        (text, "", ""),
    ],
)
def test_a_good_value_is_read(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[], Any], value: str, expected: Any
) -> None:
    monkeypatch.setenv(NAME, value)
    assert read() == expected


@pytest.mark.parametrize(
    ("read", "value", "message"),
    [
        (boolean, "", "A_SETTING must be true or false"),
        (boolean, "maybe", "A_SETTING must be true or false"),
        (boolean, " true", "A_SETTING must be true or false"),
        *[
            (integer, value, "A_SETTING must be an integer of at least 1")
            for value in ("", "0", "-1", "1.5", "1_000", "٣", "9" * 5000)
        ],
        *[
            (integers, value, "A_SETTING must be a list of integers from 0 to 100000000000000000")
            for value in (",", "-1", "0,+1", "1 2", "0,1_000", "٣", "0," + "9" * 19)
        ],
        (choice, "xml", "A_SETTING must be one of: json, text"),
        (choice, "", "A_SETTING must be one of: json, text"),
        (choices, "json,xml", "A_SETTING: xml is unknown; choose from: json, text, yaml"),
        (choices, "JSON", "A_SETTING: JSON is unknown; choose from: json, text, yaml"),
        *[
            (networks, value, "A_SETTING must be a list of addresses or CIDR networks")
            for value in ("localhost", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/8 10.1.0.0/16")
        ],
        *[
            (host, value, "A_SETTING must be a host name or an address")
            for value in ("", " ", "127.0.0.1:8000", "http://localhost", "localhost ", "[::1", "[localhost]", "-x")
        ],
        *[
            (rate, value, "A_SETTING must be a rate such as 100/s or 5/10m, or empty")
            for value in ("100", "100/", "/s", "100/w", "-1/s", "5/0s", "5/0", "100/s ", "100 / s", "off", "٣/s")
        ],
    ],
)
def test_a_bad_value_names_its_variable(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[], Any], value: str, message: str
) -> None:
    monkeypatch.setenv(NAME, value)
    with pytest.raises(ImproperlyConfigured) as raised:
        read()
    assert str(raised.value) == message


def test_every_rate_that_is_read_is_one_that_the_limiter_can_count(monkeypatch: pytest.MonkeyPatch) -> None:
    from django_ratelimit.core import _split_rate

    read = []
    for value in ("100/s", "5/10m", "5/10", "1/1d", "0/s", "999999999/999999h"):
        monkeypatch.setenv(NAME, value)
        read.append(_split_rate(rate()))
    assert read == [(100, 1), (5, 600), (5, 10), (1, 86400), (0, 1), (999999999, 3599996400)]


def test_a_secret_is_that_of_the_environment_or_of_its_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "a_setting"
    file.write_text("from the file\n")
    monkeypatch.setenv(NAME, "from the environment")
    assert environment.secret(NAME, tmp_path) == "from the environment"
    monkeypatch.delenv(NAME)
    assert environment.secret(NAME, tmp_path) == "from the file"

    def fault() -> str:
        with pytest.raises(ImproperlyConfigured) as raised:
            environment.secret(NAME, tmp_path)
        assert raised.value.__suppress_context__ or raised.value.__context__ is None
        return str(raised.value)

    # Nothing of it is shown.
    file.write_bytes(b"\xff\xfehalf of a key")
    assert fault() == "A_SETTING: its file in DATA_DIR is not text"
    file.unlink()
    assert fault() == "A_SETTING is missing: set it, or run `make run` once, which creates one in DATA_DIR"
    file.mkdir()
    assert fault() == "A_SETTING: its file in DATA_DIR cannot be read (Is a directory)"


def test_a_keyring_keeps_the_order_of_its_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(NAME, f" new:{KEY_2}, 1:{KEY_1},")
    keys = environment.keyring(NAME, tmp_path)
    assert list(keys.items()) == [("new", bytes(range(31, -1, -1))), ("1", bytes(range(32)))]
    monkeypatch.setenv(NAME, "")
    assert environment.keyring(NAME, tmp_path) == {}


@pytest.mark.parametrize(
    "value",
    [
        KEY_1,
        f":{KEY_1}",
        f"a-b:{KEY_1}",
        f"é:{KEY_1}",
        f"{'k' * 17}:{KEY_1}",
        f"1:{KEY_1},1:{KEY_2}",
        "1:",
        "1:AAECAwQFBgcICQoLDA0ODw==",
        "1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gIQ==",
        "1:not base64 but of a fitting length, so it seems",
        f"1:{KEY_1[:-1]}",
        f"1:{KEY_1}\u00e9",
    ],
)
def test_a_bad_keyring_names_its_variable_and_shows_no_key(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str
) -> None:
    monkeypatch.setenv(NAME, value)
    with pytest.raises(ImproperlyConfigured) as raised:
        environment.keyring(NAME, tmp_path)
    assert str(raised.value) == KEYRING_FAULT
    # A traceback would show the error of the decoder, and with it what was decoded.
    assert raised.value.__context__ is None
