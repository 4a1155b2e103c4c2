"""How the admin narrows the list of access tokens."""

from collections.abc import Mapping

from django.db.models import Q

from relayer_service.admin.filters import StateFilter
from tokens.models import states


class TokenStateFilter(StateFilter):
    @classmethod
    def current_conditions(cls) -> Mapping[str, Q]:
        return states()
