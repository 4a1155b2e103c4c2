"""Networks of OpenZeppelin Relayer: their files, inheritance, and which network of the service each one is."""

import re
from pathlib import Path
from typing import Any, NamedTuple

from django.core.exceptions import ValidationError

from chain.networks import closed, network_by_chain_id, networks, parse_network, resolve_alias
from relayer_service.api.serializers import shown_name
from relayer_service.fleet.references import Fault
from relayers.models import MAX_CHAIN_ID
from relayers.openzeppelin.entries import Entry, Report, Unreadable, converted_urls, read_json

EVM = "evm"
MAX_FILES = 1_000
MAX_LINEAGE = 32
UNKNOWN = "unknown network: it is neither in their files, which --networks names, nor one of the service"
EIP_1559 = "eip1559"
# Lists of an entry to which the entries that inherit from it add.
MERGED = ("features", "tags")
# By field of NETWORKS_FILE, the member that it comes from.
THEIR_NAMES = {
    "block_seconds": "average_blocktime_ms",
    "testnet": "is_testnet",
    "confirmations": "required_confirmations",
    "explorer": "explorer_urls",
}


class Target(NamedTuple):
    """The network of a relayer. Only a custom one has a chain ID."""

    name: str
    chain_id: int | None = None
    # Nodes for relayers without their own.
    rpc_urls: tuple[dict[str, Any], ...] = ()


class UnknownNetwork(Exception):
    """There is no network with this name."""


class ClosedNetwork(Exception):
    """Why a relayer on a network that was shut down is not imported."""


