"""Each cell of the tables in docs/security.md: the worst that the holder of a right can do, and what is refused."""

from importlib import import_module
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from chain.nodes.observers import node_key
from notifications.models import Attempt, Notification
from relayer_service import roles
from relayer_service.models import AuditEntry
from tests.api import Api
from tests.notifications.factories import emit_test
from tests.relayers import factories
from tests.relayers.admin_pages import open_form
from tests.relayers.config_files import OTHER_ADDRESS, OTHER_KEY
from tests.relayers.signatures.requests import PERMIT
from tests.servers import PROJECT
from tests.transactions import factories as sending
from tokens.writes import issue

pytestmark = [pytest.mark.django_db, pytest.mark.one_engine]

HOOK_PATH, HOOK_KEY, NODE_PATH, SAID = "path-of-hook", "key-of-hook", "path-of-node", "answer-of-hook"
OWN_KEY, NODE = f"{7:064x}", f"http://127.0.0.1:9/{NODE_PATH}"
TOP_UP = {"minimum": "1", "target": "2", "daily_limit": "2"}
ONE, SEND = "relayers/relayer-1", "relayers/relayer-2/transactions"
PAYMENT = {"to": sending.RECEIVER, "value": "1"}
NO_TIP = PAYMENT | {"max_fee_per_gas": 10**9, "max_priority_fee_per_gas": 0, "valid_until": "2100-01-01T00:00:00Z"}
SENT = {"try-to": sending.RECEIVER, "try-value": "1 ETH", "key": "0" * 32, "reason": "x"}
PASSWORD = {"password1": "another-long-password", "password2": "another-long-password", "usable_password": "true"}

