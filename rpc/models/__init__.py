"""Django looks for all models of an app here; its migrations also for field class and validators."""

from rpc.models.calls import CallCount, CallHour
from rpc.models.fee_tokens import (
    MAX_SECONDS,
    PRICE_STATES,
    AddressField,
    FeeToken,
    PriceSource,
    validate_amount,
    validate_network,
)

__all__ = [
    "MAX_SECONDS",
    "PRICE_STATES",
    "AddressField",
    "CallCount",
    "CallHour",
    "FeeToken",
    "PriceSource",
    "validate_amount",
    "validate_network",
]
