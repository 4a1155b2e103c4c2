"""The oracle: ten invariants of sending, checked in the database, on the chain and in the outbox of webhooks.

Each check returns what violates it, so that a run of many cases can report all of them. `violations_now` holds at any
moment, also while processes are being killed; `violations_at_rest` once everything is final.

Every request calls `record` of the contract `Ledger` with an id of its own, which counts how often it was executed. So
does every payload that replaces another one, of which at most one is executed.
"""

from __future__ import annotations

import json
import urllib.request
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.apps import apps
from django.db import models

from notifications.models import Delivery
from tests.chain.hardhat import Chain, encode_call
from tests.concurrency import PATIENCE_SECONDS
from tests.transactions.hardhat import record
from transactions.events import BY_STATUS, TRANSACTION_REPLACED
from transactions.models import FINAL, OPEN, Attempt, Lane, Status, StatusChange, Transaction
from transactions.repair import invariants
from transactions.repair.limit_checks import limit_violations

COUNTS = "counts(bytes32)"
REQUEST = Transaction.Kind.REQUEST


def batch(chain: Chain, calls: Sequence[tuple[str, list[Any]]]) -> list[Any]:
    """Return the results of several calls in one request; any error fails the test."""
    if not calls:
        return []
    body = [
        {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        for number, (method, params) in enumerate(calls)
    ]
    request = urllib.request.Request(chain.url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with chain.http.open(request, timeout=PATIENCE_SECONDS) as response:
        answers = {answer["id"]: answer["result"] for answer in json.load(response)}
    return [answers[number] for number in range(len(calls))]


@dataclass
class Oracle:
    chain: Chain
    # The address of the contract.
    ledger: str
    # The id in the ledger of each accepted transaction, by transaction id.
    accepted: dict[str, bytes] = field(default_factory=dict)
    # The ids of further payloads that a transaction was replaced by, by transaction id.
    replacements: dict[str, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    # The first block that can contain a transaction of the lanes.
    since: int = 0
    # What must not appear in any text that people can read: keys, URLs of nodes.
    secrets: Sequence[str] = ()
    # Hashes of transactions that a test sent from the account of a lane without the service.
    outside: set[str] = field(default_factory=set)

    def violations_now(self) -> list[str]:
        return [*self.doubled(), *self.contradictions(), *self.unknown_on_chain()]

    def violations_at_rest(self, logs: str = "") -> list[str]:
        return [
            *self.violations_now(),
            *self.untrue_statuses(),
            *self.lost_or_open(),
            *self.nonces_beside_the_chain(),
            *self.webhook_faults(),
            *self.leaks(logs),
        ]

    def executed(self) -> dict[str, list[bytes]]:
        """Return the payloads of each accepted transaction that were executed, each as often, by transaction id."""
        ids = [(one, each) for one, first in self.accepted.items() for each in [first, *self.replacements[one]]]
        calls = [
            ("eth_call", [{"to": self.ledger, "data": "0x" + encode_call(COUNTS, each).hex()}, "latest"])
            for _, each in ids
        ]
        found: dict[str, list[bytes]] = {one: [] for one in self.accepted}
        for (one, each), result in zip(ids, batch(self.chain, calls), strict=True):
            found[one] += [each] * int(result, 16)
        return found

    def doubled(self) -> list[str]:
        """Invariant 1: nothing is executed twice, and no two payloads of one transaction are."""
        return [f"1: {one} was executed {len(ran)} times" for one, ran in self.executed().items() if len(ran) > 1]

    def untrue_statuses(self) -> list[str]:
        """Invariants 2 and 3: confirmed if and only if executed, with the payload of the row; others were not."""
        executed = self.executed()
        found = []
        for row in Transaction.objects.filter(identifier__in=executed, status__in=FINAL):
            ran = executed[row.identifier]
            if len(ran) != (row.status == Status.CONFIRMED):
                number = 2 if row.status == Status.CONFIRMED else 3
                found.append(f"{number}: {row.identifier} is {row.status}, executed {len(ran)} times")
            elif ran and bytes(row.data) != record(ran[0]):
                found.append(f"2: {row.identifier} reports another payload than the one that was executed")
        return found

    def lost_or_open(self) -> list[str]:
        """Invariant 4: everything accepted is there and final, and its lane is free."""
        rows = {row.identifier: row for row in Transaction.objects.filter(kind=REQUEST)}
        lost = [f"4: {one} is lost" for one in self.accepted if one not in rows]
        unknown = [f"4: {one} was accepted, and nobody knows" for one in rows if one not in self.accepted]
        stuck = [
            f"4: {row.identifier} (nonce {row.nonce}) is {row.status}: {row.status_reason}"
            for row in Transaction.objects.filter(status__in=OPEN)
        ]
        held = [f"4: lane {lane} is held: {sorted(lane.holds)}" for lane in Lane.objects.all() if lane.holds]
        return [*lost, *unknown, *stuck, *held]

    def contradictions(self) -> list[str]:
        """Invariants 5, 7 and 8, as `check_lanes` has them: nonces, payloads, prices and limits."""
        lanes = list(Lane.objects.select_related("relayer"))
        checked = [invariants.CheckedLane.read(lane) for lane in lanes]
        found = [violation for each in checked for violation in invariants.database_violations(each)]
        return [f"5, 7, 8: {violation}" for violation in [*found, *limit_violations(lanes)]]

    def nonces_beside_the_chain(self) -> list[str]:
        """Invariant 5 at rest: the next nonce is the chain's count, and what is used was used by its row."""
        found = []
        for lane in Lane.objects.select_related("relayer").exclude(next_nonce=None):
            count = int(self.chain.rpc("eth_getTransactionCount", lane.address, "latest"), 16)
            if count != lane.next_nonce:
                found.append(f"5: the next nonce of {lane} is {lane.next_nonce}, the chain's count {count}")
            checked = invariants.CheckedLane.read(lane)
            found += [f"5: {violation}" for violation in invariants.chain_violations(checked, count)]
        return found

    def unknown_on_chain(self) -> list[str]:
        """Invariant 6: nothing left that was not committed before.

        The chain is read first: what is found there must be in the database by then.
        """
        addresses = {lane.address.lower() for lane in Lane.objects.all()}
        seen = [one for one in self._on_chain() if one["from"] in addresses]
        known = set(Attempt.objects.values_list("hash", flat=True))
        # A nonce that the test itself spends from outside is recorded once its block is final.
        unknown = [one for one in seen if one["hash"] not in known and one["hash"] not in self.outside]
        return [f"6: {one['hash']} with nonce {int(one['nonce'], 16)} is in no attempt" for one in unknown]

    def _on_chain(self) -> Iterable[dict[str, Any]]:
        head = int(self.chain.rpc("eth_blockNumber"), 16)
        blocks = [("eth_getBlockByNumber", [hex(number), True]) for number in range(self.since, head + 1)]
        *mined, pending = batch(self.chain, [*blocks, ("eth_pendingTransactions", [])])
        for block in mined:
            yield from block["transactions"]
        yield from pending

    def webhook_faults(self) -> list[str]:
        """Invariant 9: every reported status has its delivery, versions rise, and the last one is the row's status."""
        bodies = defaultdict(list)
        for body in Delivery.objects.order_by("pk").values_list("body", flat=True):
            event, data = json.loads(bytes(body))["type"], json.loads(bytes(body))["data"]
            # Its status stays: that is not what is compared.
            if event != TRANSACTION_REPLACED.name and "relayer_id" in data and "version" in data:
                bodies[data["id"]].append((data["version"], data["status"]))
        found = []
        rows = Transaction.objects.filter(kind=REQUEST, relayer__notification__isnull=False)
        for row in rows:
            told = bodies[row.identifier]
            changes = StatusChange.objects.filter(transaction=row, to_status__in=BY_STATUS)
            expected = list(changes.order_by("version").values_list("version", "to_status"))
            if told != expected:
                found.append(f"9: {row.identifier} changed {expected}, and webhooks report {told}")
            if row.status in FINAL and (not told or told[-1][1] != row.status):
                found.append(f"9: {row.identifier} is {row.status}, and the last webhook reports {told[-1:]}")
        return found

    def leaks(self, logs: str = "") -> list[str]:
        """Invariant 10: no secret and no URL of a node in logs, reasons and errors."""
        texts = {"the log": logs}
        for model in apps.get_app_config("transactions").get_models():
            names = [
                column.name
                for column in model._meta.concrete_fields
                if isinstance(column, models.CharField | models.TextField | models.JSONField)
            ]
            texts[model.__name__] = json.dumps(list(model._base_manager.values_list(*names)), default=str)
        texts["webhooks"] = b"".join(map(bytes, Delivery.objects.values_list("body", flat=True))).decode()
        return [
            f"10: {secret[:8]}... is in {name}"
            for name, text in texts.items()
            for secret in self.secrets
            if secret in text
        ]
