from collections.abc import Iterable
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from unfold.decorators import action, display

from relayer_service.background.shares import waiting_for_others
from relayer_service.console.confirmation import PendingAction
from relayer_service.console.dates import ago
from relayer_service.console.jobs import ask_or_start
from relayer_service.console.referenced import ReferencedAdmin
from relayer_service.console.references import in_use, may_view_users
from relayer_service.database.prefixes import CaseFolded
from signers import signing
from signers.backends.base import SignerError
from signers.config_shapes import SignerType, shown_config
from signers.console.forms import CONFIG_FIELDS, CONFIRMED, KEY_SOURCE, PLAIN_KEY, SignerForm
from signers.jobs import explained
from signers.models import Signer


@admin.register(Signer)
class SignerAdmin(ReferencedAdmin):
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
    actions_submit_line = ["save_and_verify"]
    # The add page shows only the fields of the chosen type; the change page has no type to choose.
    conditional_fields = {
        field.key: f"typeof type === 'undefined' || type === '{field.type.value}'" for field in CONFIG_FIELDS
    } | {
        KEY_SOURCE: f"type === '{SignerType.PLAIN.value}'",
        PLAIN_KEY: f"typeof type === 'undefined' || (type === '{SignerType.PLAIN.value}' && key_source === 'enter')",
    }

    def get_fieldsets(self, request: HttpRequest, obj: Signer | None = None) -> Any:
        config = [field.key for field in CONFIG_FIELDS if obj is None or field.type == obj.type]
        config = config if obj else [KEY_SOURCE, *config]
        if obj and not self.has_change_permission(request, obj):
            config = ["shown_config"]
        elif obj and asks_to_confirm(request):
            config.append(CONFIRMED)
        fieldsets: list[Any] = [(None, {"fields": ["identifier", "type"]}), ("Config", {"fields": config})]
        if obj:
            verified = ["verified_identity", "verified_at", *(["last_error"] if obj.last_error else [])]
            status = ["curve", "installed", *verified, self.users_field(request), "created_at"]
            fieldsets.append(("Status", {"fields": status}))
        return fieldsets

    def get_readonly_fields(self, request: HttpRequest, obj: Signer | None = None) -> list[str]:
        fixed = ["identifier", "type"] if obj else []
        verified = ["verified_identity", "verified_at", "last_error"]
        return [*fixed, "curve", "installed", *verified, "used_by", "use_counts", "created_at", "shown_config"]

    def get_form(self, request: HttpRequest, obj: Signer | None = None, change: bool = False, **kwargs: Any) -> Any:
        """Keep only the fields of the fixed type, so that none of another type is accepted."""
        form = super().get_form(request, obj, change=change, **kwargs)
        others = [field.key for field in CONFIG_FIELDS if obj and field.type != obj.type]
        others += [KEY_SOURCE] if obj else []
        if not (obj and asks_to_confirm(request)):
            others.append(CONFIRMED)
        form.base_fields = {name: field for name, field in form.base_fields.items() if name not in others}
        form.answers = request.__dict__.setdefault("answers", {})
        form.names_rows = may_view_users(request, Signer)
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

    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None
    ) -> Any:
        # The theme has these buttons only on the change page.
        buttons = {} if object_id else {"actions_submit_line": self.get_actions_submit_line(request, None)}
        if request.method == "POST" and object_id:
            self._read_address_early(request, object_id)
        return super().changeform_view(request, object_id, form_url, {**buttons, **(extra_context or {})})

    def _read_address_early(self, request: HttpRequest, object_id: str) -> None:
        """Read the address of a new key before the transaction of the change begins: waiting in it blocks others."""
        signer = self.get_object(request, unquote(object_id))
        if signer and self.has_change_permission(request, signer):
            form = self.get_form(request, signer, change=True, fields=[])(request.POST, instance=signer)
            form.is_valid()
            request.__dict__["moves_rows"] = form.moves_rows

    def get_deleted_objects(self, objs: Iterable[Signer], request: HttpRequest) -> Any:
        """Count the rows that use signers. Django would read every row, such as a hundred thousand relayers."""
        names = [str(signer) for signer in objs]
        blockers = in_use(objs, linked=may_view_users(request, Signer))
        return names, {str(self.opts.verbose_name_plural): len(names)}, set(), blockers

    @admin.action(description="Verify selected signers", permissions=["change"])
    def verify_selected(self, request: HttpRequest, queryset: QuerySet[Signer]) -> HttpResponse:
        pending = PendingAction.in_list(request, "verify_selected", queryset)
        columns = {"Type": Signer.get_type_display, "Last verified": lambda signer: ago(signer.verified_at)}
        table = pending.first(self.get_queryset(request), columns)
        return ask_or_start(request, self, pending, "verify_signers", table)

    @action(description="Save and verify", permissions=["change"])
    def save_and_verify(self, request: HttpRequest, obj: Signer) -> None:
        # After the commit: the signer may be slow, and no lock must be held in the meantime.
        transaction.on_commit(lambda: self._verify(request, obj))

    def _verify(self, request: HttpRequest, signer: Signer) -> None:
        try:
            with waiting_for_others():
                verification = signing.verify(signer)
        except SignerError as error:
            self.message_user(request, f"{signer}: {explained(error)}", messages.ERROR)
            return
        text = f"Verified: {verification.identity} ({verification.milliseconds} ms)"
        unfit = signing.incompatibility(signer, "evm")
        self.message_user(request, f"{text} {unfit}".strip(), messages.WARNING if unfit else messages.SUCCESS)


def asks_to_confirm(request: HttpRequest) -> bool:
    """Return whether the form has the field that confirms a new address: if it is needed, or was sent."""
    return CONFIRMED in request.POST or bool(request.__dict__.get("moves_rows"))
