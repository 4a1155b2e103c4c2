"""Checking a config file, by the rules of the API and the admin: what it would change, or every fault of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models

from notifications.models import Notification
from relayer_service.api.serializers import StrictSerializer
from relayers import config_changes
from relayers.account import check_signer, is_local
from relayers.chain import chain_ids
from relayers.config_addresses import Addresses
from relayers.config_changes import Change
from relayers.config_entries import NotificationEntry, RelayerEntry, SignerEntry, lines
from relayers.config_references import ID_PATH, join, resolve
from relayers.models import Relayer
from signers.models import Signer

ENTRY_PATH = re.compile(r"(\w+)\[(\d+)\]")
FIELD_PATH = re.compile(r"\w+\[\d+\]\.\w+")
# What the rule of `Relayer.clean` looks at.
NETWORK_FIELDS = {"network", "chain_id", "custom_rpc_urls", "address"}


class Faults(Exception):
    """What is wrong with a file, a line a fault, each with its path."""

    def __init__(self, faults: Iterable[tuple[str, str]]) -> None:
        self.lines = [f"{path}: {text}" if path else text for path, text in faults]
        super().__init__("\n".join(self.lines))


@dataclass
class Plan:
    """What a file would change, and what is to be said about it."""

    changes: list[Change] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def plan(document: Any) -> Plan:
    """Check a whole file and find what it changes; raise every fault of it at once. Nothing is changed."""
    return Planner(document).plan()


class Planner:
    # The paths of what is printed, and so cannot come from the environment.
    printed = ID_PATH

    def __init__(self, document: Any) -> None:
        self.lists = self._lists()
        resolved, self.faults = resolve(document, printed=self.printed)
        self.unresolved = {path for path, _ in self.faults}
        self.unresolved_fields = {match[0] for path in self.unresolved if (match := FIELD_PATH.match(path))}
        self.entries = self._entries(resolved)
        self.signers = self._rows(Signer.objects.all(), "signers", "signer_id")
        self.notifications = self._rows(Notification.objects.all(), "notifications", "notification_id")
        self.relayers = self._rows(Relayer.objects.select_related("signer", "notification"), "relayers")
        self.result = Plan()
        # The ids of signers whose config is new.
        self.new_keys: set[str] = set()
        self.addresses = Addresses()
        # By URL, where it stands and the chain that it is to be on.
        self.nodes: dict[str, list[tuple[str, int | None]]] = {}

    def plan(self) -> Plan:
        for name, check in self.lists.items():
            for index, entry in enumerate(self.entries[name]):
                check(f"{name}[{index}]", entry)
        self._check_nodes()
        if self.faults:
            raise Faults(sorted(self.faults, key=self._place))
        return self.result

    def _lists(self) -> dict[str, Callable[[str, Any], None]]:
        """Give the lists that a file may have, in the order of their checks, with what checks an entry of each."""
        return {"signers": self._signer, "notifications": self._notification, "relayers": self._relayer}

    def _entries(self, document: Any) -> dict[str, list[Any]]:
        entries: dict[str, list[Any]] = {name: [] for name in self.lists}
        if not isinstance(document, dict):
            *names, last = self.lists
            self._fault("", f"an object with some of {', '.join(names)} and {last} is required")
            return entries
        for name, value in document.items():
            if name not in self.lists:
                self._fault(join("", name), "this field is not known")
            elif not isinstance(value, list):
                self._fault(name, "a list is required")
            else:
                entries[name] = value
                self._find_repeated(name, value)
        return entries

    def _find_repeated(self, name: str, entries: list[Any]) -> None:
        seen: set[str] = set()
        for index, entry in enumerate(entries):
            identifier = identifier_of(entry)
            if identifier and identifier in seen:
                self._fault(f"{name}[{index}].id", "this id stands twice in the list")
            seen.add(identifier)

    def _rows(self, rows: models.QuerySet[Any], name: str, reference: str = "") -> dict[str, Any]:
        """Read the rows that the file is about, and those that its relayers refer to."""
        identifiers = {identifier_of(entry) for entry in self.entries[name]}
        if reference:
            identifiers |= {identifier_of(entry, reference) for entry in self.entries["relayers"]}
        return dict(rows.in_bulk(sorted(identifiers - {""}), field_name="identifier"))

    def _signer(self, path: str, entry: Any) -> None:
        identifier = identifier_of(entry)
        row = self.signers.get(identifier)
        kept = config_changes.kept_secrets(row, entry) if row else {}
        values, broken = self._read(SignerEntry(data=entry, context={"secrets": kept}), path)
        if row and values.get("type", row.type) != row.type:
            self._fault(f"{path}.type", f"the type of a signer cannot change, and this one is {row.type}")
            broken = {"type"}
        if broken:
            self.signers[identifier] = None
            return
        change = config_changes.signer(row, values)
        self.signers[identifier] = change.row
        if change.created or change.fields:
            self.new_keys.add(identifier)
        if row and change.fields:
            self._warn_of_others(path, row)
        self.result.changes.append(change)

    def _warn_of_others(self, path: str, signer: Signer) -> None:
        """Say which relayers have an address that was derived from another config, and are not looked at here."""
        others = [
            identifier
            for identifier in signer.relayers.order_by("sequence").values_list("identifier", flat=True)
            if identifier not in self.relayers
        ]
        if others:
            self._warn(path, f"relayers that the file does not name keep their address: {', '.join(others)}")

    def _notification(self, path: str, entry: Any) -> None:
        identifier = identifier_of(entry)
        values, broken = self._read(NotificationEntry(data=entry), path)
        if broken:
            self.notifications[identifier] = None
            return
        change = config_changes.notification(self.notifications.get(identifier), values)
        self.notifications[identifier] = change.row
        if unusable := config_changes.why_key_is_unusable(values.get("signing_key")):
            self._warn(f"{path}.signing_key", unusable)
        self.result.changes.append(change)

    def _relayer(self, path: str, entry: Any) -> None:
        context = {"signer": self.signers, "notification": self.notifications}
        values, broken = self._read(RelayerEntry(data=entry, context=context), path)
        signer = self.signers.get(values.get("signer_id", ""))
        notification = self.notifications.get(values.get("notification_id", ""))
        change = config_changes.relayer(self.relayers.get(values.get("id", "")), values, signer, notification)
        sound = not broken
        if not broken & NETWORK_FIELDS:
            sound &= self._check(path, change.row.clean)
        # A signer with a fault of its own is not asked.
        if signer is None or broken & {"network_type", "address"}:
            return
        sound &= self._check(path, lambda: check_signer(signer, values["network_type"])) and self._check(
            path, lambda: self._settle_address(path, change, values.get("address", ""))
        )
        if sound:
            config_changes.compare(change)
            self.result.changes.append(change)
            if change.created or change.columns & NETWORK_FIELDS - {"address"}:
                self._note_nodes(path, change.row)

    def _settle_address(self, path: str, change: Change, given: str) -> None:
        """Take the address from the signer, unless the one that is known is still its."""
        row: Relayer = change.row
        is_same_signer = change.seen and change.seen["signer_id"] == row.signer.pk
        # A local key is looked at each time: it may have been changed in the admin since.
        is_same_key = is_same_signer and row.signer.identifier not in self.new_keys and not is_local(row.signer)
        if is_same_key and row.address and given.lower() in {"", row.address.lower()}:
            return
        row.address, warning = self.addresses.of(row.signer, given)
        if warning:
            self._warn(f"{path}.address", warning)

    def _note_nodes(self, path: str, relayer: Relayer) -> None:
        for index, entry in enumerate(relayer.custom_rpc_urls or []):
            where = f"{path}.custom_rpc_urls[{index}].url"
            self.nodes.setdefault(entry["url"], []).append((where, relayer.expected_chain_id))

    def _check_nodes(self) -> None:
        """See whether nodes are on their relayers' chains, each asked once; one that cannot be asked is let in."""
        urls = list(self.nodes)
        for url, found in zip(urls, chain_ids.ask(urls), strict=True):
            for path, expected in self.nodes[url]:
                if isinstance(found, str):
                    self._warn(path, f"the chain id of this node was not checked: {found}")
                elif found != expected:
                    self._fault(path, f"this node is on chain {found} instead of {expected}")

    def _read(self, serializer: StrictSerializer, path: str) -> tuple[dict[str, Any], set[str]]:
        """Check an entry; give what of it is right, and the names of the fields that are not."""
        names = {str(name) for name in serializer.fields}
        broken = {name for name in names if f"{path}.{name}" in self.unresolved_fields}
        if serializer.is_valid():
            return dict(serializer.validated_data), broken
        for where, text in lines(serializer.errors, path):
            self._fault(where, text)
        broken |= set(serializer.errors)
        entry = serializer.initial_data
        if not isinstance(entry, dict):
            return {}, broken | names
        sound = {name: value for name, value in entry.items() if name in names - broken}
        again = type(serializer)(data=sound, partial=True, context=serializer.context)
        return (dict(again.validated_data) if again.is_valid() else {}), broken

    def _check(self, path: str, rule: Callable[[], None]) -> bool:
        """Apply a rule of the models; give False, with its faults kept, where it is broken."""
        try:
            rule()
        except ValidationError as error:
            for where, text in lines(error.message_dict, path):
                self._fault(where, text)
            return False
        return True

    def _fault(self, path: str, text: str) -> None:
        # What could not be resolved is wrong already, whatever else its text is.
        if path not in self.unresolved:
            self.faults.append((path, text))

    def _warn(self, path: str, text: str) -> None:
        self.result.warnings.append(f"{path}: {text}")

    def _place(self, fault: tuple[str, str]) -> tuple[int, int]:
        """Give where in the file a fault is: the list and the entry."""
        match = ENTRY_PATH.match(fault[0])
        return ([*self.lists].index(match[1]), int(match[2])) if match and match[1] in self.lists else (-1, -1)


def identifier_of(entry: Any, name: str = "id") -> str:
    """Give an id that an entry names, right or wrong; empty for one that is no text."""
    identifier = entry.get(name) if isinstance(entry, dict) else None
    return identifier if isinstance(identifier, str) else ""
