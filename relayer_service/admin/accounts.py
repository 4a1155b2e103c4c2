"""The admin pages of Django's users and groups, with changes in the audit log; and the login page.

Only superusers change superusers, groups and permissions. Other staff change only users without any permission that
they lack themselves: setting a password allows them to sign in as that user.
"""

from http import HTTPStatus
from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, Permission, User
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from relayer_service.admin.audit import AuditedAdmin
from relayer_service.admin.errors import error_page
from relayer_service.audit.recording import Values, changed, created, record, snapshot
from relayer_service.audit.values import Hidden
from relayer_service.background.shares import RETRY_AFTER_SECONDS, SIGNING_IN, Busy

admin.site.unregister(User)
admin.site.unregister(Group)


@snapshot.register
def _(user: User) -> Values:
    return {
        "username": user.username,
        "first_name": user.first_name,
        "last_name": user.last_name,
        "email": user.email,
        "password": Hidden.from_value(user.password),
        "is_active": user.is_active,
        "is_staff": user.is_staff,
        "is_superuser": user.is_superuser,
        "groups": sorted(user.groups.values_list("name", flat=True)),
        "user_permissions": permission_names(user.user_permissions.all()),
    }


@snapshot.register
def _(group: Group) -> Values:
    return {"name": group.name, "permissions": permission_names(group.permissions.all())}


def permission_names(permissions: QuerySet[Permission]) -> list[str]:
    return sorted(f"{app}.{name}" for app, name in permissions.values_list("content_type__app_label", "codename"))


class PasswordForm(AdminPasswordChangeForm):
    def save(self, commit: bool = True) -> Any:
        before = {"password": Hidden.from_value(self.user.password)}
        with transaction.atomic():
            saved = super().save(commit)
            record([changed(self.user, before, {"password": Hidden.from_value(self.user.password)})])
        return saved


def outranks(user: Any, other: User) -> bool:
    """Return whether a user has every permission of another, even an inactive one."""
    if user.is_superuser:
        return True
    held = Permission.objects.filter(Q(user=other) | Q(group__user=other))
    return not other.is_superuser and user.get_all_permissions() >= set(permission_names(held))


class UserForm(UserChangeForm):
    # Set by the admin for superusers.
    may_activate = False

    def clean_is_active(self) -> bool:
        is_active: bool = self.cleaned_data["is_active"]
        if is_active and not self.instance.is_active and not self.may_activate:
            raise ValidationError("Only superusers can reactivate a user.")
        return is_active


class AccountAdmin(AuditedAdmin):
    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        form.before = snapshot(self.model._base_manager.get(pk=obj.pk)) if change else None
        obj.save()

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        form.save_m2m()
        row = form.instance
        record([changed(row, form.before) if change else created(row)])


@admin.register(User)
class UserAdmin(AccountAdmin, DjangoUserAdmin, ModelAdmin):  # type: ignore[type-arg]  # Django cannot subscript it
    form = UserForm
    add_form = UserCreationForm
    change_password_form = PasswordForm

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        # Django builds a form class per request.
        form: Any = super().get_form(request, obj, change=change, **kwargs)
        form.may_activate = request.user.is_superuser
        return form

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        rights = [] if request.user.is_superuser else ["is_staff", "is_superuser", "groups", "user_permissions"]
        return [*super().get_readonly_fields(request, obj), *rights]

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and (obj is None or outranks(request.user, obj))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and (obj is None or outranks(request.user, obj))


@admin.register(Group)
class GroupAdmin(AccountAdmin, DjangoGroupAdmin, ModelAdmin):
    """Changed by superusers only, as its permissions apply to all its users."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_superuser)

    has_change_permission = has_delete_permission = has_add_permission


def sign_in(request: HttpRequest) -> HttpResponse:
    """Return the admin's login page. Only a few users can sign in at once, as checking a password is expensive."""
    if request.method != "POST":
        return admin.site.login(request)
    try:
        with SIGNING_IN.occupied():
            return admin.site.login(request)
    except Busy:
        text = "Too many people are signing in right now. Go back and try again in a few seconds."
        response = error_page(request, HTTPStatus.SERVICE_UNAVAILABLE, "Try again", text)
        response["Retry-After"] = str(RETRY_AFTER_SECONDS)
        return response
