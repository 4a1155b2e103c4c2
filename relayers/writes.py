"""Creating and changing relayers, for REST, the admin and fleet files; and moving them to the address of a new key."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Self

from django.core.exceptions import ValidationError
from django.db import connection
from django.db.models import QuerySet
from eth_utils.address import to_checksum_address

from chain.networks import closed, networks
from chain.units import coins, rounded_coins
from notifications.models import Notification
from relayer_service.audit.recording import changed, record, snapshot
from relayer_service.background.tasks import push
from relayer_service.storage.selections import Selection
from relayer_service.writes import BATCH_SIZE, Values
from relayers import guards
from relayers.health.probes import ProbeCache
from relayers.models import ACCOUNT_COLUMNS, MASKED_COLUMNS, NO_READINGS, Relayer, RelayerHealth
from relayers.models.tags import save_tags
from relayers.models.top_ups import CLEARED, TOP_UP_COLUMNS
from relayers.pausing import report_removed_top_ups, write_paused
from relayers.tasks import check_relayers_now
from signers import signing
from signers.followers import Follower
from signers.models import Signer
from spending.writes import HolderWrite

# The fields that decide which chain the custom nodes must be on.
NODE_FIELDS = {"network", "chain_id", *MASKED_COLUMNS}
NODE_PATH = "{}[{}].url"
# The attribute of each API name.
ATTRIBUTES = {
    name: name for name in ("name", "network", "network_type", "chain_id", "policies", "private_fallback_blocks")
} | {"signer_id": "signer", "notification_id": "notification"}
COLUMNS = {**ATTRIBUTES, "spending_rules": "spending", "reserve": "reserve_text"}
FUNDING_PAUSED = "the funding relayer is paused: it sends nothing until it is resumed"
UNKNOWN = "object with this ID does not exist"
TOP_UP_REMOVED = "removed, because the account or the signer changes; set it again to have this account topped up"
ABOVE_MINIMUM = "the top-up minimum is not above the reserve: it waits for funds before it is topped up"
CHANGED = "the signer was changed concurrently: try again"
SHARED = "the relayer {} has the same account on this chain, and only one of them can send: choose another signer"


class RelayerWrite(HolderWrite[Relayer]):
    """A relayer to create or to change.

    `signer_id` and `notification_id` are rows; `policies` and `spending_rules` are valid and replace the stored ones.
    The `address` is the signer's, and a given one must equal it, as far as it can be read. Empty: it is read from the
    signer. None: it is read unless the stored one is known to be the signer's. Left out: the stored one stays if it
    cannot be read. `top_up` is None, or has the row `funding_relayer_id` and amounts; left out, it is removed if the
    account or the signer changes: who changes them may hold the new key, without the right to move coins there.
    `payer_refusal` is raised if the new account would let others send its coins; left out for those who can send.
    """

    model = Relayer

    def __init__(self, row: Relayer) -> None:
        super().__init__(row)
        # Replaced by the answers of the request or file that this write belongs to.
        self.answers = ProbeCache()
        self.given: Values = {}
        # Whether to pause or to resume; not only a column, as the webhook gets an event.
        self.paused: bool | None = None
        self.stored_signer = None if self.is_new else row.signer
        self.removes_top_up = False
        self.changes_tags = False
        if self.is_new:
            row.tags = []

    def set(self, values: Values) -> None:
        """Set all values except the address, which `check_account` finds, and the pause."""
        self.given = values
        for name in ATTRIBUTES.keys() & values.keys():
            setattr(self.row, ATTRIBUTES[name], values[name])
        if "allow_signing" in values:
            given = values["allow_signing"] or []
            self.row.allow_signing = [kind for kind in Relayer.SigningKind.values if kind in given]
        for name in MASKED_COLUMNS.keys() & values.keys():
            self.row.set_rpc_urls([dict(entry) for entry in values[name] or []], name)
        if "spending_rules" in values:
            self.set_rules(values["spending_rules"] or {})
        if "top_up" in values:
            self._set_top_up(values["top_up"] or {})
        if "reserve" in values:
            self.row.reserve_text = str(values["reserve"]) if values["reserve"] else None
        if "tags" in values:
            self.row.tags = sorted({*(values["tags"] or [])})
            self.changes_tags = self.row.tags != self.before.get("tags", [])
        if {"top_up", "reserve"} & values.keys() and self.row.top_up and self.row.top_up.minimum <= self.row.reserve:
            self.warnings.append(("reserve", ABOVE_MINIMUM))
        if values.get("paused", self.row.paused) != self.row.paused:
            self.paused = values["paused"]

    def _set_top_up(self, values: Values) -> None:
        row, funding = self.row, values.get("funding_relayer_id")
        row.funding_relayer = funding
        for name, column in TOP_UP_COLUMNS.items():
            if column != "funding_relayer":
                amount = values.get(name)
                setattr(row, column, "" if amount is None else str(amount))
        if funding is not None and funding.paused:
            self.warnings.append(("top_up.funding_relayer_id", FUNDING_PAUSED))

    def check(self) -> None:
        """Apply all rules to a new relayer or one with a new signer, and those that do not call its signer to others.

        A relayer whose network no longer exists can still be paused.
        """
        if self.is_new or "signer_id" in self.given:
            self.row.clean()
            self.check_account()
        else:
            self._note_changes()
            if self.columns:
                self.row.clean()
        self.check_nodes()

    def check_account(self) -> None:
        """Check that the signer can sign for the network, and set the address; this may call the signer."""
        row = self.row
        if unfit := signing.incompatibility(row.signer, row.network_type):
            raise ValidationError({"signer_id": unfit})
        self._set_address()
        if "network" in self.given and row.network in closed() and row.network not in networks():
            # Accepted with custom nodes: somebody may still run such a network.
            self.warnings.append(("network", closed()[row.network]))
        self._note_changes()
        self.check_guards()

    def check_guards(self) -> None:
        """Check that nothing in progress depends on the account or signer that would change."""
        if self.is_new:
            return
        guards.check_change(self.row.pk, self.columns)
        stored = Relayer(network=self.before["network"], chain_id=self.before["chain_id"])
        moves = self.columns & {"network", "chain_id"} and self.row.expected_chain_id != stored.expected_chain_id
        if moves and (reasons := guards.funding_refusals([self.row.pk])):
            raise ValidationError({"network": reasons[self.row.pk]})

    def _check_payer(self) -> None:
        """Raise the refusal for other nodes, or an account that is or was another relayer's, or that funds others."""
        row, refusal = self.row, self.given.get("payer_refusal")
        has_moved = self.is_new or self.columns & ACCOUNT_COLUMNS or ("signer" in self.columns and not row.address)
        if refusal and self.columns & MASKED_COLUMNS.keys():
            # What nodes report decides what is sent again.
            raise refusal
        if refusal and has_moved:
            has_sent = row.address and guards.get_guard().has_sent(row.address)
            if has_sent or row.others_with_key().exists() or guards.funding_refusals([row.pk]):
                raise refusal

    def _set_address(self) -> None:
        """Set the address to the signer's, unless the stored one is known to be correct."""
        signer, given, stored = self.row.signer, self.given.get("address"), self.before.get("address", "")
        is_same_key = bool(stored) and _is_same_key(self.stored_signer, signer)
        is_kept = given is None or given.lower() == stored.lower()
        is_verified = signer.verified_identity.lower() in {"", stored.lower()}
        # A local key is checked each time: it may have been changed since.
        if is_same_key and is_kept and is_verified and not signing.is_local(signer):
            return
        found, warning = self.answers.address(signer)
        if warning:
            self.warnings.append(("address", warning))
        if warning and is_same_key and "address" not in self.given:
            return
        address = to_checksum_address(given) if given else found
        if found not in {"", address}:
            raise ValidationError({"address": f"must be {found}, the signer's address"})
        self.row.address = address

    def check_nodes(self) -> None:
        """Check who changes its nodes, and that they are on its chain, if that may have changed; this calls them."""
        self._check_payer()
        if not (self.is_new or NODE_FIELDS & self.given.keys()):
            return
        faults, expected = {}, self.row.expected_chain_id
        urls = {column: self.row.own_urls(column) for column in MASKED_COLUMNS}
        paths = [NODE_PATH.format(column, index) for column, each in urls.items() for index in range(len(each))]
        chain_ids = self.answers.chain_ids([url for each in urls.values() for url in each])
        for path, found in zip(paths, chain_ids, strict=True):
            if isinstance(found, str):
                self.warnings.append((path, f"the chain ID of this node was not checked: {found}"))
            elif found != expected:
                faults[path] = f"this node is on chain {found}, not on {expected}"
        if faults:
            raise ValidationError(faults)

    def _note_changes(self) -> None:
        if self.is_new:
            return
        now = snapshot(self.row)
        has_moved = any(self.before[name] != now[name] for name in (*ACCOUNT_COLUMNS, "signer_id"))
        if has_moved and "top_up" not in self.given and self.row.funding_relayer is not None:
            self.removes_top_up = True
            self._set_top_up({})
            self.warnings.append(("top_up", TOP_UP_REMOVED))
            now = snapshot(self.row)
        names = [name for name in {**self.before, **now} if self.before.get(name) != now.get(name)]
        # A database may return policies and rules in another order.
        for name in sorted(names, key=lambda name: name if "." in name else ""):
            field = name.partition(".")[0]
            self.note(name, *_columns_of(field))
        if self.paused is not None:
            self.note("paused")

    def lock(self) -> None:
        self.lock_signers([self])
        self.warn_if_shared()
        target = self.row.notification
        if target and (self.is_new or "notification" in self.columns):
            webhooks = Notification.objects.filter(type=Notification.Type.WEBHOOK)
            rows = webhooks.select_for_update(no_key=True).filter(pk=target.pk)
            if not rows.values_list("pk"):
                raise ValidationError({"notification_id": UNKNOWN})

    def warn_if_shared(self) -> None:
        """Warn if another relayer already has a new account."""
        if self.row.address and (self.is_new or self.columns & ACCOUNT_COLUMNS):
            for other in self.row.others_with_account().values_list("identifier", flat=True)[:1]:
                self.warnings.append(("signer_id", SHARED.format(other)))

    @classmethod
    def lock_signers(cls, writes: Sequence[Self]) -> None:
        """Lock the signers that addresses come from, always before relayers; raise if one has another key by now."""
        found = [write.row for write in writes if write.is_new or write.columns & {"address", "signer"}]
        signers = {row.signer.pk: row.signer for row in found}
        keys = sorted(signers)
        for start in range(0, len(keys), BATCH_SIZE):
            batch = keys[start : start + BATCH_SIZE]
            locked = Signer.objects.select_for_update(no_key=True).filter(pk__in=batch).order_by("pk").in_bulk()
            for key in batch:
                if not _is_same_key(locked.get(key), signers[key]):
                    raise ValidationError({"signer_id": CHANGED if key in locked else UNKNOWN})

    @classmethod
    def save_rows(cls, writes: Sequence[Self]) -> None:
        new = [write.row for write in writes if write.is_new]
        for row in new:
            # Paused once it is saved, with the event.
            row.paused = False
        # The funding relayer of a new one may also be new: it has no primary key to refer to yet.
        later = [row for row in new if row.funding_relayer is not None and row.funding_relayer.pk is None]
        top_ups = [[getattr(row, column) for column in TOP_UP_COLUMNS.values()] for row in later]
        for row in later:
            _set_columns(row, [*CLEARED.values()])
        super().save_rows(writes)
        save_tags({write.row.pk: write.row.tags for write in writes if write.changes_tags})
        cls._save_health(writes)
        for row, values in zip(later, top_ups, strict=True):
            _set_columns(row, values)
            row.save(update_fields=TOP_UP_COLUMNS.values())
        report_removed_top_ups(write.row for write in writes if write.removes_top_up)
        cls._notify_guards(writes)
        for answers in {write.answers for write in writes}:
            answers.save_errors()
        for paused in (True, False):
            write_paused([write.row for write in writes if write.paused is paused], paused)
        if any(write.is_new or write.columns for write in writes):
            push(check_relayers_now)

    @classmethod
    def _save_health(cls, writes: Sequence[Self]) -> None:
        """Request a check of the relayers, from scratch if the account is another one."""
        new = [RelayerHealth(relayer=write.row, network=write.row.network) for write in writes if write.is_new]
        RelayerHealth.objects.bulk_create(new, batch_size=BATCH_SIZE)
        changed: dict[bool, list[int]] = {True: [], False: []}
        for write in writes:
            if write.columns and not write.is_new:
                changed[bool(write.columns & ACCOUNT_COLUMNS)].append(write.row.pk)
                if write.columns & ACCOUNT_COLUMNS:
                    write.row.health.clear_readings()
        for has_moved, keys in changed.items():
            for batch in Selection.from_keys(keys).batches(BATCH_SIZE):
                RelayerHealth.objects.check_again(batch, **(NO_READINGS if has_moved else {}))

    @classmethod
    def _notify_guards(cls, writes: Sequence[Self]) -> None:
        changed: dict[frozenset[str], list[int]] = defaultdict(list)
        for write in writes:
            if write.columns and not write.is_new:
                changed[frozenset(write.columns)].append(write.row.pk)
        for columns, keys in changed.items():
            guards.note_change(keys, columns)


