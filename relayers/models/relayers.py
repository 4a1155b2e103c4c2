import re
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator
from django.db import models
from django.utils.functional import cached_property
from eth_utils.address import to_checksum_address

from chain.networks import networks, unknown
from chain.nodes.observers import node_key
from notifications.models import Notification
from relayer_service.api.exceptions import NotFound
from relayer_service.audit.values import hidden_column
from relayer_service.database.prefixes import prefix_index, starts_with
from relayer_service.net.addresses import mask
from relayer_service.storage.encryption import DecryptionError, EncryptedJSONField
from relayer_service.storage.resources import Resource
from relayers.models.health import DISABLED, LOW_BALANCE, UNKNOWN, WORKING, of_relayer
from relayers.models.top_ups import NO_TOP_UP, TOP_UP_COLUMNS, WITH_TOP_UP, TopUpAmounts, top_up_faults
from signers.models import Signer
from spending.models import SpendingPolicy
from spending.writes import audited_list, audited_rules

MAX_CHAIN_ID = 2**63 - 1
# A change of one of these makes it another account, whose readings start over.
ACCOUNT_COLUMNS = {"network", "chain_id", "address"}

ACTIVE = "active"
# Problems of a relayer, the worst first; it can have several. What staff set also has its own index.
PAUSED, NO_ADDRESS = models.Q(paused=True), models.Q(address="")
# Half of what an active one is: the database begins with the rarer half.
RUNNING = models.Q(paused=False) & ~NO_ADDRESS
PROBLEMS = {
    "disabled": of_relayer(DISABLED),
    "paused": PAUSED,
    "low balance": of_relayer(LOW_BALANCE),
    "no address": NO_ADDRESS,
    "unknown": of_relayer(UNKNOWN) & ~NO_ADDRESS,
}
CONDITIONS = {ACTIVE: of_relayer(WORKING) & RUNNING, **PROBLEMS}
NOT_FOUND = "Relayer with ID {} not found"
# Encrypted columns, and what is shown of each.
PRIVATE, UNKNOWN_NODES = "~", "?"
MASKED_COLUMNS = {"custom_rpc_urls": "masked_rpc_urls", "private_rpc_urls": "masked_private_rpc_urls"}


def validate_signing_kinds(kinds: Any) -> None:
    if not isinstance(kinds, list) or not all(kind in Relayer.SigningKind.values for kind in kinds):
        raise ValidationError(f"Must be a list of: {', '.join(Relayer.SigningKind.values)}.")


