"""The themed admin pages of Django's own users and groups, whose changes are recorded like those of resources.

Only superusers change superusers, groups and permissions. Other staff with permission to change users can change those
who have no permission that they lack themselves: whoever sets a password can sign in with it.
"""

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, Permission, User
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from relayer_service.admin.audit import AuditedAdmin
from relayer_service.audit.recording import Values, changed, created, record, snapshot
from relayer_service.audit.values import Hidden

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
        "user_permissions": names(user.user_permissions.all()),
    }


@snapshot.register
def _(group: Group) -> Values:
    return {"name": group.name, "permissions": names(group.permissions.all())}


def names(permissions: QuerySet[Permission]) -> list[str]:
    return sorted(f"{app}.{name}" for app, name in permissions.values_list("content_type__app_label", "codename"))


class PasswordForm(AdminPasswordChangeForm):
    """Sets the password of a user, on a page of its own."""

    def save(self, commit: bool = True) -> Any:
        before = {"password": Hidden.from_value(self.user.password)}
        with transaction.atomic():
            saved = super().save(commit)
            record([changed(self.user, before, {"password": Hidden.from_value(self.user.password)})])
        return saved


def outranks(user: Any, other: User) -> bool:
    """Return whether a user has every permission of another, who may be inactive."""
    if user.is_superuser:
        return True
    held = Permission.objects.filter(Q(user=other) | Q(group__user=other))
    return not other.is_superuser and user.get_all_permissions() >= set(names(held))


class UserForm(UserChangeForm):
    """Changes a user, whose tokens are refused while it is inactive."""

    # Set by the admin for superusers.
    may_activate = False

    def clean_is_active(self) -> bool:
        is_active: bool = self.cleaned_data["is_active"]
        if is_active and not self.instance.is_active and not self.may_activate:
            raise ValidationError("Only superusers can activate a user again.")
        return is_active


class AccountAdmin(AuditedAdmin):
    """Records what staff change of an account, permissions included, in the transaction of the change."""

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
        # A class for this request alone.
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
    """Changed by superusers alone: its permissions are those of all its users."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.is_superuser)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_superuser)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_superuser)
