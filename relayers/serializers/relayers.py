from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.fields import empty

from chain.networks import resolve_alias
from notifications.models import Notification
from relayer_service import extensions
from relayer_service.api.error_codes import ErrorCode
from relayer_service.api.filters import ListFilter, equals, filter_serializer, one_of, prefix_filter
from relayer_service.api.resource_serializers import CreateSerializer, ResourceSerializer, UpdateSerializer
from relayer_service.api.serializers import (
    BodySerializer,
    BooleanField,
    ChoiceField,
    EvmAddressField,
    IntegerField,
    ListField,
    NewIdentifierField,
    ObjectField,
    StringField,
    TimestampField,
    collecting,
)
from relayer_service.database.clock import timestamp
from relayer_service.net.incoming import InsufficientScope
from relayer_service.storage.resources import Resource
from relayer_service.tags import MAX_TAGS, validate_tag
from relayers.guards import get_guard
from relayers.health.probes import ProbeCache
from relayers.models import CONDITIONS, MASKED_COLUMNS, MAX_CHAIN_ID, Relayer
from relayers.models.tags import tagged
from relayers.policies import EvmPolicies, EvmPoliciesPatch
from relayers.serializers.networks import MAX_COUNT, MaskedRpcUrlSerializer, RpcUrlsField
from relayers.serializers.top_ups import RESERVE_HELP, TopUpRequest, TopUpSerializer, WeiAmountField
from relayers.writes import UNKNOWN, RelayerWrite
from signers import signing
from signers.models import Signer
from spending.shape import SpendingRules, SpendingRulesPatch, merge_rules
from spending.writes import stored_rules

SIGNING_KINDS = "What the extension `signing` can sign with its key. A signed permit can empty the account."
TAGS = "Names that group relayers, sorted: `a-z`, `0-9`, `-` and `_`. Tokens reach those with a tag by `tag:NAME`."
TOP_UP_HELP = "Its automatic top-up, which replaces the stored one. The token needs the scope `send`, too."
PRIVATE_NODES = "Nodes that transactions are sent to alone with the policy `private_transactions`; never read from."
FALLBACK_BLOCKS = "Blocks without being mined after which private transactions go to public nodes; unset: never."
# Fields that the rules of networks compare.
NETWORK_FIELDS = {"network", "chain_id", "custom_rpc_urls"}


class HealthFlagField(BooleanField):
    """A flag of a relayer's health, which may have no row yet."""

    def to_representation(self, value: bool | None) -> bool:
        return bool(value)


class DisabledReasonSerializer(ResourceSerializer):
    """Why the health check disabled a relayer."""

    details = StringField(source="health.disabled_reason_details", help_text="A human-readable explanation.")
    type = StringField(
        source="health.disabled_reason_type",
        help_text="`NonceSyncFailed`: the account's nonce cannot be read from any node.",
    )


class SigningKindsField(ListField):
    child = ChoiceField(choices=Relayer.SigningKind.choices)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=len(Relayer.SigningKind), **kwargs)


class TagsField(ListField):
    child = StringField(validators=[validate_tag])

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=MAX_TAGS, help_text=TAGS, **kwargs)


class RelayerSerializer(ResourceSerializer):
    """An account on a network, with its policies; fields that are not set are omitted."""

    id = StringField(source="identifier")
    name = StringField()
    network = StringField()
    network_type = StringField(help_text="`evm`.")
    address = StringField(required=False, help_text="The account; omitted while it is unknown.")
    signer_id = StringField(source="signer.identifier", help_text="The signer that signs for it.")
    notification_id = StringField(
        source="notification.identifier", required=False, help_text="The notification that its events are sent to."
    )
    paused = BooleanField(help_text="Set by staff.")
    system_disabled = HealthFlagField(
        source="health.system_disabled", help_text="Set and cleared by the health check."
    )
    disabled_reason = DisabledReasonSerializer(source="*", required=False)
    custom_rpc_urls = MaskedRpcUrlSerializer(source="masked_rpc_urls", many=True, required=False)
    policies = EvmPolicies(required=False)


class ManagedRelayerSerializer(RelayerSerializer):
    """A relayer with the fields that the interface document does not show; fields that are not set are omitted."""

    tags = TagsField(required=False)
    allow_signing = SigningKindsField(required=False, help_text=SIGNING_KINDS)
    spending_rules = SpendingRules(source="spending.rules", required=False)
    top_up = TopUpSerializer(source="*", required=False, help_text="Its automatic top-up; omitted if it has none.")
    reserve = StringField(source="reserve_text", required=False, help_text=RESERVE_HELP)
    private_rpc_urls = MaskedRpcUrlSerializer(source="masked_private_rpc_urls", many=True, required=False)
    private_fallback_blocks = IntegerField(min_value=1, max_value=MAX_COUNT, required=False, help_text=FALLBACK_BLOCKS)


