"""What a config file changes of each row, and making the changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import IntegrityError, models, transaction
from django.utils import timezone

from notifications import signing
from notifications.models import Notification
from relayer_service.storage.encryption import DecryptionError
from relayers import states
from relayers.models import ACCOUNT_COLUMNS, Relayer
from signers.configs import CONFIGS
from signers.models import Signer
from signers.types import SignerType

AT_ONCE = 500
# Of each model, the columns that a file is about.
COLUMNS: dict[type[models.Model], tuple[str, ...]] = {
    Signer: ("type", "config", "secrets"),
    Notification: ("url", "signing_key"),
    Relayer: (
        "name",
        "network",
        "network_type",
        "chain_id",
        "address",
        "signer_id",
        "notification_id",
        "custom_rpc_urls",
        "policies",
        "paused",
    ),
}


class ChangedMeanwhile(Exception):
    """Somebody else has changed what the file is about, between the check and the change."""


@dataclass
class Change:
    """A row as the file wants it; `fields` are the names in the file of what is different."""

    row: Any
    seen: dict[str, Any] | None = None
    fields: list[str] = field(default_factory=list)
    columns: set[str] = field(default_factory=set)
    paused: bool | None = None

    @property
    def created(self) -> bool:
        return self.seen is None

    def note(self, name: str, *columns: str) -> None:
        self.fields.append(name)
        self.columns.update(columns)


def snapshot(row: models.Model) -> dict[str, Any]:
    """Give what stands in a row's columns, with secrets as they are sealed."""
    return {name: row.__dict__[name] for name in COLUMNS[type(row)]}


def kept_secrets(row: Signer, entry: dict[str, Any]) -> dict[str, Any]:
    """Give the secrets that are set, unless they are of another type, or would now be sent to somewhere else."""
    config = entry.get("config")
    if entry.get("type") != row.type or not isinstance(config, dict):
        return {}
    if any(config.get(name) != row.config.get(name) for name in CONFIGS[SignerType(row.type)].destination):
        return {}
    return _secrets(row)


def _secrets(row: Signer) -> dict[str, Any]:
    try:
        secrets: dict[str, Any] = row.secrets
    except DecryptionError:
        return {}
    return secrets


def signer(row: Signer | None, values: dict[str, Any]) -> Change:
    if row is None:
        new = Signer(identifier=values["id"], type=values["type"])
        new.set_config(values["config"])
        return Change(_sealed(new))
    change = Change(row, snapshot(row))
    before, config = {**row.config, **_secrets(row)}, values["config"]
    shown = CONFIGS[SignerType(row.type)].shown
    for name in map(str, CONFIGS[SignerType(row.type)]().fields):
        if before.get(name) != config.get(name):
            change.note(f"config.{name}", "config" if name in shown else "secrets")
    if change.fields:
        sealed = row.sealed_secrets
        row.set_config(config)
        if "secrets" not in change.columns:
            row.secrets = sealed
        change.columns |= {"verified_identity", "verified_at"}
    return Change(_sealed(row), change.seen, change.fields, change.columns)


def _sealed(row: Signer) -> Signer:
    """Seal a signer's secrets as saving it does, so that it can be asked for its address before it is saved."""
    Signer._meta.get_field("secrets").pre_save(row, add=row.pk is None)
    return row


def notification(row: Notification | None, values: dict[str, Any]) -> Change:
    key = values.get("signing_key")
    if row is None:
        new = Notification(identifier=values["id"], type=values["type"], url=values["url"])
        new.set_signing_key(key)
        return Change(new)
    change = Change(row, snapshot(row))
    if values["url"] != row.url:
        row.set_url(values["url"])
        change.note("url", "url", "failing_since", "gone_at")
    if key is not None and not _has_key(row, key):
        row.set_signing_key(key)
        change.note("signing_key", "signing_key")
    return change


def _has_key(row: Notification, key: str) -> bool:
    try:
        return bool((row.signing_key or "") == key)
    except DecryptionError:
        return False


def why_key_is_unusable(key: str | None) -> str:
    """Say in words why a key cannot sign; empty where it can."""
    try:
        signing.key_bytes(key or "")
    except signing.UnusableKey as error:
        return str(error)
    return ""


