"""What a client sends, and the relayer that signs it."""

from typing import Any

from eth_account import Account
from eth_account.messages import encode_defunct, encode_typed_data

from chain.typed_data import parse
from relayers.models import Relayer
from tests.relayers import factories

PATH = "/api/v1/relayers/relayer-1"
SIGN, SIGN_TYPED_DATA, SIGN_TRANSACTION = (f"{PATH}/{end}" for end in ("sign", "sign-typed-data", "sign-transaction"))
MESSAGE = {"message": "hello world"}
# A permit on the relayer's chain.
PERMIT: dict[str, Any] = {
    "types": {
        "Permit": [
            {"name": "owner", "type": "address"},
            {"name": "spender", "type": "address"},
            {"name": "value", "type": "uint256"},
        ]
    },
    "domain": {"name": "A Token", "chainId": 11155111, "verifyingContract": "0x" + "cc" * 20},
    "message": {"owner": factories.ADDRESS, "spender": "0x" + "aa" * 20, "value": "1000000"},
    "primary_type": "Permit",
}
PARSED = parse(**PERMIT)
HASHES = {"domain_separator": PARSED.domain_separator.hex(), "hash_struct_message": PARSED.message_hash.hex()}
# A valid body for each path.
BODIES: dict[str, dict[str, Any]] = {SIGN: MESSAGE, SIGN_TYPED_DATA: PERMIT}


def relayer(**changes: Any) -> Relayer:
    """Return a relayer that allows both kinds of signatures."""
    return factories.relayer(**{"allow_signing": ["messages", "typed_data"]} | changes)


def expected(signable: Any) -> dict[str, Any]:
    """Return the answer's signature, as eth-account makes it with the relayer's key."""
    signed = Account.sign_message(signable, factories.KEY)
    return {"r": f"{signed.r:064x}", "s": f"{signed.s:064x}", "v": signed.v, "sig": signed.signature.hex()}


def of_message(text: str) -> dict[str, Any]:
    return expected(encode_defunct(text=text))


def of_typed_data(body: dict[str, Any]) -> dict[str, Any]:
    return expected(encode_typed_data(body["domain"], body["types"], body["message"]))
