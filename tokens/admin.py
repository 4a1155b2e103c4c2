from typing import Any

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from unfold.contrib.filters.admin import RelatedDropdownFilter
from unfold.decorators import display

from relayer_service.admin.base import ResourceAdmin
from relayer_service.admin.dates import ago_titled, to_the_minute
from relayer_service.storage.prefixes import Folded
from tokens.filters import TokenStateFilter
from tokens.forms import AccessTokenForm
from tokens.models import AccessToken

# What the text of every token begins with.
PREFIX = "rms_"


@admin.register(AccessToken)
class AccessTokenAdmin(ResourceAdmin):
    form = AccessTokenForm
    list_display = ["name", "shown_key", "user", "state", "expires", "last_use", "permissions_in_words", "created"]
    list_filter = [TokenStateFilter, ("user", RelatedDropdownFilter)]
    list_select_related = ["user"]
    ordering = ["-created_at", "-id"]
    search_fields = ["name", "key", "user__username"]
    search_help_text = "The beginning of a name, a token (rms_...) or a user's name"
    sort_orders = {"name": Folded("name")}
    allowed_lookups = {"state", "user__id__exact", "user__isnull", "user__id__in"}
    audited_relations = ["user"]
    readonly_fields = ["shown_key", "permissions_in_words", "last_used_at", "created_at"]
    actions = ["disable"]

    def get_autocomplete_fields(self, request: HttpRequest) -> list[str]:
        # Others have nobody to search for but themselves.
        return ["user"] if request.user.is_superuser else []

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Offer others as users to superusers only: a token is the whole API in its user's name."""
        if db_field.name == "user" and not request.user.is_superuser:
            kwargs["queryset"] = get_user_model().objects.filter(username=request.user.get_username())
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def get_readonly_fields(self, request: HttpRequest, obj: AccessToken | None = None) -> list[str]:
        """Return what the user cannot edit: only superusers set scopes, and others can only narrow a token."""
        if request.user.is_superuser:
            return self.readonly_fields
        fixed = ["name", "user"] if obj else []
        return [*self.readonly_fields, *fixed, "scopes", "allowed_relayers"]

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        # A class for this request alone.
        form = super().get_form(request, obj, change=change, **kwargs)
        form.may_widen = request.user.is_superuser
        return form

    def get_fieldsets(self, request: HttpRequest, obj: AccessToken | None = None) -> Any:
        editable = {"fields": ["name", "user", "enabled", "expires_at", "allowed_networks"]}
        beyond = {"fields": ["scopes", "allowed_relayers"]}
        seen = {"fields": ["shown_key", "permissions_in_words", "last_used_at", "created_at"]}
        return [(None, editable), ("Scopes", beyond), *([("Use", seen)] if obj else [])]

    def searched_texts(self, column: str, text: str) -> list[str]:
        """Find a token by what is public of it, however much of it was pasted."""
        is_token = column == "key" and text.startswith(PREFIX)
        return [text.removeprefix(PREFIX).partition("_")[0]] if is_token else [text]

    @display(description="token")
    def shown_key(self, token: AccessToken) -> str:
        return f"rms_{token.key}_…"

    @display(description="state", label={"active": "success", "expired": "warning", "disabled": "danger"})
    def state(self, token: AccessToken) -> str:
        return token.state

    @display(description="may")
    def permissions_in_words(self, token: AccessToken) -> str:
        return token.permissions_in_words

    @display(description="expires")
    def expires(self, token: AccessToken) -> str:
        return to_the_minute(token.expires_at, unset="never")

    @display(description="last use")
    def last_use(self, token: AccessToken) -> str:
        return ago_titled(token.last_used_at)

    @admin.action(description="Disable selected tokens", permissions=["change"])
    def disable(self, request: HttpRequest, queryset: QuerySet[AccessToken]) -> None:
        count = AccessToken.objects.filter(pk__in=queryset.values("pk")).disable()
        self.message_user(request, f"Disabled: {count}. Other processes refuse them within seconds.")

    def save_model(self, request: HttpRequest, obj: AccessToken, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        obj.issued = form.write.text  # type: ignore[attr-defined]  # for this one answer

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        return {"user": request.user.pk, **super().get_changeform_initial_data(request)}

    def render_change_form(self, request: HttpRequest, context: Any, add: bool = False, **kwargs: Any) -> Any:
        if add:
            # A new token is shown next, whichever button was pressed.
            context |= {"show_save_and_add_another": False, "show_save_and_continue": False}
        return super().render_change_form(request, context, add=add, **kwargs)

    def response_add(
        self, request: HttpRequest, obj: AccessToken, post_url_continue: str | None = None
    ) -> HttpResponse:
        """Show the token once, in this answer and nowhere else: not in a message, which would be stored."""
        context = {
            **self.admin_site.each_context(request),
            "title": "Token issued",
            "opts": self.opts,
            "token": obj,
            "text": obj.issued,  # type: ignore[attr-defined]
        }
        response = TemplateResponse(request, "admin/tokens/accesstoken/issued.html", context)
        response["Cache-Control"] = "no-store"
        return response
