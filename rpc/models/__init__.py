"""The models, where Django looks for them, and the field and validators that migrations import."""

from rpc.models.fee_tokens import AddressField, FeeToken, PriceSource, validate_amount, validate_network

__all__ = ["AddressField", "FeeToken", "PriceSource", "validate_amount", "validate_network"]
