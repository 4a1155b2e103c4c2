"""Relayers in fleet files."""

from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import QuerySet

from relayer_service.api.serializers import (
    BooleanField,
    ChoiceField,
    EvmAddressField,
    IdentifierField,
    IntegerField,
    ObjectField,
    StrictSerializer,
    StringField,
)
from relayer_service.fleet.files import ReferenceField, identifier_of
from relayer_service.fleet.references import Variables, escape
from relayer_service.fleet.sections import ConcurrentChange, Section
from relayer_service.net.addresses import MASK, mask
from relayer_service.storage.encryption import DecryptionError
from relayers.health.probes import ProbeCache
from relayers.models import MASKED_COLUMNS, MAX_CHAIN_ID, Relayer
from relayers.models.top_ups import TOP_UP_COLUMNS, TopUpAmounts
from relayers.policies import EvmPolicies, validate_policies
from relayers.serializers.networks import MAX_COUNT, RpcUrlsField
from relayers.serializers.relayers import NetworkField, SigningKindsField, TagsField
from relayers.serializers.top_ups import TopUpRequest, WeiAmountField
from relayers.writes import NODE_FIELDS, RelayerFollower, RelayerWrite
from signers.followers import first_names
from signers.models import Signer
from spending.shape import SpendingRules, ordered_rules
from spending.writes import stored_rules

# The fields that `Relayer.clean` checks.
NETWORK_FIELDS = {*NODE_FIELDS, "address"}
NO_FUNDING = "there is no relayer with this id in the service, or before this one in the file"
# Values of fields that an entry omits; `paused`, `tags`, `spending_rules` and `reserve` stay as they are.
DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(("chain_id", "address", *MASKED_COLUMNS, "private_fallback_blocks", "top_up")),
    "policies": {},
    "allow_signing": [],
}
# Names of the variables in a dump for URLs that may hold keys.
URL_VARIABLES = {"custom_rpc_urls": "rpc_url", "private_rpc_urls": "private_rpc_url"}


