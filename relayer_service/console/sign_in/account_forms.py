"""The forms of users: a role first, from which staff status follows, and the password."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib.auth.forms import ReadOnlyPasswordHashWidget
from django.contrib.auth.hashers import is_password_usable
from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.html import format_html
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm
from unfold.widgets import UnfoldAdminRadioSelectWidget

from relayer_service import roles
from relayer_service.audit.recording import changed, record
from relayer_service.audit.values import Hidden
from relayer_service.roles import ROLES, Role

NO_ROLE = "No role"
NO_ROLE_TEXT = "Cannot sign in to the console, unless a superuser allows it under Advanced."
CHANGE_PASSWORD = format_html('<a href="{}">Change the password</a>', "../password/")
INACTIVE = "An inactive user cannot sign in, and their access tokens are rejected. The audit log keeps their name."
PASSWORDLESS = "Leave it empty to invite the user, with a link to set it; or for a user who only owns access tokens."
# A user with any of these can sign in to the console: staff status follows from them.
RIGHTS = {"role", "is_superuser", "groups", "user_permissions"}


class RoleSelect(UnfoldAdminRadioSelectWidget):
    """Radio buttons, each with the description of its role."""

    option_template_name = "admin/role_option.html"

    def create_option(self, name: str, value: Any, label: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        option: dict[str, Any] = super().create_option(name, value, label, *args, **kwargs)
        description = ROLES[value].description if value in ROLES else NO_ROLE_TEXT
        return option | {"description": description}


class PasswordState(ReadOnlyPasswordHashWidget):
    """Whether a user has a password, and not how its hash was computed."""

    def get_context(self, name: str, value: Any, attrs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context(name, value, attrs)
        return context | {"summary": [{"label": "Set" if is_password_usable(value) else "Not set"}]}


class RoleForm(forms.ModelForm):  # type: ignore[type-arg]  # Django cannot subscript it
    role = forms.ChoiceField(required=False, widget=RoleSelect)
    # The roles that the user of the form can give; set by the admin.
    grantable: Sequence[Role] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "role" not in self.fields:
            return
        current = current_role(self.instance)
        field: Any = self.fields["role"]
        offered = [role.name for role in self.grantable]
        field.choices = [("", NO_ROLE), *((name, name) for name in ROLES if name in offered or name == current)]
        self.initial["role"] = current

    def save_rights(self) -> None:
        """Assign the chosen role to the saved user, and the staff status that follows from all rights."""
        user = self.instance
        if "role" in self.fields:
            roles.assign(user, self.cleaned_data["role"])
        if RIGHTS & {*self.changed_data}:
            user.is_staff = user.is_superuser or user.groups.exists() or user.user_permissions.exists()
            user.save(update_fields=["is_staff"])


class UserForm(RoleForm, UserChangeForm):
    # Set by the admin for superusers.
    may_activate = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["password"].widget = PasswordState()
        self.fields["password"].help_text = CHANGE_PASSWORD
        if "is_active" in self.fields:
            self.fields["is_active"].help_text = INACTIVE
        groups: Any = self.fields.get("groups")
        if groups:
            groups.queryset = Group.objects.exclude(name__in=ROLES)
            groups.help_text = "Your own groups, in addition to the role."
            self.initial["groups"] = [group for group in self.initial["groups"] if group.name not in ROLES]

    def clean_is_active(self) -> bool:
        is_active: bool = self.cleaned_data["is_active"]
        if is_active and not self.instance.is_active and not self.may_activate:
            raise ValidationError("Only superusers can reactivate a user.")
        return is_active


class NewUserForm(RoleForm, UserCreationForm):
    """Username and role; without a password, the user is invited to set one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Follows from the password.
        del self.fields["usable_password"]
        self.fields["password1"].help_text = PASSWORDLESS

    def clean(self) -> dict[str, Any] | None:
        typed = any(self.data.get(self.add_prefix(name)) for name in ("password1", "password2"))
        self.cleaned_data["usable_password"] = "true" if typed else "false"
        cleaned: dict[str, Any] | None = super().clean()
        return cleaned


class PasswordForm(AdminPasswordChangeForm):
    def save(self, commit: bool = True) -> Any:
        before = {"password": Hidden.from_value(self.user.password)}
        with transaction.atomic():
            saved = super().save(commit)
            record([changed(self.user, before, {"password": Hidden.from_value(self.user.password)})])
        return saved


def current_role(user: User) -> str:
    return roles.role_of([group.name for group in user.groups.all()]) if user.pk else ""
