from django.http import HttpRequest
from django.urls import reverse

from relayer_service.admin.dashboard import Card
from relayer_service.admin.dates import ago
from tokens.models import AccessToken


def recently_used(request: HttpRequest) -> Card | None:
    """Return the card of the tokens that were used last."""
    if not request.user.has_perm("tokens.view_accesstoken"):
        return None
    tokens = AccessToken.objects.filter(last_used_at__isnull=False).select_related("user").order_by("-last_used_at")
    rows = [[token.name, token.user.get_username(), ago(token.last_used_at)] for token in tokens[:5]]
    url = reverse("admin:tokens_accesstoken_changelist")
    return Card("Tokens used last", rows, "No token has been used yet.", url)
