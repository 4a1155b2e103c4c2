from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.contrib.admin.utils import flatten_fieldsets, model_ngettext, unquote
from django.core.exceptions import PermissionDenied
from django.core.paginator import Page
from django.db import transaction
from django.db.models import CASCADE, PROTECT, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html_join
from unfold.contrib.filters.admin import AutocompleteSelectFilter
from unfold.decorators import action, display

from chain.networks import networks
from chain.units import coin
from notifications.console.filters import SUBJECT
from relayer_service.console import confirmation
from relayer_service.console.base import EarlyFormAdmin, column
from relayer_service.console.confirmation import PendingAction, ReasonForm
from relayer_service.console.dates import ago_titled
from relayer_service.console.jobs import ask_or_start
from relayer_service.console.lists.changelists import MAX_LISTED, NewestPaginator, is_key
from relayer_service.console.panels import declared
from relayer_service.console.references import MAX_SHOWN, link
from relayer_service.database.prefixes import CaseFolded
from relayer_service.extensions import is_enabled
from relayers import guards, policy_fields
from relayers.console import formatting
from relayers.console.bulk_edit import BulkEditAdmin
from relayers.console.filters import NetworkFilter, ProblemFilter, RelayerStateFilter, TagFilter, used_networks
from relayers.console.formatting import report
from relayers.console.forms import FUNDING, TOP_UP_FIELDS, RelayerForm, shows_signing
from relayers.console.nodes import NodesAdmin
from relayers.health.probes import ProbeCache
from relayers.models import Relayer
from relayers.models.health import BALANCE_ORDER
from relayers.pausing import set_all_paused
from relayers.reach import reached
from relayers.tasks import check_soon
from signers.models import Signer
from spending.console.formatting import shown_rules
from spending.writes import stored_rules

ACCOUNT = ["identifier", "name", "network", "chain_id", "signer", "address", "notification", "paused", "tags"]
SHOWN_NODES = ["shown_rpc_urls", "shown_private_rpc_urls", "private_fallback_blocks"]
FUNDS = "Reserve and automatic top-up"
POLICIES, RULES, SETTINGS = "policies", "rules", "settings"
LINES = ("", '<div class="break-all">{}</div>')


PAUSE, RESUME = "Pause", "Resume"
EFFECTS = {
    PAUSE: "Webhooks receive relayer.paused; fee estimates are still available.",
    RESUME: "Webhooks receive relayer.resumed.",
}
SKIPPED = {PAUSE: "already paused", RESUME: "not paused"}
AT_MOST = "At most {} relayers are paused at once: repeat this for the rest."


class RelayerPaginator(NewestPaginator):
    def page(self, number: int | str) -> Page[Any]:
        # Which counts the whole list.
        number = self.validate_number(number)
        if any("health__" in str(order) for order in self.object_list.query.order_by):
            # With an outer join, PostgreSQL would read all relayers and sort them, in place of the index.
            self.object_list = self.object_list.filter(health__isnull=False)
        return super().page(number)


