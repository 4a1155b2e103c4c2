"""Converting the configuration of OpenZeppelin Relayer to a fleet file."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from relayer_service.api.serializers import shown_name
from relayer_service.fleet.planning import find_faults
from relayer_service.fleet.references import FIELD_PATH, Fault, Unresolved, escape, resolve_text
from relayers.openzeppelin.entries import Entry, Report, Unreadable, as_entries, converted_urls, escaped, read_json
from relayers.openzeppelin.networks import EVM, UNKNOWN, ClosedNetwork, NetworkFiles, UnknownNetwork
from relayers.policies import EvmPolicies
from signers import keystores, type_aliases
from signers.backends.base import SignerError
from signers.backends.local import Local
from signers.config_shapes import CONFIGS, SignerType
from signers.models import Signer
from signers.signing import incompatibility

CONFIG_FILE = "config.json"
AMOUNTS = ("gas_price_cap", "min_balance")
AMOUNT = re.compile(r"[0-9]{1,39}", re.ASCII)
ENTRY_PATH = re.compile(r"(\w+)\[(\d+)\]")
# The value of a variable that is not set yet: valid wherever a reference can be.
UNSET = "https://unset.example.com"


class Conversion:
    """The fleet file of a configuration. `document` can be loaded if the report has no faults."""

    def __init__(self, folder: Path, networks_folder: Path | None, environment: Mapping[str, str]) -> None:
        self.folder, self.environment = folder, environment
        self.report = Report()
        self.document: dict[str, list[dict[str, Any]]] = {"signers": [], "notifications": [], "relayers": []}
        # By list, the path of each entry in their file.
        self.paths: dict[str, list[str]] = {name: [] for name in self.document}
        self.networks = NetworkFiles(self.report)
        # By id, why EVM relayers cannot use a signer.
        self.unusable_signers: dict[str, str] = {}
        # By id, why a notification is not imported.
        self.skipped_notifications: dict[str, str] = {}
        # Fields that are missing because of a fault elsewhere.
        self.unknown_fields: set[str] = set()

        config = Entry(read_json(folder / CONFIG_FILE), "", self.report)
        self._read_networks(config, networks_folder)
        relayers = config.entries("relayers")
        # By signer id, the types of the networks that use it.
        users: dict[str, list[Any]] = defaultdict(list)
        for entry in relayers:
            users[str(entry.members.get("signer_id"))].append(entry.members.get("network_type"))
        for entry in config.entries("signers"):
            self._add("signers", entry, self._signer(entry, users))
        for entry in config.entries("notifications"):
            self._add("notifications", entry, self._notification(entry))
        for entry in relayers:
            self._add("relayers", entry, self._relayer(entry))
        for plugin in config.entries("plugins"):
            self.report.skip(plugin.path, "plugins have no counterpart: programs call the API instead")
        self.networks.skip_unused()
        config.skip_unread()
        self.report.faults += self._faults()

    def pause(self) -> None:
        for entry in self.document["relayers"]:
            entry["paused"] = True

    def _add(self, name: str, entry: Entry, found: dict[str, Any] | None) -> None:
        if found is not None:
            self.document[name].append({key: value for key, value in found.items() if value is not None})
            self.paths[name].append(entry.path)

    def _read_networks(self, config: Entry, folder: Path | None) -> None:
        given = config.take("networks")
        # An empty path is their default folder.
        given = None if given == "" else given
        if isinstance(given, list) and folder is None:
            self.networks.add(as_entries(given, "networks", self.report))
        elif given is not None and not isinstance(given, (str, list)):
            self.report.fault("networks", "a list, or the path of a folder, is required")
        elif folder is not None or given is not None:
            if found := first(Path.is_dir, [folder] if folder else self._places(str(given))):
                self.networks.read(found)
            else:
                self.report.fault("networks", "there is no such folder: name it with --networks")
        elif (self.folder / "networks").is_dir():
            self.networks.read(self.folder / "networks")
        self.networks.check_inheritance()

    def _places(self, path: str) -> list[Path]:
        """Return where a path may lead: theirs are relative to the folder in which their service runs."""
        given = Path(path)
        name = Path(*given.parts[-2:])
        return [self.folder / given, self.folder.parent / given, self.folder / name, self.folder / name.name]

    def _signer(self, entry: Entry, users: Mapping[str, list[Any]]) -> dict[str, Any] | None:
        identifier, alias = entry.text("id"), entry.text("type")
        signer_type = type_aliases.TYPES.get(alias)
        reason = ""
        if identifier in users and EVM not in users[identifier]:
            reason = "only relayers that are not EVM use it"
        elif alias and signer_type is None:
            reason = f"signers of the type {shown_name(alias)} have no counterpart"
        if reason:
            self.unusable_signers[identifier] = reason
            self.report.skip(named(entry), reason)
            return None
        config = entry.entry("config")
        found = {} if signer_type is None else self._signer_config(signer_type, config)
        entry.skip_unread()
        config.skip_unread()
        if signer_type and (unfit := incompatibility(Signer(type=signer_type), EVM)):
            self.unusable_signers[identifier] = unfit
        return {"id": escape(identifier), "type": signer_type and signer_type.value, "config": found}

    def _signer_config(self, signer_type: SignerType, config: Entry) -> dict[str, Any]:
        if signer_type == SignerType.PLAIN:
            return self._local_key(config)
        if signer_type == SignerType.PROVIDER_B_KMS:
            return {name: self._section(config.entry(name)) for name in ("key", "service_account")}
        values = {str(name): config.value(name) for name in CONFIGS[signer_type]().fields}
        return {name: value for name, value in values.items() if value is not None}

    @staticmethod
    def _section(section: Entry) -> dict[str, Any]:
        """Return an object of Google's signer, which is stored whole."""
        numbers = {name: section.take(name) for name, value in section.members.items() if type(value) is int}
        return numbers | {name: section.value(name) for name in [*section.unread]}

    def _local_key(self, config: Entry) -> dict[str, Any]:
        # The fleet file has the key, and so needs no variable for the passphrase.
        variables = {*self.report.variables}
        path, passphrase = config.text("path"), config.value("passphrase")
        self.report.variables = variables
        if "passphrase" not in config.members:
            self.report.fault(config.at("passphrase"), "this field is required")
        if not path or passphrase is None:
            return {}
        try:
            keystore = read_json(first(Path.is_file, self._places(path)) or self.folder / path)
            found = {"key": keystores.decrypt(keystore, resolve_text(passphrase, self.environment))}
            Local(found).check()
        except (Unreadable, keystores.KeystoreError, SignerError) as error:
            self.report.fault(config.at("path"), str(error))
            return {}
        except Unresolved as error:
            self.report.fault(config.at("passphrase"), str(error))
            return {}
        self.report.has_secrets = True
        return found

    def _notification(self, entry: Entry) -> dict[str, Any] | None:
        kind, reason = entry.text("type"), ""
        if kind not in {"", "webhook"}:
            reason = f"notifications of the type {shown_name(kind)} have no counterpart"
        elif entry.members.get("url") == "":
            reason = "it has no URL"
        if reason:
            self.skipped_notifications[str(entry.members.get("id"))] = reason
            self.report.skip(named(entry), reason)
            return None
        found = {name: entry.value(name) for name in ("id", "url", "signing_key")} | {"type": kind or None}
        entry.skip_unread()
        return found

    def _relayer(self, entry: Entry) -> dict[str, Any] | None:
        network_type, signer_id = entry.text("network_type"), str(entry.members.get("signer_id"))
        if network_type and network_type != EVM:
            self.report.skip(named(entry), f"{shown_name(network_type)} relayers have no counterpart")
            return None
        if reason := self.unusable_signers.get(signer_id):
            self.report.skip(named(entry), f"its signer {signer_id} cannot be used: {reason}")
            return None
        found: dict[str, Any] = {name: entry.value(name) for name in ("id", "name", "signer_id")}
        found["network_type"] = EVM
        urls = converted_urls(entry.list("custom_rpc_urls"), entry.at("custom_rpc_urls"), self.report)
        name = entry.text("network")
        try:
            target = self.networks.target(name, bool(urls)) if name else None
        except ClosedNetwork as closed:
            self.report.skip(named(entry), str(closed))
            return None
        except UnknownNetwork:
            self.report.fault(entry.at("network"), UNKNOWN)
            target = None
        if target:
            found |= {"network": escape(target.name), "chain_id": target.chain_id}
            urls = urls or [*target.rpc_urls]
        else:
            self.unknown_fields.add(entry.at("network"))
        notification = entry.value("notification_id")
        if reason := self.skipped_notifications.get(str(entry.members.get("notification_id"))):
            self.report.skip(entry.at("notification_id"), f"the notification is not imported: {reason}")
            notification = None
        found |= {"notification_id": notification, "paused": entry.take("paused")}
        found |= {"custom_rpc_urls": urls or None, "policies": self._policies(entry.entry("policies")) or None}
        entry.skip_unread()
        return found

    def _policies(self, policies: Entry) -> dict[str, Any]:
        names = [str(name) for name in EvmPolicies().fields if name in policies.members]
        found = {name: escaped(policies.take(name)) for name in names}
        for name in AMOUNTS:
            if isinstance(found.get(name), str) and AMOUNT.fullmatch(found[name]):
                found[name] = int(found[name])
        policies.skip_unread()
        return found

    def _faults(self) -> list[Fault]:
        """Return the faults that loading the document would find, with the paths of their file."""
        environment = {name: self.environment.get(name) or UNSET for name in self.report.variables}
        # A field with a fault is not complete, and so has others.
        known = {match[0] for path, _ in self.report.faults if (match := FIELD_PATH.match(path))} | self.unknown_fields
        found = [(self._original(path), text) for path, text in find_faults(self.document, environment)]
        return [(path, text) for path, text in found if not ((match := FIELD_PATH.match(path)) and match[0] in known)]

    def _original(self, path: str) -> str:
        match = ENTRY_PATH.match(path)
        return self.paths[match[1]][int(match[2])] + path[match.end() :] if match else path


def first(condition: Callable[[Path], bool], paths: Iterable[Path]) -> Path | None:
    """Return the first of these paths that is there."""
    try:
        return next(filter(condition, paths), None)
    except OSError:
        return None


def named(entry: Entry) -> str:
    """Return the path of an entry with its id."""
    identifier = entry.members.get("id")
    return f"{entry.path} ({identifier})" if isinstance(identifier, str) else entry.path
