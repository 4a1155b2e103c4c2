"""Which account a relayer has: its signer's, where the signer can derive it; and on which chain its nodes are."""

from collections.abc import Sequence

from django.core.exceptions import ValidationError
from eth_utils.address import to_checksum_address

from chain import nodes
from relayer_service.background.shares import waiting_for_others
from relayers.models import Relayer
from signers import signing
from signers.backends.base import Secp256k1Backend, SignerError
from signers.models import Signer

NO_ADDRESS = "The signer cannot give its address: "
MISMATCH = "The relayer's address is {}, but its signer's is {}. Save the signer to move its relayers to that address."


def check_signer(signer: Signer, network_type: str) -> None:
    """Refuse a signer that can never sign for a network type."""
    unfit = signing.incompatibility(signer, network_type)
    if unfit:
        raise ValidationError({"signer_id": unfit})


def ask_address(signer: Signer) -> tuple[str, str]:
    """Return the signer's address and "", or if it cannot be read, the one that was last verified and a warning.

    This may call a key-management system, which takes a while.
    """
    try:
        backend = signing.backend_for(signer)
        assert isinstance(backend, Secp256k1Backend)
        with waiting_for_others():
            return backend.address(), ""
    except SignerError as error:
        return signer.verified_identity, f"{NO_ADDRESS}{error}"


class Answers:
    """What signers and nodes have answered, each asked once: for one request, or for one fleet file."""

    def __init__(self) -> None:
        self._addresses: dict[tuple[str, str], tuple[Signer, tuple[str, str]]] = {}
        self._chain_ids: dict[str, int | str] = {}

    def address(self, signer: Signer) -> tuple[str, str]:
        """Return what `ask_address` does; a signer whose config has changed since is asked again."""
        question = (signer.identifier, signer.config_version)
        if question not in self._addresses:
            self._addresses[question] = signer, ask_address(signer)
        return self._addresses[question][1]

    def chain_ids(self, urls: Sequence[str]) -> list[int | str]:
        """Return the chain id of each node, or in words why there is none; this takes as long as the slowest node."""
        missing = [url for url in dict.fromkeys(urls) if url not in self._chain_ids]
        if missing:
            with waiting_for_others():
                self._chain_ids.update(zip(missing, nodes.chain_ids(missing), strict=True))
        return [self._chain_ids[url] for url in urls]

    def note_errors(self) -> None:
        """Save on each signer what came of asking it, so that relayers without an address can say why."""
        for signer, (_, warning) in self._addresses.values():
            signing.note_error(signer, warning.removeprefix(NO_ADDRESS))


def why_no_address(signer: Signer) -> str:
    """Return why a relayer of this signer has no address, and what to do."""
    missing = signing.missing_library(signer.type)
    if missing:
        return f"The signer's type does not work here: {missing}"
    if signer.last_error:
        return f"The signer could not be asked: {signer.last_error}"
    return "The signer was not asked yet, or was changed since: save the relayer, which asks it."


def choose_address(found: str, given: str) -> str:
    """Return the account's address; refuse a given one that differs from the signer's, if that is known."""
    if not given:
        return found
    address = to_checksum_address(given)
    if found and found != address:
        raise ValidationError({"address": f"this is not the signer's address, which is {found}"})
    return address


def address_mismatches(relayers: Sequence[Relayer]) -> dict[int, str]:
    """Return, by key, the mismatch of relayers whose address is known to differ from their signer's.

    No other server is asked: a key that was replaced where it is held shows once its signer is verified.
    """
    signers = Signer.objects.in_bulk({relayer.signer_id for relayer in relayers})
    known = {pk: signing.known_identity(signer) for pk, signer in signers.items()}
    return {
        relayer.pk: MISMATCH.format(relayer.address, known[relayer.signer_id])
        for relayer in relayers
        if relayer.address and known.get(relayer.signer_id, "") not in {"", relayer.address}
    }