@admin.register(Relayer)
class RelayerAdmin(NodesAdmin, BulkEditAdmin, EarlyFormAdmin):
    form = RelayerForm
    paginator = RelayerPaginator
    list_display = [
        "name",
        "identifier",
        "state",
        "network",
        "shown_signer",
        "shown_address",
        "balance",
        "runway",
        "last_check",
        "last_transaction",
        "created",
    ]
    list_filter = [
        RelayerStateFilter,
        NetworkFilter,
        TagFilter,
        ProblemFilter,
        ("signer", AutocompleteSelectFilter),
        ("notification", AutocompleteSelectFilter),
    ]
    list_fullwidth = True
    page_tabs = {
        "general": "Overview",
        "transactions": "Transactions",
        POLICIES: "Policies",
        RULES: "Rules",
        SETTINGS: "Settings",
    }
    # For the reason of a missing address.
    list_select_related = ["signer", "health"]
    search_fields = ["identifier", "name", "address", "network"]
    searched = "an ID, name, address or network"
    sort_orders = {
        "name": CaseFolded("name"),
        "identifier": CaseFolded("identifier"),
        "network": "network",
        "shown_address": CaseFolded("address"),
        "balance": BALANCE_ORDER,
        "last_check": "health__checked_at",
        "created": "sequence",
    }
    allowed_lookups = {"state", "network", "tag", "problem", "identifier__in"}
    allowed_keys = {"signer__sequence__exact", "notification__sequence__exact"}
    audited_relations = ["signer", "notification", "spending", "funding_relayer", "health"]
    actions = ["pause_selected", "resume_selected", "check_selected_now", "edit_selected"]
    actions_detail = ["send_transaction", "pause", "resume", "deliveries"]
    opens_added = True

    class Media:
        css = {"all": ["relayers/admin.css"]}
        js = ["relayers/admin.js"]

    def get_autocomplete_fields(self, request: HttpRequest) -> list[str]:
        # Not the attribute: Django's check refuses an admin whose search fields depend on the user.
        return ["signer", "notification", "funding_relayer"]

    def get_fieldsets(self, request: HttpRequest, obj: Relayer | None = None) -> Any:
        if obj and not self.has_change_permission(request, obj):
            account = [f"shown_{name}" if name in {"address", "tags"} else name for name in ACCOUNT]
            signing = ["shown_signing"] if shows_signing(obj) else []
            return [
                (None, {"fields": ["shown_policies", *signing], "classes": [POLICIES]}),
                (None, {"fields": ["shown_rules"], "classes": [RULES]}),
                (None, {"fields": [*account, *SHOWN_NODES, "created_at"], "classes": [SETTINGS]}),
            ]
        # An existing relayer is paused by its button, which requires a reason.
        account = [name for name in ACCOUNT if not obj or name != "paused"]
        nodes, policies = ["rpc_urls", "private_urls", "private_fallback_blocks"], policy_fields.FORM_FIELDS
        named = [
            (None, account, SETTINGS),
            ("Nodes", nodes, SETTINGS),
            ("Policies", [policy_fields.PREFIX + name for name in policies], POLICIES),
            *([("Signing", ["allow_signing"], POLICIES)] if shows_signing(obj) else []),
            ("Spending rules", ["spending_rules"], RULES),
            *([(FUNDS, ["reserve", *TOP_UP_FIELDS.values()], SETTINGS)] if is_enabled("transactions") else []),
            *([("Status", ["created_at"], SETTINGS)] if obj else []),
        ]
        return [(name, {"fields": fields, "classes": [tab] if obj else []}) for name, fields, tab in named]

    def get_readonly_fields(self, request: HttpRequest, obj: Relayer | None = None) -> list[str]:
        shown = ["shown_address", "shown_rpc_urls", "shown_private_rpc_urls", "shown_policies", "shown_signing"]
        return [*(["identifier"] if obj else []), *shown, "shown_rules", "shown_tags", "created_at"]

    def get_list_display(self, request: HttpRequest) -> list[str]:
        """Return the columns, without that of transactions for staff who cannot view them."""
        hidden = [] if last_transactions(request, []) is not None else ["last_transaction"]
        return [name for name in self.list_display if name not in hidden]

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        changelist = super().get_changelist_instance(request)
        rows = changelist.result_list = list(changelist.result_list)
        formatting.note_missing_funds(rows)
        is_shown = "last_transaction" in changelist.list_display
        times = (last_transactions(request, [row.pk for row in rows]) if is_shown else None) or {}
        for row in rows:
            row.last_transaction_at = times.get(row.pk)
        return changelist

    def get_form(self, request: HttpRequest, obj: Relayer | None = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change=change, **kwargs)
        form.answers = request.__dict__.setdefault("answers", ProbeCache())
        form.can_fund = request.user.has_perm(FUNDING)
        return form

    def searched_starts(self, request: HttpRequest, text: str) -> list[tuple[str, str]]:
        """Compare networks by name: that column has no index for the start of a text."""
        texts = [(name, each) for name, each in super().searched_starts(request, text) if name != "network"]
        names = [name for name in used_networks(Relayer) if name.lower().startswith(text.lower())]
        return [*texts, *(("network__exact", name) for name in names)]

    state = column("state", formatting.badges)
    shown_address = column("address", formatting.address, ordering=CaseFolded("address"))

    balance = column("balance", formatting.listed_balance, ordering=BALANCE_ORDER)
    shown_tags = column("tags", lambda relayer: ", ".join(relayer.tags) or "none")
    shown_signer = column("signer", lambda relayer: link(relayer.signer))
    runway = column("runway", formatting.runway)
    last_transaction = column("last transaction", lambda relayer: ago_titled(relayer.last_transaction_at))
    last_check = column(
        "last check", lambda relayer: ago_titled(relayer.health.checked_at), ordering="health__checked_at"
    )
    shown_rpc_urls = column("RPC URLs", lambda relayer: shown_nodes(relayer.masked_rpc_urls))
    shown_private_rpc_urls = column("private RPC URLs", lambda relayer: shown_nodes(relayer.masked_private_rpc_urls))
    shown_signing = column(
        "allow signing",
        lambda relayer: ", ".join(Relayer.SigningKind(kind).label for kind in relayer.allow_signing) or "nothing",
    )

    @display(description="policies")
    def shown_policies(self, relayer: Relayer) -> str:
        network = networks().get(relayer.network)
        policies = relayer.policies.items()
        rows = (
            (f"{policy_fields.TEXTS[name].label}: {policy_fields.shown_policy(name, value, network)}",)
            for name, value in policies
        )
        return format_html_join(*LINES, rows) or "none"

    @display(description="spending rules")
    def shown_rules(self, relayer: Relayer) -> str:
        return shown_rules(stored_rules(relayer), coin(networks().get(relayer.network)), relayer.network)

    def _changeform_view(self, request: HttpRequest, *args: Any) -> Any:
        """Lock the signer before the relayer, as replacing its key does."""
        signer = request.POST.get("signer", "")
        if signer.isdecimal() and is_key(signer):
            list(Signer.objects.select_for_update(no_key=True).filter(pk=signer).values_list("pk"))
        return super()._changeform_view(request, *args)

    def early_fields(self, request: HttpRequest, obj: Relayer | None) -> list[str]:
        fields: list[str] = flatten_fieldsets(self.get_fieldsets(request, obj))
        return fields

    def get_deleted_objects(self, objs: Iterable[Relayer], request: HttpRequest) -> Any:
        """Count the rows of all apps that are deleted with relayers or protect them; Django would list them all."""
        relayers = list(objs)
        counts, protected = {str(self.opts.verbose_name_plural): len(relayers)}, []
        for relation in self.opts.related_objects:
            if relation.name in {"health", "tag_rows"}:
                continue
            rows = relation.related_model._base_manager.filter(**{f"{relation.field.name}__in": relayers})
            name = str(relation.related_model._meta.verbose_name_plural)
            if relation.on_delete is CASCADE:
                counts[name] = rows.count()
            elif relation.on_delete is PROTECT and rows.exists():
                protected.append(f"{rows.count():,} {name}")
        keys = [relayer.pk for relayer in relayers]
        protected += [*(guards.refusals(keys) | guards.funding_refusals(keys)).values()][:MAX_SHOWN]
        return [str(relayer) for relayer in relayers], counts, set(), protected

    def _record_deleted(self, request: HttpRequest, rows: list[Relayer]) -> None:
        guards.release([relayer.pk for relayer in rows])
        super()._record_deleted(request, rows)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Relayer]) -> None:
        try:
            with transaction.atomic():
                super().delete_queryset(request, queryset.prefetch_related("tag_rows"))
        except guards.DeletionRefused as refusal:
            self.message_user(request, f"Not deleted: {refusal}", messages.ERROR)

    @action(description="Send a transaction", icon="send", permissions=["send"])
    def send_transaction(self, request: HttpRequest, object_id: str) -> HttpResponse:
        relayer = self.get_object_or_404(request, object_id)
        return HttpResponseRedirect(reverse("admin:relayers_relayer_try_it", args=[relayer.pk]))

    @action(description="Deliveries of this relayer", icon="outbox", permissions=["view_deliveries"])
    def deliveries(self, request: HttpRequest, object_id: str) -> HttpResponse:
        query = urlencode({SUBJECT: self.get_object_or_404(request, object_id).identifier})
        return HttpResponseRedirect(f"{reverse('admin:notifications_delivery_changelist')}?{query}")

    def has_view_deliveries_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        return bool(request.user.has_perm("notifications.view_delivery") and self.has_view_permission(request))

    def has_send_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        may_send = is_enabled("transactions") and request.user.has_perms([FUNDING, "transactions.view_transaction"])
        return may_send and self.has_view_permission(request)

    def has_pause_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        return bool(request.user.has_perm("relayers.pause_relayer") and self.has_view_permission(request))

    def has_check_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        return bool(request.user.has_perm("relayers.check_relayer") and self.has_view_permission(request))

    @admin.action(description="Pause selected relayers", permissions=["pause"])
    def pause_selected(self, request: HttpRequest, queryset: QuerySet[Relayer]) -> HttpResponse:
        return self._confirm_or_set_paused(request, PendingAction.in_list(request, "pause_selected", queryset), PAUSE)

    @admin.action(description="Resume selected relayers", permissions=["pause"])
    def resume_selected(self, request: HttpRequest, queryset: QuerySet[Relayer]) -> HttpResponse:
        return self._confirm_or_set_paused(
            request, PendingAction.in_list(request, "resume_selected", queryset), RESUME
        )

    def reached(self, allowed: Sequence[str]) -> QuerySet[Relayer]:
        """Return the relayers that `allowed_relayers` names and that are not paused."""
        return reached(allowed, Relayer.objects.filter(paused=False))

    def ask_or_pause(self, request: HttpRequest, allowed: Sequence[str], back: str) -> HttpResponse:
        """Ask to pause the relayers that `allowed_relayers` names, MAX_LISTED at a time, then pause them."""
        if not self.has_pause_permission(request):
            raise PermissionDenied
        rows = self.reached(allowed).order_by("pk")
        pending = replace(PendingAction.in_list(request, "", rows, MAX_LISTED), back=back)
        if not pending.selection:
            self.message_user(request, "No relayers to pause.", messages.WARNING)
            return pending.leave()
        if len(pending.selection) == MAX_LISTED and not pending.is_confirmed:
            self.message_user(request, AT_MOST.format(f"{MAX_LISTED:,}"), messages.WARNING)
        return self._confirm_or_set_paused(request, pending, PAUSE)

    @action(description="Pause", icon="pause", permissions=["pause"])
    def pause(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._confirm_or_set_paused(request, self._pending_on_page(request, object_id), PAUSE)

    @action(description="Resume", icon="play_arrow", permissions=["pause"])
    def resume(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._confirm_or_set_paused(request, self._pending_on_page(request, object_id), RESUME)

    def get_actions_detail(self, request: HttpRequest, object_id: str) -> list[Any]:
        """Return Pause or Resume, whichever changes the relayer, and the other actions."""
        actions: list[Any] = super().get_actions_detail(request, object_id)
        relayer = self.get_object(request, unquote(object_id)) if actions else None
        useless = RESUME if relayer and not relayer.paused else PAUSE
        return [item for item in actions if item.description != useless]

    def _pending_on_page(self, request: HttpRequest, object_id: str) -> PendingAction:
        relayer = self.get_object_or_404(request, object_id)
        return PendingAction.on_page(request, relayer.pk, reverse("admin:relayers_relayer_change", args=[relayer.pk]))

    def _confirm_or_set_paused(self, request: HttpRequest, pending: PendingAction, verb: str) -> HttpResponse:
        paused = verb == PAUSE
        form = ReasonForm(request.POST if pending.is_confirmed else None, required=paused)
        if form.is_valid():
            count = set_all_paused(pending.selection, paused, form.cleaned_data["reason"])
            report(self, request, f"{verb}d", count, len(pending.selection) - count, SKIPPED[verb])
            return pending.leave()
        relayers = self.get_queryset(request)
        others = pending.count(relayers.filter(paused=paused))
        texts = [f"{verb} {counted(len(pending.selection) - others)}? {EFFECTS[verb]}"]
        if others:
            texts.append(f"Skipped: {counted(others)} ({SKIPPED[verb]}).")
        table = pending.first(relayers, {"Name": lambda row: row.name, "State": self.state})
        title = f"{verb} {model_ngettext(Relayer._meta, len(pending.selection))}"
        return confirmation.ask(request, self, pending, title, texts, table, form)

    @admin.action(description="Check selected relayers now", permissions=["check"])
    def check_selected_now(self, request: HttpRequest, queryset: QuerySet[Relayer]) -> HttpResponse:
        pending = PendingAction.in_list(request, "check_selected_now", queryset)
        table = pending.first(self.get_queryset(request), {"Last check": self.last_check})
        return ask_or_start(request, self, pending, "check_relayers", table)

    def check_now(self, request: HttpRequest, relayers: list[Relayer]) -> None:
        count = check_soon([relayer.pk for relayer in relayers])
        report(self, request, "Queued for a check", count, len(relayers) - count, "being checked")


def shown_nodes(masked: list[dict[str, Any]]) -> str:
    rows = ((f"{entry['url']} (weight {entry['weight']})",) for entry in masked)
    return format_html_join(*LINES, rows) or "those of the network"


def counted(number: int) -> str:
    return f"{number:,} {model_ngettext(Relayer._meta, number)}"


def last_transactions(request: HttpRequest, relayers: Collection[int]) -> dict[int, datetime | None] | None:
    """Return when each relayer got its newest transaction; None for staff who cannot view them."""
    return next((find(request, relayers) for find in declared("last_transactions")), None)
