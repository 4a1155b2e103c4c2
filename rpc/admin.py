from typing import Any

from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from unfold.admin import StackedInline

from relayer_service.console.base import ResourceAdmin, column
from relayer_service.console.lists.filters import StateFilter
from relayers.console.filters import NetworkFilter
from relayers.console.formatting import address
from rpc.console import formatting
from rpc.console.forms import SOURCE_FIELDS, FeeTokenForm, PriceSourceForm, PriceSources
from rpc.fees import price_checks
from rpc.models import FeeToken, PriceSource
from rpc.models.fee_tokens import PRICE_STATES


class PriceSourceInline(StackedInline):
    """The price sources of a token, with the permissions of the token."""

    model = PriceSource
    form = PriceSourceForm
    formset = PriceSources
    fields = ["kind", *SOURCE_FIELDS]
    extra = 0
    min_num = 1
    verbose_name = "price source"

    def get_formset(self, request: HttpRequest, obj: Any = None, **kwargs: Any) -> Any:
        return super().get_formset(request, obj, validate_min=True, **kwargs)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.has_perm("rpc.view_feetoken")) or self.has_change_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.has_perm("rpc.change_feetoken"))

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_change_permission(request) or bool(request.user.has_perm("rpc.add_feetoken"))

    has_delete_permission = has_change_permission


class FeeTokenStateFilter(StateFilter):
    conditions = {state: Q(state=state) for state in PRICE_STATES}


@admin.register(FeeToken)
class FeeTokenAdmin(ResourceAdmin):
    form = FeeTokenForm
    inlines = [PriceSourceInline]
    list_display = ["symbol", "network", "shown_address", "state", "price", "sources", "margin"]
    list_filter = [FeeTokenStateFilter, NetworkFilter]
    list_fullwidth = True
    search_fields = ["symbol", "address"]
    searched = "a symbol or address"
    # Without indexes, as there are few.
    sort_orders = {"symbol": "symbol", "network": "network", "shown_address": "address", "margin": "margin_bps"}
    allowed_lookups = {"state", "network"}
    ordering = ["network", "symbol"]
    readonly_fields = ["shown_address", "shown_sources", "created_at"]
    actions = ["read_selected_prices"]

    class Media:
        css = {"all": ["relayers/admin.css", "rpc/admin.css"]}
        js = ["rpc/admin.js"]

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).with_state().prefetch_related("sources")

    def get_inlines(self, request: HttpRequest, obj: FeeToken | None) -> list[Any]:
        """Omit the sources for staff who can only view: the form shows the fields of every kind."""
        return [PriceSourceInline] if obj is None or self.has_change_permission(request, obj) else []

    def get_fieldsets(self, request: HttpRequest, obj: FeeToken | None = None) -> Any:
        may_change = obj is None or self.has_change_permission(request, obj)
        token = ["network", "symbol", "address" if may_change else "shown_address", "enabled"]
        return [
            (None, {"fields": token}),
            ("Price", {"fields": ["margin_bps", "max_spread_bps", *([] if may_change else ["shown_sources"])]}),
            *([("Status", {"fields": ["created_at"]})] if obj else []),
        ]

    shown_address = column("address", address, ordering="address")
    state = column("state", lambda token: formatting.badge(token.state))
    price = column("last price and its age", formatting.price)

    sources = column("sources", formatting.sources)
    shown_sources = column("sources", formatting.sources_with_facts)
    margin = column("margin", lambda token: f"{token.margin_bps:,} bps", ordering="margin_bps")

    def save_model(self, request: HttpRequest, obj: FeeToken, form: FeeTokenForm, change: bool) -> None:
        """Save nothing yet: `save_related` saves a token with its sources."""

    def save_related(self, request: HttpRequest, form: FeeTokenForm, formsets: Any, change: bool) -> None:
        for formset in formsets:
            saved = formset.save(commit=False)
            sources = [each.instance for each in formset.forms if each not in formset.deleted_forms]
            form.write.set_sources([source for source in sources if source.kind], saved, formset.deleted_objects)
        super().save_model(request, form.instance, form, change)

    @admin.action(description="Read prices of selected fee tokens now", permissions=["refresh"])
    def read_selected_prices(self, request: HttpRequest, queryset: QuerySet[FeeToken]) -> None:
        self.read_now(request, list(queryset))

    def has_refresh_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        return bool(request.user.has_perm("rpc.refresh_feetoken") and self.has_view_permission(request))

    def read_now(self, request: HttpRequest, tokens: list[FeeToken]) -> None:
        reasons = price_checks.refresh(tokens)
        read = [str(token) for token in tokens if not reasons[token.pk]]
        if read:
            self.message_user(request, f"Prices read: {', '.join(read)}.", messages.SUCCESS)
        for token in tokens:
            if reason := reasons[token.pk]:
                # The errors of callers already start with the token.
                self.message_user(request, f"{token}: {reason.removeprefix(f'{token}: ')}", messages.ERROR)
