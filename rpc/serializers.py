"""The JSON-RPC request; the method validates the params."""

from typing import Any

from relayer_service.api.serializers import ChoiceField, LiteralField, ObjectField, StrictSerializer, StringField

VERSION = "2.0"


class RpcIdField(LiteralField):
    default_error_messages = {"invalid": "a string, a whole number or null is required"}

    def to_internal_value(self, data: Any) -> str | int:
        # In Python, True is an int.
        if isinstance(data, bool) or not isinstance(data, (str, int)):
            self.fail("invalid")
        return data


class RpcParamsField(ObjectField):
    """Any JSON object; the method validates it."""


class RpcRequestSerializer(StrictSerializer):
    """A JSON-RPC 2.0 request."""

    jsonrpc = ChoiceField([VERSION], help_text="The JSON-RPC version.")
    id = RpcIdField(
        required=False,
        allow_null=True,
        default=None,
        help_text="Returned as a string; null stays null.",
    )
    method = StringField(allow_blank=True, help_text="The method to call.")
    params = RpcParamsField(required=False, default=dict, help_text="The params of the method.")