# Requests over REST: the method, the path, the body, and for those that read, what a success shows.
REST: dict[str, tuple[Any, ...]] = {
    "list relayers": ("GET", "relayers", None, "relayer-2"),
    "read relayer": ("GET", ONE, None, "127.0.0.1"),
    "read node URL": ("GET", ONE, None, NODE_PATH),
    "pause": ("PATCH", ONE, {"paused": True}),
    "pause another": ("PATCH", "relayers/relayer-2", {"paused": True}),
    "remove policies": ("PATCH", ONE, {"policies": None}),
    "replace signer": ("PATCH", ONE, {"signer_id": "own", "spending_rules": None}),
    "replace webhook": ("PATCH", ONE, {"notification_id": None}),
    "remove top-up": ("PATCH", ONE, {"top_up": None}),
    "set tags": ("PATCH", ONE, {"tags": ["own"]}),
    "set top-up": ("PATCH", ONE, {"top_up": {"funding_relayer_id": "relayer-2", **TOP_UP}}),
    "read signer": ("GET", "signers/own", None, "local"),
    "read key": ("GET", "signers/own", None, OWN_KEY),
    "add signer": ("POST", "signers", {"type": "plain", "config": {"key": OTHER_KEY}}),
    "delete signer": ("DELETE", "signers/own"),
    "replace key": ("PATCH", "signers/own", {"config": {"key": OTHER_KEY}}),
    "read webhook": ("GET", "notifications/hook-1", None, HOOK_PATH),
    "read webhook key": ("GET", "notifications/hook-1", None, HOOK_KEY),
    "read answers": ("GET", "notifications/hook-1/deliveries/{delivery_id}", None, SAID),
    "redirect": ("PATCH", "notifications/hook-1", {"url": "https://own.example.com", "enabled": False}),
    "read payload": ("GET", SEND, None, sending.RECEIVER),
    "send": ("POST", SEND, PAYMENT),
    "send without a tip": ("POST", SEND, NO_TIP),
    "cancel": ("DELETE", SEND + "/{transaction_id}"),
    "sign": ("POST", f"{ONE}/sign-typed-data", PERMIT),
    "rotate": ("POST", "tokens/rotate"),
    "issue token": ("POST", "tokens", {"name": "own"}),
}
# In the admin. A page with stored values is sent with them.
ADMIN: dict[str, tuple[Any, ...]] = {
    "read relayer": ("GET", "relayers/relayer/{relayer}/change", None, "127.0.0.1"),
    "read node URL": ("GET", "relayers/relayer/{relayer}/change", None, NODE_PATH),
    "pause": ("POST", "relayers/relayer/{relayer}/pause", {"reason": "x"}),
    "take node out": ("POST", "relayers/relayer/nodes/{node}/take_out", {"reason": "x"}),
    "replace signer": ("POST", "relayers/relayer/{relayer}/change", {"signer": "{signer}"}),
    "read signer": ("GET", "signers/signer/{signer}/change", None, "plain"),
    "read key": ("GET", "signers/signer/{signer}/change", None, OWN_KEY),
    "replace key": ("POST", "signers/signer/{signer}/change", {"plain__key": OTHER_KEY}),
    "read webhook": ("GET", "notifications/notification/{hook}/change", None, "hooks.example.com"),
    "read webhook URL": ("GET", "notifications/notification/{hook}/change", None, HOOK_PATH),
    "read webhook key": ("GET", "notifications/notification/{hook}/change", None, HOOK_KEY),
    "replay": ("POST", "notifications/delivery/{delivery}/replay", {}),
    "redirect": ("POST", "notifications/notification/{hook}/change", {"url": "https://own.example.com"}),
    "read payload": ("GET", "transactions/transaction/{transaction}/change", None, sending.RECEIVER),
    "cancel": ("POST", "transactions/transaction/{transaction}/cancel", {"reason": "x"}),
    "release": ("POST", "transactions/lane/{lane}/release", {"reason": "x", "holds": "operator"}),
    "send": ("POST", "relayers/relayer/{rich}/send", SENT),
    "delete payment": ("POST", "transactions/transaction/{transaction}/delete", {"post": "yes"}),
    "read token": ("GET", "tokens/accesstoken/{token}/change", None, "of another"),
    "disable token": ("POST", "tokens/accesstoken/{token}/change", {"enabled": ""}),
    "issue token": (
        "POST",
        "tokens/accesstoken/add",
        {"name": "own", "user": "{me}", "scopes": "none"},
        "Token issued",
    ),
    "issue scopes": ("POST", "tokens/accesstoken/add", {"name": "x", "user": "{me}", "scopes": "sign"}, "sign mess"),
    "read log": ("GET", "relayer_service/auditentry", None, "of another"),
    "edit log": ("POST", "relayer_service/auditentry/{entry}/delete", {"post": "yes"}),
    "add Manager": ("POST", "auth/user/add", {"username": "new", "role": "Manager"} | PASSWORD),
    "set password": ("POST", "auth/user/{manager}/password", PASSWORD),
    "set password of superuser": ("POST", "auth/user/{root}/password", PASSWORD),
}
TOKENS: dict[str, dict[str, Any]] = {
    "no scopes": {},
    **{name: {"scopes": [name]} for name in ("read", "send", "sign", "rotate", "manage")},
    "manage with allowed_relayers": {"scopes": ["manage"], "allowed_relayers": ["relayer-1"]},
    "manage with spending rules": {"scopes": ["manage"], "spending_rules": {"max_value": "1"}},
    "manage and send": {"scopes": ["manage", "send"]},
}
WITHIN = "manage with allowed_relayers, manage with spending rules"
# By resource and rights: what is done, and what is refused.
RELAYERS, SIGNERS, WEBHOOKS, TRANSACTIONS = "relayers", "signers", "webhooks", "transactions and signatures"
CELLS = [
    (RELAYERS, "no scopes", "list relayers", "read relayer"),
    (RELAYERS, "read, send, Viewer", "read relayer", "read node URL, pause"),
    (RELAYERS, "sign, rotate", "", "list relayers"),
    (RELAYERS, "manage", "replace signer, remove top-up, set tags", "set top-up"),
    (RELAYERS, "manage with allowed_relayers", "pause, remove policies", "pause another, replace webhook, set tags"),
    (RELAYERS, "manage with spending rules", "replace webhook, pause another", "replace signer, set tags"),
    (RELAYERS, "manage and send", "replace signer, set top-up", "read node URL"),
    (RELAYERS, "Operator", "pause, take node out", "replace signer"),
    (RELAYERS, "Manager, Owner, superuser", "replace signer", "read node URL"),
    (SIGNERS, "no scopes", "add signer", "read signer"),
    (SIGNERS, f"read, {WITHIN}", "read signer", "read key, add signer"),
    (SIGNERS, "send, sign, rotate", "", "read signer"),
    (SIGNERS, "manage, manage and send", "add signer, delete signer", "replace key"),
    (SIGNERS, "Viewer, Operator", "read signer", "replace key"),
    (SIGNERS, "Manager, Owner, superuser", "replace key", "read key"),
    (WEBHOOKS, "no scopes", "redirect", "read webhook"),
    (WEBHOOKS, "read", "read webhook", "read webhook key, read answers, redirect"),
    (WEBHOOKS, "send, sign, rotate", "", "read webhook"),
    (WEBHOOKS, "manage, manage with spending rules, manage and send", "read answers, redirect", "read webhook key"),
    (WEBHOOKS, "manage with allowed_relayers", "read webhook, read answers", "redirect"),
    (WEBHOOKS, "Viewer", "read webhook", "read webhook URL, replay"),
    (WEBHOOKS, "Operator", "replay", "read webhook URL, redirect"),
    (WEBHOOKS, "Manager, Owner, superuser", "read webhook URL, redirect", "read webhook key"),
    (TRANSACTIONS, "no scopes, rotate", "", "read payload, send, sign"),
    (TRANSACTIONS, f"read, manage, {WITHIN}", "read payload", "send, cancel, sign"),
    (TRANSACTIONS, "send", "send, send without a tip", "cancel, sign"),
    (TRANSACTIONS, "sign", "sign", "read payload, send"),
    (TRANSACTIONS, "manage and send", "send, cancel", "sign"),
    (TRANSACTIONS, "Viewer", "read payload", "cancel"),
    (TRANSACTIONS, "Operator", "cancel, release", "send"),
    (TRANSACTIONS, "Manager, Owner", "send", "delete payment, issue scopes"),
    (TRANSACTIONS, "superuser", "send, issue scopes", "delete payment"),
    ("tokens", f"no scopes, read, send, sign, manage, {WITHIN}, manage and send", "", "rotate"),
    ("tokens", "rotate", "rotate", "issue token"),
    ("tokens", "Viewer, Operator", "read token", "disable token"),
    ("tokens", "Manager, Owner", "disable token, issue token", "issue scopes"),
    ("tokens", "superuser", "issue scopes", ""),
    ("users and audit log", "Viewer, Operator, Manager", "read log", "edit log, add Manager"),
    ("users and audit log", "Owner", "add Manager, set password", "set password of superuser"),
    ("users and audit log", "superuser", "set password of superuser", "edit log"),
]
NEVER = {"read node URL", "read key", "read webhook key"}
# The requests of tokens and of staff, and which of them nobody may send.
PROBES = {True: (REST, NEVER | {"replace key", "issue token"}), False: (ADMIN, NEVER | {"delete payment", "edit log"})}
# What the operator of a node does needs a chain: tests by resource.
OF_NODES = [
    (RELAYERS, "relayers.test_health", "a_relayer_is_disabled_when_all_nodes_fail_and_enabled_when_one_answers"),
    (RELAYERS, "transactions.test_topups", "no_more_than_the_daily_limit_is_sent"),
    (SIGNERS, "transactions.test_second_node", "an_invented_transaction_never_has_a_payload_signed_again"),
    (WEBHOOKS, "transactions.test_watching", "a_confirmed_transaction_that_leaves_the_chain_is_reported_once"),
    (TRANSACTIONS, "transactions.test_second_node", "nodes_that_contradict_each_other_hold_a_row"),
    (TRANSACTIONS, "transactions.test_wild_prices", "tips_of_one_node_rise_fourfold_in_a_minute"),
    ("tokens", "transactions.test_spending_windows", "the_payload_and_the_signed_price_have_a_minimum"),
    ("tokens", "transactions.test_second_node", "a_charge_is_released_only_if_a_second_node_has_the_no_op"),
]
TRIED = {
    (right, column): [[*filter(None, names.split(", "))] for names in probes]
    for column, rights, *probes in CELLS
    for right in rights.split(", ")
}


