"""Which account a relayer has: its signer's, where the signer can give it."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from eth_utils.address import to_checksum_address

from signers import signing
from signers.backends.base import Secp256k1Backend, SignerError
from signers.models import Signer
from signers.types import SignerType


def is_local(signer: Signer) -> bool:
    """Tell whether a signer can be asked without asking anybody else."""
    return signer.type == SignerType.PLAIN


def check_signer(signer: Signer, network_type: str) -> None:
    """Refuse a signer that can never sign for a network type."""
    unfit = signing.why_not(signer, network_type)
    if unfit:
        raise ValidationError({"signer_id": unfit})


def resolve_address(signer: Signer, given: str) -> tuple[str, str]:
    """Give the account's address, and a warning in words when the signer could not be asked for it.

    A given address that is not the signer's is refused. May ask a key-management system, and so take a while.
    """
    try:
        backend = signing.backend_for(signer)
        assert isinstance(backend, Secp256k1Backend)
        found = backend.address()
    except SignerError as error:
        address = to_checksum_address(given) if given else ""
        return address, f"The signer cannot give its address: {error}"
    if given and to_checksum_address(given) != found:
        raise ValidationError({"address": f"this is not the signer's address, which is {found}"})
    return found, ""
