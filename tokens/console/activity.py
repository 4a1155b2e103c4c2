"""What a token did, on its page; and the page for one that leaked, with a step for each thing to do."""

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.apps import apps
from django.contrib import messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from unfold.widgets import UnfoldAdminTextInputWidget

from relayer_service.audit.models import AuditEntry
from relayer_service.console import confirmation
from relayer_service.console.confirmation import PendingAction, Table
from relayer_service.console.dates import IN_TIME_ZONE, ago_titled, exact
from relayer_service.console.panels import Panel, object_view
from relayer_service.console.references import and_more, link
from relayer_service.tags import tags_in
from tokens.models import AccessToken, TokenUse, states
from tokens.uses import COUNTS, OTHERS
from tokens.writes import NotRotatable, reissue

ADDRESS_HEADERS = ["Address", "First request", "Last request", "Requests", "403", "Refused by rules", "Rejected"]
CHANGE_HEADERS = ["When", "Action", "Object", "What", "From"]
MAX_FAMILY_SHOWN = 20
MAX_ENTRIES = 10
# Of IDs in the URL of a list.
MAX_NAMES = 2_000
# On the page of a leaked token, which has those since a time alone.
MAX_ENTRIES_SINCE = 50
REISSUE = (
    "A new token with the rights of this one is issued and shown once. It has the same spending rules with what was "
    "spent, and expires when its newest successor would."
)


def active_successors(*keys: int) -> Any:
    return AccessToken.objects.filter(pk__in=keys).successors().filter(states()["active"])


def active_reissued(*keys: int) -> Any:
    return AccessToken.objects.filter(pk__in=keys).reissued().filter(states()["active"])


def listed(tokens: QuerySet[AccessToken]) -> str:
    """Return links to the first of some tokens, and the number of the others."""
    count, shown = tokens.count(), list(tokens[:MAX_FAMILY_SHOWN])
    links = format_html_join(", ", "{}", ([link(each)] for each in shown))
    return format_html("{} {}", links, and_more(count - len(shown))) if shown else "none"


def allowed_relayers(token: AccessToken) -> list[str]:
    """Return those of a token and its successors, active or not; none if any of them can use every relayer."""
    tokens = [token, *AccessToken.objects.filter(pk=token.pk).successors()]
    is_limited = all(each.allowed_relayers for each in tokens)
    return sorted({entry for each in tokens for entry in each.allowed_relayers}) if is_limited else []


def reached(entries: list[str]) -> dict[str, str]:
    """Return `allowed_relayers` in words, and a list: of these relayers, if a filter has them."""
    tags, names = tags_in(entries), ",".join(entries)
    chosen: dict[str, Any] = {}
    if tags:
        chosen = {"tag": tags} if len(tags) == len(entries) else {}
    elif entries and names.count(",") < len(entries) and len(names) < MAX_NAMES:
        chosen = {"identifier__in": names}
    url = f"{reverse('admin:relayers_relayer_changelist')}?{urlencode(chosen, doseq=True)}"
    return {
        "words": ", ".join(entries) or "every relayer",
        "url": url,
        "label": "Show them" if chosen else "All relayers",
    }


class SinceForm(forms.Form):
    since = forms.DateTimeField(
        label="It may have leaked at",
        widget=UnfoldAdminTextInputWidget(attrs={"type": "datetime-local"}),
        help_text=IN_TIME_ZONE,
    )