def relayer(
    row: Relayer | None, values: dict[str, Any], signer: Signer | None, notification: Notification | None
) -> Change:
    """Put what the file says onto a relayer, but for its address; `compare` finds what is different."""
    change = Change(row, snapshot(row)) if row else Change(Relayer(identifier=values.get("id", "")))
    target: Relayer = change.row
    target.name = values.get("name", "")
    target.network = values.get("network", "")
    target.network_type = values.get("network_type", Relayer.NetworkType.EVM)
    target.chain_id = values.get("chain_id")
    target.policies = values.get("policies", {})
    target.notification = notification
    if signer is not None:
        target.signer = signer
    if change.created:
        target.due_at = timezone.now()
    # More than a column: its webhook is told, also that of a new relayer.
    if values.get("paused", target.paused) != target.paused:
        change.paused = values["paused"]
    rpc_urls = [dict(entry) for entry in values.get("custom_rpc_urls", [])]
    # Set only where it is different, as each setting seals it anew.
    if not _has_urls(target, rpc_urls):
        target.set_rpc_urls(rpc_urls)
    return change


def _has_urls(row: Relayer, rpc_urls: list[dict[str, Any]]) -> bool:
    try:
        return (row.custom_rpc_urls or []) == rpc_urls
    except DecryptionError:
        return False


def compare(change: Change) -> None:
    """Find what is different of a relayer that exists, once all is put onto it."""
    if change.seen is None:
        return
    now = snapshot(change.row)
    # The objects tell better than the columns, which are not known yet for those that the file creates.
    now["signer_id"], now["notification_id"] = change.row.signer.pk, getattr(change.row.notification, "pk", None)
    linked_anew = change.row.notification is not None and change.row.notification.pk is None
    for name, value in change.seen.items():
        if value == now[name] and not (name == "notification_id" and linked_anew):
            continue
        if name == "policies":
            _compare_policies(change, value)
        elif name == "custom_rpc_urls":
            change.note(name, name, "masked_rpc_urls")
        else:
            change.note(name, name.removesuffix("_id") if name in {"signer_id", "notification_id"} else name)
    if ACCOUNT_COLUMNS & change.columns:
        change.columns |= change.row.forget_account()
    if change.columns:
        # A check that is on its way asks about what the relayer was.
        change.row.due_at, change.row.lease = timezone.now(), None
        change.columns |= {"due_at", "lease"}
    if change.paused is not None:
        change.note("paused")


def _compare_policies(change: Change, before: dict[str, Any]) -> None:
    after: dict[str, Any] = change.row.policies
    change.columns.add("policies")
    change.fields += [f"policies.{name}" for name in sorted({*before, *after}) if before.get(name) != after.get(name)]


def apply(changes: Sequence[Change]) -> None:
    """Make all changes, or none."""
    try:
        with transaction.atomic():
            for model in COLUMNS:
                _apply(model, [change for change in changes if type(change.row) is model])
    except IntegrityError:
        raise ChangedMeanwhile from None


def _apply(model: type[models.Model], changes: list[Change]) -> None:
    updated = sorted((change for change in changes if change.fields), key=lambda change: change.row.pk)
    for start in range(0, len(updated), AT_ONCE):
        _refuse_changed(model, updated[start : start + AT_ONCE])
    created = [change.row for change in changes if change.created]
    model._default_manager.bulk_create(created, batch_size=AT_ONCE)
    for change in updated:
        change.row.save(update_fields=change.columns)
    for change in changes:
        if change.paused is not None:
            states.set_paused(change.row, change.paused)


def _refuse_changed(model: type[models.Model], changes: list[Change]) -> None:
    """Lock rows, and refuse to go on where one is not what it was when the file was checked."""
    rows = model._default_manager.select_for_update().filter(pk__in=[change.row.pk for change in changes])
    found = {row.pk: snapshot(row) for row in rows.order_by("pk")}
    if any(found.get(change.row.pk) != change.seen for change in changes):
        raise ChangedMeanwhile