def _set_columns(row: Relayer, values: Sequence[object]) -> None:
    for column, value in zip(TOP_UP_COLUMNS.values(), values, strict=True):
        setattr(row, column, value)


def _columns_of(field: str) -> list[str]:
    """Return the columns of an API field."""
    if field == "top_up":
        return [*TOP_UP_COLUMNS.values()]
    if field == "tags":
        return []
    return [COLUMNS.get(field, field), *([MASKED_COLUMNS[field], "node_keys"] if field in MASKED_COLUMNS else [])]


def _is_same_key(stored: Signer | None, signer: Signer) -> bool:
    return stored is not None and (stored.pk, stored.config_version) == (signer.pk, signer.config_version)


class RelayerFollower(Follower):
    def rows(self, signer: Signer) -> QuerySet[Relayer]:
        return Relayer.objects.filter(signer=signer).select_related("health").order_by("pk")

    def balance(self, row: Relayer) -> tuple[str, str]:
        found, network = row.health.balance, networks().get(row.network)
        return ("unknown", "") if found is None else (rounded_coins(found, network), coins(found, network))

    def refusal(self, signer: Signer, address: str) -> str:
        rows = self.rows(signer).exclude(address=address)
        if connection.in_atomic_block:
            # In the order in which others lock them. None can be added: that needs the lock of the signer.
            rows = rows.select_for_update(no_key=True)
        reasons = guards.refusals(list(rows.values_list("pk", flat=True)))
        return next(iter(reasons.values()), "")

    def follow(self, signer: Signer, address: str) -> int:
        """Move relayers to the address without their top-ups, record it, and have the account checked immediately."""
        if reason := self.refusal(signer, address):
            raise ValidationError(reason)
        moved, after = 0, {"address": address, "balance_is_low": False}
        rows = self.rows(signer).exclude(address=address).select_related("funding_relayer")
        columns = ("identifier", "address", "health__balance_is_low", "funding_relayer__identifier")
        rows = rows.only(*columns, *TOP_UP_COLUMNS.values())
        while batch := list(rows[:BATCH_SIZE]):
            keys = [relayer.pk for relayer in batch]
            Relayer.objects.filter(pk__in=keys).update(address=address, **CLEARED)
            RelayerHealth.objects.check_again(keys, **NO_READINGS)
            guards.note_change(keys, {"address"})
            report_removed_top_ups(each for each in batch if each.funding_relayer)
            before = (
                {"address": each.address, "balance_is_low": each.health.balance_is_low, **each.audited_top_up()}
                for each in batch
            )
            reason = f"Follows the signer {signer}."
            record(changed(*row, after, reason) for row in zip(batch, before, strict=True))
            moved += len(batch)
        if moved:
            push(check_relayers_now)
        return moved
