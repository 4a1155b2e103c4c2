"""The account of a relayer, as its signer derives it, and the chain that its nodes are on."""

from collections.abc import Sequence

from chain.nodes import failover
from relayer_service.background.shares import waiting_for_others
from relayers.models import Relayer
from signers import signing
from signers.backends.base import Secp256k1Backend, SignerError
from signers.models import Signer

NO_ADDRESS = "The signer cannot provide its address: "
MISMATCH = "The relayer's address is {}, but its signer's is {}. Save the signer to move its relayers to that address."


def read_address(signer: Signer) -> tuple[str, str]:
    """Return the signer's address and "", or if it cannot be read, the last verified one and the error.

    This may call a key-management system and wait for it.
    """
    try:
        backend = signing.backend_for(signer)
        assert isinstance(backend, Secp256k1Backend)
        with waiting_for_others():
            return backend.address(), ""
    except SignerError as error:
        return signer.verified_identity, str(error)


class ProbeCache:
    """Addresses of signers and chain IDs of nodes, each read once for one request or fleet file."""

    def __init__(self) -> None:
        self._addresses: dict[tuple[str, str], tuple[Signer, tuple[str, str]]] = {}
        self._chain_ids: dict[str, int | str] = {}

    def address(self, signer: Signer) -> tuple[str, str]:
        """Return the address as `read_address` does, with a warning; again when the signer's config has changed."""
        key = (signer.identifier, signer.config_version)
        if key not in self._addresses:
            self._addresses[key] = signer, read_address(signer)
        address, error = self._addresses[key][1]
        return address, error and f"{NO_ADDRESS}{error}"

    def chain_ids(self, urls: Sequence[str]) -> list[int | str]:
        """Return the chain ID of each node, or the reason why there is none; wait for the slowest node."""
        missing = [url for url in dict.fromkeys(urls) if url not in self._chain_ids]
        if missing:
            with waiting_for_others():
                self._chain_ids.update(zip(missing, failover.chain_ids(missing), strict=True))
        return [self._chain_ids[url] for url in urls]

    def save_errors(self) -> None:
        """Save on each signer why its address could not be read, or that it could: its relayers show the reason."""
        for signer, (_, error) in self._addresses.values():
            signing.note_error(signer, error)


def missing_address_reason(signer: Signer) -> str:
    if missing := signing.missing_library(signer.type):
        return f"The signer's type is not available: {missing}"
    if signer.last_error:
        return f"The signer failed: {signer.last_error}"
    return "The signer has not provided its address since it was last changed. Save the relayer to read it."


def address_mismatches(relayers: Sequence[Relayer]) -> dict[int, str]:
    """Return, by primary key, the reason for each relayer whose address is known not to be its signer's.

    No other server is called: a key that was replaced outside the service is noticed once its signer is verified.
    """
    signers = Signer.objects.in_bulk({relayer.signer_id for relayer in relayers})
    known = {pk: signing.known_identity(signer) for pk, signer in signers.items()}
    return {
        relayer.pk: MISMATCH.format(relayer.address, known[relayer.signer_id])
        for relayer in relayers
        if relayer.address and known.get(relayer.signer_id, "") not in {"", relayer.address}
    }
