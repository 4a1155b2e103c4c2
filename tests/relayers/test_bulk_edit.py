"""Nodes, webhook and minimum balance of many relayers are changed: with a preview, by a job, one by one recorded."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from relayer_service.jobs import running
from relayer_service.models import AuditEntry, Job
from relayer_service.storage.selections import Selection
from relayers.jobs import bulk_edits
from relayers.models import Relayer
from tests.notifications.admin_pages import asked, hidden_fields, staff_who_may, told
from tests.relayer_service.jobs import run_jobs
from tests.relayers import factories
from tests.relayers.stand_in_node import StandInNode

pytestmark = pytest.mark.django_db

LIST = "/admin/relayers/relayer/"
ETHER = 10**18


def select(*relayers: Relayer) -> dict[str, Any]:
    return {"action": "edit_selected", "_selected_action": [relayer.pk for relayer in relayers]}


def preview(client: Client, *relayers: Relayer, reason: str = "New provider", **answers: Any) -> Any:
    form = client.post(LIST, select(*relayers))
    return client.post(LIST, {**hidden_fields(form), "reason": reason, **answers})


def apply(client: Client, page: Any) -> Any:
    return client.post(LIST, hidden_fields(page), follow=True)


def entries() -> list[tuple[Any, ...]]:
    return sorted(AuditEntry.objects.values_list("object_id", "actor", "reason", "request_id"))


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
    assert page.context["texts"] == ["Changes 2 relayers. Reason: New provider"]
    assert page.context["table"].headers == ["Relayer", "Nodes", "Webhook", "Minimum balance"]
    assert asked(page) == [
        ["one", f"those of the network → {masked}", "none → ops", "5 wei → 0.5 ETH"],
        ["two", f"those of the network → {masked}", "old → ops", "none → 0.5 ETH"],
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


def test_what_a_rule_refuses_is_named_before_and_reported_after(admin_client: Client, node: StandInNode) -> None:
    fitting = factories.relayer(identifier="fitting", network="hardhat")
    others = [factories.relayer(identifier=name, network="polygon") for name in ("other-1", "other-2")]
    change: dict[str, Any] = {"minimum_change": "set", "minimum": "0.5 ETH"}
    page = preview(admin_client, fitting, *others, nodes_change="set", nodes=node.url, **change)
    fault = "must be a whole number of wei, or an amount with its unit, for example 0.5 POL or 30 gwei"
    assert page.context["texts"] == [
        "Changes 1 relayer. Reason: New provider",
        f"Refused: 2 relayers on polygon: {fault}.",
    ]
    page = preview(admin_client, fitting, *others, nodes_change="set", nodes=node.url)
    fault = "this node is on chain 31337, not on 137"
    assert page.context["texts"][1:] == [f"Refused: 2 relayers on polygon: {fault}."]
    apply(admin_client, page)
    run_jobs()
    job = Job.objects.get()
    assert (job.done, job.failed, job.failures) == (1, 2, [["other-1", fault], ["other-2", fault]])
    assert [name for name, *_ in entries()] == ["fitting"]
    # Nothing is offered where all are refused.
    assert "apply" not in hidden_fields(preview(admin_client, *others, nodes_change="set", nodes=node.url))


def test_a_setting_is_removed_from_many(admin_client: Client) -> None:
    hook, urls = factories.notification(), [{"url": "https://node.example.com/v1", "weight": 1}]
    relayer = factories.relayer(notification=hook, policies={"min_balance": 5}, rpc_urls=urls)
    page = preview(admin_client, relayer, nodes_change="clear", webhook_change="clear", minimum_change="clear")
    masked, few = "https://node.example.com/***", "5 wei"
    assert asked(page) == [["relayer-1", f"{masked} → those of the network", "hook-1 → none", f"{few} → none"]]
    apply(admin_client, page)
    run_jobs()
    relayer.refresh_from_db()
    assert (relayer.custom_rpc_urls, relayer.notification, relayer.policies) == (None, None, {})


def test_a_form_that_is_not_complete_is_shown_again(admin_client: Client) -> None:
    relayer = factories.relayer()
    secret = "https://node.example.com/s3cret"
    no_line = "Choose “Replace with these RPC URLs”, or empty the field below."
    for answers, errors in [
        ({}, {"__all__": ["Choose at least one change."]}),
        ({"reason": "", "minimum_change": "clear"}, {"reason": ["This field is required."]}),
        ({"nodes": secret}, {"nodes_change": [no_line]}),
        ({"nodes_change": "set"}, {"nodes": ["This field is required."]}),
        (
            {
                "nodes_change": "set",
                "nodes": f"{secret}\nftp://s3cret",
                "webhook_change": "set",
                "webhook": "999",
                "minimum_change": "set",
                "minimum": " ",
            },
            {
                "nodes": ["Line 2: an absolute http or https URL is required"],
                "webhook": ["Select a valid choice. That choice is not one of the available choices."],
                "minimum": ["This field is required."],
            },
        ),
    ]:
        assert preview(admin_client, relayer, **answers).context["form"].errors == errors
    assert not Job.objects.exists()


def test_a_form_and_its_preview_cost_as_many_queries_for_many(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_edits, "GROUP_BATCH", 10)
    admin_client.get(LIST)
    costs = []
    for count in (1, 30):
        relayers = [
            factories.relayer(
                identifier=f"{count}-{number}", notification=factories.notification(f"hook-{count}-{number}")
            )
            for number in range(count)
        ]
        with CaptureQueriesContext(connection) as queries:
            preview(admin_client, *relayers, webhook_change="clear", minimum_change="set", minimum="5")
        costs.append(len(queries))
    assert costs[0] == costs[1]


def test_staff_change_what_they_may_change_and_view(client: Client) -> None:
    relayer = factories.relayer()
    answers = {"confirmed": str(relayer.pk), "apply": "1", "minimum_change": "clear", "reason": "r"}
    confirmed = {**select(relayer), **answers, "webhook_change": "clear"}
    editor = staff_who_may(client, "view_relayer", "pause_relayer")
    editor.post(LIST, confirmed)
    assert not Job.objects.exists()
    user = User.objects.get(username="vera")
    user.user_permissions.add(Permission.objects.get(codename="change_relayer"))
    page = editor.post(LIST, select(relayer))
    amounts = ["minimum_change", "minimum", "reserve_change", "reserve"]
    assert [*page.context["form"].fields] == ["nodes_change", "nodes", *amounts, "reason"]
    editor.post(LIST, confirmed)
    job = Job.objects.get()
    assert (job.reason, job.parameters) == ("r", {"min_balance": ""})
