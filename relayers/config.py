"""Relayers in fleet files."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from chain import nodes
from chain.networks import closed, networks
from relayer_service.api.serializers import (
    BooleanField,
    ChoiceField,
    IdentifierField,
    IntegerField,
    ObjectField,
    StrictSerializer,
    StringField,
)
from relayer_service.fleet.files import ReferenceField
from relayer_service.fleet.references import Variables, escape
from relayer_service.fleet.sections import BATCH_SIZE, Change, ChangedMeanwhile, Section
from relayer_service.net.addresses import MASK, mask
from relayer_service.storage.clock import DatabaseNow
from relayer_service.storage.encryption import DecryptionError
from relayers import states
from relayers.account import ask_address, check_signer, choose_address, note_answer
from relayers.following import RelayerFollower
from relayers.models import ACCOUNT_COLUMNS, Relayer
from relayers.policies import POLICIES, EvmAddressField, validate_policies
from relayers.rpc_urls import RpcUrlsField
from signers import signing
from signers.followers import first_names
from signers.models import Signer

MAX_CHAIN_ID = 2**63 - 1
# What the rule of `Relayer.clean` depends on.
NETWORK_FIELDS = {"network", "chain_id", "custom_rpc_urls", "address"}
UNKNOWN_ADDRESS = "an unknown one"


class PoliciesField(ObjectField):
    """The policies of the entry's network type."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        policies = super().to_internal_value(data)
        assert isinstance(self.parent, RelayerEntry)
        network_type = self.parent.initial_data.get("network_type")
        return validate_policies(network_type, policies) if network_type in [*POLICIES] else dict(policies)


class RelayerEntry(StrictSerializer):
    id = IdentifierField()
    name = StringField(max_length=255)
    network = StringField(max_length=64)
    network_type = ChoiceField(choices=Relayer.NetworkType.choices)
    chain_id = IntegerField(min_value=1, max_value=MAX_CHAIN_ID, required=False)
    address = EvmAddressField(required=False)
    signer_id = ReferenceField("signers")
    notification_id = ReferenceField("notifications", required=False)
    paused = BooleanField(required=False)
    custom_rpc_urls = RpcUrlsField(required=False)
    policies = PoliciesField(required=False)


