"""Which account a relayer has: its signer's, where the signer can derive it."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from eth_utils.address import to_checksum_address

from signers import signing
from signers.backends.base import Secp256k1Backend, SignerError
from signers.models import Signer
from signers.types import SignerType


def is_local(signer: Signer) -> bool:
    """Return whether a signer's key is here, so that no other server is asked for its address."""
    return signer.type == SignerType.PLAIN


def check_signer(signer: Signer, network_type: str) -> None:
    """Refuse a signer that can never sign for a network type."""
    unfit = signing.why_not(signer, network_type)
    if unfit:
        raise ValidationError({"signer_id": unfit})


def ask_address(signer: Signer) -> tuple[str, str]:
    """Return the signer's address; or none, and a warning in words, when the signer could not be asked for it.

    May ask a key-management system, and so take a while.
    """
    try:
        backend = signing.backend_for(signer)
        assert isinstance(backend, Secp256k1Backend)
        return backend.address(), ""
    except SignerError as error:
        return "", f"The signer cannot give its address: {error}"


def choose_address(found: str, given: str) -> str:
    """Return the account's address; a given one that is not the signer's, where that is known, is refused."""
    if not given:
        return found
    address = to_checksum_address(given)
    if found and found != address:
        raise ValidationError({"address": f"this is not the signer's address, which is {found}"})
    return address
