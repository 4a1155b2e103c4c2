"""What the audit log holds of a change, and what it never holds."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.test import Client

from chain.nodes import failover
from notifications.models import Notification
from relayer_service.audit.recording import snapshot
from relayer_service.audit.values import MAX_LENGTH, Hidden, differences
from relayer_service.models import AuditEntry
from signers.models import Signer
from tests.api import Api
from tests.relayers import admin_pages, factories
from tests.signers.examples import CONFIGS, SHOWN, secrets
from tokens.models import AccessToken

A, B = Hidden.from_value("secret a"), Hidden.from_value("secret b")
URL, OTHER_PATH = Hidden.from_value("https://a/1", "https://a/***"), Hidden.from_value("https://a/2", "https://a/***")
SHOWN_URLS = '["https://a/***"]'
URLS, OTHER_PATHS = (Hidden.from_value([f"https://a/{path}"], ["https://a/***"]) for path in (1, 2))
OTHER_HOST = Hidden.from_value("https://b/1", "https://b/***")


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1}, {"a": 2}, {"a": [1, 2]}),
        ({"a": False}, {"a": True}, {"a": [False, True]}),
        ({"a": None}, {"a": ""}, {}),
        ({}, {"a": [], "b": {}, "c": None, "d": 0}, {"d": [None, 0]}),
        ({"a": 2**128}, {"a": 2**128 - 1}, {"a": [2**128, 2**128 - 1]}),
        ({"a": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)}, {}, {"a": ["2026-01-02 03:04:05 UTC", None]}),
        ({"a": None}, {"a": A}, {"a": "set"}),
        ({"a": A}, {"a": B}, {"a": "changed"}),
        ({"a": A}, {"a": None}, {"a": "removed"}),
        ({"a": A}, {"a": Hidden.from_value("secret a")}, {}),
        ({"a": URL}, {"a": OTHER_PATH}, {"a": "https://a/*** → https://a/***, the masked part changed"}),
        ({"a": URLS}, {"a": OTHER_PATHS}, {"a": f"{SHOWN_URLS} → {SHOWN_URLS}, the masked part changed"}),
        ({"a": URL}, {"a": OTHER_HOST}, {"a": ["https://a/***", "https://b/***"]}),
        ({"a": ""}, {"a": "x" * MAX_LENGTH}, {"a": ["", "x" * MAX_LENGTH]}),
        ({"a": ""}, {"a": "x" * (MAX_LENGTH + 1)}, {"a": ["", "x" * MAX_LENGTH + "…"]}),
        ({"a": "x" * MAX_LENGTH + "1"}, {"a": "x" * MAX_LENGTH + "2"}, {"a": "changed"}),
        ({"a": []}, {"a": ["x" * MAX_LENGTH]}, {"a": [[], '["' + "x" * (MAX_LENGTH - 2) + "…"]}),
    ],
)
def test_what_is_different(before: Any, after: Any, found: Any) -> None:
    assert differences(before, after) == found
    assert "secret" not in repr((before, after))


def test_how_a_change_reads() -> None:
    changes = {"a": [False, True], "b": [None, "secret words"], "c": [5, ""], "d": [None, [1, 2]], "key": "set"}
    assert {
        action: AuditEntry(action=action, changes=changes).lines for action in ("created", "changed", "deleted")
    } == {
        "created": ["a: yes", "b: secret words", "c: nothing", "d: [1, 2]", "key: set"],
        "changed": ["a: no → yes", "b: nothing → secret words", "c: 5 → nothing", "d: nothing → [1, 2]", "key: set"],
        "deleted": ["a: no", "b: nothing", "c: 5", "d: nothing", "key: set"],
    }


def dump() -> str:
    """Every value of the table, as the database holds it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM relayer_service_auditentry")
        return repr(cursor.fetchall())


def test_no_secret_is_in_the_table(
    api: Api, admin_client: Client, user: User, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failover, "chain_ids", lambda urls: [11155111 for _ in urls])
    for name, config in CONFIGS.items():
        api.post("/api/v1/signers", {"id": name, "type": name, "config": config})
        signer = Signer.objects.get(identifier=name)
        form = {
            f"{name}__{field}": SHOWN[name].get(field)
            or ("other-SECRET" if isinstance(value, str) else '{"a":"SECRET"}')
            for field, value in config.items()
        }
        admin_client.post(f"/admin/signers/signer/{signer.pk}/change/", form)
        admin_client.post(f"/admin/signers/signer/{signer.pk}/delete/", {"post": "yes"})
    hook = Notification.objects.create(identifier="hook", url="https://name:p-SECRET@a.example.com/path-SECRET")
    for key in ("one-SECRET", "two-SECRET", ""):
        url = f"https://a.example.com/{key}?q=SECRET"
        api.patch("/api/v1/notifications/hook", {"url": url, "signing_key": key})
    rpc_urls = [admin_pages.rpc_url("https://a.example.com/key-SECRET")]
    relayer = factories.relayer(rpc_urls=rpc_urls)
    admin_pages.edit(admin_client, relayer, **{"rpc_urls-0-url": "https://a.example.com/other-SECRET"})
    admin_client.post(f"/admin/relayers/relayer/{relayer.pk}/delete/", {"post": "yes"})
    call_command("issue_token", "ci", user="alice")
    issued = admin_client.post(
        "/admin/tokens/accesstoken/add/", {"name": "a", "user": user.pk, "enabled": "on", "scopes": "none"}
    )
    password = {"password1": "pass-SECRET-9", "password2": "pass-SECRET-9", "usable_password": "true"}
    admin_client.post(f"/admin/auth/user/{user.pk}/password/", password | {"set-password": "1"})

    text = dump()
    kinds = {*AuditEntry.objects.values_list("object_type", "action")}
    assert kinds == {
        *(("signer", action) for action in ("created", "changed", "deleted")),
        ("notification", "changed"),
        *(("relayer", action) for action in ("changed", "deleted")),
        ("access token", "created"),
        ("user", "changed"),
    }
    assert "https://vault.example.com" in text
    assert [secret for secret in secrets() if secret in text] == []
    assert "SECRET" not in text
    user.refresh_from_db()
    hidden = [token, issued.context["text"], user.password, *AccessToken.objects.values_list("digest", flat=True)]
    assert [value for value in hidden if value in text] == []
    assert hook.identifier in text


@pytest.mark.django_db
def test_secrets_that_cannot_be_opened_are_compared_as_they_are_stored(settings: Any) -> None:
    signer = factories.signer()
    before = snapshot(signer)
    settings.ENCRYPTION_KEYS = {"2": bytes(range(32))}
    unreadable = snapshot(Signer.objects.get())
    assert differences(unreadable, unreadable) == {}
    assert differences(unreadable, before) == {"config.key": "set", "config": "removed"}