class Activity(Panel):
    """The use of a token by address, and what it changed."""

    template = "admin/tokens/accesstoken/activity.html"
    views = ["leaked", "revoke", "pause_reached", "reissue"]

    def context(self, request: HttpRequest, token: AccessToken) -> dict[str, Any]:
        uses = list(TokenUse.objects.filter(token=token).order_by("-last_at"))
        totals = {name: f"{sum(getattr(use, name) for use in uses):,}" for name in COUNTS}
        first = exact(token.first_used_at, "before this was recorded" if token.last_used_at else "never")
        facts = {
            "First use": first,
            "Last use": ago_titled(token.last_used_at),
            "Requests": totals["requests"],
            "Forbidden (403)": totals["forbidden"],
            "Refused by spending rules": totals["refused"],
            "Rejected (401)": totals["rejected"],
        }
        sections = {}
        # The audit log shows addresses, too.
        if request.user.has_perm("relayer_service.view_auditentry"):
            sections["Addresses"] = Table(ADDRESS_HEADERS, [address_row(use) for use in uses])
            has_acted = Q(action=AuditEntry.Action.ACTED)
            sections["Changes"] = self._entries(request, token, ~has_acted)
            if token.since:
                sections["Signatures and refusals"] = self._entries(request, token, has_acted)
        log = f"{reverse('admin:relayer_service_auditentry_changelist')}?{urlencode({'q': token.name})}"
        leaked = "" if token.since else self.url("leaked", token)
        return {"activity": {"facts": facts, "sections": sections, "log": log if sections else "", "leaked": leaked}}

    def _entries(self, request: HttpRequest, token: AccessToken, condition: Q) -> Table:
        """Return the newest audit entries of what a token did."""
        log: Any = self.admin.admin_site._registry[AuditEntry]
        maximum = MAX_ENTRIES_SINCE if token.since else MAX_ENTRIES
        # Twice, for the conditions of the indexes. A token has its key under each of its names.
        own = AuditEntry.objects.filter(condition).exclude(actor_key="").filter(actor_key=token.key)
        chosen = own.filter(at__gte=token.since) if token.since else own
        newest = list(chosen.order_by("-at", "-id")[:maximum])
        log.link_objects(request, newest)
        return Table(CHANGE_HEADERS, [entry_row(log, entry) for entry in newest])

    @object_view("view", "GET")
    def leaked(self, request: HttpRequest, token: AccessToken) -> HttpResponse:
        """Show what was done with a token since a time, and what to do about it."""
        default = timezone.now() - timedelta(days=1)
        since = f"{timezone.localtime(default):%Y-%m-%dT%H:%M}"
        form = SinceForm(request.GET if "since" in request.GET else {"since": since})
        token.since = form.cleaned_data["since"] if form.is_valid() else default
        successors, allowed = active_successors(token.pk), allowed_relayers(token)
        may_pause = self._relayers.has_pause_permission(request)
        context = {
            **self.admin.admin_site.each_context(request),
            "title": f"Leaked: {token}",
            "opts": self.admin.opts,
            "token": token,
            "media": self.admin.media,
            "since_form": form,
            "reached": reached(allowed),
            "may_pause": may_pause,
            "pause_url": self.url("pause_reached", token)
            if may_pause and self._relayers.reached(allowed).exists()
            else "",
            "pause_variant": "default" if token.enabled else "primary",
            "revoke_title": f"1. Revoke {token}",
            "is_revoked": not token.enabled and not successors.exists(),
            "successors": listed(successors),
            "reissued": listed(active_reissued(token.pk)),
            "token_url": self.url("change", token),
            "revoke_url": self.url("revoke", token) if self.admin.has_revoke_permission(request) else "",
            "revoke_variant": "primary" if token.enabled else "default",
            "reissue_url": self.url("reissue", token) if self.admin.has_rotate_permission(request) else "",
            **self.admin.panel_context(request, token),
        }
        return TemplateResponse(request, "admin/tokens/accesstoken/leaked.html", context)

    @object_view("revoke", asks_first=True)
    def revoke(self, request: HttpRequest, token: AccessToken) -> HttpResponse:
        pending = PendingAction.on_page(request, token.pk, self.url("leaked", token))
        response: HttpResponse = self.admin.ask_or_revoke(request, pending)
        return response

    @property
    def _relayers(self) -> Any:
        return self.admin.admin_site._registry[apps.get_model("relayers.Relayer")]

    @object_view("view", asks_first=True)
    def pause_reached(self, request: HttpRequest, token: AccessToken) -> HttpResponse:
        """Ask to pause the relayers that a leaked token can use, then pause them."""
        response: HttpResponse = self._relayers.ask_or_pause(
            request, allowed_relayers(token), self.url("leaked", token)
        )
        return response

    @object_view("rotate", asks_first=True)
    def reissue(self, request: HttpRequest, token: AccessToken) -> HttpResponse:
        """Issue the successor of a revoked token, and show it once."""
        pending = PendingAction.on_page(request, token.pk, self.url("leaked", token))
        if not pending.is_confirmed:
            table = pending.first(self.admin.get_queryset(request), {"Permissions": self.admin.permissions})
            return confirmation.ask(request, self.admin, pending, "Issue successor", [REISSUE], table)
        try:
            rotation = reissue(token.pk)
        except NotRotatable as error:
            self.admin.message_user(request, f"Not issued: {error}.", messages.ERROR)
            return pending.leave()
        response: HttpResponse = self.admin.show_issued(request, rotation.new, rotation.text)
        return response


def address_row(use: TokenUse) -> list[str]:
    address = "all others, or unknown" if use.address == OTHERS else use.address
    return [address, exact(use.first_at), exact(use.last_at), *(f"{getattr(use, name):,}" for name in COUNTS)]


def entry_row(log: Any, entry: AuditEntry) -> list[str]:
    """Return an entry with the words and links of the audit log."""
    page = reverse("admin:relayer_service_auditentry_change", args=[entry.pk])
    when = format_html('<a class="underline" href="{}">{}</a>', page, log.when(entry))
    return [when, log.shown_action(entry), log.object(entry), log.what(entry), log.source(entry)]
