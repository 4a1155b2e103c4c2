"""The audit log as staff read it: the list, the history of an object, CSV; and that nobody can change it."""

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
from tests.rpc.factories import fee_token
from tests.transactions import factories as transactions
from tokens.models import AccessToken

__all__ = ["clock"]

pytestmark = pytest.mark.django_db

RECEIVER, USDC = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC", "0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238"
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
    assert cells(admin_client.get(LIST))[2] == '<span class="audit">webhook hook</span>'


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


def test_amounts_of_a_relayer_have_their_units(admin_client: Client) -> None:
    relayer = factories.relayer(network="sepolia")
    changes = {
        "policies.gas_price_cap": [None, 30 * 10**9],
        "policies.eip1559_pricing": [True, False],
        "spending_rules.max_value": ["5", str(5 * 10**17)],
        "policies.whitelist_receivers": [None, [RECEIVER]],
        "reserve": [str(10**18), None],
        "spending_rules.receivers": ["none", [{"address": RECEIVER, "selectors": ["0x"]}]],
        "spending_rules.tokens": [None, [{"contract": USDC, "max_amount": "5000000"}]],
        "top_up.minimum": ["", str(10**17)],
    }
    fee_token(network="sepolia", address=USDC, decimals=6, symbol="USDC")
    entry = add(object_type="relayer", object_pk=str(relayer.pk), changes=changes)
    add(object_type="relayer", object_pk="0", object_id="deleted", changes=changes)
    lines = [
        "policies.eip1559_pricing: yes → no",
        "policies.gas_price_cap: nothing → 30 gwei",
        f"policies.whitelist_receivers: nothing → {RECEIVER}",
        "reserve: 1 ETH → nothing",
        "spending_rules.max_value: 5 wei → 0.5 ETH",
        f"spending_rules.receivers: none → Receiver {RECEIVER}: no data",
        f"spending_rules.tokens: nothing → Token {USDC}: at most 5 USDC per transaction",
        "top_up.minimum: nothing → 0.1 ETH",
    ]
    (shown,) = admin_client.get(history(relayer)).context["entries"]
    deleted, listed = admin_client.get(LIST).context["cl"].result_list
    opened = admin_client.get(f"{LIST}{entry.pk}/change/").context["original"]
    assert [shown.lines, listed.lines, opened.lines] == [lines] * 3
    assert deleted.lines[1] == f"policies.gas_price_cap: nothing → {30 * 10**9}"


def test_amounts_of_tokens_and_transactions_have_their_units(admin_client: Client) -> None:
    row = transactions.transaction(transactions.lane(factories.relayer(network="sepolia")))
    rules = [{"contract": USDC, "max_amount_per_day": "5000000"}]
    changes = {"spending_rules.max_value": [str(10**18), "5"], "spending_rules.tokens": [rules, None]}
    add(object_type="access token", changes=changes)
    replaced = {"value": ["5 wei", f"{2 * 10**17} wei"], "to": ["new contract", RECEIVER]}
    add(object_type="transaction", object_pk=str(row.pk), changes=replaced)
    of_row, of_token = (entry.lines for entry in admin_client.get(LIST).context["cl"].result_list)
    assert of_token == [
        "spending_rules.max_value: 1 coin → 5 wei",
        f"spending_rules.tokens: Token {USDC}: at most 5000000 units within 24 hours → nothing",
    ]
    assert of_row == [f"to: new contract → {RECEIVER}", "value: 5 wei → 0.2 ETH"]


def test_a_long_history_has_pages_and_costs_the_same(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changelists, "MAX_LISTED", 150)
    relayer = factories.relayer()
    empty = admin_client.get(history(relayer)).content.decode()
    assert "The audit log has no entries for this object" in empty
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
    others = {"unknown": ("", "Unknown"), "fleet file": ("fleet.json", "Fleet file fleet.json")}
    others["health check"] = ("health check", "Health check")
    for kind, (actor, who) in others.items():
        assert AuditEntry(actor_kind=kind, actor=actor).who == who
    entry = AuditEntry.objects.get()
    assert "name: &lt;b&gt; → b" in admin_client.get(f"{LIST}{entry.pk}/change/").content.decode()


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


SEARCHES = {
    "": ["c", "b", "a"],
    "q=a": ["a"],
    "q=nobody": [],
    "q=c": ["c", "b"],
    "q=bob&object_type=signer": ["b"],
    "object_type=signer": ["b"],
    "actor_kind__exact=token": ["c", "b"],
    "at_from=2026-01-02&at_to=2026-01-02": ["b"],
    "at_from=2026-01-02": ["c", "b"],
}
TYPES = (
    "access token, alert route, delivery, fee token, group, incident, lane, notification, relayer, signer, "
    "transaction, user"
)


