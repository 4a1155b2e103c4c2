"""Query parameters of the list of relayers."""

from chain.networks import resolve_alias
from relayer_service.api.filters import ListFilter, equals, one_of, prefix_filter
from relayers.models import CONDITIONS
from relayers.models.tags import tagged


def on_network(description: str) -> ListFilter:
    """Return a filter by the name of a network or an alias of it, which a relayer may still be stored with."""
    return ListFilter(description, lambda rows, name: rows.filter(network__in={name, resolve_alias(name)}))


LIST_FILTERS = {
    "q": prefix_filter("identifier", "name"),
    "network": on_network("Only relayers on this network."),
    "signer_id": equals("signer__identifier", "Only relayers of this signer."),
    "tag": ListFilter("Only relayers with this tag.", lambda rows, name: rows.filter(pk__in=tagged([name]))),
    "state": one_of(CONDITIONS, "Only relayers in this state; a relayer can be in several."),
}
