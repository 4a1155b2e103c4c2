"""Every role against every URL and every action of the admin, with forged posts."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.cookies import SimpleCookie
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.contrib.messages import get_messages
from django.db import connection, transaction
from django.template.backends.django import Template
from django.test import Client
from django.urls import get_resolver, reverse
from django.utils import timezone

from chain.nodes.observers import node_key
from notifications.models import Attempt, Delivery
from relayer_service import roles
from relayer_service.audit.actors import ActorKind, acting_as
from relayer_service.audit.recording import changed, record
from relayer_service.console.site import ConsoleSite
from relayer_service.jobs import running
from relayer_service.models import AuditEntry, Job, PeriodicRun
from relayer_service.roles import ROLES
from relayer_service.sign_in import codes
from relayer_service.sign_in.models import enable
from relayer_service.storage.selections import Selection
from rpc.models import FeeToken, PriceSource
from tests.incidents import factories as alerts
from tests.notifications.factories import emit_test
from tests.relayer_service.admin import role_matrix
from tests.relayer_service.admin.role_matrix import (
    ANONYMOUS,
    LEVELS,
    NOBODY,
    NODES,
    NOT_OPENED,
    OPERATOR,
    SUPERUSER,
    USER,
)
from tests.relayers import factories
from tests.transactions import factories as sending
from tokens.writes import issue

# Nothing here depends on the database behind it.
pytestmark = [pytest.mark.django_db, pytest.mark.one_engine]

SECRET = "s3cr3t"
NODE_URL = f"http://127.0.0.1:9/{SECRET}"
PLACE = "tests/relayer_service/admin/role_matrix.py"
MODULE = "tests.relayer_service.admin.role_matrix"
# What an action may need besides the rows, for it to change them if it runs at all.
FORGED = {"reason": "Forged", "holds": "operator", "nonce": "1", "post": "yes", "overlap_hours": "0", "found": "1"}
# Parameters in the path, and the query, of URLs that are not a page of one object.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "app_list": {"app_label": "relayers"},
    "getting_started_step": {"name": "signer"},
    **{f"{NODES}_{view}": {"key": node_key(NODE_URL)} for view in ("check", "take_out", "put_back")},
    NODES: {},
}
QUERIES = {
    "autocomplete": {"app_label": "relayers", "model_name": "relayer", "field_name": "signer"},
    "search": {"s": "relayer"},
}


@pytest.fixture
def keys(settings: Any) -> dict[str, Any]:
    """The keys of an object of each kind, with secrets wherever one can have them."""
    settings.EXTENSIONS = ["transactions"]
    hook = factories.notification(url=f"https://hooks.example.com/{SECRET}")
    hook.signing_key = f"whsec_{SECRET}"
    hook.save()
    node = {"url": NODE_URL, "weight": 100}
    relayer = factories.relayer(notification=hook, rpc_urls=[node])
    holds = {"operator": {"since": timezone.now().isoformat(), "details": "Why."}}
    lane = sending.lane(relayer, holds=holds, held_since=timezone.now(), chain_nonce=1, next_nonce=3)
    row = sending.transaction(lane, nonce=1, status="submitted", sent_at=timezone.now())
    sending.attempt(row, gas_price_text="1000000000", last_broadcast_at=timezone.now())
    fee_token = FeeToken.objects.create(network="sepolia", symbol="USDC", address=factories.ADDRESS)
    PriceSource.objects.create(token=fee_token, kind="fixed", rate_text="1", max_age_seconds=60)
    delivery = emit_test(hook)
    Attempt.objects.create(
        delivery=delivery, started_at=timezone.now(), milliseconds=3, response_code=500, answer=f"No path /{SECRET}"
    )
    PeriodicRun.objects.create(name="heartbeat", slot=1, started_at=timezone.now(), finished_at=timezone.now())
    other = User.objects.create_user("other")
    enable(other, codes.new_key(), 0)
    token = issue(name="Wallet", user=other)[0]
    edit = running.start("edit_relayers", Selection.from_keys([relayer.pk]), "olga", parameters={"tags": None})
    Job.objects.filter(pk=edit.pk).update(finished_at=timezone.now())
    with acting_as(ActorKind.USER, "olga", request_id=f"job-{edit.pk}"):
        record([changed(relayer, {"reserve": None}, {"reserve": "5"})])
    return {
        "relayers_relayer": relayer.pk,
        "transactions_lane": lane.pk,
        "transactions_transaction": row.pk,
        "rpc_feetoken": fee_token.pk,
        "signers_signer": relayer.signer.pk,
        "notifications_notification": hook.pk,
        "notifications_delivery": delivery.pk,
        "tokens_accesstoken": token.pk,
        "auth_user": other.pk,
        "auth_group": Group.objects.create(name="On call").pk,
        "relayer_service_auditentry": AuditEntry.objects.for_row(relayer).get().pk,
        "relayer_service_periodicrun": "heartbeat",
        "incidents_incident": alerts.incident(relayer).pk,
        "incidents_alertroute": alerts.route(url=f"https://hooks.example.com/{SECRET}", secret=SECRET).pk,
        "relayer_service_job": running.start("check_relayers", Selection.from_keys([relayer.pk]), "olga").pk,
        "relayer_service_job_undo": edit.pk,
    }


def client_of(level: str) -> Client:
    client = Client()
    if level == ANONYMOUS:
        return client
    user = User.objects.create_user(
        f"the-{level}", is_staff=level not in {ANONYMOUS, USER}, is_superuser=level == SUPERUSER
    )
    if level in ROLES:
        roles.assign(user, level)
    client.force_login(user)
    return client


@contextmanager
def undone() -> Iterator[list[str]]:
    """Yield a list of the statements that write, except to sessions; and undo them."""
    written: list[str] = []

    def note(execute: Any, sql: str, *rest: Any) -> Any:
        if sql.startswith(("INSERT", "UPDATE", "DELETE")) and "django_session" not in sql:
            written.append(sql)
        return execute(sql, *rest)

    with transaction.atomic():
        with connection.execute_wrapper(note):
            yield written
        transaction.set_rollback(True)


def admin_urls() -> Iterator[tuple[str | None, str]]:
    """Yield the full name and the route of each URL below `admin/`, within the admin site or beside it."""
    patterns: list[Any] = get_resolver().url_patterns
    for each in patterns:
        if getattr(each, "namespace", "") == "admin":
            yield from site_urls(each.url_patterns)
        elif str(each.pattern).startswith("admin/"):
            yield each.name, str(each.pattern)


def site_urls(patterns: Any, prefix: str = "") -> Iterator[tuple[str | None, str]]:
    for each in patterns:
        if hasattr(each, "url_patterns"):
            yield from site_urls(each.url_patterns, prefix + str(each.pattern))
        else:
            yield each.name, prefix + str(each.pattern)


@cache
def routes() -> dict[str | None, str]:
    return dict(admin_urls())


def declared() -> set[str]:
    """Return the keys of all URLs and actions that there are."""
    names = {name for name, _ in admin_urls() if name} - NOT_OPENED.keys()
    registry: dict[Any, Any] = admin.site._registry
    actions = {
        f"{model._meta.app_label}_{model._meta.model_name}_changelist:{name}"
        for model, model_admin in registry.items()
        for _, name, _ in model_admin._get_base_actions()
    }
    return {f"{method} {name}" for name in names for method in ("GET", "POST")} | actions


def address(name: str, keys: dict[str, Any]) -> str:
    route = routes()[name]
    arguments = ARGUMENTS.get(name)
    if arguments is None:
        key = keys.get(name) or next((key for model, key in keys.items() if name.startswith(f"{model}_")), None)
        arguments = dict.fromkeys(re.findall(r"<(?:\w+:)?(\w+)>", route), key)
    full_name = name if route.startswith("admin/") else f"admin:{name}"
    return reverse(full_name, kwargs=arguments, query=QUERIES.get(name))


def is_allowed(response: Any) -> bool | None:
    """Return whether a view ran, or None for a method that it does not have."""
    if response.status_code == 405:
        return None
    assert response.status_code < 500
    to_login = response.status_code == 302 and response["Location"].startswith("/admin/login/")
    return response.status_code not in {403, 404} and not to_login


def send(client: Client, key: str, keys: dict[str, Any], forged: dict[str, Any]) -> bool | None:
    """Return whether a user may open a page, post to it, or run an action of a list."""
    if ":" not in key:
        method, name = key.split(" ")
        call = client.get if method == "GET" else client.post
        return is_allowed(call(address(name, keys), None if method == "GET" else forged))
    name, action = key.split(":")
    row = keys[name.removesuffix("_changelist")]
    sent = forged | {"action": action, "_selected_action": row}
    response: Any = client.post(address(name, keys), sent)
    # An action that is not offered leaves the list as it is, or says that none was selected.
    ran = "cl" not in (getattr(response, "context_data", None) or {})
    texts = [str(each) for each in get_messages(response.wsgi_request)]
    return bool(is_allowed(response)) and ran and "No action selected." not in texts


def test_every_url_and_action_of_the_admin_is_in_the_table() -> None:
    known = set(role_matrix.expected())
    missing, gone = sorted(declared() - known), sorted(known - declared())
    assert (missing, gone) == ([], []), f"Add a line to ROWS in {PLACE}, or remove one."
    nameless = {route.rpartition("/<")[2] for name, route in admin_urls() if not name}
    # The last one replaces the search of the theme, which has the same path.
    assert nameless == {"path:object_id>/", "(?P<url>.*)$", "admin/search/"}


@pytest.mark.parametrize("level", [each for each in LEVELS if each != NOBODY])
def test_a_role_does_what_the_table_says_and_forged_posts_change_nothing(
    level: str, keys: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # What a page shows, and the menu beside it, is tested elsewhere, and takes most of the time.
    monkeypatch.setattr(Template, "render", lambda *args, **kwargs: "")
    monkeypatch.setattr(ConsoleSite, "each_context", lambda *args: {})
    client = client_of(level)
    session = SimpleCookie(client.cookies.output(header=""))
    wrong = []
    for key, least in role_matrix.expected().items():
        allowed = LEVELS.index(level) >= LEVELS.index(least)
        # Those who are refused try the confirmed action at once.
        forged = {} if allowed else FORGED | {"confirmed": str(keys.get(key.partition("_changelist")[0], 1))}
        client.cookies = SimpleCookie(session.output(header=""))
        with undone() as written:
            found = send(client, key, keys, forged)
        if found is not None and found is not allowed:
            wrong.append(f"{key}: {level} {'is refused' if allowed else 'is not refused'}")
        if not allowed and written:
            wrong.append(f"{key}: {level} wrote {written}")
    assert wrong == []


def test_no_page_or_action_shows_an_operator_a_secret(keys: dict[str, Any]) -> None:
    operator, manager = client_of(OPERATOR), client_of("Manager")
    shown = []
    for key, least in role_matrix.expected().items():
        if LEVELS.index(least) > LEVELS.index(OPERATOR) or not key.startswith("GET "):
            continue
        with undone():
            response: Any = operator.get(address(key.split(" ")[1], keys))
        body = b"".join(response) if response.streaming else response.content
        if SECRET.encode() in body:
            shown.append(key)
    for key in ("notifications_delivery_changelist:replay_selected", "POST notifications_delivery_replay"):
        with undone():
            name, _, action = key.removeprefix("POST ").partition(":")
            sent = {"action": action, "_selected_action": keys["notifications_delivery"]} if action else {}
            if SECRET.encode() in operator.post(address(name, keys), sent).content:
                shown.append(key)
    assert shown == []
    # Who may change a webhook sees it: the secrets are there.
    assert SECRET in manager.get(address("notifications_delivery_change", keys)).content.decode()
    assert Delivery.objects.count() == 1


def test_the_matrix_in_the_docs_is_the_one_that_is_tested() -> None:
    assert role_matrix.document() == role_matrix.DOCUMENT.read_text(), f"Run `python -m {MODULE} --write`."
