"""The audit log as staff read it: the list, the history of an object, CSV; and that nobody can change it."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import lookup_field
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from relayer_service.console import audit, audit_log
from relayer_service.console.lists import changelists
from relayer_service.models import AuditEntry
from relayers.models import Relayer
from tests.api import Api
from tests.notifications.clock import NOON, Clock, clock
from tests.relayers import admin_pages, factories
from tests.relayers.factories import set_paused
from tokens.models import AccessToken

__all__ = ["clock"]

pytestmark = pytest.mark.django_db

LIST = "/admin/relayer_service/auditentry/"


def history(relayer: Relayer) -> str:
    return f"{admin_pages.LIST}{relayer.pk}/history/"


def add(**values: Any) -> AuditEntry:
    defaults: dict[str, Any] = {
        "at": NOON,
        "object_type": "relayer",
        "object_pk": "1",
        "object_id": "relayer-1",
        "action": "changed",
        "actor_kind": "user",
        "actor": "alice",
        "changes": {"paused": [False, True]},
    }
    return AuditEntry.objects.create(**defaults | values)


def found(client: Client, query: str = "") -> list[str]:
    """The objects that the list shows, from the top."""
    return [entry.object_id for entry in client.get(f"{LIST}?{query}").context["cl"].result_list]


def cells(page: Any) -> list[str]:
    """What the list shows of its first entry, as text."""
    changelist = page.context["cl"]
    model_admin, entry = changelist.model_admin, changelist.result_list[0]
    return [str(lookup_field(name, entry, model_admin)[2]) for name in model_admin.list_display]


def export(client: Client, query: str = "") -> list[list[str]]:
    answer = client.get(f"{LIST}export/?{query}")
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    return list(csv.reader(io.StringIO(answer.getvalue().decode(), newline="")))


def test_the_entry_of_a_notification_is_called_that_of_a_webhook(admin_client: Client) -> None:
    entry = add(object_type="notification", object_id="hook")
    page = admin_client.get(f"{LIST}{entry.pk}/change/").content.decode()
    assert str(entry) == "Webhook hook changed"
    assert "Webhook hook changed" in page
    assert "otification hook" not in page


def test_who_changed_a_url_over_the_api_is_on_the_page_of_its_history(api: Api, admin_client: Client) -> None:
    hook = factories.notification()
    api("PATCH", "/api/v1/notifications/hook-1", {"url": "https://b.example.com"}, headers={"X-Request-ID": "req-7"})
    page = admin_client.get(f"/admin/notifications/notification/{hook.pk}/history/").content.decode()
    key = AccessToken.objects.get().key
    for text in (
        f"Token tests (rms_{key}_…)",
        "from 127.0.0.1",
        "request req-7",
        "url: https://hooks.example.com/*** → https://b.example.com",
    ):
        assert text in page


def test_a_history_has_the_newest_first_with_reasons_and_nothing_of_others(admin_client: Client, clock: Clock) -> None:
    relayer, other = factories.relayer(), factories.relayer(identifier="other")
    set_paused(other, True, "not this one")
    set_paused(relayer, True, "<b>the vault is moved</b>")
    clock.forward(60)
    set_paused(relayer, False)
    page = admin_client.get(history(relayer))
    assert [entry.lines for entry in page.context["entries"]] == [["paused: yes → no"], ["paused: no → yes"]]
    text = page.content.decode()
    assert "2026-01-01 12:01:00 UTC" in text
    assert "“&lt;b&gt;the vault is moved&lt;/b&gt;”" in text
    assert "not this one" not in text


def test_a_history_of_nothing_says_why(admin_client: Client) -> None:
    assert (
        "The audit log has no entries for this object"
        in admin_client.get(history(factories.relayer())).content.decode()
    )


def test_a_long_history_has_pages_and_costs_the_same(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changelists, "MAX_LISTED", 150)
    relayer = factories.relayer()
    add(object_pk=str(relayer.pk))
    admin_client.get(history(relayer))
    with CaptureQueriesContext(connection) as few:
        admin_client.get(history(relayer))
    for number in range(199):
        add(object_pk=str(relayer.pk), at=NOON + timedelta(seconds=number))
    with CaptureQueriesContext(connection) as many:
        page = admin_client.get(history(relayer))
    assert len(page.context["entries"]) == audit.ENTRIES_PER_PAGE
    assert "150 entries or more; the newest are listed" in page.content.decode()
    assert len(many) == len(few)
    last = admin_client.get(f"{history(relayer)}?p=3").context["entries"]
    assert (len(last), last[-1].at) == (50, NOON + timedelta(seconds=49))


def test_a_history_is_for_those_who_may_view_the_object(client: Client, user: User) -> None:
    relayer = factories.relayer()
    User.objects.update(is_staff=True)
    client.force_login(user)
    assert client.get(history(relayer)).status_code == 403
    user.user_permissions.add(Permission.objects.get(codename="view_relayer"))
    assert client.get(history(relayer)).status_code == 200
    assert client.get(f"{admin_pages.LIST}999/history/").status_code == 404


def test_the_list_shows_when_who_what_and_from_where(admin_client: Client) -> None:
    relayer = factories.relayer()
    changes = {"name": ["<b>", "b"], "signing_key": "changed"}
    add(
        object_pk=str(relayer.pk),
        actor_kind="token",
        actor="ci",
        actor_key="k" * 12,
        address="192.0.2.7",
        changes=changes,
        reason="a test",
    )
    page = admin_client.get(LIST)
    link = f'<a class="audit underline" href="{admin_pages.LIST}{relayer.pk}/change/">relayer relayer-1</a>'
    line = '<div class="audit">{}</div>'
    assert cells(page) == [
        "2026-01-01 12:00:00 UTC",
        "Token ci (rms_kkkkkkkkkkkk_…)",
        link,
        "Changed",
        "".join(line.format(text) for text in ("name: &lt;b&gt; → b", "signing_key: changed", "“a test”")),
        "192.0.2.7",
    ]
    assert link in page.content.decode()
    entry = AuditEntry.objects.get()
    assert "name: &lt;b&gt; → b" in admin_client.get(f"{LIST}{entry.pk}/change/").content.decode()


def test_the_list_calls_a_notification_a_webhook(admin_client: Client) -> None:
    add(object_type="notification", object_id="ops")
    assert cells(admin_client.get(LIST))[2] == '<span class="audit">webhook ops</span>'


def test_an_object_that_is_gone_or_that_one_may_not_view_is_no_link(client: Client, user: User) -> None:
    relayer = factories.relayer()
    add(object_pk=str(relayer.pk))
    User.objects.update(is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_auditentry"))
    client.force_login(user)
    assert cells(client.get(LIST))[2] == '<span class="audit">relayer relayer-1</span>'
    user.user_permissions.add(Permission.objects.get(codename="view_relayer"))
    assert cells(client.get(LIST))[2].startswith("<a ")
    relayer.delete()
    assert cells(client.get(LIST))[2] == '<span class="audit">relayer relayer-1</span>'


@pytest.mark.parametrize(
    ("query", "objects"),
    [
        ("", ["c", "b", "a"]),
        ("q=a", ["a"]),
        ("q=bob", ["c", "b"]),
        ("q=nobody", []),
        ("q=c", ["c", "b"]),
        ("q=bob&object_type=signer", ["b"]),
        ("object_type=signer", ["b"]),
        ("actor_kind__exact=token", ["c", "b"]),
        ("at_from=2026-01-02&at_to=2026-01-02", ["b"]),
        ("at_from=2026-01-02", ["c", "b"]),
    ],
)
def test_the_list_is_searched_and_filtered(admin_client: Client, query: str, objects: list[str]) -> None:
    add(object_id="a")
    add(
        object_id="b",
        object_type="signer",
        actor="bob",
        actor_kind="token",
        request_id="c",
        at=NOON + timedelta(days=1),
    )
    add(object_id="c", actor="bob", actor_kind="token", at=NOON + timedelta(days=2))
    assert found(admin_client, query) == objects
    assert [row[7] for row in export(admin_client, query)[1:]] == objects


@pytest.mark.parametrize("lookup", ["changes__contains=x", "reason__startswith=x"])
def test_the_list_cannot_be_filtered_by_anything_else(admin_client: Client, lookup: str) -> None:
    assert admin_client.get(f"{LIST}?{lookup}").status_code == 400
    assert admin_client.get(f"{LIST}export/?{lookup}").status_code == 400


def test_the_types_that_are_offered(admin_client: Client) -> None:
    (types, *_) = admin_client.get(LIST).context["cl"].filter_specs
    names = [name for name, _ in types.lookup_choices]
    assert names == [
        "access token",
        "delivery",
        "fee token",
        "group",
        "lane",
        "notification",
        "relayer",
        "signer",
        "transaction",
        "user",
    ]


def test_each_search_and_filter_has_its_index() -> None:
    """With enough rows, so that the planner prefers it."""
    rows = AuditEntry.objects.all()
    plans = {
        "audit_of_row": rows.for_row(Relayer(pk=7)),
        "audit_by_type": rows.filter(object_type="signer"),
        "audit_by_object": rows.filter(object_id="relayer-7"),
        "audit_by_kind": rows.filter(actor_kind="token"),
        "audit_by_actor": rows.filter(actor="alice"),
        "audit_by_request": rows.filter(request_id="r-7"),
        "audit_by_time": rows.filter(at__lt=NOON),
    }
    AuditEntry.objects.bulk_create(
        AuditEntry(
            at=NOON + timedelta(seconds=number),
            object_type="signer" if number % 50 == 0 else "relayer",
            object_pk=str(number % 100),
            object_id=f"relayer-{number % 100}",
            actor_kind=f"kind-{number % 7}",
            actor=f"user-{number % 100}",
            request_id=f"r-{number}",
        )
        for number in range(5_000)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE relayer_service_auditentry")
    assert [name for name, query in plans.items() if name not in query[:50].explain()] == []


def test_the_csv_has_every_column(admin_client: Client) -> None:
    add(
        actor_kind="token",
        actor="ci",
        actor_key="k" * 12,
        address="192.0.2.7",
        request_id="req-1",
        changes={"paused": [False, True], "name": ['a "b", c', "d"]},
        reason="a reason",
    )
    assert export(admin_client) == [
        audit_log.CSV_COLUMNS,
        [
            *("2026-01-01T12:00:00+00:00", "token", "ci", "k" * 12, "192.0.2.7", "req-1", "relayer", "relayer-1"),
            *("changed", 'name: a "b", c → d\npaused: no → yes', "a reason"),
        ],
    ]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =1", "\r=1"])
def test_no_cell_of_the_csv_is_a_formula(admin_client: Client, text: str) -> None:
    add(object_id=text, actor=text, reason=text, changes={text: "changed"})
    (row,) = export(admin_client)[1:]
    assert [row[2], row[7], row[9], row[10]] == [f"'{text}", f"'{text}", f"'{text}: changed", f"'{text}"]


def test_a_long_csv_is_read_in_batches_and_ends(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "EXPORT_BATCH", 3)
    # Some at the same moment, across the ends of batches.
    for number in range(12):
        add(object_id=str(number), at=NOON + timedelta(seconds=number // 4))
    expected = [str(number) for number in reversed(range(12))]
    assert [row[7] for row in export(admin_client)[1:]] == expected
    monkeypatch.setattr(audit_log, "MAX_EXPORTED", 7)
    assert [row[7] for row in export(admin_client)[1:]] == expected[:7]


def test_a_csv_of_a_page_that_is_not_there_leads_to_the_list(admin_client: Client) -> None:
    for _ in range(51):
        add()
    answer = admin_client.get(f"{LIST}export/?p=999")
    assert (answer.status_code, answer["Location"]) == (302, LIST)


def test_the_log_is_for_those_who_may_view_it(client: Client, user: User) -> None:
    entry = add()
    User.objects.update(is_staff=True)
    client.force_login(user)
    for path in (LIST, f"{LIST}{entry.pk}/change/", f"{LIST}export/"):
        assert client.get(path).status_code == 403


@pytest.mark.parametrize(
    ("values", "who"),
    [
        ({"actor_kind": "unknown", "actor": ""}, "Unknown"),
        ({"actor_kind": "health check", "actor": "health check"}, "Health check"),
        ({"actor_kind": "fleet file", "actor": "fleet.json"}, "Fleet file fleet.json"),
        ({"actor_kind": "token", "actor": "ci", "actor_key": "key"}, "Token ci (rms_key_…)"),
    ],
)
def test_how_an_actor_reads(values: dict[str, str], who: str) -> None:
    assert AuditEntry(**values).who == who


def test_nobody_can_add_change_or_delete_an_entry(admin_client: Client) -> None:
    entry = add()
    before = AuditEntry.objects.values().get()
    for path in ("add/", f"{entry.pk}/change/", f"{entry.pk}/delete/"):
        assert admin_client.post(f"{LIST}{path}", {"reason": "another", "post": "yes"}).status_code == 403
    action = {"action": "delete_selected", "_selected_action": [entry.pk], "post": "yes"}
    admin_client.post(LIST, action)
    assert AuditEntry.objects.values().get() == before
    names = Permission.objects.filter(content_type__model="auditentry").values_list("codename", flat=True)
    assert list(names) == ["view_auditentry"]


def test_the_list_costs_the_same_however_many_rows_it_shows(admin_client: Client) -> None:
    relayer = factories.relayer()
    add(object_pk=str(relayer.pk))
    admin_client.get(LIST)
    with CaptureQueriesContext(connection) as few:
        admin_client.get(LIST)
    for _ in range(60):
        add(object_pk=str(relayer.pk))
    with CaptureQueriesContext(connection) as many:
        admin_client.get(LIST)
    assert len(many) == len(few)


def test_the_overview_has_ones_own_last_changes_and_djangos_log_stays_empty(admin_client: Client) -> None:
    relayer = factories.relayer()
    admin_pages.edit(admin_client, relayer, name="Another")
    add(object_id="of-alice")
    (card,) = [card for card in admin_client.get("/admin/").context["cards"] if card.title == "Your last changes"]
    assert [row[0] for row in card.rows] == ['relayer-1<div class="explained">Changed</div>']
    assert "relayer-1" in admin_client.get(card.url).content.decode()
    assert not LogEntry.objects.exists()


def test_large_numbers_are_kept_exactly() -> None:
    entry = add(changes={"policies.min_balance": [2**128 - 1, 2**53 + 1]}, at=datetime(2026, 1, 1, tzinfo=UTC))
    entry.refresh_from_db()
    assert json.dumps(entry.changes["policies.min_balance"]) == f"[{2**128 - 1}, {2**53 + 1}]"
