"""The overview's card of relayers."""

from __future__ import annotations

from django.http import HttpRequest
from django.urls import reverse

from relayer_service.admin.attention import read_once
from relayer_service.admin.dashboard import Card, label, link
from relayers.attention import CONDITIONS, list_of, numbers
from relayers.formatting import VARIANTS

# States that staff choose.
CALM = {"paused"}


def relayers(request: HttpRequest) -> Card | None:
    """Return the card of how many relayers there are, and how many in which state."""
    if not request.user.has_perm("relayers.view_relayer"):
        return None
    counts = read_once(request, numbers)
    page = reverse("admin:relayers_relayer_changelist")
    rows = [[link(name.capitalize(), list_of(name)), marked(name, counts[name])] for name in CONDITIONS]
    return Card("Relayers", [[link("All", page), f"{counts['all']:,}"], *rows], url=page)


def marked(name: str, count: int) -> str:
    return f"{count:,}" if name in CALM or not count else label(f"{count:,}", VARIANTS[name])
