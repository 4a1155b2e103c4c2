"""Checking a config file with all that it may have: what the relayers' part knows, and fee tokens."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from relayers import config
from relayers.chain.networks import networks
from relayers.config import Plan, identifier_of
from relayers.config_references import ID_PATH
from rpc import config_changes
from rpc.config_entries import FeeTokenEntry
from rpc.models import FeeToken


def plan(document: Any) -> Plan:
    """Check a whole file and find what it changes; raise every fault of it at once. Nothing is changed."""
    return Planner(document).plan()


class Planner(config.Planner):
    printed = re.compile(rf"{ID_PATH.pattern}|fee_tokens\[\d+\]\.(network|symbol)")

    def __init__(self, document: Any) -> None:
        super().__init__(document)
        named = {key_of(entry) for entry in self.entries["fee_tokens"]}
        rows = FeeToken.objects.filter(network__in=sorted({network for network, _ in named} & networks().keys()))
        self.tokens: dict[tuple[str, str], FeeToken] = {
            (row.network, row.symbol): row for row in rows.prefetch_related("sources")
        }
        self.seen: set[tuple[str, str]] = set()
        # By network; tokens that the file names may give theirs away.
        self.taken = {(row.network, row.address) for key, row in self.tokens.items() if key not in named}

    def _lists(self) -> dict[str, Callable[[str, Any], None]]:
        return {**super()._lists(), "fee_tokens": self._fee_token}

    def _fee_token(self, path: str, entry: Any) -> None:
        values, broken = self._read(FeeTokenEntry(data=entry), path)
        change = config_changes.fee_token(self.tokens.get(key_of(entry)), values)
        token: FeeToken = change.row
        # What two tokens cannot both have is seen below, as it is to be and not as it is.
        sound = not broken
        sound &= self._check(
            path, lambda: token.full_clean(exclude=broken, validate_unique=False, validate_constraints=False)
        )
        is_once = bool(broken & {"network", "symbol"}) or self._claim(
            f"{path}.symbol", self.seen, (token.network, token.symbol), "this token stands twice in the list"
        )
        if is_once and not broken & {"network", "address"}:
            address = (token.network, token.address)
            sound &= self._claim(
                f"{path}.address", self.taken, address, "another token of this network has this address"
            )
        if not (sound and is_once):
            return
        config_changes.compare(change, values["sources"])
        self.result.changes.append(change)
        if token.enabled and not values["sources"]:
            self._warn(f"{path}.sources", "a token without a source of its price is not supported")

    def _claim(self, path: str, taken: set[tuple[str, str]], wanted: tuple[str, str], fault: str) -> bool:
        """Take what only one token can have; give False, with the fault kept, where another has it."""
        if wanted in taken:
            self._fault(path, fault)
            return False
        taken.add(wanted)
        return True


def key_of(entry: Any) -> tuple[str, str]:
    """Give the network and the symbol that an entry names, right or wrong."""
    return identifier_of(entry, "network"), identifier_of(entry, "symbol")
