"""Policies of relayers: their fields, and the checks of a transaction against them."""

from collections.abc import Mapping
from typing import Any

from chain.errors import PriceCapTooLow
from chain.fees import native_fee
from chain.fees.native_fee import FeeOptions, NativeFee
from chain.networks import Network
from chain.transactions import Transaction
from relayer_service.api.serializers import BooleanField, EvmAddressField, IntegerField, ListField, StrictSerializer
from spending.shape import NullableFields

MAX_AMOUNT = 2**128 - 1
MAX_RECEIVERS = 1_000


class EvmPolicies(StrictSerializer):
    """The policies of an EVM relayer. Amounts are in wei."""

    eip1559_pricing = BooleanField(required=False, help_text="Use EIP-1559 fees. If false: legacy gas price.")
    gas_limit_estimation = BooleanField(
        required=False, help_text="Whether to estimate gas. If false, the transaction's gas limit is used."
    )
    gas_price_cap = IntegerField(max_value=MAX_AMOUNT, required=False, help_text="Maximum gas price, in wei.")
    min_balance = IntegerField(
        max_value=MAX_AMOUNT, required=False, help_text="Balance below which it needs attention, in wei."
    )
    private_transactions = BooleanField(required=False, help_text="Whether to send transactions privately.")
    whitelist_receivers = ListField(
        child=EvmAddressField(),
        required=False,
        max_length=MAX_RECEIVERS,
        help_text="The only addresses that transactions can be sent to.",
    )


class EvmPoliciesPatch(NullableFields, EvmPolicies):
    """Policies to change; null removes one."""


def validate_policies(policies: Any) -> dict[str, Any]:
    """Return policies as they are stored; raise `ValidationError` with the path of each fault."""
    return dict(EvmPolicies().run_validation(policies))


class PolicyRefused(Exception):
    """A policy of the relayer refuses a transaction. The text is safe to show to a caller."""


class GasLimitRequired(PolicyRefused):
    def __init__(self) -> None:
        super().__init__("gas is required: the relayer's policy gas_limit_estimation is false")


def check_receiver(policies: Mapping[str, Any], transaction: Transaction) -> None:
    """Raise `PolicyRefused` if the policies do not allow the receiver."""
    allowed = policies.get("whitelist_receivers")
    if allowed is None:
        return
    if transaction.to is None:
        raise PolicyRefused("The relayer's policy whitelist_receivers does not allow creating contracts.")
    if transaction.to.lower() not in {address.lower() for address in allowed}:
        raise PolicyRefused("The relayer's policy whitelist_receivers does not allow this receiver.")


def check_gas_limit(policies: Mapping[str, Any], transaction: Transaction) -> None:
    """Raise `GasLimitRequired` if the gas limit is neither set nor estimated."""
    if not transaction.gas and not fee_options(policies).estimate_gas:
        raise GasLimitRequired


def fee_options(policies: Mapping[str, Any]) -> FeeOptions:
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
    """Return the fee under the policies; raise `PolicyRefused` if the price cap is below the base fee."""
    try:
        return native_fee.compute(network, fee_options(policies), transaction, sender, found, speed)
    except PriceCapTooLow as fault:
        raise PolicyRefused(
            f"The relayer's policy gas_price_cap is {fault.cap}, below the next base fee of {fault.base_fee}: "
            "no transaction would be included at that price."
        ) from None
