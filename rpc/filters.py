"""How the admin narrows the list of fee tokens."""

from relayer_service.admin.filters import StateFilter
from rpc.models import PRICE_STATES


class FeeTokenStateFilter(StateFilter):
    states = PRICE_STATES