class Relayer(Resource):
    """An account on a network, with its signer and policies: what staff set. See `RelayerHealth` for its readings."""

    reserved_ending = re.compile(
        r"/(rpc|status|balance|sign|sign-typed-data|sign-transaction|transactions(/.*)?)/?\Z", re.DOTALL
    )

    class NetworkType(models.TextChoices):
        EVM = "evm", "EVM"

    class SigningKind(models.TextChoices):
        MESSAGES = "messages", "messages (EIP-191)"
        TYPED_DATA = "typed_data", "typed data (EIP-712)"

    name = models.CharField(max_length=255)
    network = models.CharField(max_length=64)
    network_type = models.CharField(max_length=16, choices=NetworkType, default=NetworkType.EVM)
    chain_id = models.PositiveBigIntegerField(
        "chain ID",
        null=True,
        blank=True,
        help_text="Required for an unknown network. Its nodes must report this chain ID.",
    )
    address = models.CharField(max_length=64, blank=True, help_text="Filled in from the signer, if it can provide it.")
    # Indexed below, with the order of lists.
    signer = models.ForeignKey(Signer, on_delete=models.PROTECT, related_name="relayers", db_index=False)
    notification = models.ForeignKey(
        Notification,
        on_delete=models.PROTECT,
        related_name="relayers",
        null=True,
        blank=True,
        db_index=False,
        verbose_name="webhook",
    )
    paused = models.BooleanField(default=False, help_text="Set by staff.")
    custom_rpc_urls = EncryptedJSONField(null=True, editable=False)
    masked_rpc_urls = models.JSONField(
        default=list, editable=False, help_text="The custom RPC URLs, masked for display."
    )
    private_rpc_urls = EncryptedJSONField(null=True, editable=False)
    masked_private_rpc_urls = models.JSONField(
        default=list, db_default=[], editable=False, help_text="The private RPC URLs, masked for display."
    )
    # See `own_node_keys`. Unknown in rows of earlier releases, until their next check.
    node_keys = models.CharField(max_length=2000, blank=True, default="", db_default=UNKNOWN_NODES, editable=False)
    private_fallback_blocks = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="After how many blocks without being mined a private transaction is also sent to public nodes. "
        "Empty: never.",
    )
    policies = models.JSONField(default=dict, editable=False)
    allow_signing = models.JSONField(
        default=list,
        db_default=[],
        blank=True,
        validators=[validate_signing_kinds],
        help_text="What tokens with the scope `sign` can have signed with its key, besides transactions.",
    )
    spending = models.ForeignKey(
        SpendingPolicy, on_delete=models.PROTECT, null=True, editable=False, db_index=False, related_name="+"
    )

    # Who sends it coins when its balance falls below the minimum. Amounts are in wei, as text.
    funding_relayer = models.ForeignKey(
        "self",
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        db_index=False,
        related_name="+",
        help_text="Sends it coins when its balance falls below the minimum. Empty: only an alert.",
    )
    top_up_minimum_text = models.CharField(max_length=78, blank=True, default="", db_default="", editable=False)
    top_up_target_text = models.CharField(max_length=78, blank=True, default="", db_default="", editable=False)
    top_up_daily_limit_text = models.CharField(max_length=78, blank=True, default="", db_default="", editable=False)
    # Null, and not empty: adding any other column to this table would drop its triggers on SQLite.
    reserve_text = models.CharField(max_length=78, null=True, editable=False)  # noqa: DJ001

    class Meta(Resource.Meta):
        permissions = [
            ("pause_relayer", "Can pause and resume relayers"),
            ("check_relayer", "Can check relayers now"),
            ("take_out_node", "Can take nodes out and put them back"),
        ]
        indexes = [
            models.Index("sequence", name="relayer_paused", condition=PAUSED),
            models.Index("sequence", name="relayer_no_address", condition=NO_ADDRESS),
            models.Index("sequence", name="relayer_running", condition=RUNNING),
            prefix_index("identifier", name="relayer_identifier_prefix"),
            prefix_index("name", name="relayer_name_prefix"),
            prefix_index("address", name="relayer_address_prefix"),
            models.Index("network", "sequence", name="relayer_network"),
            models.Index("network", "node_keys", "sequence", name="relayer_nodes"),
            models.Index("signer", "sequence", name="relayer_signer"),
            models.Index("notification", "sequence", name="relayer_notification"),
            models.Index("funding_relayer", name="relayer_funded", condition=models.Q(funding_relayer__isnull=False)),
        ]
        constraints = [
            models.CheckConstraint(condition=~models.Q(identifier=""), name="relayer_identifier_not_empty"),
            models.CheckConstraint(condition=~models.Q(name=""), name="relayer_name_not_empty"),
            models.CheckConstraint(condition=models.Q(network_type="evm"), name="relayer_network_type_known"),
            models.CheckConstraint(condition=NO_TOP_UP | WITH_TOP_UP, name="relayer_top_up_is_complete"),
        ]

    @property
    def states(self) -> list[str]:
        """The names of its problems, which `PROBLEMS` has in SQL, or "active" if it has none."""
        held = {
            "disabled": self.health.system_disabled,
            "paused": self.paused,
            "low balance": self.health.balance_is_low,
            "no address": not self.address,
            "unknown": self.address and self.health.is_unknown,
        }
        return [state for state in PROBLEMS if held[state]] or [ACTIVE]

    @cached_property
    def tags(self) -> list[str]:
        return [] if self._state.adding else sorted(row.name for row in self.tag_rows.all())

    @property
    def reserve(self) -> int:
        """What stays on the account: a transaction that could leave less waits. In wei, 0 if it is not set."""
        return int(self.reserve_text or 0)

    @property
    def top_up(self) -> TopUpAmounts | None:
        """The amounts of its automatic top-up; None if it has none, or an incomplete one that is not saved."""
        texts = (self.top_up_minimum_text, self.top_up_target_text, self.top_up_daily_limit_text)
        return None if self.funding_relayer_id is None or "" in texts else TopUpAmounts(*map(int, texts))

    def top_up_values(self) -> dict[str, str]:
        """Return its automatic top-up by API names; {} if it has none."""
        values = {name: getattr(self, column) for name, column in TOP_UP_COLUMNS.items()}
        funding = values.pop("funding_relayer_id")
        return {"funding_relayer_id": funding.identifier, **values} if funding else {}

    def audited_top_up(self) -> dict[str, str]:
        return {f"top_up.{name}": value for name, value in self.top_up_values().items()}

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
            "tags": self.tags,
            **{
                column: hidden_column(self, column, shown=getattr(self, masked))
                for column, masked in MASKED_COLUMNS.items()
            },
            "private_fallback_blocks": self.private_fallback_blocks,
            **{f"policies.{name}": audited_list(value) for name, value in self.policies.items()},
            "allow_signing": self.allow_signing,
            **audited_rules(self),
            **self.audited_top_up(),
            **({"reserve": self.reserve_text} if self.reserve_text else {}),
            "balance_is_low": self.health.balance_is_low,
        }

    def others_with_key(self) -> "models.QuerySet[Relayer]":
        """Return the other relayers with its account, on any chain, or with its signer."""
        same = models.Q(signer=self.signer_id) | starts_with("address", self.address or "unknown")
        return Relayer.objects.filter(same).exclude(pk=self.pk)

    def others_with_account(self) -> "models.QuerySet[Relayer]":
        """Return the other relayers with its account on its chain, of which only one can send."""
        chain_id = self.expected_chain_id
        names = [network.name for network in networks().values() if network.chain_id == chain_id]
        is_on_chain = models.Q(network__in=names) | models.Q(chain_id=chain_id)
        return Relayer.objects.filter(is_on_chain, starts_with("address", self.address)).exclude(pk=self.pk)

    def set_rpc_urls(self, rpc_urls: list[dict[str, Any]], column: str = "custom_rpc_urls") -> None:
        """Set the nodes of a column. Equal ones are not set, as that would encrypt them again."""
        try:
            is_same = (getattr(self, column) or []) == rpc_urls
        except DecryptionError:
            is_same = False
        if not is_same:
            setattr(self, column, rpc_urls or None)
            setattr(self, MASKED_COLUMNS[column], [{**entry, "url": mask(entry["url"])} for entry in rpc_urls])
        self.node_keys = self.own_node_keys()

    def own_node_keys(self) -> str:
        """Return the keys of its own nodes that are called, private ones after a "~"."""
        try:
            public, private = (
                [node_key(entry["url"]) for entry in getattr(self, column) or [] if entry["weight"]]
                for column in MASKED_COLUMNS
            )
        except DecryptionError:
            return UNKNOWN_NODES
        return " ".join([*public, *(PRIVATE + key for key in private)])

    def own_urls(self, column: str = "custom_rpc_urls") -> list[str]:
        """Return the URLs of the nodes of a column; none if they cannot be decrypted."""
        try:
            return [entry["url"] for entry in getattr(self, column) or []]
        except DecryptionError:
            return []

    def node_urls(self) -> list[tuple[str, int]]:
        """Return the nodes to call with their weights: the custom ones, or else the network's."""
        return self._nodes(self.custom_rpc_urls, "rpc_urls")

    def private_node_urls(self) -> list[tuple[str, int]]:
        """Return the private nodes to send to, each with its weight: its own, or else the network's."""
        return self._nodes(self.private_rpc_urls, "private_rpc_urls")

    def _nodes(self, own: list[dict[str, Any]] | None, shared: str) -> list[tuple[str, int]]:
        if own:
            return [(entry["url"], entry["weight"]) for entry in own]
        known = networks().get(self.network)
        return [(url, 100) for url in getattr(known, shared)] if known else []

    @property
    def has_private_nodes(self) -> bool:
        """Whether any private node receives transactions; nothing is decrypted for it."""
        if self.masked_private_rpc_urls:
            return any(entry["weight"] for entry in self.masked_private_rpc_urls)
        known = networks().get(self.network)
        return bool(known and known.private_rpc_urls)

    def clean(self) -> None:
        known = networks().get(self.network)
        faults: dict[str, Any] = {}
        try:
            super().clean()
        except ValidationError as error:
            faults |= error.error_dict
        if known is None and not (self.masked_rpc_urls and self.chain_id):
            faults["network"] = unknown(self.network, "custom RPC URLs and a chain ID are required")
        if known is not None and self.chain_id not in {None, known.chain_id}:
            faults["chain_id"] = f"must be {known.chain_id}, the chain ID of {self.network}"
        if self.address:
            self.address = to_checksum_address(self.address)
        faults |= top_up_faults(self)
        if faults:
            raise ValidationError(faults)


def find_relayer(identifier: str, rows: models.QuerySet[Relayer] | None = None) -> Relayer:
    """Return a relayer, of all rows or of these; raise `NotFound` if there is none.

    Never cached: code that decides about money reads `paused`, `policies` and the health here, at the latest in the
    transaction that decides (with `rows` locked, where two may decide at once).
    """
    found = (Relayer.objects.all() if rows is None else rows).filter(identifier=identifier).first()
    if found is None:
        raise NotFound(NOT_FOUND.format(identifier))
    return found
