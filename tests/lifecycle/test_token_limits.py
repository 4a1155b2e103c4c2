"""What a token with `allowed_relayers` or spending rules manages: nothing that these limits rest on.

And what one without the scope `send` manages: nothing that lets others send coins that they could not send before.
"""

from typing import Any

import pytest
from django.contrib.auth.models import User

from relayer_service.models import Job
from relayers.health.probes import ProbeCache
from relayers.models import Relayer
from signers.models import Signer
from spending.models import SpendingPolicy
from tests.api import Answer, Api
from tests.contract import bodies
from tests.lifecycle.test_scopes import CONTRACT, OPERATIONS, RELAYER, ask
from tests.relayer_service.jobs import run_jobs
from tests.relayers import factories
from tests.relayers.config_files import OTHER_ADDRESS, OTHER_KEY, rows
from tests.transactions.factories import lane
from tokens.models import AccessToken
from tokens.writes import issue

pytestmark = pytest.mark.django_db

PATH = "/api/v1/relayers/relayer-1"
PATCH, PAUSE, RESUME = (
    ("PATCH", "/api/v1/relayers/{relayer_id}"),
    ("POST", "/api/v1/relayers/pause"),
    ("POST", "/api/v1/relayers/resume"),
)
WRITES = [each for each, (scope, _) in (OPERATIONS | CONTRACT).items() if scope == "manage"]
OF_WEBHOOKS = [each for each in WRITES if "/notifications" in each[1]]
NODES = [{"url": "https://a.example.com", "weight": 100}]
RULES = {"max_value": "1"}
REFUSED = "A token with {} cannot change this. It can set: {}"
NOT_OF_RELAYERS = REFUSED.format("`allowed_relayers`", "nothing")
NOT_FIELDS = REFUSED.format("`allowed_relayers`", "name, paused, policies, private_fallback_blocks")
NOT_WITH_RULES = REFUSED.format("spending rules", "nothing")
NOT_FIELDS_WITH_RULES = REFUSED.format("spending rules", "name, notification_id, paused")


@pytest.fixture
def fleet() -> None:
    hook = factories.notification("hook-1")
    for number in (1, 2, 3):
        factories.relayer(identifier=f"relayer-{number}", notification=hook)
    factories.signer("signer-2", key=OTHER_KEY)


@pytest.fixture
def limited(user: User, fleet: None) -> Api:
    relayers = ["relayer-1", "relayer-2", "gone"]
    return Api(issue(name="shop", user=user, scopes=["manage", "send", "sign"], allowed_relayers=relayers)[1])


@pytest.fixture
def ruled(user: User, fleet: None) -> Api:
    made, text = issue(name="shop", user=user, scopes=["manage", "send", "sign"])
    # It is in the cache when it gets its first rules.
    assert Api(text).get(PATH).status == 200
    AccessToken.objects.filter(pk=made.pk).update(spending=SpendingPolicy.objects.create(rules=RULES))
    return Api(text)


def refused(answer: Answer, message: str) -> None:
    assert (answer.status, answer.body) == (403, bodies.failure(message))
    assert answer.headers["error-code"] == "token_limited"


def paused() -> list[str]:
    return list(Relayer.objects.filter(paused=True).order_by("pk").values_list("identifier", flat=True))


# With `allowed_relayers`.


def test_with_relayers_every_other_change_is_refused(limited: Api) -> None:
    before = rows()
    for operation in WRITES:
        if operation not in (PATCH, PAUSE, RESUME):
            refused(ask(limited, operation), NOT_OF_RELAYERS)
    for end in ("", "/"):
        refused(limited.patch(f"/api/v1/relayers/relayer-3{end}", {"name": "Mine"}), "Forbidden")
    assert (rows(), Job.objects.count()) == (before, 0)


def test_with_relayers_it_changes_these(limited: Api) -> None:
    body = {"name": "Mine", "paused": True, "policies": {"min_balance": 5}, "private_fallback_blocks": 3}
    answer = limited.patch(PATH, body)
    kept = {"id": "relayer-1", "network": "sepolia", "network_type": "evm", "address": factories.ADDRESS}
    kept |= {"signer_id": "signer-1", "notification_id": "hook-1"}
    assert (answer.status, answer.body) == (200, bodies.success(kept | {"system_disabled": False} | body))