class StatusSerializer(serializers.Serializer[Any]):
    """A relayer as of its last health check."""

    network_type = StringField()
    balance = StringField(allow_null=True, help_text="In wei, as last read; null until it is first read.")
    balance_at = TimestampField(allow_null=True, help_text="When the balance was read.")
    nonce = StringField(allow_null=True, help_text="The nonce of the next transaction; null while it is unknown.")
    pending_transactions_count = IntegerField(max_value=MAX_COUNT, help_text="Transactions that are not mined yet.")
    last_confirmed_transaction_timestamp = TimestampField(allow_null=True)
    paused = BooleanField()
    system_disabled = BooleanField()
    checked_at = TimestampField(allow_null=True, help_text="When the account was last read.")

    def to_representation(self, instance: Relayer) -> dict[str, Any]:
        health = instance.health
        return {
            "network_type": instance.network_type,
            "balance": health.balance_text or None,
            "balance_at": health.balance_at and timestamp(health.balance_at),
            "nonce": None if health.nonce is None else str(health.nonce),
            "pending_transactions_count": 0,
            "last_confirmed_transaction_timestamp": None,
            "paused": instance.paused,
            "system_disabled": health.system_disabled,
            "checked_at": health.checked_at and timestamp(health.checked_at),
            **get_guard().status(instance.pk),
        }


class BalanceSerializer(serializers.Serializer[Any]):
    """The balance of an account, read from a node."""

    balance = IntegerField(max_value=2**256 - 1)
    unit = StringField(help_text="`wei`.")


@extend_schema_field(EvmPolicies)
class PoliciesRequest(EvmPolicies):
    """Policies to store. Amounts can be strings: JavaScript rounds large numbers."""

    gas_price_cap = WeiAmountField(required=False)  # type: ignore[assignment]  # it accepts more
    min_balance = WeiAmountField(required=False)  # type: ignore[assignment]  # it accepts more


@extend_schema_field(EvmPoliciesPatch)
class PoliciesPatchRequest(PoliciesRequest, EvmPoliciesPatch):
    """Policies to change; null removes one."""


@extend_schema_field(SpendingRulesPatch)
class SpendingRulesPatchField(ObjectField):
    """Rules to change; null removes one."""

    def to_internal_value(self, data: Any) -> Mapping[str, Any]:
        patch = super().to_internal_value(data)
        # What only the merged rules can violate is checked with the stored ones.
        merge_rules({}, patch)
        return patch


