from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.contrib import admin, messages
from django.contrib.auth import get_user_model
from django.db import connection
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import path, reverse
from django.utils.html import format_html, format_html_join
from unfold.contrib.filters.admin import RelatedDropdownFilter
from unfold.decorators import action, display

from relayer_service.amounts import COINS
from relayer_service.console import confirmation
from relayer_service.console.base import ResourceAdmin, column
from relayer_service.console.confirmation import PendingAction
from relayer_service.console.dates import ago_titled, to_the_minute
from relayer_service.console.lists.changelists import MAX_LISTED, is_key
from relayer_service.console.lists.filters import StateFilter
from relayer_service.console.references import link
from relayer_service.database.prefixes import CaseFolded
from spending.console.formatting import shown_rules
from spending.writes import stored_rules
from tokens.console.activity import MAX_FAMILY_SHOWN, active_reissued, active_successors, listed
from tokens.console.forms import AccessTokenForm, RelayerChoices, RevokeForm, RotationForm
from tokens.models import WITH_PREDECESSOR, AccessToken, lock_family, states
from tokens.writes import NotRotatable, rotate

ROTATION = (
    "A new token with the same rights, limits and expiry is issued and shown once. The old one is accepted for the "
    "overlap, then expires. A token can be rotated once."
)
# The rights that each token of a family has for itself.
OWN_RIGHTS = {"user", "expires_at", "allowed_networks", "scopes", "allowed_relayers"}


REVOKED = "Every process rejects a revoked token within seconds. Only superusers can enable it again."
REISSUED = "Issued by staff after a revocation, and still accepted: {}."


class TokenStateFilter(StateFilter):
    @classmethod
    def current_conditions(cls) -> Mapping[str, Q]:
        return states()


