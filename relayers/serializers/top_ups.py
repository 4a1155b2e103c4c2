"""The automatic top-up of a relayer in request bodies, responses and fleet files. Amounts are exact, in wei."""

import re

from drf_spectacular.utils import extend_schema_field, extend_schema_serializer

from relayer_service.api.resource_serializers import ResourceSerializer
from relayer_service.api.serializers import StrictSerializer, StringField
from relayers.models.top_ups import TopUpAmounts
from relayers.policies import MAX_AMOUNT
from spending.shape import WholeNumberField, whole_number_schema

HELP = {
    "minimum": "Balance below which it is topped up, in wei.",
    "target": "Balance up to which it is topped up, in wei.",
    "daily_limit": "Maximum that it receives in any 24 hours, in wei.",
}
RESERVE_HELP = "Balance that it keeps, in wei: it stops sending what could leave less."
FUNDING_HELP = "The relayer on the same chain that sends the coins."


@extend_schema_field(whole_number_schema(MAX_AMOUNT, "[0-9]{1,39}"))
class WeiAmountField(WholeNumberField):
    """An amount that relayers have: in 128 bits."""

    text_format = re.compile(r"[0-9]{1,39}", re.ASCII)
    max_value = MAX_AMOUNT
    maximum = str(MAX_AMOUNT)


@extend_schema_serializer(component_name="TopUp")
class TopUpRequest(StrictSerializer):
    """An automatic top-up: the funding relayer sends what is missing to the target."""

    funding_relayer_id = StringField(help_text=FUNDING_HELP)
    minimum = WeiAmountField(help_text=HELP["minimum"])
    target = WeiAmountField(help_text=HELP["target"])
    daily_limit = WeiAmountField(help_text=HELP["daily_limit"])


class TopUpSerializer(ResourceSerializer):
    """The automatic top-up of a relayer. Amounts are strings: many JSON parsers round numbers of this size."""

    funding_relayer_id = StringField(source="funding_relayer.identifier", help_text=FUNDING_HELP)
    minimum = StringField(source="top_up_minimum_text", help_text=HELP["minimum"])
    target = StringField(source="top_up_target_text", help_text=HELP["target"])
    daily_limit = StringField(source="top_up_daily_limit_text", help_text=HELP["daily_limit"])


# The fields of a form for each amount of a top-up, and for the reserve.
RESERVE_FIELD = WeiAmountField(help_text=RESERVE_HELP)
AMOUNT_FIELDS = {name: WeiAmountField(help_text=HELP[name]) for name in TopUpAmounts._fields}
