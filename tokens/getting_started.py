"""The step that lets a program call the API."""

from django.http import HttpRequest

from relayer_service.admin.getting_started import DEMO, Demo, Step, add_page
from relayer_service.extensions import available_scopes
from tokens.models import AccessToken
from tokens.writes import issue


def token(request: HttpRequest) -> Step:
    # Only superusers set scopes.
    scopes = {"scopes": ",".join(available_scopes())} if request.user.is_superuser else {}
    return Step(
        "token",
        "Issue a token",
        "A program calls the API with it.",
        ["tokens.add_accesstoken"],
        AccessToken.objects.all(),
        lambda: add_page("tokens_accesstoken", name="First application", **scopes),
        set_up,
    )


def set_up(demo: Demo) -> None:
    """Issue a token of the user, unless the user has one of the demo: its text cannot be shown again."""
    found = AccessToken.objects.filter(name=DEMO, user=demo.user).first()
    if found is None:
        scopes = available_scopes() if demo.user.is_superuser else []
        found, demo.token = issue(name=DEMO, user=demo.user, scopes=scopes)
    demo.rows["Token"] = found
