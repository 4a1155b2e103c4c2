"""What a relayer may do: policies typed for each network type, and the checks of a transaction against them."""

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ValidationError
from drf_spectacular.utils import extend_schema_field
from eth_utils.address import is_checksum_address, is_hex_address, to_checksum_address

from chain import native_fee
from chain.errors import PriceCapTooLow
from chain.native_fee import FeeOptions, NativeFee
from chain.networks import Network
from chain.transactions import Transaction
from relayer_service.api.serializers import BooleanField, IntegerField, ListField, StrictSerializer, StringField

MAX_AMOUNT = 2**128 - 1
MAX_RECEIVERS = 1_000


def validate_evm_address(value: str) -> None:
    """Refuse what is no EVM address, or one whose letters' case does not fit its checksum."""
    if not (value.startswith("0x") and is_hex_address(value)):
        raise ValidationError("an EVM address is required: 0x and 40 hexadecimal digits")
    digits = value[2:]
    if digits not in {digits.lower(), digits.upper()} and not is_checksum_address(value):
        raise ValidationError("the checksum of this address is wrong: a character was mistyped")


@extend_schema_field({"type": "string", "pattern": "^0x[0-9a-fA-F]{40}$"})
class EvmAddressField(StringField):
    default_validators = [validate_evm_address]

    def to_representation(self, value: str) -> str:
        return to_checksum_address(value)


class EvmPolicies(StrictSerializer):
    """The policies of an EVM relayer. Amounts are in wei."""

    eip1559_pricing = BooleanField(
        required=False, help_text="Whether prices are those of EIP-1559; false: a single gas price."
    )
    gas_limit_estimation = BooleanField(
        required=False, help_text="Whether gas is estimated; false: the transaction's own gas limit."
    )
    gas_price_cap = IntegerField(max_value=MAX_AMOUNT, required=False, help_text="The highest price of gas, in wei.")
    min_balance = IntegerField(
        max_value=MAX_AMOUNT, required=False, help_text="A balance below this is a warning, in wei."
    )
    private_transactions = BooleanField(required=False, help_text="Whether transactions are sent privately.")
    whitelist_receivers = ListField(
        child=EvmAddressField(),
        required=False,
        max_length=MAX_RECEIVERS,
        help_text="The only addresses that transactions may go to.",
    )


class EvmPoliciesPatch(EvmPolicies):
    """The policies to change: those that are null are removed."""

    def get_fields(self) -> Any:
        fields = super().get_fields()
        for field in fields.values():
            field.allow_null = True
        return fields


POLICIES: dict[str, type[StrictSerializer]] = {"evm": EvmPolicies}
PATCHES: dict[str, type[StrictSerializer]] = {"evm": EvmPoliciesPatch}


def validate_policies(network_type: str, policies: Any) -> dict[str, Any]:
    """Return policies as they are stored; raise a validation error with the path of each fault."""
    return _validated(POLICIES[network_type], policies)


def merge_policies(network_type: str, policies: dict[str, Any], patch: Any) -> dict[str, Any]:
    """Return policies after a JSON Merge Patch; raise a validation error with the path of each fault."""
    merged = {**policies, **_validated(PATCHES[network_type], patch)}
    return {name: value for name, value in merged.items() if value is not None}


def _validated(serializer_class: type[StrictSerializer], data: Any) -> dict[str, Any]:
    serializer = serializer_class(data=data)
    serializer.is_valid(raise_exception=True)
    return dict(serializer.validated_data)


class PolicyRefused(Exception):
    """A policy of the relayer does not allow a transaction. The text is safe to show to a caller."""


class GasLimitRequired(PolicyRefused):
    """A transaction has no gas limit, and the relayer's policy is not to estimate it."""

    def __init__(self) -> None:
        super().__init__("it has no gas limit, and the relayer's policy is not to estimate it")


def check_receiver(policies: Mapping[str, Any], transaction: Transaction) -> None:
    """Raise `PolicyRefused` if the transaction goes to a receiver that the relayer does not send to."""
    allowed = policies.get("whitelist_receivers")
    if allowed is None:
        return
    if transaction.to is None:
        raise PolicyRefused("The relayer's policy whitelist_receivers does not allow contracts to be created.")
    if transaction.to.lower() not in {address.lower() for address in allowed}:
        raise PolicyRefused("The relayer's policy whitelist_receivers does not allow this receiver.")


def check_gas_limit(policies: Mapping[str, Any], transaction: Transaction) -> None:
    """Raise `GasLimitRequired` if the transaction's gas is neither set nor to be estimated."""
    if not transaction.gas and not fee_options(policies).estimate_gas:
        raise GasLimitRequired


def fee_options(policies: Mapping[str, Any]) -> FeeOptions:
    """Return the policies that decide about a fee."""
    return FeeOptions(
        estimate_gas=policies.get("gas_limit_estimation", True),
        use_base_fee=policies.get("eip1559_pricing", True),
        price_cap=policies.get("gas_price_cap"),
    )


def compute_fee(
    network: Network,
    policies: Mapping[str, Any],
    transaction: Transaction,
    sender: str,
    found: Mapping[str, Any],
    speed: str | None = None,
) -> NativeFee:
    """Return the fee under the relayer's policies; raise `PolicyRefused` if its price cap is below the base fee."""
    try:
        return native_fee.compute(network, fee_options(policies), transaction, sender, found, speed)
    except PriceCapTooLow as fault:
        raise PolicyRefused(
            f"The relayer's policy gas_price_cap is {fault.cap} wei, below the next base fee of {fault.base_fee} wei: "
            "nothing would be included at that price."
        ) from None
