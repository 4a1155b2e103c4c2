"""Relayers in fleet files."""

from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import QuerySet

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
from relayer_service.fleet.sections import ConcurrentChange, Section
from relayer_service.net.addresses import MASK, mask
from relayer_service.storage.encryption import DecryptionError
from relayers.account import Answers
from relayers.models import MAX_CHAIN_ID, Relayer
from relayers.policies import POLICIES, EvmAddressField, validate_policies
from relayers.serializers import RpcUrlsField
from relayers.writes import NODE_FIELDS, RelayerFollower, RelayerWrite
from signers.followers import first_names
from signers.models import Signer

# The fields that `Relayer.clean` checks.
NETWORK_FIELDS = {*NODE_FIELDS, "address"}
# Values of fields that an entry omits; `paused` stays as it is.
DEFAULTS: dict[str, Any] = {"chain_id": None, "address": None, "custom_rpc_urls": None, "policies": {}}


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
    write_class = RelayerWrite

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.answers = Answers()
        # Signers whose relayers move to an address, those that are not in the file included.
        self.followed: list[tuple[Signer, str]] = []
        # By path, the writes of relayers whose nodes are called.
        self.with_nodes: dict[str, RelayerWrite] = {}

    def note_change(self, path: str, row: Any) -> None:
        """Plan to move the relayers of a signer with a changed config to its address, also those not in the file."""
        if not isinstance(row, Signer):
            return
        stored = row.relayers.order_by("sequence").values_list("identifier", "address")
        others = {identifier: address for identifier, address in stored if identifier not in self.rows}
        if not others:
            return
        found, warning = self.answers.address(row)
        moved = [identifier for identifier, address in others.items() if address not in {"", found}]
        names = first_names(moved, len(moved))
        if found:
            self.followed.append((row, found))
        if moved and found:
            self.file.ask(path, f"relayers that are not in the file move to the address {found}: {names}")
        elif moved:
            self.file.fault(path, f"{warning} It is required by relayers that are not in the file: {names}")

    def write(self, path: str, row: Any, values: dict[str, Any], broken: set[str]) -> RelayerWrite | None:
        write = RelayerWrite(row) if row else RelayerWrite.of_new_row(values)
        write.answers = self.answers
        rows = {name: self.sections[each].known.get(values.get(name, "")) for name, each in self.references.items()}
        if (signer := rows["signer_id"]) is None:
            # The row keeps its own, which a duplicate entry reads again.
            rows["signer_id"] = write.stored_signer
        write.set(DEFAULTS | values | rows)
        sound = bool(broken & NETWORK_FIELDS) or self.file.check(path, write.row.clean)
        # A signer whose entry has a fault is not called.
        if signer is None or broken & {"network_type", "address"}:
            return None
        if not self.file.check(path, write.check_account) or broken or not sound:
            return None
        before, after = write.before.get("address", ""), write.row.address
        if before.lower() not in {"", after.lower()} and "signer_id" not in write.fields:
            self.file.ask(f"{path}.address", f"changes from {before} to {after or 'an unknown address'}")
        if write.is_new or write.columns & NODE_FIELDS:
            self.with_nodes[path] = write
        return write

    def finish(self) -> None:
        """Check that nodes are on their relayers' chains; all are called concurrently."""
        self.answers.chain_ids([url for write in self.with_nodes.values() for url in write.row.own_urls()])
        for path, write in self.with_nodes.items():
            self.file.check(path, write.check_nodes)
            self.report_warnings(path, write)

    def lock(self) -> None:
        try:
            RelayerWrite.lock_signers(self.writes)
        except ValidationError:
            raise ConcurrentChange from None
        super().lock()

    def locked_rows(self) -> QuerySet[Any]:
        return self.queryset.select_for_update(of=("self",))

    def save(self) -> None:
        super().save()
        for signer, address in self.followed:
            RelayerFollower().follow(signer, address)
        # Also for signers whose relayers do not change.
        self.answers.save_errors()

    @classmethod
    def dump_row(cls, row: Relayer, variables: Variables) -> dict[str, Any]:
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
    """Return the custom RPC URLs with their weights; "" for a URL that may hold a key or cannot be decrypted."""
    try:
        own = relayer.custom_rpc_urls or []
    except DecryptionError:
        return [("", entry["weight"]) for entry in relayer.masked_rpc_urls]
    return [("" if mask(entry["url"]).endswith(f"/{MASK}") else entry["url"], entry["weight"]) for entry in own]
