"""The groups of the roles, and how an installation gets them."""

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group, Permission, User
from django.core.management import call_command

from relayer_service.roles import ROLES

pytestmark = pytest.mark.django_db


def permission(name: str) -> Permission:
    app, codename = name.split(".")
    return Permission.objects.get(content_type__app_label=app, codename=codename)


def held(group: Group) -> set[str]:
    return {f"{each.content_type.app_label}.{each.codename}" for each in group.permissions.all()}


def test_each_role_is_a_group_with_its_permissions() -> None:
    assert {group.name: held(group) for group in Group.objects.all()} == {
        name: {*role.permissions} for name, role in ROLES.items()
    }
    assert [len(role.permissions) for role in ROLES.values()] == sorted(
        len(role.permissions) for role in ROLES.values()
    )


def test_each_permission_of_a_page_or_action_belongs_to_a_role() -> None:
    """A new one belongs in the table of `relayer_service/roles.py`; what nothing checks is not named there."""
    declared = {
        f"{model._meta.app_label}.{codename}"
        for model in apps.get_models()
        if model._meta.app_label in {"relayer_service", *(name.split(".")[0] for name in ROLES["Owner"].permissions)}
        for codename, _ in model._meta.permissions
    }
    viewed = {f"{model._meta.app_label}.view_{model._meta.model_name}" for model in admin.site._registry}
    assert sorted((declared | viewed) - ROLES["Owner"].permissions) == []


def test_migrating_restores_roles_and_leaves_other_groups_and_users() -> None:
    viewers, own = Group.objects.get(name="Viewer"), Group.objects.create(name="night shift")
    Group.objects.get(name="Operator").delete()
    viewers.permissions.set([permission("signers.change_signer")])
    own.permissions.set([permission("signers.change_signer")])
    user = User.objects.create_user("vera")
    user.groups.set([viewers, own])
    call_command("migrate", plan=True, verbosity=0)
    assert not Group.objects.filter(name="Operator").exists()
    call_command("migrate", verbosity=0)
    assert {name: held(Group.objects.get(name=name)) for name in ("Viewer", "Operator")} == {
        name: {*ROLES[name].permissions} for name in ("Viewer", "Operator")
    }
    assert held(own) == {"signers.change_signer"}
    assert sorted(group.name for group in user.groups.all()) == ["Viewer", "night shift"]
