"""What a token did, on its page; and the page for one that leaked, with a step for each thing to do."""

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.db.models import QuerySet
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
from tokens.models import AccessToken, TokenUse, states
from tokens.uses import COUNTS, OTHERS
from tokens.writes import NotRotatable, reissue

ADDRESS_HEADERS = ["Address", "First request", "Last request", "Requests", "403", "Refused by rules", "Rejected"]
CHANGE_HEADERS = ["When", "Action", "Object", "What", "From"]
MAX_FAMILY_SHOWN = 20
MAX_ENTRIES = 10
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


class SinceForm(forms.Form):
    since = forms.DateTimeField(
        label="It may have leaked at",
        widget=UnfoldAdminTextInputWidget(attrs={"type": "datetime-local"}),
        help_text=IN_TIME_ZONE,
    )


class Activity(Panel):
    """The use of a token by address, and what it changed."""

    template = "admin/tokens/accesstoken/activity.html"
    views = ["leaked", "revoke", "reissue"]

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
            sections["Changes"] = changes(token)
            if token.since:
                sections["Signatures and refusals"] = actions(token)
        log = f"{reverse('admin:relayer_service_auditentry_changelist')}?{urlencode({'q': token.name})}"
        leaked = "" if token.since else self.url("leaked", token)
        return {"activity": {"facts": facts, "sections": sections, "log": log if sections else "", "leaked": leaked}}

    @object_view("view", "GET")
    def leaked(self, request: HttpRequest, token: AccessToken) -> HttpResponse:
        """Show what was done with a token since a time, and what to do about it."""
        default = timezone.now() - timedelta(days=1)
        since = f"{timezone.localtime(default):%Y-%m-%dT%H:%M}"
        form = SinceForm(request.GET if "since" in request.GET else {"since": since})
        token.since = form.cleaned_data["since"] if form.is_valid() else default
        context = {
            **self.admin.admin_site.each_context(request),
            "title": f"Leaked: {token}",
            "opts": self.admin.opts,
            "token": token,
            "media": self.admin.media,
            "since_form": form,
            "revoke_title": f"1. Revoke {token}",
            "successors": listed(active_successors(token.pk)),
            "reissued": listed(active_reissued(token.pk)),
            "token_url": self.url("change", token),
            "revoke_url": self.url("revoke", token) if self.admin.has_change_permission(request, token) else "",
            "revoke_variant": "primary" if token.enabled else "default",
            "reissue_url": self.url("reissue", token) if self.admin.has_rotate_permission(request) else "",
            **self.admin.panel_context(request, token),
        }
        return TemplateResponse(request, "admin/tokens/accesstoken/leaked.html", context)

    @object_view("change", asks_first=True)
    def revoke(self, request: HttpRequest, token: AccessToken) -> HttpResponse:
        pending = PendingAction.on_page(request, token.pk, self.url("leaked", token))
        response: HttpResponse = self.admin.ask_or_disable(request, pending, "Revoke token")
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


def changes(token: AccessToken) -> Table:
    """Return what a token created, changed and deleted, the newest first."""
    return entry_table(token, AuditEntry.objects.exclude(action=AuditEntry.Action.ACTED))


def actions(token: AccessToken) -> Table:
    """Return what a token did without a change: what it signed, and what was refused."""
    return entry_table(token, AuditEntry.objects.filter(action=AuditEntry.Action.ACTED))


def entry_table(token: AccessToken, entries: Any) -> Table:
    maximum = MAX_ENTRIES_SINCE if token.since else MAX_ENTRIES
    # Twice, for the conditions of the indexes. A token has its key under each of its names.
    own = entries.exclude(actor_key="").filter(actor_key=token.key)
    chosen = own.filter(at__gte=token.since) if token.since else own
    return Table(CHANGE_HEADERS, [entry_row(entry) for entry in chosen.order_by("-at", "-id")[:maximum]])


def entry_row(entry: AuditEntry) -> list[str]:
    page = reverse("admin:relayer_service_auditentry_change", args=[entry.pk])
    lines = [*entry.lines, *([entry.note] if entry.note else [])]
    return [
        format_html('<a class="underline" href="{}">{}</a>', page, exact(entry.at)),
        entry.title,
        f"{entry.kind} {entry.object_id}",
        format_html_join("", '<div class="long">{}</div>', ([line] for line in lines)) or "-",
        entry.address or "-",
    ]
