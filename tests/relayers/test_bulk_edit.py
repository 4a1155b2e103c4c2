"""Settings of many relayers are changed: with a preview, by a job, one by one recorded, and undone."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from notifications.models import Notification
from relayer_service.jobs import running
from relayer_service.models import AuditEntry, Job
from relayer_service.storage.selections import Selection
from relayers.jobs import bulk_edits
from relayers.models import Relayer
from relayers.models.tags import save_tags
from spending.writes import stored_rules
from tests.notifications.admin_pages import asked, hidden_fields, staff_who_may, told
from tests.relayer_service.jobs import run_jobs
from tests.relayers import admin_pages, factories
from tests.relayers.config_files import OTHER_ADDRESS, OTHER_KEY
from tests.relayers.stand_in_node import StandInNode

pytestmark = pytest.mark.django_db

LIST = "/admin/relayers/relayer/"
ETHER, GWEI = 10**18, 10**9
A, B, C = "0x" + "11" * 20, "0x" + "22" * 20, "0x" + "33" * 20


@pytest.fixture(autouse=True)
def extensions(settings: Any) -> None:
    settings.EXTENSIONS = ["lifecycle", "transactions", "signing"]


def select(*relayers: Relayer) -> dict[str, Any]:
    return {"action": "edit_selected", "_selected_action": [relayer.pk for relayer in relayers]}


def preview(client: Client, *relayers: Relayer, reason: str = "New provider", **answers: Any) -> Any:
    form = client.post(LIST, select(*relayers))
    return client.post(LIST, {**hidden_fields(form), "reason": reason, **answers})


def apply(client: Client, page: Any) -> Any:
    return client.post(LIST, hidden_fields(page), follow=True)


def edit(client: Client, *relayers: Relayer, **answers: Any) -> Job:
    """Edit relayers by a job that has run."""
    apply(client, preview(client, *relayers, **answers))
    run_jobs()
    job = Job.objects.get(pk=Job.objects.latest("pk").pk)
    assert (job.kind, job.state) == ("edit_relayers", "finished")
    return job


def undo(client: Client, page: str, reason: str = "A mistake") -> Job:
    response = client.post(f"{page}undo/", {"reason": reason})
    run_jobs()
    job = Job.objects.latest("pk")
    # Where its progress is.
    assert response["Location"] == f"{page_of(job)}change/"
    assert (job.kind, job.state) == ("undo_relayer_edit", "finished")
    return job


def page_of(job: Job) -> str:
    return f"/admin/relayer_service/job/{job.pk}/"


def entries() -> list[tuple[Any, ...]]:
    return sorted(AuditEntry.objects.values_list("object_id", "actor", "reason", "request_id"))


def settings_of(relayer: Relayer) -> dict[str, Any]:
    row = Relayer.objects.get(pk=relayer.pk)
    return {name: value for name, value in row.audited().items() if value and name != "custom_rpc_urls"}


def test_many_are_changed_after_a_preview_and_recorded(admin_client: Client, node: StandInNode) -> None:
    hook = factories.notification("ops")
    limits: dict[str, Any] = {"min_balance": 5, "gas_price_cap": 7}
    one = factories.relayer(identifier="one", network="hardhat", policies=limits)
    two = factories.relayer(identifier="two", network="hardhat", notification=factories.notification("old"))
    factories.relayer(identifier="not chosen", network="hardhat")
    page = preview(
        admin_client,
        *(one, two),
        nodes_change="set",
        nodes=f"{node.url}\n\n",
        webhook_change="set",
        webhook=hook.pk,
        minimum_change="set",
        minimum="0.5 ETH",
    )
    masked = node.url.replace("v1/s3cret", "***")
    assert page.context["texts"] == ["Changes 2 relayers.", "Reason: New provider"]
    assert page.context["table"].headers == ["Relayers", "Changes"]
    nodes = f'Nodes: nothing → [{{"url": "{masked}", "weight": 100}}]'.replace('"', "&quot;")
    assert asked(page) == [
        ["one", f"{nodes}Webhook: nothing → opsMinimum balance: 5 wei → 0.5 ETH"],
        ["two", f"{nodes}Webhook: old → opsMinimum balance: nothing → 0.5 ETH"],
    ]
    assert not Job.objects.exists()
    done = apply(admin_client, page)
    assert told(done) == ["Started in the worker: Edit 2 relayers. View its progress."]
    job = Job.objects.get()
    assert node.url not in Job.objects.extra(select={"raw": "parameters"}).values_list("raw", flat=True)[0]
    run_jobs()
    job.refresh_from_db()
    assert (job.state, job.done, job.failed, job.skipped, job.parameters) == ("finished", 2, 0, 0, None)
    for relayer, policies in ((one, {**limits, "min_balance": ETHER // 2}), (two, {"min_balance": ETHER // 2})):
        relayer.refresh_from_db()
        assert relayer.custom_rpc_urls == [{"url": node.url, "weight": 100}]
        assert (relayer.notification, relayer.policies) == (hook, policies)
    assert entries() == [(name, "admin", "New provider", f"job-{job.pk}") for name in ("one", "two")]
    # What was asked of the node once is not asked for each.
    assert node.asked.count("eth_chainId") <= 3
    # A worker that is killed after a batch runs it again: nothing changes, and nothing is recorded.
    running.start(
        *("edit_relayers", Selection.from_keys([one.pk, two.pk]), "admin"), parameters={"min_balance": "0.5 ETH"}
    )
    run_jobs()
    assert Job.objects.values_list("done", "skipped", "failed").first() == (0, 2, 0)
    assert len(entries()) == 2


CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "gas cap": ({"gas_price_cap_change": "set", "gas_price_cap": "30 gwei"}, {"policies.gas_price_cap": 30 * GWEI}),
    "EIP-1559": ({"eip1559_change": "yes"}, {"policies.eip1559_pricing": True}),
    "reserve": ({"reserve_change": "set", "reserve": "2 ETH"}, {"reserve": str(2 * ETHER)}),
    "whitelist": (
        {"whitelist_change": "set", "whitelist": f"{A}\n{B}"},
        {"policies.whitelist_receivers": [A, B]},
    ),
    "rules": (
        {
            "rules_change": "set",
            "spending-shown": "{}",
            "spending-max_value": "1 coin",
            **{
                f"spending_{name}-{key}_FORMS": "0" for name in ("receivers", "tokens") for key in ("TOTAL", "INITIAL")
            },
        },
        {"spending_rules.max_value": str(ETHER)},
    ),
    "top-up": (
        {
            "top_up_change": "set",
            "top_up": "rich",
            **dict(
                zip(("top_up_minimum", "top_up_target", "top_up_daily_limit"), ("1 ETH", "2 ETH", "3"), strict=True)
            ),
        }
        | {"top_up_daily_limit": "3 ETH"},
        {
            "top_up.funding_relayer_id": "rich",
            "top_up.minimum": str(ETHER),
            "top_up.target": str(2 * ETHER),
            "top_up.daily_limit": str(3 * ETHER),
        },
    ),
    "signing": ({"signing_change": "set", "signing": ["messages"]}, {"allow_signing": ["messages"]}),
    "webhook": ({"webhook_change": "set", "webhook": "hook-1"}, {"notification_id": "hook-1"}),
    "tags": ({"tags_change": "set", "tags": "prod eu"}, {"tags": ["eu", "prod"]}),
}


@pytest.mark.both_engines
@pytest.mark.parametrize("name", CHANGES)
def test_each_setting_is_changed_removed_and_undone(admin_client: Client, name: str) -> None:
    typed, expected = CHANGES[name]
    rich = factories.relayer(identifier="rich", signer=factories.signer("rich", OTHER_KEY), address=OTHER_ADDRESS)
    keys = {"rich": rich.pk, "hook-1": factories.notification().pk}
    typed = {field: keys.get(value, value) if isinstance(value, str) else value for field, value in typed.items()}
    relayers = [factories.relayer(identifier=identifier) for identifier in ("one", "two")]
    before = [settings_of(each) for each in relayers]
    done = edit(admin_client, *relayers, **typed)
    after = [{**each, **expected} for each in before]
    assert (done.done, [settings_of(each) for each in relayers]) == (2, after)
    change = next(each for each in typed if each.endswith("_change"))
    removed = edit(admin_client, *relayers, **{change: "clear"})
    assert (removed.done, [settings_of(each) for each in relayers]) == (2, before)
    # The newer edit first: what the older one wrote is no longer there.
    first = undo(admin_client, page_of(done))
    assert (first.done, first.failed, [settings_of(each) for each in relayers]) == (0, 2, before)
    assert first.failures[0] == ["one", f"changed since: {', '.join(sorted(expected))}"]
    assert (undo(admin_client, page_of(removed)).done, [settings_of(each) for each in relayers]) == (2, after)
    assert (undo(admin_client, page_of(done)).done, [settings_of(each) for each in relayers]) == (2, before)
    newest = AuditEntry.objects.latest("id")
    assert (newest.reason, newest.actor) == (f"Undoes job {done.pk}: A mistake", "admin")


def test_lists_are_added_to_and_removed_from(admin_client: Client) -> None:
    listed = factories.relayer(identifier="listed", policies={"whitelist_receivers": [A.upper().replace("X", "x"), B]})
    unlisted = factories.relayer(identifier="unlisted")
    save_tags({listed.pk: ["a", "b"]})

    def found() -> list[Any]:
        rows = Relayer.objects.order_by("pk")
        return [(row.policies.get("whitelist_receivers"), row.tags) for row in rows]

    upper = A.upper().replace("X", "x")
    edit(admin_client, listed, unlisted, whitelist_change="add", whitelist=f"{A} {C}", tags_change="add", tags="b c")
    assert found() == [([upper, B, C], ["a", "b", "c"]), ([A, C], ["b", "c"])]
    edit(admin_client, listed, whitelist_change="remove", whitelist=A, tags_change="remove", tags="a x")
    assert found()[0] == ([B, C], ["b", "c"])
    # A whitelist without entries refuses all: it is not removed.
    edit(admin_client, unlisted, whitelist_change="remove", whitelist=f"{A}\n{C}\n{B}")
    assert found()[1] == ([], ["b", "c"])
    cleared = edit(admin_client, unlisted, whitelist_change="clear")
    assert found()[1] == (None, ["b", "c"])
    undo(admin_client, page_of(cleared))
    assert found()[1] == ([], ["b", "c"])
    edit(admin_client, unlisted, whitelist_change="clear")
    page = preview(admin_client, unlisted, whitelist_change="remove", whitelist=A)
    assert (asked(page), found()[1]) == ([["unlisted", "Unchanged"]], (None, ["b", "c"]))
    many = " ".join(f"t{number}" for number in range(15))
    page = preview(admin_client, listed, tags_change="add", tags=many)
    assert asked(page) == [["listed", "Refused: at most 16 tags are allowed"]]


def test_a_preview_groups_what_is_equal(admin_client: Client) -> None:
    cap = {"gas_price_cap": 30 * GWEI}
    low = [factories.relayer(identifier=f"low-{number}", policies={"gas_price_cap": GWEI}) for number in range(5)]
    same = factories.relayer(identifier="same", policies=cap)
    other = factories.relayer(identifier="other", network="polygon", policies={"gas_price_cap": GWEI})
    answers = {"gas_price_cap_change": "set", "gas_price_cap": "30 gwei", "reserve_change": "set", "reserve": "1 ETH"}
    page = preview(admin_client, *low, same, other, **answers)
    fault = "must be a whole number of wei, or an amount with its unit, for example 0.5 POL or 30 gwei"
    reserve = "Reserve: nothing → 1 ETH"
    assert asked(page) == [
        ["other", f"Refused: reserve: {fault}"],
        ["low-0, low-1, low-2 and 2 more", f"Gas price cap: 1 gwei → 30 gwei{reserve}"],
        ["same", reserve],
    ]
    texts = page.context["texts"]
    assert texts[:2] == ["Changes 6 relayers.", "Refused: 1 relayer."]
    assert "stops sending" in texts[2]
    page = preview(admin_client, *low, same, other, gas_price_cap_change="set", gas_price_cap="30 gwei")
    assert page.context["texts"][:2] == ["Changes 6 relayers.", "Unchanged: 1 relayer."]
    # Also those of several networks.
    assert [cells[0] for cells in asked(page)] == ["low-0, low-1, low-2 and 3 more", "same"]


def test_a_preview_of_rules_has_the_labels_of_the_form(admin_client: Client) -> None:
    relayer = factories.relayer(identifier="one")
    page = preview(admin_client, relayer, **CHANGES["rules"][0])
    assert asked(page) == [["one", "Maximum value of a transaction: nothing → 1 ETH"]]
    label = "“Maximum cost of gas within 24 hours”"
    assert f"Note: 1 relayer: without {label}, the cost of gas is not limited." in page.context["texts"]


def test_what_a_rule_refuses_is_named_before_and_reported_after(admin_client: Client, node: StandInNode) -> None:
    fitting = factories.relayer(identifier="fitting", network="hardhat")
    others = [factories.relayer(identifier=name, network="polygon") for name in ("other-1", "other-2")]
    page = preview(admin_client, fitting, *others, nodes_change="set", nodes=node.url)
    fault = "this node is on chain 31337, not on 137"
    assert asked(page)[0] == ["other-1, other-2", f"Refused: {fault}"]
    apply(admin_client, page)
    run_jobs()
    job = Job.objects.get()
    assert (job.done, job.failed, job.failures) == (1, 2, [["other-1", fault], ["other-2", fault]])
    assert [name for name, *_ in entries()] == ["fitting"]
    # Nothing is offered where all are refused.
    assert "apply" not in hidden_fields(preview(admin_client, *others, nodes_change="set", nodes=node.url))
    # The entries do not have the former nodes.
    skipped = undo(admin_client, page_of(job))
    reason = "the audit log does not have the former value of: custom_rpc_urls"
    assert (skipped.done, skipped.failures) == (0, [["fitting", reason]])


def test_a_form_that_is_not_complete_is_shown_again(admin_client: Client) -> None:
    relayer = factories.relayer()
    secret = "https://node.example.com/s3cret"
    mail = factories.notification("mail")
    Notification.objects.filter(pk=mail.pk).update(type="email")
    unknown = "Select a valid choice. That choice is not one of the available choices."
    required = ["This field is required."]
    cases: list[tuple[dict[str, Any], dict[str, list[str]]]] = [
        ({}, {"__all__": ["Choose at least one change."]}),
        ({"reason": "", "minimum_change": "clear"}, {"reason": required}),
        ({"nodes": secret}, {"nodes_change": ["Choose what to do with the value below, or empty it."]}),
        ({"nodes_change": "set"}, {"nodes": required}),
        ({"rules_change": "set"}, {"rules": required}),
        ({"whitelist_change": "add", "whitelist": "0x1"}, {"whitelist": ["0x1: must be an EVM address: 0x and 40"]}),
        ({"tags_change": "set", "tags": "Prod"}, {"tags": ["a tag has at most 32 of the characters"]}),
        (
            {"top_up_change": "set", "top_up": relayer.pk, "top_up_target": "1"},
            {"top_up_minimum": required, "top_up_daily_limit": required},
        ),
        (
            {"nodes_change": "set", "nodes": f"{secret}\nftp://s3cret", "webhook_change": "set", "webhook": mail.pk},
            {"nodes": ["Line 2: an absolute http or https URL is required"], "webhook": [unknown]},
        ),
    ]
    for answers, errors in cases:
        found = preview(admin_client, relayer, **answers).context["form"].errors
        assert found.keys() == errors.keys()
        assert all(found[name][0].startswith(texts[0]) for name, texts in errors.items())
    assert not Job.objects.exists()


def test_a_form_and_its_preview_cost_as_many_queries_for_many(admin_client: Client) -> None:
    rich = factories.relayer(identifier="rich", signer=factories.signer("rich", OTHER_KEY), address=OTHER_ADDRESS)
    admin_client.get(LIST)
    costs = []
    for count in (1, 30):
        relayers = [
            factories.relayer(
                identifier=f"{count}-{number}", notification=factories.notification(f"hook-{count}-{number}")
            )
            for number in range(count)
        ]
        save_tags({each.pk: ["a"] for each in relayers})
        answers = {"webhook_change": "clear", "minimum_change": "set", "minimum": "5", "tags_change": "clear"}
        top_up = {"top_up_change": "set", "top_up": str(rich.pk), "top_up_minimum": "5", "top_up_target": "6"}
        with CaptureQueriesContext(connection) as queries:
            preview(admin_client, *relayers, **answers, **top_up, top_up_daily_limit="7")
        costs.append(len(queries))
    assert costs[0] == costs[1]


def test_a_preview_reads_the_first_and_the_job_all(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_edits, "PREVIEWED", 2)
    monkeypatch.setattr("relayers.console.bulk_edit.PREVIEWED", 2)
    relayers = [factories.relayer(identifier=f"relayer-{number}") for number in range(3)]
    page = preview(admin_client, *relayers, eip1559_change="no")
    assert page.context["texts"][:2] == ["Changes 2 relayers.", "The preview is of the first 2. The job checks each."]
    apply(admin_client, page)
    run_jobs()
    assert Job.objects.get().done == 3


def test_staff_change_what_they_may_change_one_by_one(client: Client, admin_client: Client) -> None:
    rich = factories.relayer(identifier="rich", signer=factories.signer("rich", OTHER_KEY), address=OTHER_ADDRESS)
    relayer = factories.relayer(notification=factories.notification())
    amounts = {"top_up_minimum": "1", "top_up_target": "2", "top_up_daily_limit": "3"}
    top_up = {"top_up_change": "set", "top_up": str(rich.pk), **amounts}
    editor = staff_who_may(client, "view_relayer", "pause_relayer")
    assert "action_form" not in editor.post(LIST, select(relayer)).content.decode()
    signed = [
        hidden_fields(preview(admin_client, relayer, **changes))
        for changes in ({"minimum_change": "set", "minimum": "1"}, {"webhook_change": "clear"}, top_up)
    ]
    assert all("apply" in each for each in signed)
    for each in signed:
        editor.post(LIST, each)
    assert not Job.objects.exists()
    user = User.objects.get(username="vera")
    user.user_permissions.add(Permission.objects.get(codename="change_relayer"))
    fields = editor.post(LIST, select(relayer)).context["form"].fields
    assert not {"nodes_change", "nodes", "webhook_change", "webhook", "top_up_change", *amounts} & {*fields}
    # Not with what another user has previewed, for other relayers, or without a right that was lost meanwhile.
    own = hidden_fields(preview(editor, relayer, minimum_change="set", minimum="1"))
    others = own | {"confirmed": str(rich.pk)}
    answers = [editor.post(LIST, each) for each in (*signed, others)]
    assert [answer.status_code for answer in answers] == [400] * 4
    viewing = Permission.objects.get(codename="view_notification")
    user.user_permissions.add(viewing)
    cleared = hidden_fields(preview(editor, relayer, webhook_change="clear"))
    user.user_permissions.remove(viewing)
    assert [editor.post(LIST, each).status_code for each in (cleared, own)] == [403, 302]
    assert Job.objects.get().parameters == {"min_balance": "1"}


def test_a_job_ends_with_the_permission_for_what_it_changes(admin_client: Client, admin_user: User) -> None:
    relayer = factories.relayer(notification=factories.notification())
    names = ("view_relayer", "change_relayer", "view_notification")
    editor = staff_who_may(Client(), *names)
    apply(editor, preview(editor, relayer, webhook_change="clear"))
    User.objects.get(username="vera").user_permissions.remove(Permission.objects.get(codename="view_notification"))
    run_jobs()
    assert (Job.objects.get().state, Relayer.objects.get().notification) == ("stopped", relayer.notification)


def test_an_undo_restores_what_is_still_as_the_edit_wrote_it(admin_client: Client) -> None:
    relayers = [factories.relayer(identifier=name, policies={"min_balance": 1}) for name in ("one", "two", "three")]
    job = edit(admin_client, *relayers, minimum_change="set", minimum="5", tags_change="add", tags="new")
    admin_pages.edit(admin_client, relayers[1], tags="new other")
    Relayer.objects.filter(identifier="three").delete()
    page = admin_client.get(f"{page_of(job)}undo/")
    changes = "Minimum balance: 5 wei → 1 weiTags: new → nothing"
    assert asked(page) == [["two", "Refused: changed since: tags"], ["one", changes]]
    assert admin_client.post(f"{page_of(job)}undo/", {"reason": ""}).context["form"].errors
    done = undo(admin_client, page_of(job))
    assert (done.done, done.failed, done.skipped) == (1, 1, 1)
    assert done.failures == [["two", "changed since: tags"]]
    rows = Relayer.objects.order_by("pk")
    assert [(row.policies["min_balance"], row.tags) for row in rows] == [(1, []), (5, ["new", "other"])]
    assert "Skipped for a reason" in admin_client.get(page_of(done) + "change/").content.decode()
    # Again: nothing is as the edit wrote it, in its order.
    again = undo(admin_client, page_of(job))
    assert (again.done, [name for name, _ in again.failures]) == (0, ["one", "two"])


def test_an_undo_restores_what_a_repeated_edit_found_last(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    relayer = factories.relayer()
    with monkeypatch.context() as patch:
        patch.setattr(running, "_progress", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            edit(admin_client, relayer, tags_change="set", tags="new")
    admin_pages.edit(admin_client, relayer, tags="since")
    Job.objects.update(due_at=timezone.now())
    run_jobs()
    assert Relayer.objects.get().tags == ["new"]
    undo(admin_client, page_of(Job.objects.get()))
    assert Relayer.objects.get().tags == ["since"]


def test_one_relayer_is_restored_from_its_audit_entry(admin_client: Client) -> None:
    relayers = [factories.relayer(identifier=name) for name in ("one", "two")]
    edit(admin_client, *relayers, minimum_change="set", minimum="5")
    entry = AuditEntry.objects.get(object_id="two")
    page = f"/admin/relayer_service/auditentry/{entry.pk}/"
    assert f'href="{page}undo/"' in admin_client.get(f"{page}change/").content.decode()
    assert undo(admin_client, page).done == 1
    assert [row.policies for row in Relayer.objects.order_by("pk")] == [{"min_balance": 5}, {}]
    # The entry of the undo, and those of single changes, offer none.
    admin_pages.edit(admin_client, relayers[0], name="Another")
    for other in AuditEntry.objects.order_by("-pk")[:2]:
        assert "undo" not in admin_client.get(f"/admin/relayer_service/auditentry/{other.pk}/change/").content.decode()
        assert admin_client.get(f"/admin/relayer_service/auditentry/{other.pk}/undo/").status_code == 403


@pytest.mark.both_engines
def test_a_top_up_is_not_restored_for_another_account(admin_client: Client) -> None:
    rich = factories.relayer(identifier="rich", signer=factories.signer("rich", OTHER_KEY), address=OTHER_ADDRESS)
    amounts = {"top_up_minimum_text": "1", "top_up_target_text": "2", "top_up_daily_limit_text": "3"}
    relayers = [factories.relayer(identifier=name, funding_relayer=rich, **amounts) for name in ("one", "two")]
    job = edit(admin_client, *relayers, top_up_change="clear")
    signer = factories.signer("another", f"0x{7:064x}")
    admin_pages.edit(admin_client, relayers[1], signer=signer.pk, address="")
    assert Relayer.objects.get(identifier="two").signer == signer
    done = undo(admin_client, page_of(job))
    assert (done.done, done.failures) == (1, [["two", "changed since: the account or the signer"]])
    found = Relayer.objects.exclude(pk=rich.pk).order_by("pk").values_list("funding_relayer", flat=True)
    assert [*found] == [rich.pk, None]


def test_an_undo_needs_the_permissions_of_the_edit(admin_client: Client) -> None:
    rich = factories.relayer(identifier="rich", signer=factories.signer("rich", OTHER_KEY), address=OTHER_ADDRESS)
    amounts = {"top_up_minimum_text": "1", "top_up_target_text": "2", "top_up_daily_limit_text": "3"}
    relayer = factories.relayer(funding_relayer=rich, **amounts)
    job = edit(admin_client, relayer, top_up_change="clear")
    viewer = staff_who_may(Client(), "view_relayer")
    assert viewer.get(f"{page_of(job)}undo/").status_code == 403
    editor = staff_who_may(Client(), "view_relayer", "change_relayer")
    done = undo(editor, page_of(job))
    refusal = "requires the permission transactions.add_transaction"
    assert (done.done, done.failures) == (0, [["relayer-1", refusal]])
    assert undo(admin_client, page_of(job)).done == 1
    assert Relayer.objects.get(pk=relayer.pk).funding_relayer == rich
    assert stored_rules(relayer) == {}
