"""Getting started: the first steps on the overview of a new installation, and a demo that takes them all.

An app declares its steps in its `AppConfig`, like `dashboard_cards`:
`getting_started_steps = {10: "signers.console.overview.step"}`. The function returns None if an extension is missing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Exists, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_POST
from rest_framework.exceptions import APIException

from relayer_service.console.overview.attention import declared
from relayer_service.console.references import link

# The id of the demo's rows.
DEMO = "demo"
# An add page with it in the query is a step: after saving, it leads back to the overview.
STEP = "getting_started"
COOKIE, COOKIE_SECONDS = "getting_started_dismissed", 365 * 24 * 60 * 60
CONCURRENT = "The demo is already being set up. Open it from the lists."


class CannotSetUp(Exception):
    """The demo cannot be set up; the message says what to do."""


@dataclass
class Demo:
    """What the demo has so far: rows by the name of their step, and the text of its token."""

    user: Any
    rows: dict[str, Any] = field(default_factory=dict)
    token: str = ""
    # The page that shows the progress of the first transaction, and its scripts and style sheets.
    progress_url: str = ""
    # The rest of a curl command, after the host: the first call that the token can make.
    call: str = "/api/v1/relayers"
    media: Any = ""


@dataclass(frozen=True)
class Step:
    name: str
    title: str
    text: str
    permissions: Sequence[str]
    # Has a row once the step is done.
    done: QuerySet[Any]
    # Returns the URL of the step's form with defaults; empty if the step that it needs is missing.
    page: Callable[[], str]
    demo: Callable[[Demo], None]
    # The name of the step that must be done before.
    needs: str = ""
    # Raises `CannotSetUp` before anything of the demo is written.
    check: Callable[[], None] = lambda: None


def add_page(model: str, **initial: str) -> str:
    """Return the URL of an add page with initial values, which leads back to the overview."""
    return f"{reverse(f'admin:{model}_add')}?{urlencode({**initial, STEP: '1'})}"


def steps_for(request: HttpRequest) -> list[Step]:
    """Return the steps that a user may take."""
    return [step for step in all_steps(request) if request.user.has_perms(step.permissions)]


def all_steps(request: HttpRequest) -> list[Step]:
    return declared("getting_started_steps", request)


def offers_demo(request: HttpRequest) -> bool:
    """Return whether the demo can be set up: on a developer's machine, by those who may take all steps."""
    return settings.LOCAL and len(steps_for(request)) == len(all_steps(request))


def card(request: HttpRequest) -> dict[str, Any] | None:
    """Return the steps with whether they are done, or else locked; None if all are done. One query at most."""
    steps = [] if COOKIE in request.COOKIES else steps_for(request)
    if not steps:
        return None
    by_name = {step.name: step for step in all_steps(request)}
    conditions = {f"done_{number}": Exists(step.done) for number, step in enumerate(by_name.values())}
    users: Any = get_user_model()
    (found,) = users.objects.filter(pk=request.user.pk).values(**conditions)
    done = {name: found[f"done_{number}"] for number, name in enumerate(by_name)}
    if all(done[step.name] for step in steps):
        return None
    rows = [
        {
            "step": step,
            "done": done[step.name],
            "needs": by_name[step.needs].title if is_locked(step, done) else "",
            "url": reverse("getting_started_step", args=[step.name]),
        }
        for step in steps
    ]
    return {"rows": rows, "offers_demo": offers_demo(request)}


def is_locked(step: Step, done: dict[str, bool]) -> bool:
    return bool(step.needs) and not done[step.needs] and not done[step.name]


def open_step(request: HttpRequest, name: str) -> HttpResponse:
    """Redirect to the form of a step, or to the overview if the step that it needs is missing."""
    by_name = {step.name: step for step in all_steps(request)}
    step = by_name.get(name)
    if step is None:
        raise Http404
    if not request.user.has_perms(step.permissions):
        raise PermissionDenied
    page = step.page()
    if not page:
        messages.warning(request, f"“{step.title}” needs “{by_name[step.needs].title}” first.")
    return HttpResponseRedirect(page or reverse("admin:index"))


@require_POST
def dismiss(request: HttpRequest) -> HttpResponse:
    """Hide the card in this browser."""
    response = HttpResponseRedirect(reverse("admin:index"))
    response.set_cookie(
        COOKIE, "1", COOKIE_SECONDS, secure=settings.SESSION_COOKIE_SECURE, httponly=True, samesite="Lax"
    )
    return response


@require_POST
def demo_view(request: HttpRequest) -> HttpResponse:
    """Take all steps at once against the local node, and show the result, with the token once."""
    if not offers_demo(request):
        raise PermissionDenied
    try:
        demo = set_up(request)
    except CannotSetUp as error:
        messages.error(request, str(error))
        return HttpResponseRedirect(reverse("admin:index"))
    context = {**admin.site.each_context(request), "title": "Local demo", "demo": demo}
    context["rows"] = {name: link(row) for name, row in demo.rows.items() if row is not None}
    context["curl"] = f"curl -H 'Authorization: Bearer {demo.token or '<ACCESS_TOKEN>'}' {local_url(demo.call)}"
    response = TemplateResponse(request, "admin/demo.html", context)
    response["Cache-Control"] = "no-store"
    return response


def set_up(request: HttpRequest) -> Demo:
    """Create everything that the demo lacks, in one transaction."""
    steps, demo = all_steps(request), Demo(request.user)
    for step in steps:
        step.check()
    try:
        with transaction.atomic():
            for step in steps:
                step.demo(demo)
    except IntegrityError:
        raise CannotSetUp(CONCURRENT) from None
    except ValidationError as error:
        raise CannotSetUp(f"The demo was not set up: {'; '.join(error.messages)}.") from None
    except APIException as error:
        raise CannotSetUp(f"The demo was not set up: {error.detail}.") from None
    return demo


def local_url(path: str) -> str:
    """Return a URL of this service, as its worker calls it."""
    host = "127.0.0.1" if settings.HOST in {"0.0.0.0", "::"} else settings.HOST  # noqa: S104  # not bound to
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.PORT}{path}"


@require_POST
def receive_demo_event(request: HttpRequest) -> HttpResponse:
    """Accept the events of the demo's webhook; the log of deliveries shows them."""
    return HttpResponse(status=204)
