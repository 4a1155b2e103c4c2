"""Digests of what an account signs besides transactions, and signatures as the API shows them."""

from typing import Any

from eth_utils.crypto import keccak

from chain.transactions.model import PLAIN_V

# EIP-191, version 0x45: text. No transaction starts like this.
MESSAGE_PREFIX = b"\x19Ethereum Signed Message:\n"
# EIP-191, version 0x01: structured data, which is EIP-712.
TYPED_DATA_PREFIX = b"\x19\x01"


def message_digest(message: bytes) -> bytes:
    """Return the digest of a message (EIP-191, `personal_sign`)."""
    return keccak(MESSAGE_PREFIX + str(len(message)).encode() + message)


def typed_data_digest(domain_separator: bytes, message_hash: bytes) -> bytes:
    """Return the digest of typed data (EIP-712) from its two hashes."""
    return keccak(TYPED_DATA_PREFIX + domain_separator + message_hash)


def signature_data(r: int, s: int, recovery_id: int) -> dict[str, Any]:
    """Return a signature: `r`, `s` and `sig` in hexadecimal without 0x, and `v`, 27 or 28."""
    v = PLAIN_V + recovery_id
    return {"r": f"{r:064x}", "s": f"{s:064x}", "v": v, "sig": f"{r:064x}{s:064x}{v:02x}"}