class PoliciesField(ObjectField):
    """The policies, which are not checked for an unknown network type: that is the fault."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        policies = super().to_internal_value(data)
        assert isinstance(self.parent, RelayerEntry)
        is_evm = self.parent.initial_data.get("network_type") == Relayer.NetworkType.EVM
        return validate_policies(policies) if is_evm else dict(policies)


class RelayerEntry(StrictSerializer):
    id = IdentifierField()
    name = StringField(max_length=255)
    network = NetworkField()
    network_type = ChoiceField(choices=Relayer.NetworkType.choices)
    chain_id = IntegerField(min_value=1, max_value=MAX_CHAIN_ID, required=False)
    address = EvmAddressField(required=False)
    signer_id = ReferenceField("signers")
    notification_id = ReferenceField("notifications", required=False)
    paused = BooleanField(required=False)
    tags = TagsField(required=False)
    custom_rpc_urls = RpcUrlsField(required=False)
    private_rpc_urls = RpcUrlsField(required=False)
    private_fallback_blocks = IntegerField(min_value=1, max_value=MAX_COUNT, required=False)
    policies = PoliciesField(required=False)
    allow_signing = SigningKindsField(required=False)
    spending_rules = SpendingRules(required=False)
    top_up = TopUpRequest(required=False)
    reserve = WeiAmountField(required=False)


class RelayerSection(Section):
    name = "relayers"
    entry = RelayerEntry
    # The rules are not joined: see `HolderWrite`.
    queryset = Relayer.objects.select_related("signer", "notification", "funding_relayer", "health").prefetch_related(
        "spending", "tag_rows"
    )
    write_class = RelayerWrite
    more_columns = ("reserve_text", "funding_relayer_id", *(TOP_UP_COLUMNS[name] for name in TopUpAmounts._fields))

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.answers = ProbeCache()
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
        if moved and (reason := RelayerFollower().refusal(row, found)):
            self.file.fault(path, reason)
            return
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
        if "top_up" in values:
            rows["top_up"] = self._funded(path, values["top_up"])
            if rows["top_up"] is None:
                broken = broken | {"top_up"}
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

    def check_new(self, values: dict[str, Any]) -> None:
        row = Relayer(identifier=values["id"], network=values["network"], chain_id=values.get("chain_id"))
        row.masked_rpc_urls = values.get("custom_rpc_urls", [])
        row.clean()

    def find_rows(self) -> None:
        super().find_rows()
        top_ups = [entry.get("top_up") for entry in self.entries if isinstance(entry, dict)]
        named = {identifier_of(top_up, "funding_relayer_id") for top_up in top_ups}
        self.known |= self.read_rows(named - self.known.keys())

    def _funded(self, path: str, values: dict[str, Any]) -> dict[str, Any] | None:
        """Return a top-up with the row of its funding relayer; None if there is no such row."""
        funding = self.known.get(values["funding_relayer_id"])
        if funding is None:
            self.file.fault(f"{path}.top_up.funding_relayer_id", NO_FUNDING)
            return None
        return {**values, "funding_relayer_id": funding}

    def finish(self) -> None:
        """Check that nodes are on their relayers' chains; all are called concurrently."""
        rows = [write.row for write in self.with_nodes.values()]
        self.answers.chain_ids([url for row in rows for column in MASKED_COLUMNS for url in row.own_urls(column)])
        for path, write in self.with_nodes.items():
            self.file.check(path, write.check_nodes)
            self.report_warnings(path, write)

    def lock(self) -> None:
        try:
            RelayerWrite.lock_signers(self.writes)
            super().lock()
            for write in self.updated:
                write.check_guards()
        except ValidationError:
            raise ConcurrentChange from None

    def snapshot(self, row: Any) -> dict[str, Any]:
        return {**super().snapshot(row), "spending_rules": stored_rules(row), "tags": row.tags}

    def locked_rows(self) -> QuerySet[Any]:
        return self.queryset.select_for_update(of=("self",))

    def save(self) -> None:
        super().save()
        try:
            for signer, address in self.followed:
                RelayerFollower().follow(signer, address)
        except ValidationError:
            raise ConcurrentChange from None
        # Also for signers whose relayers do not change.
        self.answers.save_errors()

    @classmethod
    def dump(cls, variables: Variables) -> list[dict[str, Any]]:
        """Return all relayers, each after the one that funds it."""
        rows = {row.pk: row for row in cls.queryset.order_by("pk")}
        ordered: dict[int, Relayer] = {}
        for each in rows.values():
            row: Relayer | None = each
            line: list[Relayer] = []
            while row is not None and row.pk not in ordered and row not in line:
                line.append(row)
                row = rows.get(row.funding_relayer_id or 0)
            ordered |= {found.pk: found for found in reversed(line)}
        return [cls.dump_row(row, variables) for row in ordered.values()]

    @classmethod
    def dump_row(cls, row: Relayer, variables: Variables) -> dict[str, Any]:
        names = [name for name in EvmPolicies().fields if name in row.policies]
        urls = {
            column: [
                {
                    "url": escape(url) or variables.reference("relayer", row.identifier, name, str(number)),
                    "weight": weight,
                }
                for number, (url, weight) in enumerate(open_urls(row, column), start=1)
            ]
            for column, name in URL_VARIABLES.items()
        }
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
            "tags": row.tags or None,
            **{column: entries or None for column, entries in urls.items()},
            "private_fallback_blocks": row.private_fallback_blocks,
            "policies": {name: row.policies[name] for name in names} or None,
            "allow_signing": row.allow_signing or None,
            "spending_rules": ordered_rules(stored_rules(row)) or None,
            "top_up": {name: escape(value) for name, value in row.top_up_values().items()} or None,
            "reserve": row.reserve_text,
        }
        return {name: value for name, value in dumped.items() if value is not None}


def open_urls(relayer: Relayer, column: str) -> list[tuple[str, int]]:
    """Return the RPC URLs of a column with their weights; "" for one that may hold a key or cannot be decrypted."""
    try:
        own = getattr(relayer, column) or []
    except DecryptionError:
        return [("", entry["weight"]) for entry in getattr(relayer, MASKED_COLUMNS[column])]
    return [("" if mask(entry["url"]).endswith(f"/{MASK}") else entry["url"], entry["weight"]) for entry in own]
