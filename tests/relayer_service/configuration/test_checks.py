"""Every system check speaks where it should, and keeps silent where it should."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.checks import run_checks

GOOD = {
    "SECRET_KEY": "0123456789abcdefghijklmnopqrstuvwxyz-ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "ENCRYPTION_KEYS": {"1": bytes(range(32))},
    "TOKEN_PEPPERS": {"1": bytes(range(32, 64))},
    "WEB_PROCESSES": 4,
    "REDIS_URL": "redis://127.0.0.1:6379/0",
    "PROFILE": "production",
    "DATABASES": {"default": {"ENGINE": "django.db.backends.postgresql"}},
    "ALLOWED_HOSTS": ["relayer.example.com"],
    "READY_REQUIRES": ["database", "cache", "migrations", "worker"],
}
SQLITE = {"default": {"ENGINE": "django.db.backends.sqlite3"}}
SECRETS = ("secret_key", "encryption_keys", "token_peppers")
WEAK_KEY = "SECRET_KEY is shorter than 50 characters, or not random."
NO_KEY = "has no key, or one that is not random."

Found = list[tuple[str | None, str]]
Checks = Callable[..., Found]


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Checks:
    """Run every check on a good production configuration with some changes; return those of this service."""

    def run(**changes: Any) -> Found:
        for name, value in (GOOD | {"DATA_DIR": tmp_path} | changes).items():
            monkeypatch.setattr(settings, name, value)
        messages = run_checks(include_deployment_checks=True)
        return [(message.id, message.msg) for message in messages if str(message.id).startswith("relayer_service.")]

    return run


@pytest.mark.parametrize(
    ("changes", "identifier", "message"),
    [
        ({"SECRET_KEY": "short-0123456789"}, "E001", WEAK_KEY),
        ({"SECRET_KEY": "abc" * 30}, "E001", WEAK_KEY),
        ({"ENCRYPTION_KEYS": {}}, "E002", f"ENCRYPTION_KEYS {NO_KEY}"),
        ({"ENCRYPTION_KEYS": {"2": bytes(range(32)), "1": bytes(32)}}, "E002", f"ENCRYPTION_KEYS {NO_KEY}"),
        ({"TOKEN_PEPPERS": {}}, "E003", f"TOKEN_PEPPERS {NO_KEY}"),
        ({"TOKEN_PEPPERS": {"1": b"ab" * 16}}, "E003", f"TOKEN_PEPPERS {NO_KEY}"),
        ({"READY_REQUIRES": ["cache", "moon", "disk"]}, "E004", "READY_REQUIRES has unknown parts: disk, moon."),
        (
            {"REDIS_URL": ""},
            "W001",
            "WEB_PROCESSES is greater than 1 but REDIS_URL is not set: each process counts rate limits separately.",
        ),
        ({"DATABASES": SQLITE}, "W002", "PROFILE is production but the database is SQLite."),
        ({"ALLOWED_HOSTS": ["relayer.example.com", "*"]}, "W003", "ALLOWED_HOSTS accepts every host name."),
    ],
)
def test_each_mistake_is_named_by_its_own_check(
    found: Checks, changes: dict[str, Any], identifier: str, message: str
) -> None:
    assert found(**changes) == [(f"relayer_service.{identifier}", message)]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"WEB_PROCESSES": 1, "REDIS_URL": ""},
        {"PROFILE": "local", "DATABASES": SQLITE},
        {"READY_REQUIRES": []},
        {"SECRET_KEY": "0123456789" * 5},
    ],
)
def test_what_is_allowed_raises_no_check(found: Checks, changes: dict[str, Any]) -> None:
    assert found(**changes) == []


def test_a_variable_that_is_no_longer_read_is_named(found: Checks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEB_BACKLOG", "2048")
    monkeypatch.setenv("NODE_THREADS", "no number")
    ignored = "These environment variables have been removed and have no effect: NODE_THREADS, WEB_BACKLOG."
    assert found() == [("relayer_service.W006", ignored)]


def test_a_secret_file_that_others_can_read_is_named_if_it_is_used(
    found: Checks, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in SECRETS:
        monkeypatch.delenv(name.upper(), raising=False)
        (tmp_path / name).touch(mode=0o600)
    assert found() == []
    for name in SECRETS:
        (tmp_path / name).chmod(0o640)
        assert found() == [("relayer_service.W004", f"{name} in DATA_DIR can be read by other users.")]
        with monkeypatch.context() as patch:
            patch.setenv(name.upper(), "the environment has it")
            assert found() == []
        (tmp_path / name).chmod(0o600)
