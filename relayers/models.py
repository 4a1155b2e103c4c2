import re
from copy import deepcopy
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from eth_utils.address import to_checksum_address

from chain.networks import networks, unknown
from notifications.models import Notification
from relayer_service.api.exceptions import NotFound
from relayer_service.audit.values import hidden_column
from relayer_service.net.addresses import mask
from relayer_service.storage.clock import DatabaseNow
from relayer_service.storage.encryption import DecryptionError, EncryptedJSONField
from relayer_service.storage.leases import Leased
from relayer_service.storage.prefixes import prefix_index
from relayer_service.storage.resources import Resource
from signers.models import Signer

MAX_CHAIN_ID = 2**63 - 1
# A change of one of these makes it another account, whose readings start over.
ACCOUNT_COLUMNS = {"network", "chain_id", "address"}
# Columns with readings of the account, and their values before the first one.
NO_READINGS: dict[str, Any] = {
    "nonce": None,
    "balance_text": "",
    "balance_at": None,
    "balance_is_low": False,
    "balance_hours": [],
}

ACTIVE = "active"
# Problems of a relayer, the worst first; it can have several. Each has its own index.
PROBLEMS = {
    "disabled": models.Q(system_disabled=True),
    "paused": models.Q(paused=True),
    "low balance": models.Q(balance_is_low=True),
    "no address": models.Q(address=""),
    "unknown": models.Q(system_disabled=False)
    & ~models.Q(address="")
    & (models.Q(checked_at=None) | models.Q(nonce=None) | models.Q(balance_text="")),
}
# Still enabled: more failed checks disable it.
NODES_FAILING = models.Q(failed_checks__gt=0, system_disabled=False)
CONDITIONS = {
    ACTIVE: models.Q(system_disabled=False, paused=False, balance_is_low=False)
    & models.Q(checked_at__isnull=False, nonce__isnull=False)
    & ~models.Q(address="")
    & ~models.Q(balance_text=""),
    **PROBLEMS,
}
NOT_FOUND = "Relayer with ID {} not found"


