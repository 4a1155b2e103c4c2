from collections.abc import Iterable
from functools import partial
from typing import Any

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from unfold.decorators import action, display

from relayer_service.background.shares import Busy, waiting_for_others
from relayer_service.console.base import EarlyFormAdmin, ReferencedAdmin
from relayer_service.console.confirmation import PendingAction
from relayer_service.console.dates import ago
from relayer_service.console.jobs import ask_or_start
from relayer_service.console.panels import declared
from relayer_service.console.references import in_use, may_view_users
from relayer_service.database.prefixes import CaseFolded
from signers import signing
from signers.backends.base import SignerError
from signers.config_shapes import SignerType, shown_config
from signers.console.fields import CHECKS, CONDITIONS, names_of
from signers.console.forms import CONFIRMED, SignerForm
from signers.jobs import explained
from signers.models import Signer

NOT_VERIFIED = "is saved, but not verified:"
BUSY = "Too many requests wait for signers now. Save it again."


@admin.register(Signer)
class SignerAdmin(ReferencedAdmin, EarlyFormAdmin):
    form = SignerForm
    list_display = ["identifier", "type", "verified_identity", "verified_at", "created"]
    list_filter = ["type"]
    list_filter_submit = False
    search_fields = ["identifier", "verified_identity"]
    searched = "an ID or address"
    sort_orders = {
        "identifier": CaseFolded("identifier"),
        "type": "type",
        "verified_identity": CaseFolded("verified_identity"),
        "verified_at": "verified_at",
        "created": "sequence",
    }
    allowed_lookups = {"type", "type__exact"}
    actions = ["verify_selected"]
    actions_detail = ["verify"]
    conditional_fields = CONDITIONS
    opens_added = True

    def get_fieldsets(self, request: HttpRequest, obj: Signer | None = None) -> Any:
        config = [name for each in SignerType if obj is None or each == obj.type for name in names_of(each)]
        if obj and not self.has_change_permission(request, obj):
            config = ["shown_config"]
        elif obj and asks_to_confirm(request):
            config.append(CONFIRMED)
        found = ["verified_identity", *(["last_error"] if obj and obj.last_error else [])] if obj else []
        fieldsets: list[Any] = [(None, {"fields": ["identifier", "type", *found]}), ("Config", {"fields": config})]
        if obj:
            status = ["curve", "installed", "verified_at", self.users_field(request), "created_at"]
            fieldsets.append(("Status", {"fields": status}))
        return fieldsets

    def get_readonly_fields(self, request: HttpRequest, obj: Signer | None = None) -> list[str]:
        fixed = ["identifier", "type"] if obj else []
        verified = ["verified_identity", "verified_at", "last_error"]
        return [*fixed, "curve", "installed", *verified, "used_by", "use_counts", "created_at", "shown_config"]

    def get_form(self, request: HttpRequest, obj: Signer | None = None, change: bool = False, **kwargs: Any) -> Any:
        """Keep only the fields of the fixed type, so that none of another type is accepted."""
        form = super().get_form(request, obj, change=change, **kwargs)
        others = [name for each in SignerType if obj and each != obj.type for name in names_of(each)]
        if not (obj and asks_to_confirm(request)):
            others.append(CONFIRMED)
        form.base_fields = {name: field for name, field in form.base_fields.items() if name not in others}
        form.answers = request.__dict__.setdefault("answers", {})
        form.names_rows = may_view_users(request, Signer)
        form.sweep_link = staticmethod(partial(sweep_link, request))
        return form

    @display(description="config")
    def shown_config(self, signer: Signer) -> str:
        return ", ".join(f"{name}: {value}" for name, value in shown_config(signer.config).items()) or "all secret"

    @display(description="curve")
    def curve(self, signer: Signer) -> str:
        curve = signing.curve(signer)
        networks = ", ".join(sorted(curve.network_types)) or "no network type: signs messages only"
        return f"{curve} ({networks})"

    @display(description="installed")
    def installed(self, signer: Signer) -> str:
        return str(signing.missing_library(signer.type) or "yes")

    def early_fields(self, request: HttpRequest, obj: Signer | None) -> list[str]:
        # Those of the config decrypt a keystore, or read the address of a new key: both are slow.
        return [] if obj else ["type"]

    def get_deleted_objects(self, objs: Iterable[Signer], request: HttpRequest) -> Any:
        """Count the rows that use signers. Django would read every row, such as a hundred thousand relayers."""
        names = [str(signer) for signer in objs]
        blockers = in_use(objs, linked=may_view_users(request, Signer))
        return names, {str(self.opts.verbose_name_plural): len(names)}, set(), blockers

    @admin.action(description="Verify selected signers", permissions=["change"])
    def verify_selected(self, request: HttpRequest, queryset: QuerySet[Signer]) -> HttpResponse:
        return self._ask_or_verify(request, PendingAction.in_list(request, "verify_selected", queryset))

    @action(description="Verify", icon="verified", permissions=["change"])
    def verify(self, request: HttpRequest, object_id: str) -> HttpResponse:
        signer = self.get_object_or_404(request, object_id)
        page = reverse("admin:signers_signer_change", args=[signer.pk])
        return self._ask_or_verify(request, PendingAction.on_page(request, signer.pk, page))

    def _ask_or_verify(self, request: HttpRequest, pending: PendingAction) -> HttpResponse:
        columns = {"Type": Signer.get_type_display, "Last verified": lambda signer: ago(signer.verified_at)}
        table = pending.first(self.get_queryset(request), columns)
        return ask_or_start(request, self, pending, "verify_signers", table)

    def save_model(self, request: HttpRequest, obj: Signer, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if self.has_change_permission(request, obj):
            # After the commit: the signer may be slow, and no lock must be held in the meantime.
            transaction.on_commit(lambda: self._verify(request, obj))

    def _verify(self, request: HttpRequest, signer: Signer) -> None:
        try:
            with waiting_for_others():
                identity, milliseconds = signing.verify(signer)
        except SignerError as error:
            check = f" Check {CHECKS[signer.type]}." if signer.type in CHECKS else ""
            self.message_user(request, f"{signer} {NOT_VERIFIED} {explained(error)}{check}", messages.ERROR)
            return
        except Busy:
            self.message_user(request, f"{signer} {NOT_VERIFIED} {BUSY}", messages.WARNING)
            return
        text = f"Verified: {identity} ({milliseconds} ms)"
        unfit = signing.incompatibility(signer, "evm")
        self.message_user(request, f"{text} {unfit}".strip(), messages.WARNING if unfit else messages.SUCCESS)

    def response_post_save_change(self, request: HttpRequest, obj: Signer) -> HttpResponse:
        response: HttpResponse = super().response_post_save_change(request, obj)
        return self.page_of(request, obj) or response


def asks_to_confirm(request: HttpRequest) -> bool:
    """Return whether the form has the field that confirms a new address: if it is needed, or was sent."""
    return CONFIRMED in request.POST or getattr(request.__dict__.get("early_form"), "moves_rows", False)


def sweep_link(request: HttpRequest, row: Any) -> str:
    """Return the link to send what the account of a row holds; "" for staff who cannot."""
    return next((find(request, row) for find in declared("sweep_link")), "")
