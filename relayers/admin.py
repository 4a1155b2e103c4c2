from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.admin.utils import flatten_fieldsets, unquote
from django.core.exceptions import PermissionDenied
from django.db import connection, transaction
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.utils import timezone
from django.utils.html import format_html_join
from unfold.admin import ModelAdmin
from unfold.contrib.filters.admin import BooleanRadioFilter
from unfold.decorators import display

from relayer_service.admin.dashboard import ago
from relayer_service.ops.tasks import push
from relayers import dashboard, policy_fields, status
from relayers.filters import NetworkFilter, RelayerStateFilter, with_state
from relayers.forms import RelayerForm
from relayers.models import ACCOUNT_COLUMNS, Relayer
from relayers.states import set_paused
from relayers.tasks import check_relayers_now, check_soon

ACCOUNT = ["identifier", "name", "network", "chain_id", "signer", "address", "notification", "paused"]
LINES = ("", '<div class="break-all">{}</div>')


@admin.register(Relayer)
class RelayerAdmin(ModelAdmin):
    form = RelayerForm
    list_display = ["name", "identifier", "state", "network", "shown_address", "balance", "last_check"]
    list_filter = [RelayerStateFilter, NetworkFilter, ("paused", BooleanRadioFilter)]
    list_filter_submit = True
    list_fullwidth = True
    # Pausing tells the notification.
    list_select_related = ["notification"]
    search_fields = ["identifier", "name", "address"]
    ordering = ["-sequence"]
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    actions = ["pause_selected", "resume_selected", "check_selected_now"]
    change_form_outer_before_template = "admin/relayers/relayer/status_panel.html"

    class Media:
        css = {"all": ["relayers/admin.css"]}
        js = ["relayers/admin.js"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Relayer]:
        return with_state(super().get_queryset(request))

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Relayer | None:
        """Lock a relayer that is being changed: two who change parts of its policies at once both have them kept."""
        relayer: Relayer | None = super().get_object(request, object_id, from_field)
        if relayer and request.method == "POST" and connection.in_atomic_block:
            relayer = self.get_queryset(request).select_for_update().filter(pk=relayer.pk).first()
        return relayer

    def get_autocomplete_fields(self, request: HttpRequest) -> list[str]:
        # Not the attribute: Django's check of it knows no admin whose search fields depend on who searches.
        return ["signer", "notification"]

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Filter by what the list offers alone: a lookup into a hidden column would tell what is in it."""
        return lookup in {"state", "network", "paused__exact"}

    def get_fieldsets(self, request: HttpRequest, obj: Relayer | None = None) -> Any:
        if obj and not self.has_change_permission(request, obj):
            account = ["shown_address" if name == "address" else name for name in ACCOUNT]
            fields = [*account, "shown_rpc_urls", "shown_policies", "created_at"]
            return [(None, {"fields": fields})]
        return [
            (None, {"fields": ACCOUNT}),
            ("Nodes", {"fields": ["rpc_urls"]}),
            ("Policies", {"fields": list(policy_fields.form_fields())}),
            *([("Seen", {"fields": ["created_at"]})] if obj else []),
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Relayer | None = None) -> list[str]:
        return [*(["identifier"] if obj else []), "shown_address", "shown_rpc_urls", "shown_policies", "created_at"]

    def get_form(self, request: HttpRequest, obj: Relayer | None = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change=change, **kwargs)
        form.answers = request.__dict__.setdefault("answers", {})
        return form

    @display(description="state")
    def state(self, relayer: Any) -> str:
        return dashboard.badge(relayer.state)

    @display(description="address")
    def shown_address(self, relayer: Relayer) -> str:
        return dashboard.address(relayer)

    @display(description="balance")
    def balance(self, relayer: Relayer) -> str:
        return dashboard.balance(relayer)

    @display(description="last check", ordering="checked_at")
    def last_check(self, relayer: Relayer) -> str:
        return ago(relayer.checked_at)

    @display(description="RPC URLs")
    def shown_rpc_urls(self, relayer: Relayer) -> str:
        rows = ((f"{entry['url']} (weight {entry['weight']})",) for entry in relayer.masked_rpc_urls)
        return format_html_join(*LINES, rows) or "those of the network"

    @display(description="policies")
    def shown_policies(self, relayer: Relayer) -> str:
        rows = ((f"{name}: {policy_fields.shown(value)}",) for name, value in relayer.policies.items())
        return format_html_join(*LINES, rows) or "none"

    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None
    ) -> Any:
        if request.method == "POST":
            self._ask_ahead(request, object_id)
        return super().changeform_view(request, object_id, form_url, extra_context)

    def _ask_ahead(self, request: HttpRequest, object_id: str | None) -> None:
        """Have signer and nodes answer before the transaction of the change begins: it would lock others out."""
        relayer = self.get_object(request, unquote(object_id)) if object_id else None
        may = self.has_change_permission(request, relayer) if object_id else self.has_add_permission(request)
        if may and (relayer or not object_id):
            fields = flatten_fieldsets(self.get_fieldsets(request, relayer))
            form = self.get_form(request, relayer, change=bool(relayer), fields=fields)
            form(request.POST, instance=relayer).is_valid()

    def save_model(self, request: HttpRequest, obj: Relayer, form: RelayerForm, change: bool) -> None:
        paused, now = obj.paused, timezone.now()
        if not change:
            # Pausing is told to the webhook, also that of a new relayer.
            obj.paused, obj.due_at = False, now
            super().save_model(request, obj, form, change)
        elif form.changed_columns:
            # No other column: the health check may write those at this moment. One that is under way is of what
            # the relayer was before, so its lease is taken from it.
            obj.due_at, obj.lease = now, None
            columns = {*form.changed_columns, "due_at", "lease"}
            if form.changed_columns & ACCOUNT_COLUMNS:
                columns |= obj.forget_account()
            obj.save(update_fields=columns)
        if not change or form.changed_columns:
            push(check_relayers_now)
        if not change or "paused" in form.changed_data:
            set_paused(obj, paused)
        for warning in form.warnings:
            self.message_user(request, warning, messages.WARNING)

    @admin.action(description="Pause selected relayers", permissions=["change"])
    def pause_selected(self, request: HttpRequest, queryset: QuerySet[Relayer]) -> None:
        self._set_paused(request, queryset, True)

    @admin.action(description="Resume selected relayers", permissions=["change"])
    def resume_selected(self, request: HttpRequest, queryset: QuerySet[Relayer]) -> None:
        self._set_paused(request, queryset, False)

    def _set_paused(self, request: HttpRequest, queryset: QuerySet[Relayer], paused: bool) -> None:
        assert request.user.is_authenticated
        # In the order in which others lock them.
        chosen = sorted(queryset, key=lambda relayer: relayer.pk)
        word = "Paused" if paused else "Resumed"
        with transaction.atomic():
            done = [relayer for relayer in chosen if set_paused(relayer, paused)]
            LogEntry.objects.log_actions(request.user.pk, done, CHANGE, f"{word}.")
        left_alone = "paused already" if paused else "not paused"
        self._tell(request, word, len(done), len(chosen) - len(done), left_alone)

    @admin.action(description="Check selected relayers now", permissions=["change"])
    def check_selected_now(self, request: HttpRequest, queryset: QuerySet[Relayer]) -> None:
        self._check_now(request, list(queryset))

    def _check_now(self, request: HttpRequest, relayers: list[Relayer]) -> None:
        count = check_soon(relayers)
        self._tell(request, "To be checked at once", count, len(relayers) - count, "being checked")

    def _tell(self, request: HttpRequest, done: str, count: int, others: int, left_alone: str) -> None:
        text = f"{done}: {counted(count)}."
        if others:
            text += f" Left alone, as {left_alone}: {others:,}."
        self.message_user(request, text, messages.SUCCESS if count else messages.WARNING)

    def get_urls(self) -> list[Any]:
        views = {"status": self.status_view, "check": self.check_view}
        own = [
            path(f"<path:object_id>/{name}/", self.admin_site.admin_view(view), name=f"relayers_relayer_{name}")
            for name, view in views.items()
        ]
        return [*own, *super().get_urls()]

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> Any:
        relayer = kwargs.get("obj")
        if relayer:
            context["status_url"] = reverse("admin:relayers_relayer_status", args=[relayer.pk])
            if self.has_change_permission(request, relayer):
                context["check_url"] = reverse("admin:relayers_relayer_check", args=[relayer.pk])
        return super().render_change_form(request, context, *args, **kwargs)

    def status_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Give the part of the page that asks the nodes, so that the page itself need not wait for them."""
        relayer = self._found(request, object_id)
        if not self.has_view_permission(request, relayer):
            raise PermissionDenied
        return render(request, "admin/relayers/relayer/status.html", status.context(relayer))

    def check_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        relayer = self._found(request, object_id)
        if not self.has_change_permission(request, relayer):
            raise PermissionDenied
        self._check_now(request, [relayer])
        return HttpResponseRedirect(reverse("admin:relayers_relayer_change", args=[relayer.pk]))

    def _found(self, request: HttpRequest, object_id: str) -> Any:
        relayer = self.get_object(request, unquote(object_id))
        if relayer is None:
            raise Http404
        return relayer


def counted(number: int) -> str:
    return "1 relayer" if number == 1 else f"{number:,} relayers"
