"""How the admin narrows the list of fee tokens."""

from django.db.models import Q

from relayer_service.admin.filters import StateFilter
from rpc.models import PRICE_STATES


class FeeTokenStateFilter(StateFilter):
    conditions = {state: Q(state=state) for state in PRICE_STATES}