def test_with_relayers_their_accounts_nodes_and_rules_stay(limited: Api) -> None:
    before = rows()
    for name, value in {
        "signer_id": "signer-2",
        "notification_id": None,
        "custom_rpc_urls": NODES,
        "private_rpc_urls": NODES,
        "network": "mainnet",
        "chain_id": 1,
        "address": factories.ADDRESS,
        "allow_signing": ["messages"],
        "spending_rules": None,
        "top_up": None,
        "of_a_later_release": 1,
    }.items():
        refused(limited.patch(PATH, {"name": "Mine", name: value}), NOT_FIELDS)
    assert rows() == before


def test_with_relayers_a_job_pauses_and_resumes_these_alone(limited: Api) -> None:
    Relayer.objects.filter(identifier="relayer-3").update(paused=True)
    assert limited.post("/api/v1/relayers/resume", {"filter": {}}).body["data"]["total"] == 2
    assert limited.post("/api/v1/relayers/pause", {"filter": {}}).body["data"]["total"] == 2
    run_jobs()
    assert paused() == ["relayer-1", "relayer-2", "relayer-3"]
    assert limited.post("/api/v1/relayers/resume", {"filter": {}}).status == 201
    run_jobs()
    assert paused() == ["relayer-3"]
    answer = limited.post("/api/v1/relayers/resume", {"filter": {"state": "paused"}})
    assert answer.body["data"]["total"] == 0


def test_relayers_limit_neither_reading_nor_rotation_nor_the_contracts_operations(user: User, fleet: None) -> None:
    limits = {"scopes": ["manage", "rotate"], "allowed_relayers": ["relayer-1"]}
    api = Api(issue(name="shop", user=user, **limits)[1])
    paths = ["relayers", "relayers/relayer-3", "signers", "notifications/hook-1", "networks", "fee-tokens"]
    assert [api.get(f"/api/v1/{path}").status for path in paths] == [200] * len(paths)
    assert api.post("/api/v1/tokens/rotate").status == 201
    api = Api(issue(name="contract", user=user, allowed_relayers=["relayer-1"])[1])
    answers = [ask(api, operation).status for operation in CONTRACT]
    assert answers == [200, 201, 200, 200, 200]
    assert Signer.objects.count() == 3


# With spending rules.


def test_with_rules_every_other_change_but_of_webhooks_is_refused(ruled: Api) -> None:
    before = rows()
    for operation in WRITES:
        if operation not in (PATCH, PAUSE, RESUME, *OF_WEBHOOKS):
            refused(ask(ruled, operation), NOT_WITH_RULES)
    assert rows() == before
    assert {ask(ruled, operation).status for operation in OF_WEBHOOKS}.isdisjoint({401, 403})


def test_with_rules_it_names_and_pauses_relayers(ruled: Api) -> None:
    answer = ruled.patch(PATH, {"name": "Mine", "paused": True, "notification_id": None})
    assert (answer.status, answer.body["data"]["name"], paused()) == (200, "Mine", ["relayer-1"])
    assert ruled.post("/api/v1/relayers/resume", {"filter": {}}).body["data"]["total"] == 3
    # Rules that were removed limit nothing.
    SpendingPolicy.objects.update(rules={})
    assert ruled.patch(PATH, {"policies": {"min_balance": 5}}).status == 200
    assert ruled.post("/api/v1/relayers", RELAYER).status == 201


def test_with_rules_what_they_rest_on_stays(ruled: Api) -> None:
    before = rows()
    for name, value in {
        "signer_id": "signer-2",
        "custom_rpc_urls": NODES,
        "private_rpc_urls": NODES,
        "private_fallback_blocks": 1,
        "network": "mainnet",
        "policies": {"whitelist_receivers": None},
        "allow_signing": ["messages"],
        "spending_rules": None,
        "top_up": None,
    }.items():
        refused(ruled.patch(PATH, {"name": "Mine", name: value}), NOT_FIELDS_WITH_RULES)
    assert rows() == before


