"""The groups of the roles, and how an installation gets them."""

from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group, Permission, User
from django.core.management import call_command
from django.db import connection

from relayer_service import roles
from relayer_service.roles import ROLES
from relayer_service.storage.permissions import grant_to_holders

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


def test_an_own_group_with_the_name_of_a_role_keeps_its_permissions() -> None:
    Group.objects.all().delete()
    for name in ("Operator", "Operator (own)"):
        Group.objects.create(name=name).permissions.set([permission("signers.view_signer")])
    migration = import_module("relayer_service.migrations.0005_reserve_names_of_roles")
    migration.rename_groups(apps, connection.schema_editor())
    roles.restore("default")
    assert {group.name for group in Group.objects.all()} == {*ROLES, "Operator (own)", "Operator (own 2)"}
    assert held(Group.objects.get(name="Operator (own 2)")) == {"signers.view_signer"}


def test_who_may_change_a_relayer_before_an_upgrade_may_pause_it_after() -> None:
    user, group = User.objects.create_user("ben"), Group.objects.create(name="night shift")
    user.user_permissions.add(permission("relayers.change_relayer"))
    group.permissions.add(permission("relayers.change_relayer"))
    other = User.objects.create_user("vera")
    permission("relayers.pause_relayer").delete()
    grant: Any = grant_to_holders("relayers", "relayer", "pause_relayer", "Can pause", of="relayers.change_relayer")
    for _ in range(2):
        grant.code(apps, connection.schema_editor())
    names = [{*User.objects.get(pk=each.pk).get_all_permissions()} for each in (user, other)]
    assert names == [{"relayers.change_relayer", "relayers.pause_relayer"}, set()]
    assert held(group) == {"relayers.change_relayer", "relayers.pause_relayer"}