@pytest.fixture
def keys(settings: Any, user: User) -> dict[str, Any]:
    """The keys of a fleet with a secret wherever it can have one."""
    settings.EXTENSIONS = ["lifecycle", "signing", "transactions"]
    url = f"https://hooks.example.com/{HOOK_PATH}"
    hook = Notification.objects.create(identifier="hook-1", url=url, signing_key=HOOK_KEY)
    signer = factories.signer("own", f"0x{OWN_KEY}")
    rich = factories.relayer(identifier="relayer-2", signer=factories.signer("rich", OTHER_KEY), address=OTHER_ADDRESS)
    funding = {"funding_relayer": rich} | {f"top_up_{name}_text": value for name, value in TOP_UP.items()}
    nodes = {"rpc_urls": [{"url": NODE, "weight": 100}], "allow_signing": ["typed_data"]}
    relayer = factories.relayer(notification=hook, **nodes, **funding)
    hold = {"operator": {"since": timezone.now().isoformat(), "details": "Why."}}
    row = sending.transaction(sending.lane(rich, holds=hold, held_since=timezone.now()))
    delivery = emit_test(hook)
    Attempt.objects.create(delivery=delivery, started_at=timezone.now(), milliseconds=3, answer=SAID)
    token = issue(name="of another", user=user, scopes=["manage"])[0]
    manager, root = User.objects.create_user("manager", is_staff=True), User.objects.create_superuser("root")
    roles.assign(manager, "Manager")
    entry = AuditEntry.objects.for_row(token).get()
    rows = {"hook": hook, "signer": signer, "rich": rich, "relayer": relayer, "lane": row.lane, "transaction": row}
    rows |= {"delivery": delivery, "token": token, "entry": entry, "manager": manager, "root": root}
    texts = {"delivery_id": delivery.identifier, "transaction_id": row.identifier, "node": node_key(NODE)}
    return {name: each.pk for name, each in rows.items()} | texts