def test_with_both_the_fields_of_both_are_left_and_with_unknown_rules_none(
    user: User, fleet: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {"allowed_relayers": ["relayer-1"], "spending_rules": RULES}
    api = Api(issue(name="both", user=user, scopes=["manage"], **limits)[1])
    refused(api.patch(PATH, {"policies": {}}), NOT_FIELDS_WITH_RULES)
    refused(api.patch(PATH, {"notification_id": None}), NOT_FIELDS)
    assert api.patch(PATH, {"name": "Mine"}).status == 200
    # The token was deleted and its policy pruned, while a process still had it in its cache.
    monkeypatch.setattr(AccessToken, "read_spending_id", lambda self: 2**31)
    assert api.patch(PATH, {"policies": {"min_balance": 5}}).status == 403


# Without `send`.


@pytest.fixture
def treasury() -> Relayer:
    """A relayer whose coins a token for the relayer `small` must not reach."""
    factories.relayer(identifier="small")
    signer = factories.signer("treasury", key=OTHER_KEY)
    factories.signer("copy", key=OTHER_KEY)
    factories.signer("fresh", key="0x" + "11" * 32)
    return factories.relayer(identifier="treasury", network="hoodi", signer=signer, address=OTHER_ADDRESS)


def assign(user: User, signer: str, *scopes: str) -> list[tuple[int, str | None]]:
    """Assign a signer to an existing relayer and to a new one; return the statuses and the needed scopes."""
    token = Api(issue(name="terraform", user=user, scopes=list(scopes))[1])
    answers = [
        token.patch("/api/v1/relayers/small", {"signer_id": signer}),
        token.post("/api/v1/relayers", RELAYER | {"id": "small-2", "network": "mainnet", "signer_id": signer}),
    ]
    return [(answer.status, answer.headers.get("www-authenticate")) for answer in answers]


def needs(scope: str) -> list[tuple[int, str | None]]:
    return [(403, f'Bearer error="insufficient_scope", scope="{scope}"')] * 2


@pytest.mark.parametrize("signer", ["treasury", "copy"])
def test_without_send_no_relayer_gets_the_key_of_another(
    user: User, settings: Any, treasury: Relayer, signer: str
) -> None:
    settings.EXTENSIONS = ["lifecycle", "transactions"]
    assert assign(user, signer, "manage") == needs("send")
    assert set(Relayer.objects.values_list("identifier", "signer__identifier")) == {
        ("small", "signer-1"),
        ("treasury", "treasury"),
    }
    assert assign(user, signer, "manage", "send") == [(200, None), (201, None)]


def test_without_send_a_key_that_is_released_cannot_be_taken(user: User, settings: Any, treasury: Relayer) -> None:
    settings.EXTENSIONS = ["lifecycle", "transactions"]
    lane(treasury)
    manager = Api(issue(name="terraform", user=user, scopes=["manage"])[1])
    assert manager.patch("/api/v1/relayers/treasury", {"signer_id": "fresh"}).status == 200
    assert assign(user, "treasury", "manage") == needs("send")
    assert manager("DELETE", "/api/v1/relayers/treasury").status == 200
    assert assign(user, "treasury", "manage") == needs("send")


def test_without_send_a_fresh_key_can_be_assigned(user: User, settings: Any, treasury: Relayer) -> None:
    settings.EXTENSIONS = ["lifecycle", "transactions"]
    # The second would share it with the first.
    assert assign(user, "fresh", "manage") == [(200, None), needs("send")[1]]


@pytest.mark.parametrize("name", ["custom_rpc_urls", "private_rpc_urls"])
def test_without_send_no_relayer_gets_other_nodes(
    user: User, settings: Any, treasury: Relayer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes that lie would have it pay again, or release what counts on limits."""
    settings.EXTENSIONS = ["lifecycle", "transactions"]
    monkeypatch.setattr(ProbeCache, "chain_ids", lambda self, urls: [11155111] * len(urls))
    manager, sender = (Api(issue(name="t", user=user, scopes=each)[1]) for each in (["manage"], ["manage", "send"]))
    answers = [each.patch("/api/v1/relayers/small", {name: NODES}) for each in (manager, sender)]
    assert [(answer.status, answer.headers.get("www-authenticate")) for answer in answers] == [
        needs("send")[0],
        (200, None),
    ]


def test_without_send_the_account_that_funds_others_stays(user: User, settings: Any, treasury: Relayer) -> None:
    settings.EXTENSIONS = ["lifecycle", "transactions"]
    small = Relayer.objects.get(identifier="small")
    amounts = dict.fromkeys(["top_up_minimum_text", "top_up_target_text", "top_up_daily_limit_text"], "1")
    factories.relayer(identifier="poor", signer=treasury.signer, address="", funding_relayer=small, **amounts)
    assert assign(user, "fresh", "manage")[0] == needs("send")[0]
    assert assign(user, "fresh", "manage", "send")[0] == (200, None)


def test_where_nobody_sends_the_key_of_another_needs_the_scope_sign(
    user: User, settings: Any, treasury: Relayer
) -> None:
    settings.EXTENSIONS = ["lifecycle", "signing"]
    assert assign(user, "treasury", "manage") == needs("sign")
    settings.EXTENSIONS = ["lifecycle"]
    assert assign(user, "treasury", "manage") == [(200, None), (201, None)]