@admin.register(AccessToken)
class AccessTokenAdmin(ResourceAdmin):
    form = AccessTokenForm
    list_display = ["name", "shown_key", "user", "state", "expires", "last_use", "permissions", "created"]
    list_filter = [TokenStateFilter, ("user", RelatedDropdownFilter)]
    list_select_related = ["user"]
    ordering = ["-created_at", "-id"]
    search_fields = ["name", "key", "user__username"]
    searched = "a name or username, or the start of a token (rms_...)"
    # Without other indexes, as there are few.
    sort_orders = {
        "name": CaseFolded("name"),
        "user": "user__username",
        "expires": "expires_at",
        "last_use": "last_used_at",
        "created": "created_at",
    }
    allowed_lookups = {"state", "user__id__exact", "user__isnull", "user__id__in"}
    audited_relations = ["user", "spending"]
    readonly_fields = ["shown_key", "permissions", "rotation", "last_used_at", "created_at"]
    actions = ["disable"]
    actions_detail = ["rotate"]

    def get_urls(self) -> list[Any]:
        choices = self.admin_site.admin_view(RelayerChoices.as_view(admin_site=self.admin_site))
        return [path("relayers/", choices, name="tokens_accesstoken_relayers"), *super().get_urls()]

    def get_autocomplete_fields(self, request: HttpRequest) -> list[str]:
        # Other staff can only choose themselves.
        return ["user"] if request.user.is_superuser else []

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Offer other users to superusers only: a token acts for its user."""
        if db_field.name == "user" and not request.user.is_superuser:
            kwargs["queryset"] = get_user_model().objects.filter(username=request.user.get_username())
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def get_readonly_fields(self, request: HttpRequest, obj: AccessToken | None = None) -> list[str]:
        """Return the fields that staff cannot edit.

        Only superusers set scopes and spending rules: others can only restrict a token, which may be their own.
        """
        if request.user.is_superuser:
            return self.readonly_fields
        fixed = ["name", "user"] if obj else []
        # `spending_rules` would otherwise be read from what they send, shown or not.
        return [*self.readonly_fields, *fixed, "scopes", "allowed_relayers", "spending_rules"]

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        # The class is created for this request.
        form = super().get_form(request, obj, change=change, **kwargs)
        form.can_widen = request.user.is_superuser
        return form

    def get_fieldsets(self, request: HttpRequest, obj: AccessToken | None = None) -> Any:
        asked = ["with_successors"] if obj and active_successors(obj.pk).exists() else []
        editable = {"fields": ["name", "user", "enabled", *asked, "expires_at", "allowed_networks"]}
        # In words for staff who cannot set them.
        scopes = ["scopes", "allowed_relayers"] if request.user.is_superuser else ["permissions"]
        usage = {"fields": [name for name in self.readonly_fields if name not in scopes]}
        return [
            (None, editable),
            ("Scopes", {"fields": scopes}),
            ("Spending rules", {"fields": ["spending_rules"]}),
            *([("Use", usage)] if obj else []),
        ]

    def searches_parts(self, request: HttpRequest, text: str) -> bool:
        return not text.startswith("rms_")

    def searched_texts(self, column: str, text: str) -> list[str]:
        """Return the public part of a pasted token."""
        is_token = column == "key" and text.startswith("rms_")
        return [text.split("_")[1]] if is_token else [text]

    shown_key = column("token", lambda token: token.shown_key)
    state = column(
        "state", lambda token: token.state, label={"active": "success", "expired": "warning", "disabled": "danger"}
    )
    permissions = column("permissions", lambda token: token.permissions)
    spending_rules = column("spending rules", lambda token: shown_rules(stored_rules(token), COINS))
    expires = column("expires", lambda token: to_the_minute(token.expires_at, unset="never"), ordering="expires_at")
    last_use = column("last use", lambda token: ago_titled(token.last_used_at), ordering="last_used_at")

    @display(description="rotation")
    def rotation(self, token: AccessToken) -> str:
        """The newest of its family: a program may rotate its token every hour."""
        family = AccessToken.objects.exclude(family="").filter(family=token.family).exclude(pk=token.pk)
        newest = reversed(family.order_by("-pk")[:MAX_FAMILY_SHOWN])
        lines = [("Replaced by" if each.pk > token.pk else "Succeeds", link(each), each.state) for each in newest]
        return format_html_join("", "<div>{} {}, {}</div>", lines) or "none"

    @admin.action(description="Revoke selected tokens", permissions=["revoke"])
    def disable(self, request: HttpRequest, queryset: QuerySet[AccessToken]) -> HttpResponse:
        return self.ask_or_revoke(request, PendingAction.in_list(request, "disable", queryset, limit=MAX_LISTED))

    def ask_or_revoke(self, request: HttpRequest, pending: PendingAction) -> HttpResponse:
        keys = [*pending.selection]
        title, whose = ("Revoke token", "Its") if len(keys) == 1 else ("Revoke tokens", "Their")
        form = RevokeForm(request.POST if pending.is_confirmed else None, successors=f"{whose} successors")
        if not (pending.is_confirmed and form.is_valid()):
            columns = {"State": self.state, "Last use": self.last_use, "Permissions": self.permissions}
            others = active_successors(*keys).exclude(pk__in=keys)
            texts = [REVOKED, format_html("{} active successors: {}.", whose, listed(others))]
            if (reissued := active_reissued(*keys).exclude(pk__in=keys)).exists():
                texts.append(format_html(REISSUED, listed(reissued)))
            table = pending.first(self.get_queryset(request), columns)
            return confirmation.ask(request, self, pending, title, texts, table, form)
        chosen, with_successors = AccessToken.objects.filter(pk__in=keys), form.cleaned_data["with_successors"]
        count = chosen.disable(form.cleaned_data["reason"], with_successors=with_successors)
        which = "it" if count == 1 else "them"
        self.message_user(request, f"Revoked: {count}. Other processes reject {which} within seconds.")
        self._warn_of_active(request, chosen.successors(), "are still accepted")
        return pending.leave()

    @action(description="Rotate", icon="autorenew", permissions=["rotate"])
    def rotate(self, request: HttpRequest, object_id: str) -> HttpResponse:
        token: AccessToken = self.get_object_or_404(request, object_id)
        page = reverse("admin:tokens_accesstoken_change", args=[token.pk])
        pending = PendingAction.on_page(request, token.pk, page)
        form = RotationForm(request.POST if pending.is_confirmed else None)
        if not (pending.is_confirmed and form.is_valid()):
            columns = {"State": self.state, "Expires": self.expires, "Permissions": self.permissions}
            table = pending.first(self.get_queryset(request), columns)
            return confirmation.ask(request, self, pending, "Rotate token", [ROTATION], table, form)
        try:
            rotation = rotate(token.pk, timedelta(hours=form.cleaned_data["overlap_hours"]))
        except NotRotatable as error:
            self.message_user(request, f"Not rotated: {error}.", messages.ERROR)
            return pending.leave()
        return self.show_issued(request, rotation.new, rotation.text)

    def has_revoke_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        return bool(request.user.has_perm("tokens.revoke_accesstoken") and self.has_view_permission(request))

    def has_rotate_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        """Return whether the user is a superuser: whoever rotates a token sees one with all its rights."""
        return bool(request.user.is_superuser)

    def delete_dependents(self, request: HttpRequest, row: AccessToken) -> str:
        """Disable the successors of a deleted token, unless it had expired: then they stay in use, with a warning."""
        count = 0 if row.has_expired else AccessToken.objects.filter(pk=row.pk).successors().disable(WITH_PREDECESSOR)
        return f"Revoked its successors: {count}." if count else ""

    def delete_model(self, request: HttpRequest, obj: AccessToken) -> None:
        self.delete_queryset(request, AccessToken.objects.filter(pk=obj.pk))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[AccessToken]) -> None:
        successors = AccessToken.objects.filter(pk__in=queryset.values("pk")).successors()
        keys = list(successors.filter(states()["active"]).values_list("pk", flat=True))
        super().delete_queryset(request, queryset)
        self._warn_of_active(request, AccessToken.objects.filter(pk__in=keys), "are still accepted")

    def _warn_of_active(self, request: HttpRequest, successors: QuerySet[AccessToken], text: str) -> None:
        if active := successors.filter(states()["active"], user__is_active=True)[:MAX_FAMILY_SHOWN]:
            self.message_user(request, f"Successors {text}: {', '.join(map(str, active))}.", messages.WARNING)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        if request.method == "POST" and connection.in_atomic_block and object_id.isdecimal() and is_key(object_id):
            # Before the token alone, so that every process locks the oldest first.
            lock_family(int(object_id))
        return super().get_object(request, object_id, from_field)

    def save_model(self, request: HttpRequest, obj: AccessToken, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        obj.issued = form.write.text  # type: ignore[attr-defined]  # for this response
        if change and "enabled" in form.changed_data and not obj.enabled:
            self._warn_of_active(request, AccessToken.objects.filter(pk=obj.pk).successors(), "are still accepted")
        if change and OWN_RIGHTS & {*form.changed_data}:
            self._warn_of_active(request, AccessToken.objects.filter(pk=obj.pk).successors(), "were not changed")

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        initial = {"user": request.user.pk, **super().get_changeform_initial_data(request)}
        return initial | ({"scopes": initial["scopes"].split(",")} if "scopes" in initial else {})

    def render_change_form(self, request: HttpRequest, context: Any, add: bool = False, **kwargs: Any) -> Any:
        if add:
            # Every button leads to the page that shows the token.
            context |= {"show_save_and_add_another": False, "show_save_and_continue": False}
        return super().render_change_form(request, context, add=add, **kwargs)

    def response_add(
        self, request: HttpRequest, obj: AccessToken, post_url_continue: str | None = None
    ) -> HttpResponse:
        return self.show_issued(request, obj, obj.issued)  # type: ignore[attr-defined]

    def show_issued(self, request: HttpRequest, token: AccessToken, text: str) -> HttpResponse:
        template = "admin/tokens/accesstoken/issued.html"
        return self.show_once(request, "Token issued", template, {"token": token, "text": text})
