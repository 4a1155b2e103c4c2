"""The models, where Django looks for them, and the field and validators that migrations import."""

from rpc.models.calls import CallCount, CallHour
from rpc.models.fee_tokens import AddressField, FeeToken, PriceSource, validate_amount, validate_network

__all__ = ["AddressField", "CallCount", "CallHour", "FeeToken", "PriceSource", "validate_amount", "validate_network"]