def test_the_list_is_searched_and_filtered_by_this_and_nothing_else(admin_client: Client) -> None:
    add(object_id="a")
    bob = {"actor": "bob", "actor_kind": "token"}
    add(object_id="b", object_type="signer", request_id="c", at=NOON + timedelta(days=1), **bob)
    add(object_id="c", at=NOON + timedelta(days=2), **bob)
    for query, objects in SEARCHES.items():
        assert found(admin_client, query) == objects, query
        assert [row[7] for row in export(admin_client, query)[1:]] == objects, query
    for lookup in ("changes__contains=x", "reason__startswith=x"):
        assert [admin_client.get(f"{LIST}{path}?{lookup}").status_code for path in ("", "export/")] == [400, 400]
    (types, *_) = admin_client.get(LIST).context["cl"].filter_specs
    assert ", ".join(name for name, _ in types.lookup_choices) == TYPES


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
        # As on the page of a token.
        "audit_changes_of_token": rows.exclude(action="acted").exclude(actor_key="").filter(actor_key="key-7"),
        "audit_actions_of_token": rows.filter(action="acted").exclude(actor_key="").filter(actor_key="key-8"),
    }
    AuditEntry.objects.bulk_create(
        AuditEntry(
            at=NOON + timedelta(seconds=number),
            object_type="signer" if number % 50 == 0 else "relayer",
            object_pk=str(number % 100),
            object_id=f"relayer-{number % 100}",
            actor_kind=f"kind-{number % 7}",
            actor=f"user-{number % 100}",
            actor_key=f"key-{number % 100}",
            action="changed" if number % 2 else "acted",
            request_id=f"r-{number}",
        )
        for number in range(5_000)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE relayer_service_auditentry")
    assert [name for name, query in plans.items() if name not in query[:50].explain()] == []


def test_the_csv_has_every_column_and_no_formula(admin_client: Client) -> None:
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
    formulas = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =1", "\r=1"]
    for text in formulas:
        add(object_id=text, actor=text, reason=text, changes={text: "changed"}, at=NOON + timedelta(days=1))
    rows = [[row[2], row[7], row[9], row[10]] for row in export(admin_client)[1:-1]]
    assert rows == [[f"'{text}", f"'{text}", f"'{text}: changed", f"'{text}"] for text in reversed(formulas)]


def test_a_long_csv_is_read_in_batches_and_ends(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "EXPORT_BATCH", 3)
    # Some at the same moment, across the ends of batches.
    for number in range(12):
        add(object_id=str(number), at=NOON + timedelta(seconds=number // 4))
    expected = [str(number) for number in reversed(range(12))]
    assert [row[7] for row in export(admin_client)[1:]] == expected
    monkeypatch.setattr(audit_log, "MAX_EXPORTED", 7)
    assert [row[7] for row in export(admin_client)[1:]] == expected[:7]
    # A page that is not there leads to the list.
    for _ in range(39):
        add()
    answer = admin_client.get(f"{LIST}export/?p=999")
    assert (answer.status_code, answer["Location"]) == (302, LIST)


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


def test_an_edit_of_many_objects_is_one_of_ones_last_changes(admin_client: Client) -> None:
    mine = {"actor_kind": "user", "actor": "admin", "action": "changed"}
    add(object_id="alone", object_pk="0", **mine)
    for number in range(1, 4):
        add(object_id=f"bulk-{number}", object_pk=str(number), request_id="job-7", **mine)
    add(object_id="admin", object_type="user", reason="Signed in", changes={}, **mine | {"action": "acted"})
    add(object_id="hook", object_pk="5", request_id="r", **mine | {"action": "created"})
    add(object_id="relayer", object_pk="6", request_id="r", **mine)
    add(object_id="signer", object_pk="8", request_id="q", **mine | {"action": "created"})
    add(object_id="signer", object_pk="8", request_id="q", **mine)
    for reason in ("Verified", "Checked now", "Paused", "Resumed"):
        add(object_id="several", object_pk="7", request_id="s", reason=reason, **mine | {"action": "acted"})
    (card,) = [card for card in admin_client.get("/admin/").context["cards"] if card.title == "Your last changes"]
    assert [row[0].replace('<div class="explained">', ": ").removesuffix("</div>") for row in card.rows] == [
        "several: Several changes",
        "signer: Created",
        "relayer and 1 other: Created, changed",
        "bulk-3 and 2 others: Changed",
        "alone: Changed",
    ]


def test_large_numbers_are_kept_exactly() -> None:
    entry = add(changes={"policies.min_balance": [2**128 - 1, 2**53 + 1]}, at=datetime(2026, 1, 1, tzinfo=UTC))
    entry.refresh_from_db()
    assert json.dumps(entry.changes["policies.min_balance"]) == f"[{2**128 - 1}, {2**53 + 1}]"
