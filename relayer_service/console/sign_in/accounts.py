"""The admin pages of Django's users and groups, with changes in the audit log.

Only superusers change superusers, groups and permissions. Other staff change only users without any permission that
they lack themselves: setting a password allows them to sign in as that user. They give roles by the same rule.
"""

from collections import defaultdict
from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, Permission, User
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.text import capfirst
from unfold.admin import ModelAdmin
from unfold.contrib.filters.admin import DropdownFilter
from unfold.decorators import display

from relayer_service.audit.recording import Values, changed, created, record, snapshot
from relayer_service.audit.values import Hidden
from relayer_service.console.audit import AuditedAdmin
from relayer_service.console.sign_in.account import SessionsOfUsers
from relayer_service.console.sign_in.account_forms import NO_ROLE, NewUserForm, PasswordForm, UserForm, current_role
from relayer_service.console.sign_in.invitations import Inviting
from relayer_service.console.sign_in.second_factor import ResettableSecondFactor
from relayer_service.roles import ROLES, grantable, role_of
from relayer_service.sign_in.verification import is_required, second_factor_of

ADVANCED = "A role is enough for most users. What is set here comes in addition to it, and also allows signing in."
BUILT_IN = (
    "A release defines this role, and <code>manage.py migrate</code> restores it: it cannot be changed here. For "
    "other permissions, add a group."
)

admin.site.unregister(User)
admin.site.unregister(Group)


@snapshot.register
def _(user: User) -> Values:
    groups = user.groups.values_list("name", flat=True)
    return {
        "username": user.username,
        "first_name": user.first_name,
        "last_name": user.last_name,
        "email": user.email,
        "password": Hidden.from_value(user.password),
        "is_active": user.is_active,
        "is_staff": user.is_staff,
        "is_superuser": user.is_superuser,
        "role": role_of(groups),
        "groups": sorted(set(groups) - set(ROLES)),
        "user_permissions": permission_names(user.user_permissions.all()),
    }


@snapshot.register
def _(group: Group) -> Values:
    return {"name": group.name, "permissions": permission_names(group.permissions.all())}


def permission_names(permissions: QuerySet[Permission]) -> list[str]:
    return sorted(f"{app}.{name}" for app, name in permissions.values_list("content_type__app_label", "codename"))


def outranks(user: Any, other: User) -> bool:
    """Return whether a user has every permission of another, even an inactive one."""
    if user.is_superuser:
        return True
    held = Permission.objects.filter(Q(user=other) | Q(group__user=other))
    return not other.is_superuser and user.get_all_permissions() >= set(permission_names(held))


class RoleFilter(DropdownFilter):
    title = "role"
    parameter_name = "role"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [*((name, name) for name in ROLES), ("superuser", "Superuser"), ("none", NO_ROLE)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[User]) -> QuerySet[User]:
        if self.value() in ROLES:
            return queryset.filter(groups__name=self.value())
        if self.value() == "superuser":
            return queryset.filter(is_superuser=True)
        if self.value() == "none":
            return queryset.filter(is_superuser=False).exclude(groups__name__in=ROLES)
        return queryset


class AccountAdmin(AuditedAdmin):
    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        form.before = snapshot(self.model._base_manager.get(pk=obj.pk)) if change else None
        obj.save()

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        form.save_m2m()
        row = form.instance
        record([changed(row, form.before) if change else created(row)])


@admin.register(User)
class UserAdmin(Inviting, SessionsOfUsers, ResettableSecondFactor, AccountAdmin, DjangoUserAdmin, ModelAdmin):  # type: ignore[type-arg]  # Django cannot subscript it
    form = UserForm
    add_form = NewUserForm
    change_password_form = PasswordForm
    actions_detail = ["invite", "sessions", "reset_second_factor"]
    list_display = ["username", "role", "email", "factor_state", "last_login", "is_active"]
    list_filter = [RoleFilter, "is_active"]
    search_help_text = "Any part of a username, name or e-mail address"
    fieldsets = [
        (None, {"fields": ["username", "role", "password"]}),
        ("Person", {"fields": ["first_name", "last_name", "email"]}),
        ("Status", {"fields": ["is_active", "last_login", "date_joined"]}),
        (
            "Advanced: superuser status, groups and single permissions",
            {
                "classes": ["collapse"],
                "description": ADVANCED,
                "fields": ["is_superuser", "groups", "user_permissions"],
            },
        ),
    ]
    add_fieldsets = [(None, {"fields": ["username", "role", "password1", "password2"]})]
    readonly_fields = ["last_login", "date_joined"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        users: QuerySet[User] = super().get_queryset(request)
        return users.select_related("second_factor").prefetch_related("groups")

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        # Django builds a form class per request.
        form: Any = super().get_form(request, obj, change=change, **kwargs)
        form.may_activate = request.user.is_superuser
        form.grantable = grantable(request.user)
        return form

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        fixed = [] if request.user.is_superuser else ["is_superuser", "groups", "user_permissions"]
        if not grantable(request.user):
            fixed.append("role")
        return [*super().get_readonly_fields(request, obj), *fixed]

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        form.save_m2m()
        form.save_rights()
        record([changed(form.instance, form.before) if change else created(form.instance)])

    @display(description="second factor")
    def factor_state(self, user: User) -> str:
        state = "Off" if second_factor_of(user) is None else "On"
        return "Off, required" if state == "Off" and user.is_staff and is_required(user) else state

    @display(description="role")
    def role(self, user: User) -> str:
        if user.is_superuser:
            return "Superuser"
        return current_role(user) or ("Custom" if user.is_staff else NO_ROLE)

    def has_account_permission(self, request: HttpRequest, object_id: Any) -> bool:
        """Return whether the user exists and may be changed by that of the request."""
        user = User.objects.filter(pk=object_id).first() if str(object_id).isdecimal() else None
        return user is not None and self.has_change_permission(request, user)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and (obj is None or outranks(request.user, obj))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and (obj is None or outranks(request.user, obj))


@admin.register(Group)
class GroupAdmin(AccountAdmin, DjangoGroupAdmin, ModelAdmin):
    """Changed by superusers only, as its permissions apply to all its users. Those of roles are read-only."""

    list_display = ["name", "kind"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Group]:
        groups: QuerySet[Group] = super().get_queryset(request)
        # A role is read-only and shows the names of its permissions.
        return groups.prefetch_related("permissions__content_type")

    @display(description="kind")
    def kind(self, group: Group) -> str:
        return "Role" if group.name in ROLES else "Custom"

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        text = f"{ROLES[obj.name].description} {BUILT_IN}" if obj and obj.name in ROLES else ""
        return [(None, {"fields": ["name", "shown_permissions" if text else "permissions"], "description": text})]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return ["shown_permissions"]

    @display(description="permissions")
    def shown_permissions(self, group: Group) -> str:
        """Return what a role allows, with a line for each model."""
        by_model: dict[str, list[str]] = defaultdict(list)
        for permission in group.permissions.all():
            model: Any = permission.content_type.model_class()
            title = capfirst(str(model._meta.verbose_name_plural)) if model else permission.content_type.name
            by_model[title].append(permission.name.removeprefix("Can "))
        lines = ((title, ", ".join(names)) for title, names in sorted(by_model.items()))
        return format_html_join("", "<div>{}: {}</div>", lines)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.is_superuser)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_superuser) and (obj is None or obj.name not in ROLES)

    has_delete_permission = has_change_permission
