"""The themed admin pages of Django's own users and groups, whose changes are recorded like those of resources."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, Permission, User
from django.db import transaction
from django.db.models import QuerySet
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from relayer_service.admin.audit import AuditedAdmin
from relayer_service.audit.recording import Values, changed, record, snapshot
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
        "password": Hidden.of(user.password),
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
        before = {"password": Hidden.of(self.user.password)}
        with transaction.atomic():
            saved = super().save(commit)
            record([changed(self.user, before, {"password": Hidden.of(self.user.password)})])
        return saved


@admin.register(User)
class UserAdmin(AuditedAdmin, DjangoUserAdmin, ModelAdmin):  # type: ignore[type-arg]  # Django cannot subscript it
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = PasswordForm


@admin.register(Group)
class GroupAdmin(AuditedAdmin, DjangoGroupAdmin, ModelAdmin):
    pass