def ask(right: str, keys: dict[str, Any], method: str, path: str, body: Any = None, shows: str = "") -> Any:
    """Send a request; return its status, and whether it was done. The changes of staff must be recorded."""
    if right in TOKENS:
        token = issue(name="tests", user=User.objects.get(username="alice"), **TOKENS[right])[1]
        answer = Api(token)(method, f"/api/v1/{path.format_map(keys)}", body)
        return answer.status, answer.status < 300 and shows in answer.text.decode()
    client, path = Client(), f"/admin/{path.format_map(keys)}/"
    me, _ = User.objects.get_or_create(username=right, is_staff=True, is_superuser=right == "superuser")
    roles.assign(me, right if right in roles.ROLES else "")
    client.force_login(me)
    if method == "GET":
        page: Any = client.get(path)
        return page.status_code, page.status_code == 200 and shows in page.text
    stored = open_form(client, path) if path.endswith("/change/") else {}
    before = AuditEntry.objects.count()
    page = client.post(path, stored | {name: text.format(**keys, me=me.pk) for name, text in body.items()})
    is_done = shows in page.text if shows else page.status_code == 302
    return page.status_code, is_done and AuditEntry.objects.count() > before


@pytest.mark.parametrize(("right", "column"), TRIED)
def test_a_right_reaches_as_far_as_documented(right: str, column: str, keys: dict[str, Any]) -> None:
    (done, refused), (probes, never) = TRIED[right, column], PROBES[right in TOKENS]
    for name in refused:
        status, is_done = ask(right, keys, *probes[name])
        # A page may hide a part, and a form ignore a field.
        assert status in ({200, 403} if probes[name][3:] else {403}) or name in never, f"{name}: {status}"
        assert not is_done, name
    assert [name for name in done if not ask(right, keys, *probes[name])[1]] == []


def test_what_is_refused_is_done_by_another_or_by_nobody() -> None:
    for is_token, (probes, never) in PROBES.items():
        done = [each[0] for (right, _), each in TRIED.items() if (right in TOKENS) is is_token]
        assert {*probes}.difference(*done) == never


def documented() -> dict[tuple[str, str], str]:
    """Return the cells of the tables of rights, by right and resource."""
    found: dict[tuple[str, str], str] = {}
    header = [""]
    for line in (PROJECT / "docs/security.md").read_text().replace("`", "").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] == "right":
            header = cells
        elif line.startswith("| "):
            found |= {(cells[0], column): cell for column, cell in zip(header[1:], cells[1:], strict=True)}
    return {place: cell for place, cell in found.items() if place[1] != "bounded by"}


def test_every_documented_cell_is_tried() -> None:
    tried = {place: bool(done) for place, (done, _) in TRIED.items()}
    tried |= {("single node", column): column != SIGNERS for column, _, _ in OF_NODES}
    assert {place: cell != "nothing" for place, cell in documented().items()} == tried
    for _, module, name in OF_NODES:
        assert callable(getattr(import_module(f"tests.{module}"), f"test_{name}"))