class RelayerSection(Section):
    name = "relayers"
    entry = RelayerEntry
    queryset = Relayer.objects.select_related("signer", "notification")

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        # By the signer's id, so that each signer is asked once.
        self.addresses: dict[str, tuple[str, str]] = {}
        self.asked: list[tuple[Signer, tuple[str, str]]] = []
        # Signers whose relayers follow to an address, also those that the file does not name.
        self.followed: list[tuple[Signer, str]] = []
        # Relayers to pause or resume: more than a column, as their webhooks get an event.
        self.pauses: list[tuple[Relayer, bool]] = []
        # By URL: the paths in the file, each with the expected chain id.
        self.nodes: dict[str, list[tuple[str, int | None]]] = {}

    def note_change(self, path: str, row: Any) -> None:
        """Move the relayers of a signer with another config to its address, those not in the file included."""
        if not isinstance(row, Signer):
            return
        stored = row.relayers.order_by("sequence").values_list("identifier", "address")
        others = {identifier: address for identifier, address in stored if identifier not in self.rows}
        if not others:
            return
        found, warning = self._ask(row)
        moved = [identifier for identifier, address in others.items() if address not in {"", found}]
        names = first_names(moved, len(moved))
        if found:
            self.followed.append((row, found))
        if moved and found:
            self.file.ask(path, f"the address of relayers that the file does not name becomes {found}: {names}")
        elif moved:
            self.file.fault(path, f"{warning} Relayers that the file does not name need it: {names}")

    def change(self, path: str, row: Relayer | None, values: dict[str, Any], broken: set[str]) -> Change | None:
        change = Change(row, self.snapshot(row)) if row else Change(Relayer(identifier=values.get("id", "")))
        signer = self.sections["signers"].known.get(values.get("signer_id", ""))
        self._fill(change.row, values, signer)
        sound = not broken
        if not broken & NETWORK_FIELDS:
            sound &= self.file.check(path, change.row.clean)
        # A signer with a fault of its own is not asked.
        if signer is None or broken & {"network_type", "address"}:
            return None
        sound &= self.file.check(path, lambda: check_signer(signer, values["network_type"])) and self.file.check(
            path, lambda: self._settle_address(path, change, values.get("address", ""))
        )
        if not sound:
            return None
        if change.row.network in closed() and change.row.network not in networks():
            # It has nodes of its own, so it is let in: somebody may still run such a network.
            self.file.warn(f"{path}.network", closed()[change.row.network])
        self._compare(change)
        if values.get("paused", change.row.paused) != change.row.paused:
            self.pauses.append((change.row, values["paused"]))
            change.fields += [] if change.created else ["paused"]
        if change.created or change.columns & NETWORK_FIELDS - {"address"}:
            self._note_nodes(path, change.row)
        return change

    def _fill(self, row: Relayer, values: dict[str, Any], signer: Signer | None) -> None:
        """Set all values of a relayer except its address, which is the signer's, and its pause."""
        row.name = values.get("name", "")
        row.network = values.get("network", "")
        row.network_type = values.get("network_type", Relayer.NetworkType.EVM)
        row.chain_id = values.get("chain_id")
        row.policies = values.get("policies", {})
        row.notification = self.sections["notifications"].known.get(values.get("notification_id", ""))
        if signer is not None:
            row.signer = signer
        rpc_urls = [dict(entry) for entry in values.get("custom_rpc_urls", [])]
        # Set only if different, as setting it always encrypts it again.
        if not self.holds(row, "custom_rpc_urls", rpc_urls):
            row.set_rpc_urls(rpc_urls)

    def _settle_address(self, path: str, change: Change, given: str) -> None:
        """Set the address to the signer's, unless the stored one is still right."""
        row: Relayer = change.row
        signer_id = row.signer.identifier
        is_same_signer = change.seen and change.seen["signer_id"] == row.signer.pk
        before, is_changed = row.address, signer_id in self.sections["signers"].changed
        # A local key is checked each time: it may have been changed in the admin since.
        is_same_key = is_same_signer and not is_changed and not signing.is_local(row.signer)
        is_verified = row.signer.verified_identity in {"", row.address}
        if is_same_key and is_verified and row.address and given.lower() in {"", row.address.lower()}:
            return
        found, warning = self._ask(row.signer)
        row.address = choose_address(found, given)
        if warning:
            self.file.warn(f"{path}.address", warning)
        if is_same_signer and before not in {"", row.address}:
            self.file.ask(f"{path}.address", f"it changes from {before} to {row.address or UNKNOWN_ADDRESS}")

    def _ask(self, signer: Signer) -> tuple[str, str]:
        """Return what `ask_address` does, and ask each signer once."""
        if signer.identifier not in self.addresses:
            self.addresses[signer.identifier] = ask_address(signer)
            self.asked.append((signer, self.addresses[signer.identifier]))
        return self.addresses[signer.identifier]

    def _note_nodes(self, path: str, relayer: Relayer) -> None:
        for index, entry in enumerate(relayer.custom_rpc_urls or []):
            where = f"{path}.custom_rpc_urls[{index}].url"
            self.nodes.setdefault(entry["url"], []).append((where, relayer.expected_chain_id))

    def _compare(self, change: Change) -> None:
        """Record what the entry changes of a relayer that exists."""
        if change.seen is None:
            return
        row: Relayer = change.row
        now = self.snapshot(row)
        # A notification that the file creates has no key yet, like none at all.
        is_linked_anew = row.notification is not None and row.notification.pk is None
        for name, before in change.seen.items():
            if before == now[name] and not (name == "notification_id" and is_linked_anew):
                continue
            if name == "policies":
                names = sorted({*before, *row.policies})
                change.fields += [f"policies.{each}" for each in names if before.get(each) != row.policies.get(each)]
                change.columns.add(name)
            elif name == "custom_rpc_urls":
                change.note(name, name, "masked_rpc_urls")
            else:
                change.note(name, name)
        if ACCOUNT_COLUMNS & change.columns:
            change.columns |= row.forget_account()
        if change.columns:
            # A check in flight read the relayer as it was before, so it loses its lease.
            row.due_at, row.lease = DatabaseNow(), None
            change.columns |= {"due_at", "lease"}

    def finish(self) -> None:
        """Check that nodes are on their relayers' chains, each asked once; one that cannot be asked is a warning."""
        for url, found in zip(self.nodes, nodes.chain_ids([*self.nodes]), strict=True):
            for path, expected in self.nodes[url]:
                if isinstance(found, str):
                    self.file.warn(path, f"the chain id of this node was not checked: {found}")
                elif found != expected:
                    self.file.fault(path, f"this node is on chain {found} instead of {expected}")

    def lock(self) -> None:
        """Lock the signers that new addresses come from, before relayers as everywhere; then the relayers."""
        changes = [each for each in self.changes if each.created or each.columns & {"address", "signer_id"}]
        stored = {change.row.signer.pk: change.row.signer for change in changes}
        keys = sorted(stored)
        for start in range(0, len(keys), BATCH_SIZE):
            batch = keys[start : start + BATCH_SIZE]
            rows = Signer.objects.select_for_update(no_key=True).filter(pk__in=batch).order_by("pk")
            if {row.pk: row.config_version for row in rows} != {pk: stored[pk].config_version for pk in batch}:
                raise ChangedMeanwhile
        super().lock()

    def locked_rows(self) -> QuerySet[Any]:
        return self.queryset.select_for_update(of=("self",))

    def write(self) -> None:
        super().write()
        for signer, address in self.followed:
            RelayerFollower().follow(signer, address)
        for signer, (_, warning) in self.asked:
            note_answer(signer, warning)
        for paused in (True, False):
            states.write_paused([relayer for relayer, wanted in self.pauses if wanted is paused], paused)

    @classmethod
    def dump_row(cls, row: Relayer, variables: Variables) -> dict[str, Any]:
        """Return a relayer as an entry; what is not set is left out."""
        names = [name for name in POLICIES[row.network_type]().fields if name in row.policies]
        urls = [
            {
                "url": escape(url) or variables.reference("relayer", row.identifier, "rpc_url", str(number)),
                "weight": weight,
            }
            for number, (url, weight) in enumerate(open_urls(row), start=1)
        ]
        dumped = {
            "id": escape(row.identifier),
            "name": escape(row.name),
            "network": escape(row.network),
            "network_type": row.network_type,
            "chain_id": row.chain_id,
            "address": row.address or None,
            "signer_id": escape(row.signer.identifier),
            "notification_id": escape(row.notification.identifier) if row.notification else None,
            "paused": row.paused,
            "custom_rpc_urls": urls or None,
            "policies": {name: row.policies[name] for name in names} or None,
        }
        return {name: value for name, value in dumped.items() if value is not None}


def open_urls(relayer: Relayer) -> list[tuple[str, int]]:
    """Return a relayer's own RPC URLs, each with its weight; empty where one may hold a key or cannot be read."""
    try:
        own = relayer.custom_rpc_urls or []
    except DecryptionError:
        return [("", entry["weight"]) for entry in relayer.masked_rpc_urls]
    return [("" if mask(entry["url"]).endswith(f"/{MASK}") else entry["url"], entry["weight"]) for entry in own]