class ReferenceField(StringField):
    """The ID of a row, which must exist."""

    default_error_messages = {"does_not_exist": UNKNOWN}

    def __init__(self, model: type[Resource], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.model = model

    def run_validation(self, data: Any = empty) -> Any:
        identifier = super().run_validation(data)
        if identifier is None:
            return None
        return self.model._default_manager.filter(identifier=identifier).first() or self.fail("does_not_exist")


class FundedMixin(serializers.Serializer[Any]):
    """Converts the automatic top-up of a request. It moves coins, so the token must be one that can send them."""

    def funded(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Return the top-up with the row of its funding relayer, or what a token that cannot send is refused with."""
        token, values = self.context["request"].auth, attrs.get("top_up")
        needed = next(scope for scope in ("send", "sign", "manage") if scope in extensions.available_scopes())
        refusal = {} if token.has_scope(needed) else {"payer_refusal": InsufficientScope(needed)}
        if values is None:
            return refusal
        if not token.has_scope("send"):
            raise InsufficientScope("send")
        funding = Relayer.objects.filter(identifier=values["funding_relayer_id"]).first()
        if funding is None:
            raise ValidationError({"top_up": {"funding_relayer_id": [UNKNOWN]}}, ErrorCode.DOES_NOT_EXIST)
        return {"top_up": {**values, "funding_relayer_id": funding}}


class NetworkField(StringField):
    """The name of a network. An alias is accepted, and stored as the name that it stands for."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=64, **kwargs)

    def to_internal_value(self, data: Any) -> str:
        return resolve_alias(super().to_internal_value(data))


class CreateRelayerSerializer(FundedMixin, CreateSerializer):
    """A relayer to create. Its signer and custom nodes are called before it is saved."""

    answer_class = ManagedRelayerSerializer
    write_class = RelayerWrite

    id = NewIdentifierField()
    name = StringField(max_length=255)
    network = NetworkField(help_text="A name from `GET /networks`, or another one with `chain_id` and RPC URLs.")
    network_type = ChoiceField(choices=Relayer.NetworkType.choices)
    chain_id = IntegerField(
        min_value=1,
        max_value=MAX_CHAIN_ID,
        required=False,
        help_text="Required if the network is not in `GET /networks`.",
    )
    address = EvmAddressField(required=False, help_text="Filled in from the signer, if it can provide it.")
    signer_id = ReferenceField(Signer)
    notification_id = ReferenceField(Notification, required=False)
    paused = BooleanField()
    custom_rpc_urls = RpcUrlsField(required=False, help_text="Nodes to call instead of the network's public ones.")
    private_rpc_urls = RpcUrlsField(required=False, help_text=PRIVATE_NODES)
    private_fallback_blocks = IntegerField(min_value=1, max_value=MAX_COUNT, required=False, help_text=FALLBACK_BLOCKS)
    policies = PoliciesRequest(required=False)
    tags = TagsField(required=False)
    allow_signing = SigningKindsField(required=False, help_text=SIGNING_KINDS)
    spending_rules = SpendingRules(required=False, help_text="What it can send and spend.")
    top_up = TopUpRequest(required=False, help_text=TOP_UP_HELP)
    reserve = WeiAmountField(required=False, help_text=RESERVE_HELP)

    def partial_row(self, valid: dict[str, Any]) -> Relayer | None:
        if "network" not in valid or {*valid} & NETWORK_FIELDS != {*self.initial_data} & NETWORK_FIELDS:
            return None
        row = Relayer(identifier=valid.get("id", ""), network=valid["network"], chain_id=valid.get("chain_id"))
        row.masked_rpc_urls = valid.get("custom_rpc_urls", [])
        return row

    def values(self, attrs: dict[str, Any]) -> dict[str, Any]:
        return {"policies": {}, "spending_rules": {}, **attrs, **self.funded(attrs)}


class UpdateRelayerSerializer(FundedMixin, UpdateSerializer):
    """Changes of a relayer, as a JSON Merge Patch: omitted fields stay, null removes."""

    answer_class = ManagedRelayerSerializer
    write_class = RelayerWrite
    create_class = CreateRelayerSerializer
    write: RelayerWrite

    name = StringField(required=False, max_length=255)
    paused = BooleanField(required=False)
    signer_id = ReferenceField(
        Signer,
        required=False,
        help_text="Its address becomes that of the relayer. Refused while transactions are open.",
    )
    notification_id = ReferenceField(Notification, required=False, allow_null=True)
    custom_rpc_urls = RpcUrlsField(
        required=False, allow_null=True, help_text="The complete list, which replaces the stored one."
    )
    private_rpc_urls = RpcUrlsField(required=False, allow_null=True, help_text=PRIVATE_NODES)
    private_fallback_blocks = IntegerField(
        min_value=1, max_value=MAX_COUNT, required=False, allow_null=True, help_text=FALLBACK_BLOCKS
    )
    policies = PoliciesPatchRequest(
        required=False, allow_null=True, help_text="Merged by name; null removes a policy."
    )
    tags = TagsField(required=False, allow_null=True)
    allow_signing = SigningKindsField(required=False, allow_null=True, help_text=SIGNING_KINDS)
    spending_rules = SpendingRulesPatchField(
        required=False, allow_null=True, help_text="Merged by name; null removes a rule."
    )
    top_up = TopUpRequest(required=False, allow_null=True, help_text=TOP_UP_HELP)
    reserve = WeiAmountField(required=False, allow_null=True, help_text=RESERVE_HELP)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        self.answers = ProbeCache()
        # Called before the row is locked: a node or signer that hangs must not delay other changes.
        self.answers.chain_ids([entry["url"] for name in MASKED_COLUMNS for entry in attrs.get(name) or []])
        signer = attrs.get("signer_id")
        if signer and not signing.incompatibility(signer, Relayer.NetworkType.EVM):
            self.answers.address(signer)
        return attrs

    def values(self, attrs: dict[str, Any]) -> dict[str, Any]:
        self.write.answers = self.answers
        values = {**attrs, **self.funded(attrs)}
        if "policies" in attrs:
            merged = {} if attrs["policies"] is None else {**self.write.row.policies, **attrs["policies"]}
            values["policies"] = {name: value for name, value in merged.items() if value is not None}
        if attrs.get("spending_rules") is not None:
            faults: dict[str, Any] = {}
            with collecting(faults, "spending_rules"):
                values["spending_rules"] = merge_rules(stored_rules(self.write.row), attrs["spending_rules"])
            if faults:
                raise ValidationError(faults)
        return values


def on_network(description: str) -> ListFilter:
    """Return a filter by the name of a network or an alias of it, which a relayer may still be stored with."""
    return ListFilter(description, lambda rows, name: rows.filter(network__in={name, resolve_alias(name)}))


# Query parameters of the list of relayers.
LIST_FILTERS = {
    "q": prefix_filter("identifier", "name"),
    "network": on_network("Only relayers on this network."),
    "signer_id": equals("signer__identifier", "Only relayers of this signer."),
    "tag": ListFilter("Only relayers with this tag.", lambda rows, name: rows.filter(pk__in=tagged([name]))),
    "state": one_of(CONDITIONS, "Only relayers in this state; a relayer can be in several."),
}
RelayerFilterSerializer = filter_serializer(
    "RelayerFilterSerializer", "The relayers that match all of these; without any, all relayers.", LIST_FILTERS
)


class ChangeRelayersSerializer(BodySerializer):
    """The relayers to pause or resume."""

    filter = RelayerFilterSerializer()
    reason = StringField(required=False, max_length=500, help_text="Kept in the audit log of each relayer.")
