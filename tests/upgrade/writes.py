"""All that the last release writes, over and over until its input ends and once more, with that release's code.

A line of output for each round, and a report in JSON at the end: what failed, and which tables got rows.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
import time
import traceback
from collections import defaultdict
from typing import Any

import django

django.setup()

from django.apps import apps  # noqa: E402
from django.contrib.admin.models import ADDITION, LogEntry  # noqa: E402
from django.contrib.auth.models import Group, Permission, User  # noqa: E402
from django.contrib.contenttypes.models import ContentType  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import close_old_connections  # noqa: E402
from django.db.backends.signals import connection_created  # noqa: E402
from django.test import Client  # noqa: E402
from django.utils import timezone  # noqa: E402

import relayer_service  # noqa: E402
from incidents.models import AlertMessage, AlertRoute, Incident, IncidentRelayer  # noqa: E402
from notifications.delivery import counts, deleting, outbox  # noqa: E402
from notifications.delivery.sender import sender  # noqa: E402
from notifications.models import Delivery  # noqa: E402
from relayer_service.audit.models import AuditEntry  # noqa: E402
from relayer_service.background.tasks import heartbeat, prepare_queue  # noqa: E402
from relayer_service.jobs.running import run_job, start  # noqa: E402
from relayer_service.models import (  # noqa: E402
    Acknowledgement,
    CallCount,
    EncryptionKey,
    IdempotentRequest,
    Job,
    ListPreference,
    PeriodicRun,
    SignInAddress,
    WorkerProcess,
)
from relayer_service.sign_in.models import UserPreference, enable  # noqa: E402
from relayer_service.storage import counting  # noqa: E402
from relayer_service.storage.selections import Selection  # noqa: E402
from relayers.health import checking  # noqa: E402
from relayers.models import NodeOutage, Relayer, RelayerHealth  # noqa: E402
from rpc.counters import counter  # noqa: E402
from rpc.models import FeeToken, PriceSource  # noqa: E402
from signers.models import Signer  # noqa: E402
from spending.models import SpendingLimit, SpendingPolicy  # noqa: E402
from tests.api import Api  # noqa: E402
from tests.notifications.receivers import Receiver, receiver  # noqa: E402
from tests.relayers.factories import ADDRESS, KEY  # noqa: E402
from tests.relayers.stand_in_node import StandInNode, serve  # noqa: E402
from tests.transactions import factories as transaction_rows  # noqa: E402
from tokens import uses  # noqa: E402
from tokens.models import TokenUse  # noqa: E402
from tokens.tasks import record_use  # noqa: E402
from tokens.writes import issue  # noqa: E402
from transactions.models import ChainWatch, Charge, StatusChange, TopUp  # noqa: E402

DELIVERY_SECONDS = 180
WRITE = re.compile(r'\b(INSERT|UPDATE|DELETE)(?: OR IGNORE)?(?: INTO| FROM)? "?(\w+)"?')

written: dict[str, set[str]] = defaultdict(set)
failures: list[str] = []


def note_writes(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
    result = execute(sql, params, many, context)
    for verb, table in WRITE.findall(sql):
        written[table].add(verb)
    return result


def watch(connection: Any, **kwargs: Any) -> None:
    if note_writes not in connection.execute_wrappers:
        connection.execute_wrappers.append(note_writes)


connection_created.connect(watch)


class Failures(logging.Handler):
    """What threads have logged as errors."""

    def emit(self, record: logging.LogRecord) -> None:
        failures.append(logging.Formatter().format(record))


class Round:
    """One of everything, created, changed and deleted."""

    def __init__(self, name: str, node: StandInNode, hook: Receiver) -> None:
        self.name, self.node, self.hook = name, node, hook

    def run(self) -> None:
        self.create_account()
        self.staff_work()
        self.create_fleet()
        self.use_fleet()
        self.transact()
        self.work()
        self.delete()

    def call(self, method: str, path: str, body: Any = None, status: int = 200, **headers: str) -> Any:
        answer = self.api(method, f"/api/v1/{path}", body, headers={"Host": "localhost"} | headers)
        assert answer.status == status, f"{method} {path}: {answer.status} {answer.text!r}"
        return answer.body

    def create_account(self) -> None:
        self.user = User.objects.create_superuser(self.name)
        staff = Client(headers={"Host": "localhost"})
        staff.force_login(self.user)
        answer = staff.post("/admin/auth/group/add/", {"name": self.name})
        assert answer.status_code == 302, answer.content
        self.type = ContentType.objects.create(app_label=self.name, model="thing")
        permission = Permission.objects.create(content_type=self.type, codename="use", name="Can use")
        self.group = Group.objects.get(name=self.name)
        self.group.permissions.add(permission)
        self.user.groups.add(self.group)
        self.user.user_permissions.add(permission)
        # The admin records changes in the audit log instead; the table is there all the same.
        LogEntry.objects.create(user=self.user, action_flag=ADDITION, content_type=self.type, object_repr=self.name)
        self.token, secret = issue(name=self.name, user=self.user, scopes=["read", "manage"])
        self.api = Api(secret)
        enable(self.user, "JBSWY3DPEHPK3PXP", 1)
        SignInAddress.objects.remember(self.user, "127.0.0.1")

    def staff_work(self) -> None:
        """Write what the console and the worker keep beside the fleet."""
        now = timezone.now()
        rows = (
            Acknowledgement(cause=self.name, title=self.name, number=1, by=self.name),
            NodeOutage(node=self.name, url="http://node", network="hardhat", until=now, by=self.name, reason="drill"),
            ListPreference(user=self.user, list_name="signers.signer"),
            UserPreference(user=self.user, time_zone="UTC"),
            AlertRoute(identifier=self.name, channel=AlertRoute.Channel.WEBHOOK),
        )
        for row in rows:
            row.save()
            row.delete()
        counted = {"started_at": now, "opened_at": now, "number": 1, "largest": 1, "unit": "node"}
        incident = Incident.objects.create(key=self.name, kind="node_down", title=self.name, url="/", **counted)
        # A relayer of any key: the rows of one that was deleted may stay.
        IncidentRelayer.objects.create(incident=incident, relayer_id=1)
        AlertMessage.objects.create(incident=incident, event=AlertMessage.Event.BEGAN, data={}, due_at=now)
        incident.delete()
        WorkerProcess.objects.beat(self.name)
        WorkerProcess.objects.silent()
        WorkerProcess.objects.filter(name=self.name).delete()

    def create_fleet(self) -> None:
        name = self.name
        signer = {"id": name, "type": "plain", "config": {"key": KEY}}
        self.call("POST", "signers", signer, 201, **{"Idempotency-Key": name})
        self.call("POST", "notifications", {"id": name, "url": "https://example.com", "type": "webhook"}, 201)
        self.call("PATCH", f"notifications/{name}", {"url": self.hook.url, "signing_key": "k" * 32})
        relayer = {"id": name, "name": name, "network": "hardhat", "address": ADDRESS, "signer_id": name}
        nodes = {"tags": [name], "custom_rpc_urls": [{"url": self.node.url, "weight": 100}], "network_type": "evm"}
        self.call("POST", "relayers", relayer | nodes | {"notification_id": name, "paused": False}, 201)
        self.call("PATCH", f"relayers/{name}", {"paused": True, "policies": {"min_balance": 2**100}})
        self.relayer = Relayer.objects.get(identifier=name)
        self.fee_token = FeeToken.objects.create(network=name, symbol="USDC", address=ADDRESS, decimals=6)
        source = PriceSource.objects.create(token=self.fee_token, kind="fixed", rate_text="1", max_age_seconds=60)
        source.rate_set_at = timezone.now()
        source.save()
        self.fee_token.rate_text = "1"
        self.fee_token.save()

    def use_fleet(self) -> None:
        request = {"jsonrpc": "2.0", "id": "1", "method": "unknown", "params": {}}
        self.call("POST", f"relayers/{self.name}/rpc", request)
        counter.flush()
        uses.flush()
        record_use.call_local(self.token.pk, time.time())
        chosen = Selection.from_queryset(Signer.objects.filter(identifier=self.name))
        verifying = start("verify_signers", chosen, self.name)
        run_job.call_local(verifying.pk)
        assert Job.objects.get(pk=verifying.pk).done == 1

    def transact(self) -> None:
        """Create and delete a transaction, with all that belongs to one."""
        policy = SpendingPolicy.objects.create(rules={})
        limit = SpendingLimit.objects.create(policy=policy, name="value")
        watch = ChainWatch.objects.create(chain_id=self.relayer.expected_chain_id, nodes_digest=self.name)
        lane = transaction_rows.lane(self.relayer, watch=watch)
        row = transaction_rows.transaction(lane, nonce=0, status="sent", metadata={"round": self.name})
        transaction_rows.attempt(row)
        StatusChange.objects.create(transaction=row, version=1, to_status="sent", at=timezone.now())
        Charge.objects.create(transaction=row, limit=limit, hour=1, amount_text="1", reserved_text="1")
        TopUp.objects.create(relayer=self.relayer, state="blocked", amount_text="1", balance_text="0", block=1)
        row.status_reason = self.name
        row.save()
        self.relayer.top_ups.all().delete()
        row.last_attempt = None
        row.save()
        row.attempts.all().delete()
        for each in (row, lane, watch, policy):
            each.delete()

    def work(self) -> None:
        """Do what the worker does: check, deliver, count, and keep its own books."""
        RelayerHealth.objects.filter(pk=self.relayer.pk).update(due_at=timezone.now())
        checking.check_due()
        assert RelayerHealth.objects.get(pk=self.relayer.pk).balance_is_low
        deliveries = Delivery.objects.filter(notification__identifier=self.name)
        assert deliveries.exists()
        for target in outbox.due_targets():
            sender.wake(target)
        deadline = time.monotonic() + DELIVERY_SECONDS
        while deliveries.exclude(state="delivered").exists():
            assert time.monotonic() < deadline, list(deliveries.values())
            time.sleep(0.02)
        PeriodicRun.objects.all().delete()
        EncryptionKey.objects.all().delete()
        heartbeat.call_local()
        counts.count_hours()
        counts.count_skipped({self.relayer.notification_id: 1})
        counts.fold_skipped()
        counting.fold()

    def delete(self) -> None:
        CallCount.objects.filter(subject=str(self.relayer.pk)).delete()
        deleting.prune()
        for kind in ("relayers", "notifications", "signers"):
            self.call("DELETE", f"{kind}/{self.name}")
        self.fee_token.delete()
        TokenUse.objects.filter(token_id=self.token.pk).delete()
        call_command("clearsessions")
        IdempotentRequest.objects.prune()
        Job.objects.filter(title__contains=self.name).delete()
        AuditEntry.objects.filter(object_id=self.name).delete()
        self.group.delete()
        self.type.delete()
        self.user.delete()


def main() -> None:
    logging.getLogger().addHandler(Failures(logging.ERROR))
    prepare_queue()
    reading = threading.Thread(target=sys.stdin.read, daemon=True)
    reading.start()
    number, is_last = 0, False
    with serve(StandInNode()) as node, receiver() as hook:
        while not is_last:
            number, is_last = number + 1, not reading.is_alive()
            try:
                Round(f"r{os.getpid()}-{number}", node, hook).run()
            except Exception:
                failures.append(traceback.format_exc())
            close_old_connections()
            print(f"round {number}", flush=True)
        sender.stop(DELIVERY_SECONDS)
    tables = [model._meta.db_table for model in apps.get_models(include_auto_created=True)]
    report = {
        "code": relayer_service.__file__,
        "failures": failures,
        "inserted": [name for name in tables if "INSERT" in written[name]],
        # Triggers write the pairs of metadata.
        "tables": [name for name in tables if name != "transactions_metadatapair"],
    }
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
