"""Query parameters of the list of relayers."""

from relayer_service.api.filters import begins, equals, one_of
from relayers.models import CONDITIONS

LIST_FILTERS = {
    "q": begins("identifier", "name"),
    "network": equals("network", "Only relayers on this network."),
    "signer_id": equals("signer__identifier", "Only relayers of this signer."),
    "state": one_of(CONDITIONS, "Only relayers in this state; a relayer can be in several."),
}
