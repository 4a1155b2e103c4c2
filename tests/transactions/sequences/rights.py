"""One random sequence of operations by two tokens and two members of staff, against three relayers.

What an actor may do follows here from its scopes, relayers, rules and role alone, and not from the code that decides.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import Group, User
from django.db import transaction
from django.test import Client
from eth_account import Account

from relayer_service.database import ttl_cache
from relayers.models import Relayer
from spending.models import SpendingPolicy
from tests.api import Api
from tests.relayers import admin_pages, factories
from tests.transactions.engines import Engine, end_lease
from tests.transactions.memory_chain import URL, MemoryChain, Signed
from tests.transactions.sequences.sequence import START, simulated
from tokens.models import AccessToken
from tokens.writes import issue
from transactions.models import Lane, Transaction
from transactions.top_ups import finding

RELAYERS = ("limited", "poor", "rich")
# Each has a key of its own; that of the stranger belongs to whoever wants the coins of the others.
KEYS = {name: f"0x{number:064x}" for number, name in enumerate([*RELAYERS, "stranger"], 1)}
ADDRESSES = {name: Account.from_key(key).address for name, key in KEYS.items()}
RECEIVER = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
RELAYER_LIMIT, TOKEN_LIMIT, MAX_VALUE = 100_000, 50_000, 40_000
TOP_UP = {"minimum": "10", "target": "30", "daily_limit": "60"}
TOP_UP_BY = "Top-up of relayer"
# How often a token has them.
SCOPES = {"send": 0.8, "manage": 0.5, "read": 0.5, "sign": 0.3, "rotate": 0.3}
ROLES = ["Viewer", "Operator", "Manager"]
# What a token with relayers, and one with rules, cannot change.
NOT_OF_RELAYERS = {"signer_id", "custom_rpc_urls", "allow_signing", "spending_rules", "top_up"}
RESTED_ON = {"signer_id", "custom_rpc_urls", "policies", "spending_rules"}
OK = {200, 201, 202}
MAX_STEPS, WORK_SECONDS, FINISH_ROUNDS = 14, 20, 4


class Token:
    def __init__(self, sequence: Rights, number: int) -> None:
        choose = sequence.random
        self.name = f"token-{number}"
        self.scopes = [name for name, share in SCOPES.items() if choose.random() < share] or ["send"]
        self.relayers = choose.choice([[], ["limited"], ["poor"], ["limited", "poor"]])
        self.has_rules = choose.random() < 0.5
        row, text = issue(name=self.name, user=sequence.user, scopes=self.scopes, allowed_relayers=self.relayers)
        if self.has_rules:
            policy = SpendingPolicy.objects.create(rules={"max_value_per_day": str(TOKEN_LIMIT)})
            AccessToken.objects.filter(pk=row.pk).update(spending=policy)
        # Those of one family: each is used, as long as it is accepted.
        self.texts = [text]

    def __repr__(self) -> str:
        rules = " with rules" if self.has_rules else ""
        return f"{self.name} {sorted(self.scopes)} of {self.relayers or 'all'}{rules}"

    @property
    def manages_all(self) -> bool:
        return "manage" in self.scopes and not self.relayers and not self.has_rules

    @property
    def sets_top_ups(self) -> bool:
        return self.manages_all and "send" in self.scopes

    def may_send(self, relayer: str) -> bool:
        return "send" in self.scopes and (not self.relayers or relayer in self.relayers)


class Staff:
    def __init__(self, sequence: Rights, number: int) -> None:
        self.name = f"staff-{number}"
        self.role = sequence.random.choice(ROLES)
        user = User.objects.create_user(self.name, is_staff=True)
        user.groups.add(Group.objects.get(name=self.role))
        self.client = Client()
        self.client.force_login(user)
        self.manages_all = self.sets_top_ups = self.role == "Manager"

    def __repr__(self) -> str:
        return f"{self.name} {self.role}"


class Rights:
    """Three relayers: one with a limit, one that is topped up, and the one that pays for that."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = START
        self.chain = MemoryChain()
        self.chain.balances = {ADDRESSES["poor"].lower(): 0}
        self.steps: list[str] = []
        self.violations: list[str] = []
        self._numbers = itertools.count(1)
        # Who requested a payload, by its value.
        self.requested: dict[int, str] = {}
        self.funded = {ADDRESSES["poor"].lower()}
        self.user = User.objects.create_user("holder")
        for name, key in KEYS.items():
            factories.signer(name, key)
        for name in RELAYERS:
            factories.relayer(
                identifier=name,
                name=name,
                network="hardhat",
                address=ADDRESSES[name],
                signer=factories.signer(name),
                rpc_urls=[{"url": URL, "weight": 100}],
                balance_text="0" if name == "poor" else str(10**24),
            )
        policy = SpendingPolicy.objects.create(rules={"max_value_per_day": str(RELAYER_LIMIT)})
        Relayer.objects.filter(identifier="limited").update(spending=policy)
        amounts = {f"top_up_{name}_text": value for name, value in TOP_UP.items()}
        Relayer.objects.filter(identifier="poor").update(
            funding_relayer=Relayer.objects.get(identifier="rich"), **amounts
        )
        self.tokens = [Token(self, number) for number in range(2)]
        self.staff = [Staff(self, number) for number in range(2)]
        self.actors: list[Token | Staff] = [*self.tokens, *self.staff]
        # Who has done something last.
        self.actor: Token | Staff | None = None
        self.before = self._configuration()

    def run(self) -> None:
        for _ in range(self.random.randint(5, MAX_STEPS)):
            self.now += timedelta(seconds=self.random.choice([1, 20, 61]))
            ttl_cache.clear_all()
            chosen = self.random.choices(OPERATIONS, WEIGHTS)[0]
            chosen(self)
            self._note_top_ups()
            self._check()
            if self.violations:
                break
        else:
            for _ in range(FINISH_ROUNDS):
                self._work()
            self._check()
        if self.violations:
            self.violations.append(f"by {self.actors}")

    # What tokens do.

    def _call(self, method: str, path: str, body: Any = None) -> tuple[Token, int, Any]:
        token = self.random.choice(self.tokens)
        answer = Api(self.random.choice(token.texts))(method, f"/api/v1/{path}", body)
        self.steps.append(f"{method} {token.name} {path} {body or ''} {answer.status}")
        if answer.status >= 500:
            self.violations.append(f"{self.steps[-1]}: {answer.text!r}")
        self.actor = token
        return token, answer.status, answer.body if answer.text else {}

    def _relayer(self) -> str:
        identifier: str = self.random.choice(Relayer.objects.order_by("pk").values_list("identifier", flat=True))
        return identifier

    def _payload(self) -> dict[str, Any]:
        # Not reverting, and told apart by the last digits.
        value = self.random.randrange(1_000, MAX_VALUE, 1_000) + next(self._numbers) * 5 + 1
        return {"to": RECEIVER, "value": value, "speed": "fast"}

    def _send(self) -> None:
        relayer, body = self._relayer(), self._payload()
        token, status, _ = self._call("POST", f"relayers/{relayer}/transactions", body)
        if status in OK:
            self.requested[body["value"]] = token.name
            if not token.may_send(relayer):
                self.violations.append(f"{token} sent with {relayer}")

    def _row(self) -> Transaction | None:
        rows = list(Transaction.objects.filter(kind="request", relayer__isnull=False).select_related("relayer"))
        return self.random.choice(rows) if rows else None

    def _act(self) -> None:
        """Cancel, replace or speed up a transaction of anybody."""
        row = self._row()
        if row is None or row.relayer is None:
            return
        method, suffix, body = self.random.choice(
            [("DELETE", "", None), ("PUT", "", self._payload()), ("POST", "/speed-up", None)]
        )
        path = f"relayers/{row.relayer.identifier}/transactions/{row.identifier}{suffix}"
        token, status, _ = self._call(method, path, body)
        if status not in OK:
            return
        if body:
            self.requested[body["value"]] = token.name
        is_own = row.requested_by.startswith(f"{token.name} (")
        if not token.may_send(row.relayer.identifier) or not (is_own or "manage" in token.scopes):
            self.violations.append(f"{token} changed the transaction of {row.requested_by}")

    def _cancel_all(self) -> None:
        relayer = self._relayer()
        token, status, body = self._call("DELETE", f"relayers/{relayer}/transactions/pending")
        if status in OK and "manage" not in token.scopes:
            rows = Transaction.objects.filter(identifier__in=body["data"]["queued_for_cancellation_transaction_ids"])
            if others := [row.requested_by for row in rows if not row.requested_by.startswith(f"{token.name} (")]:
                self.violations.append(f"{token} canceled the transactions of {others}")

    def _change(self) -> dict[str, Any]:
        return self.random.choice(
            [
                {"signer_id": self.random.choice([*KEYS])},
                {"spending_rules": None},
                {"spending_rules": {"max_value_per_day": str(2**200)}},
                {"top_up": {"funding_relayer_id": self._relayer(), **TOP_UP}},
                {"top_up": None},
                {"custom_rpc_urls": [{"url": f"{URL}-other", "weight": 100}]},
                {"allow_signing": ["messages"]},
                {"policies": {"min_balance": 0}},
                {"paused": self.random.choice([True, False])},
            ]
        )

    def _patch(self) -> None:
        relayer, body = self._relayer(), self._change()
        token, status, _ = self._call("PATCH", f"relayers/{relayer}", body)
        if status not in OK:
            return
        is_other = token.relayers and relayer not in token.relayers
        if (
            is_other
            or (token.relayers and body.keys() & NOT_OF_RELAYERS)
            or (token.has_rules and body.keys() & RESTED_ON)
        ):
            self.violations.append(f"{token} changed {[*body]} of {relayer}")

    def _create(self) -> None:
        body = {"name": "Extra", "network": "hardhat", "network_type": "evm", "paused": False, **self._change()}
        body |= {"id": f"extra-{next(self._numbers)}", "signer_id": self.random.choice([*KEYS])}
        body.setdefault("custom_rpc_urls", [{"url": URL, "weight": 100}])
        self._call("POST", "relayers", body)

    def _delete(self) -> None:
        self._call("DELETE", f"relayers/{self._relayer()}")

    def _create_signer(self) -> None:
        body = {"id": f"signer-{next(self._numbers)}", "type": "plain", "config": {"key": KEYS["stranger"]}}
        self._call("POST", "signers", body)

    def _rotate(self) -> None:
        token, status, body = self._call("POST", "tokens/rotate", {})
        if status in OK:
            token.texts.append(body["data"]["token"])

    # What staff do.

    def _edit(self) -> None:
        staff, relayer = self.random.choice(self.staff), Relayer.objects.get(identifier=self._relayer())
        other = Relayer.objects.get(identifier=self._relayer())
        amounts = {f"top_up_{name}": value for name, value in TOP_UP.items()}
        changes: dict[str, Any] = self.random.choice(
            [
                {"signer": factories.signer(self.random.choice([*KEYS])).pk},
                {"funding_relayer": other.pk, **amounts},
                {"funding_relayer": "", **dict.fromkeys(amounts, "")},
                {"spending-max_value_per_day": ""},
            ]
        )
        self.steps.append(f"EDIT {staff.name} {relayer.identifier} {changes}")
        self.actor = staff
        path = admin_pages.change(relayer)
        if staff.role == "Manager":
            admin_pages.edit(staff.client, relayer, **changes)
        else:
            # The page has no fields: what a forged request would have.
            with admin_pages.without_html():
                staff.client.post(path, {"name": relayer.name, "network": "hardhat", **changes})

    def _staff_cancel(self) -> None:
        staff, row = self.random.choice(self.staff), self._row()
        if row is None:
            return
        before = row.requested_action, row.status
        with admin_pages.without_html():
            staff.client.post(f"/admin/transactions/transaction/{row.pk}/cancel", {"reason": "x", "confirmed": "yes"})
        row.refresh_from_db()
        self.steps.append(f"CANCEL {staff.name} {row.pk}")
        if staff.role == "Viewer" and (row.requested_action, row.status) != before:
            self.violations.append(f"{staff} canceled {row}")

    # What the service does.

    def _work(self) -> None:
        """Top up, and let every lane take a turn and look at a new block."""
        self.steps.append("work")
        ttl_cache.clear_all()
        finding.sweep()
        engines = [Engine(pk) for pk in Lane.objects.values_list("pk", flat=True)]
        for engine in engines:
            engine.turn()
        self.chain.mine()
        for engine in engines:
            engine.look()
            end_lease(engine.lane_pk)
        self.now += timedelta(seconds=WORK_SECONDS)

    # What must hold.

    def _configuration(self) -> list[Any]:
        columns = (
            "identifier",
            "signer_id",
            "spending__rules",
            "funding_relayer_id",
            "node_keys",
            "network",
            "address",
        )
        return list(Relayer.objects.order_by("pk").values_list(*columns))

    def _note_top_ups(self) -> None:
        """Note the accounts for which a top-up stands that someone with the right to it left or set."""
        if self.actor is not None and self.actor.sets_top_ups:
            rows = Relayer.objects.filter(funding_relayer__isnull=False)
            self.funded |= {address.lower() for address in rows.values_list("address", flat=True)}

    def _check(self) -> None:
        self.violations += [*self._overspent(), *self._wrong_top_ups(), *self._wrong_configuration()]

    def _executed(self) -> list[Signed]:
        return [each for each in self.chain.mined if each.value and each.to.lower() == RECEIVER.lower()]

    def _overspent(self) -> Iterator[str]:
        for token in self.tokens:
            total = sum(each.value for each in self._executed() if self.requested.get(each.value) == token.name)
            if token.has_rules and total > TOKEN_LIMIT:
                yield f"{token} spent {total}"
        total = sum(each.value for each in self._executed() if each.sender == ADDRESSES["limited"].lower())
        if total > RELAYER_LIMIT and not self._someone_manages():
            yield f"the relayer with a limit spent {total}"

    def _wrong_top_ups(self) -> Iterator[str]:
        rows = Transaction.objects.filter(requested_by__startswith=TOP_UP_BY)
        for to in {row.to.lower() for row in rows} - self.funded:
            yield f"a top-up was sent to {to}"

    def _wrong_configuration(self) -> Iterator[str]:
        if not self._someone_manages() and (now := self._configuration()) != self.before:
            yield f"changed without the right to: {self.before} to {now}"

    def _someone_manages(self) -> bool:
        return any(actor.manages_all for actor in self.actors)


WEIGHTED: dict[Callable[[Rights], None], int] = {
    Rights._send: 6,
    Rights._work: 4,
    Rights._act: 4,
    Rights._patch: 4,
    Rights._edit: 2,
    Rights._rotate: 1,
    Rights._create: 1,
    Rights._create_signer: 1,
    Rights._delete: 1,
    Rights._cancel_all: 1,
    Rights._staff_cancel: 1,
}
OPERATIONS, WEIGHTS = [*WEIGHTED], [*WEIGHTED.values()]


def run(seed: int) -> Rights:
    """Run one sequence in a database transaction that is rolled back."""
    with transaction.atomic():
        sequence = Rights(seed)
        with simulated(sequence):
            sequence.run()
        transaction.set_rollback(True)
    return sequence
