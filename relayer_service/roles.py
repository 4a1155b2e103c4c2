"""The roles of staff: Django groups that a release defines, which `manage.py migrate` creates and restores.

A role has the permissions of the roles above it, and its own. Add the permission of a new page or action to the
lowest role that should have it.
"""

from collections.abc import Collection
from dataclasses import dataclass
from itertools import accumulate
from operator import or_
from typing import Any

from django.contrib.auth.models import Group, Permission
from django.db import transaction


def edits(*models: str) -> list[str]:
    """Return the permissions to add, change and delete rows of models, which are given as `app.model`."""
    names = (model.split(".") for model in models)
    return [f"{app}.{verb}_{model}" for app, model in names for verb in ("add", "change", "delete")]


PERMISSIONS = {
    "Viewer": [
        "incidents.view_alertroute",
        "incidents.view_incident",
        "notifications.view_delivery",
        "notifications.view_notification",
        "relayer_service.view_auditentry",
        "relayer_service.view_job",
        "relayer_service.view_periodicrun",
        "relayers.view_relayer",
        "rpc.view_feetoken",
        "signers.view_signer",
        "tokens.view_accesstoken",
        "transactions.view_lane",
        "transactions.view_transaction",
    ],
    "Operator": [
        "notifications.send_delivery",
        "relayer_service.acknowledge",
        "relayers.check_relayer",
        "relayers.pause_relayer",
        "relayers.take_out_node",
        "rpc.refresh_feetoken",
        "tokens.revoke_accesstoken",
        # Lanes and transactions have no form: these are for their actions.
        "transactions.change_lane",
        "transactions.change_transaction",
    ],
    "Manager": [
        *edits("incidents.alertroute", "notifications.notification", "relayers.relayer"),
        *edits("rpc.feetoken", "signers.signer", "tokens.accesstoken"),
        "transactions.add_transaction",
    ],
    # Only superusers change superusers, groups, single permissions and the scopes of tokens.
    "Owner": [*edits("auth.user"), "auth.view_group", "auth.view_user"],
}
DESCRIPTIONS = {
    "Viewer": "Sees everything except secrets, users and groups.",
    "Operator": (
        "Also handles incidents: pauses and resumes relayers, replays and retries deliveries, holds and releases "
        "lanes, speeds up and cancels transactions, disables access tokens."
    ),
    "Manager": (
        "Also adds, changes and deletes relayers, signers, webhooks, alert routes, fee tokens and access tokens."
    ),
    "Owner": "Also adds and removes users and sets their roles.",
}


@dataclass(frozen=True)
class Role:
    name: str
    description: str
    permissions: frozenset[str]


# The roles by name; each has the permissions of the one before, and its own.
ROLES = {
    name: Role(name, DESCRIPTIONS[name], permissions)
    for name, permissions in zip(PERMISSIONS, accumulate(map(frozenset, PERMISSIONS.values()), or_), strict=True)
}


def restore(using: str) -> None:
    """Create the groups of the roles, with the permissions that this release defines."""
    with transaction.atomic(using=using):
        rows = Permission.objects.using(using).values_list("pk", "content_type__app_label", "codename")
        keys = {f"{app}.{codename}": pk for pk, app, codename in rows}
        for role in ROLES.values():
            group, _ = Group.objects.using(using).get_or_create(name=role.name)
            # After a migration backwards, some do not exist.
            group.permissions.set([keys[name] for name in role.permissions if name in keys])


def role_of(groups: Collection[str]) -> str:
    """Return the highest role among the names of groups, or an empty text."""
    return next((name for name in reversed(ROLES) if name in groups), "")


def rank(name: str) -> int:
    """Return a number that is higher the more a role may do; -1 for no role."""
    return [*ROLES].index(name) if name else -1


def grantable(user: Any) -> list[Role]:
    """Return the roles that a user can give to others: those without a permission that the user lacks."""
    if user.is_superuser:
        return [*ROLES.values()]
    return [role for role in ROLES.values() if user.get_all_permissions() >= role.permissions]


def assign(user: Any, name: str) -> None:
    """Assign one role to a user, or none if the name is empty. The user's other groups stay."""
    user.groups.remove(*Group.objects.filter(name__in=set(ROLES) - {name}))
    if name:
        user.groups.add(Group.objects.get(name=name))
