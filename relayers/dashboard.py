"""The card of relayers on the overview."""

from django.http import HttpRequest
from django.urls import reverse

from relayer_service.admin.attention import read_once
from relayer_service.admin.dashboard import Card, label, link
from relayers.attention import COUNTED, counts_by_state, list_url
from relayers.formatting import VARIANTS

# States that staff set: not a problem.
CALM = {"paused"}


def relayers(request: HttpRequest) -> Card | None:
    """Return the card with the number of relayers, in all and by state."""
    if not request.user.has_perm("relayers.view_relayer"):
        return None
    counts = read_once(request, counts_by_state)
    page = reverse("admin:relayers_relayer_changelist")
    if not counts["all"]:
        return Card("Relayers", empty="There are no relayers yet.", url=page)
    rows = [[link(name.capitalize(), list_url(name)), marked(name, counts[name])] for name in COUNTED]
    return Card("Relayers", [[link("All", page), f"{counts['all']:,}"], *rows], url=page)


def marked(name: str, count: int) -> str:
    return f"{count:,}" if name in CALM or not count else label(f"{count:,}", VARIANTS[name])