class NetworkFiles:
    """The networks of a configuration by name, those that relayers use, and their counterparts."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.entries: dict[str, Entry] = {}
        self.other_types: list[str] = []
        # By name, the networks of imported relayers; None for one with a fault.
        self.used: dict[str, Target | None] = {}
        # Definitions of custom networks, in the format of NETWORKS_FILE.
        self.custom: dict[str, dict[str, Any]] = {}

    def read(self, folder: Path) -> None:
        """Read the JSON files of a folder, each an object with the list `networks`."""
        files = sorted(path for path in folder.glob("*.json") if path.is_file())
        if len(files) > MAX_FILES:
            self.report.fault(str(folder), f"more than {MAX_FILES} files")
            return
        for path in files:
            try:
                file = Entry(read_json(path), path.name, self.report)
            except Unreadable as error:
                self.report.fault(path.name, str(error))
                continue
            self.add(file.entries("networks"))
            file.skip_unread()

    def add(self, entries: list[Entry]) -> None:
        for entry in entries:
            name, network_type = entry.text("network"), entry.text("type")
            if network_type != EVM:
                self.other_types.append(name)
            elif name in self.entries:
                self.report.fault(entry.at("network"), "duplicate network")
            elif name:
                self.entries[name] = entry

    def check_inheritance(self) -> None:
        for entry in self.entries.values():
            _, faults = self._lineage(entry)
            self.report.faults += faults

    def _lineage(self, entry: Entry) -> tuple[list[Entry], list[Fault]]:
        """Return a network and those that it inherits from, and what is wrong with that."""
        lineage = [entry]
        while (parent := lineage[-1].members.get("from")) is not None:
            if not isinstance(parent, str) or parent not in self.entries:
                return lineage, [(lineage[-1].at("from"), "there is no EVM network with this name")]
            if self.entries[parent] in lineage:
                return lineage, [(entry.at("from"), "the network inherits from itself")]
            if len(lineage) == MAX_LINEAGE:
                return lineage, [(entry.at("from"), f"it inherits from over {MAX_LINEAGE} networks")]
            lineage.append(self.entries[parent])
        return lineage, []

    def _definition(self, entry: Entry) -> tuple[Entry, str]:
        """Return a network with what it inherits, and the path of the entry that its RPC URLs come from."""
        members, origin = dict[str, Any](), entry.path
        for each in reversed(self._lineage(entry)[0]):
            for member, value in each.members.items():
                inherited = members.get(member)
                if member in MERGED and isinstance(inherited, list) and isinstance(value, list):
                    value = [*inherited, *(item for item in value if item not in inherited)]
                members[member] = value
            origin = each.path if "rpc_urls" in each.members else origin
        return Entry(members, entry.path, self.report), origin

    def target(self, name: str, has_own_urls: bool) -> Target | None:
        """Return the network of a relayer, None after a fault in it; raise `UnknownNetwork` or `ClosedNetwork`."""
        if name in closed() and name not in networks() and not has_own_urls:
            raise ClosedNetwork(closed()[name])
        if name not in self.used:
            self.used[name] = self._target(name)
        return self.used[name]

    def _target(self, name: str) -> Target | None:
        known = networks().get(resolve_alias(name))
        if name not in self.entries:
            if known is None:
                raise UnknownNetwork
            return Target(known.name)
        members, origin = self._definition(self.entries[name])
        chain_id = members.take("chain_id")
        if type(chain_id) is not int or not 1 <= chain_id <= MAX_CHAIN_ID:
            self.report.fault(members.at("chain_id"), f"a whole number from 1 to {MAX_CHAIN_ID} is required")
            return None
        if known is not None and known.chain_id != chain_id:
            self.report.fault(members.at("chain_id"), f"must be {known.chain_id}, the chain ID of {known.name}")
            return None
        urls = converted_urls(members.list("rpc_urls"), f"{origin}.rpc_urls", self.report)
        known = known or network_by_chain_id(chain_id)
        if known is None:
            self._define(name, chain_id, members)
            return Target(name, chain_id, tuple(urls))
        if known.name != resolve_alias(name):
            self.report.note(members.path, f"{name} is {known.name}, by its chain ID")
        self._compare(members, {"required_confirmations": known.confirmations})
        are_known = all("weight" not in each and each["url"] in known.rpc_urls for each in urls)
        return Target(known.name, None, () if are_known else tuple(urls))

    def _compare(self, members: Entry, ours: dict[str, Any]) -> None:
        """Report what differs from the service's own definition of a network, which is kept."""
        for name, value in ours.items():
            if members.take(name) not in (None, value):
                self.report.skip(members.at(name), f"the service has {value}; NETWORKS_FILE can change it")
        for name in ("symbol", "explorer_urls", "average_blocktime_ms", "is_testnet"):
            members.take(name)
        self._finish(members)

    def _define(self, name: str, chain_id: int, members: Entry) -> None:
        """Add a custom network in the format of NETWORKS_FILE."""
        block_ms, explorers = members.take("average_blocktime_ms"), members.list("explorer_urls")
        urls = [each.get("url") if isinstance(each, dict) else each for each in members.list("rpc_urls")]
        entry = {
            "chain_id": chain_id,
            "symbol": members.take("symbol"),
            "decimals": 18,
            "block_seconds": block_ms / 1000 if type(block_ms) is int and block_ms < MAX_CHAIN_ID else block_ms,
            "rpc_urls": [url.strip() for url in urls if isinstance(url, str)],
            "testnet": members.take("is_testnet"),
            "confirmations": members.take("required_confirmations"),
            "explorer": next((url for url in explorers if isinstance(url, str) and not is_api(url)), None),
            "base_fee_rule": None if EIP_1559 in members.list("features") else "none",
        }
        self._finish(members)
        definition = {key: value for key, value in entry.items() if value is not None}
        if not {"symbol", "block_seconds"} <= definition.keys():
            self.report.skip(members.path, "a NETWORKS_FILE needs its symbol and average_blocktime_ms")
            return
        try:
            parse_network(name, definition)
        except ValidationError as error:
            member, _, text = str(error.message).partition(": ")
            self.report.fault(members.at(THEIR_NAMES.get(member, member)), text)
        else:
            self.custom[name] = definition

    def _finish(self, members: Entry) -> None:
        """Report what has no counterpart."""
        for name in ("type", "network", "from"):
            members.take(name)
        if others := [each for each in members.list("features") if each != EIP_1559]:
            names = ", ".join(shown_name(str(each)) for each in others)
            self.report.skip(members.at("features"), f"no counterpart: {names}")
        members.skip_unread()

    def skip_unused(self) -> None:
        """Report the networks that no relayer uses, in one line for each type."""
        unused = [name for name in self.entries if name not in self.used]
        if unused:
            self.report.skip("networks", f"no imported relayer uses {', '.join(sorted(unused))}")
        if self.other_types:
            self.report.skip("networks", f"not EVM: {', '.join(sorted(set(self.other_types)))}")


def is_api(url: str) -> bool:
    """Return whether a URL of an explorer leads to its API, not to its pages."""
    return "api" in re.split(r"[^a-z0-9]+", url.lower())
