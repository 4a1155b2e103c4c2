"""The one way in which relayers are created and changed."""

from collections.abc import Sequence
from typing import Self

from django.core.exceptions import ValidationError

from chain.networks import closed, networks
from notifications.models import Notification
from relayer_service.audit.recording import snapshot
from relayer_service.background.tasks import push
from relayer_service.storage.clock import DatabaseNow
from relayer_service.writes import BATCH_SIZE, Values, Write
from relayers.account import Answers, check_signer, choose_address
from relayers.models import ACCOUNT_COLUMNS, Relayer
from relayers.states import write_paused
from relayers.tasks import check_relayers_now
from signers import signing
from signers.models import Signer

# What decides which chain the relayer's own nodes must be on.
NODE_FIELDS = {"network", "chain_id", "custom_rpc_urls"}
# The path of a node in faults and warnings.
NODE_PATH = "custom_rpc_urls[{}].url"
# The attribute that a value is set to, by its API name.
ATTRIBUTES = {name: name for name in ("name", "network", "network_type", "chain_id", "policies")} | {
    "signer_id": "signer",
    "notification_id": "notification",
}
UNKNOWN = "there is none with this id"
CHANGED = "the signer was changed meanwhile: try again"


class RelayerWrite(Write[Relayer]):
    """A relayer to create or to change.

    `signer_id` and `notification_id` are rows, `policies` are valid and replace those that are set. The `address` is
    the signer's; one that is given must be that, as far as the signer can be asked. Empty, the signer is asked for it;
    None, it is asked unless the stored address is known to be its own; left out, that one stays even where the signer
    cannot be asked.
    """

    model = Relayer

    def __init__(self, row: Relayer) -> None:
        super().__init__(row)
        # Replaced by those of the request or file that this write is a part of.
        self.answers = Answers()
        self.given: Values = {}
        # Whether to pause or to resume: more than a column, as the webhook gets an event.
        self.paused: bool | None = None
        self.stored_signer = None if self.is_new else row.signer

    def set(self, values: Values) -> None:
        """Set all values except the address, which `check_account` finds, and the pause."""
        self.given = values
        for name in ATTRIBUTES.keys() & values.keys():
            setattr(self.row, ATTRIBUTES[name], values[name])
        if "custom_rpc_urls" in values:
            self.row.set_rpc_urls([dict(entry) for entry in values["custom_rpc_urls"] or []])
        if values.get("paused", self.row.paused) != self.row.paused:
            self.paused = values["paused"]

    def check(self) -> None:
        """Apply all rules to a new relayer; to one that exists those that do not ask its signer.

        One that only is paused must not depend on what has become of its network.
        """
        if self.is_new:
            self.row.clean()
            self.check_account()
        else:
            self._note_changes()
            if self.columns:
                self.row.clean()
        self.check_nodes()

    def check_account(self) -> None:
        """Refuse a signer that cannot sign here, and set the address. This may ask the signer, and takes a while."""
        row = self.row
        check_signer(row.signer, row.network_type)
        self._settle_address()
        if "network" in self.given and row.network in closed() and row.network not in networks():
            # It has nodes of its own, so it is let in: somebody may still run such a network.
            self.warnings.append(("network", closed()[row.network]))
        self._note_changes()

    def _settle_address(self) -> None:
        """Set the address to the signer's, unless the stored one is still right."""
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
        if not (warning and is_same_key and "address" not in self.given):
            self.row.address = choose_address(found, given or "")

    def check_nodes(self) -> None:
        """Refuse nodes of another chain than the relayer's, where it may be another one; this asks the nodes."""
        if not (self.is_new or NODE_FIELDS & self.given.keys()):
            return
        faults, expected = {}, self.row.expected_chain_id
        for index, found in enumerate(self.answers.chain_ids(self.row.own_urls())):
            path = NODE_PATH.format(index)
            if isinstance(found, str):
                self.warnings.append((path, f"the chain id of this node was not checked: {found}"))
            elif found != expected:
                faults[path] = f"this node is on chain {found} instead of {expected}"
        if faults:
            raise ValidationError(faults)

    def _note_changes(self) -> None:
        """Note what is different of a relayer that exists."""
        if self.is_new:
            return
        now = snapshot(self.row)
        names = [name for name in {**self.before, **now} if self.before.get(name) != now.get(name)]
        # A database may return policies in another order.
        for name in sorted(names, key=lambda name: name if "." in name else ""):
            field = name.partition(".")[0]
            self.note(name, ATTRIBUTES.get(field, field), *(["masked_rpc_urls"] if field == "custom_rpc_urls" else []))
        if self.paused is not None:
            self.note("paused")

    def lock(self) -> None:
        self.lock_signers([self])
        target = self.row.notification
        if target and (self.is_new or "notification" in self.columns):
            rows = Notification.objects.select_for_update(no_key=True).filter(pk=target.pk)
            if not rows.values_list("pk"):
                raise ValidationError({"notification_id": UNKNOWN})

    @classmethod
    def lock_signers(cls, writes: Sequence[Self]) -> None:
        """Lock the signers that addresses come from, before relayers as everywhere; refuse those with another key."""
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
        for write in writes:
            write._prepare()
        super().save_rows(writes)
        for answers in {write.answers for write in writes}:
            answers.note_errors()
        for paused in (True, False):
            write_paused([write.row for write in writes if write.paused is paused], paused)
        if any(write.is_new or write.columns for write in writes):
            push(check_relayers_now)

    def _prepare(self) -> None:
        if self.is_new:
            # Paused once it is saved, with the event.
            self.row.paused = False
        elif self.columns:
            if self.columns & ACCOUNT_COLUMNS:
                self.columns |= self.row.forget_account()
            # A health check that is under way read the relayer as it was before, so it loses its lease.
            self.row.due_at, self.row.lease = DatabaseNow(), None
            self.columns |= {"due_at", "lease"}


def _is_same_key(stored: Signer | None, signer: Signer) -> bool:
    return stored is not None and (stored.pk, stored.config_version) == (signer.pk, signer.config_version)
