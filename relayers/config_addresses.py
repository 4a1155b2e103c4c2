from __future__ import annotations

from eth_utils.address import to_checksum_address

from relayers.account import resolve_address
from signers.models import Signer


class Addresses:
    """The addresses of signers. One that cannot be asked is not asked again for each of its relayers."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}
        self._unreachable: dict[str, str] = {}

    def of(self, signer: Signer, given: str) -> tuple[str, str]:
        """Give the address and a warning; raise a validation error when the given one is not the signer's."""
        known = self._known.get((signer.identifier, given))
        if known is not None:
            return known, ""
        if signer.identifier in self._unreachable:
            return to_checksum_address(given) if given else "", self._unreachable[signer.identifier]
        address, warning = resolve_address(signer, given)
        if warning:
            self._unreachable[signer.identifier] = warning
        else:
            self._known[signer.identifier, given] = address
        return address, warning