class Relayer(Resource, Leased):
    """An account on a network, with its signer and policies. `due_at` and `lease` are those of its health check."""

    reserved_ending = re.compile(
        r"/(rpc|status|balance|sign|sign-typed-data|sign-transaction|transactions(/.*)?)/?\Z", re.DOTALL
    )

    class NetworkType(models.TextChoices):
        EVM = "evm", "EVM"

    class DisabledReason(models.TextChoices):
        NONCE_SYNC_FAILED = "NonceSyncFailed", "The nonce cannot be read from any node"

    name = models.CharField(max_length=255)
    network = models.CharField(max_length=64)
    network_type = models.CharField(max_length=16, choices=NetworkType, default=NetworkType.EVM)
    chain_id = models.PositiveBigIntegerField(
        "chain ID",
        null=True,
        blank=True,
        help_text="Required for an unknown network. Its nodes must report this chain ID.",
    )
    address = models.CharField(max_length=64, blank=True, help_text="Derived from the signer, if it can provide it.")
    # Indexed below, with the order of lists.
    signer = models.ForeignKey(Signer, on_delete=models.PROTECT, related_name="relayers", db_index=False)
    notification = models.ForeignKey(
        Notification, on_delete=models.PROTECT, related_name="relayers", null=True, blank=True, db_index=False
    )
    paused = models.BooleanField(default=False, help_text="Set by staff.")
    system_disabled = models.BooleanField(default=False, editable=False, help_text="Set by the health check.")
    disabled_reason_type = models.CharField(max_length=32, blank=True, editable=False, choices=DisabledReason)
    disabled_reason_details = models.TextField(blank=True, editable=False)
    custom_rpc_urls = EncryptedJSONField(null=True, editable=False)
    masked_rpc_urls = models.JSONField(
        default=list, editable=False, help_text="The custom RPC URLs, masked for display."
    )
    policies = models.JSONField(default=dict, editable=False)

    # A new relayer is due immediately.
    due_at = models.DateTimeField(null=True, db_index=True, default=DatabaseNow, editable=False)
    # A claim leaves `due_at` as it is: no index has this column, so that PostgreSQL updates none (a HOT update).
    leased_until = models.DateTimeField(null=True, editable=False)
    lease_end = "leased_until"
    # Readings of the health check. Amounts are text: not every database stores integers of 256 bits exactly.
    checked_at = models.DateTimeField("last check", null=True, editable=False)
    nonce = models.PositiveBigIntegerField(null=True, editable=False)
    balance_text = models.CharField("balance", max_length=78, blank=True, editable=False)
    balance_at = models.DateTimeField(null=True, editable=False, help_text="When the balance was last read.")
    balance_is_low = models.BooleanField(default=False, editable=False)
    balance_hours = models.JSONField(
        default=list, db_default=[], editable=False, help_text="The balance by hour; see `balance_hours.py`."
    )
    failed_checks = models.PositiveIntegerField(default=0, editable=False, help_text="Consecutive failed checks.")
    good_checks = models.PositiveIntegerField(default=0, editable=False, help_text="Consecutive successful checks.")

    class Meta(Resource.Meta):
        indexes = [
            *(
                models.Index("sequence", name=f"relayer_{state.replace(' ', '_')}", condition=condition)
                for state, condition in {**CONDITIONS, "nodes failing": NODES_FAILING}.items()
            ),
            prefix_index("identifier", name="relayer_identifier_prefix"),
            prefix_index("name", name="relayer_name_prefix"),
            prefix_index("address", name="relayer_address_prefix"),
            models.Index("network", "sequence", name="relayer_network"),
            models.Index("signer", "sequence", name="relayer_signer"),
            models.Index("notification", "sequence", name="relayer_notification"),
            models.Index("checked_at", "sequence", name="relayer_checked"),
        ]
        constraints = [
            models.CheckConstraint(condition=~models.Q(identifier=""), name="relayer_identifier_not_empty"),
            models.CheckConstraint(condition=~models.Q(name=""), name="relayer_name_not_empty"),
            models.CheckConstraint(condition=models.Q(network_type="evm"), name="relayer_network_type_known"),
            models.CheckConstraint(
                condition=models.Q(system_disabled=True, disabled_reason_type="NonceSyncFailed")
                | models.Q(system_disabled=False, disabled_reason_type="", disabled_reason_details=""),
                name="relayer_reason_while_disabled",
            ),
        ]

    @property
    def states(self) -> list[str]:
        """The names of its problems, which `PROBLEMS` has in SQL, or "active" if it has none."""
        held = {
            "disabled": self.system_disabled,
            "paused": self.paused,
            "low balance": self.balance_is_low,
            "no address": not self.address,
            "unknown": self.address
            and not self.system_disabled
            and (self.checked_at is None or self.nonce is None or not self.balance_text),
        }
        return [state for state in PROBLEMS if held[state]] or [ACTIVE]

    @property
    def balance(self) -> int | None:
        """The last balance that was read, in wei."""
        return int(self.balance_text) if self.balance_text else None

    @property
    def expected_chain_id(self) -> int | None:
        known = networks().get(self.network)
        return known.chain_id if known else self.chain_id

    def audited(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "network": self.network,
            "network_type": self.network_type,
            "chain_id": self.chain_id,
            "address": self.address,
            "signer_id": self.signer.identifier,
            "notification_id": self.notification and self.notification.identifier,
            "paused": self.paused,
            "custom_rpc_urls": hidden_column(self, "custom_rpc_urls", shown=self.masked_rpc_urls),
            **{f"policies.{name}": value for name, value in self.policies.items()},
            "balance_is_low": self.balance_is_low,
        }

    def clear_readings(self) -> set[str]:
        """Clear the readings of another account; return the changed columns."""
        for name, value in deepcopy(NO_READINGS).items():
            setattr(self, name, value)
        return {*NO_READINGS}

    def set_rpc_urls(self, rpc_urls: list[dict[str, Any]]) -> None:
        """Set the custom nodes. Equal ones are not set, as that would encrypt them again."""
        try:
            is_same = (self.custom_rpc_urls or []) == rpc_urls
        except DecryptionError:
            is_same = False
        if not is_same:
            self.custom_rpc_urls = rpc_urls or None
            self.masked_rpc_urls = [{**entry, "url": mask(entry["url"])} for entry in rpc_urls]

    def own_urls(self) -> list[str]:
        """Return the URLs of the custom nodes; none if they cannot be decrypted."""
        try:
            return [entry["url"] for entry in self.custom_rpc_urls or []]
        except DecryptionError:
            return []

    def node_urls(self) -> list[tuple[str, int]]:
        """Return the nodes to call, each with its weight: the custom ones, or else those of the network."""
        own = self.custom_rpc_urls or []
        if own:
            return [(entry["url"], entry["weight"]) for entry in own]
        known = networks().get(self.network)
        return [(url, 100) for url in known.rpc_urls] if known else []

    def clean(self) -> None:
        super().clean()
        known = networks().get(self.network)
        faults = {}
        if known is None and not (self.masked_rpc_urls and self.chain_id):
            faults["network"] = unknown(self.network, "custom RPC URLs and a chain ID are required")
        if known is not None and self.chain_id not in {None, known.chain_id}:
            faults["chain_id"] = f"must be {known.chain_id}, the chain ID of {self.network}"
        if self.address:
            self.address = to_checksum_address(self.address)
        if faults:
            raise ValidationError(faults)


def find_relayer(identifier: str, rows: models.QuerySet[Relayer] | None = None) -> Relayer:
    """Return a relayer, of all rows or of these; raise `NotFound` if there is none.

    Never cached: code that decides about money reads `paused`, `system_disabled` and `policies` here, at the latest in
    the transaction that decides (with `rows` locked, where two may decide at once).
    """
    found = (Relayer.objects.all() if rows is None else rows).filter(identifier=identifier).first()
    if found is None:
        raise NotFound(NOT_FOUND.format(identifier))
    return found
