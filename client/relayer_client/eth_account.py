"""An account for libraries that take one of eth_account: `RelayerAccount(relayer)`.

It signs messages (EIP-191) and typed data (EIP-712) through the service, but no transactions and no bare hashes. Needs
`pip install relayer-client[eth-account]`.
"""

from __future__ import annotations

from typing import Any, NoReturn

from eth_account import Account
from eth_account.datastructures import SignedMessage
from eth_account.messages import SignableMessage, encode_typed_data
from eth_account.signers.local import LocalAccount
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak
from hexbytes import HexBytes

from relayer_client._sync.bridge import own_address
from relayer_client._sync.relayer import Relayer
from relayer_client.results import Signature
from relayer_client.web3_fields import typed_data_fields


class RelayerAccount(LocalAccount):
    """The account of a relayer. `address` saves the request for it."""

    # Its methods that need the key ask for it first.
    _publicapi = Account()

    def __init__(self, relayer: Relayer, *, address: str | None = None) -> None:
        if not isinstance(relayer, Relayer):
            raise TypeError("An account signs without `await`: it needs a Relayer of a Client.")
        self._relayer = relayer
        self._address = to_checksum_address(address or own_address(relayer))

    @property
    def key(self) -> NoReturn:
        raise AttributeError(
            "The key of a relayer stays with its signer, which signs messages and typed data, but no transactions and "
            "no bare hashes. Send transactions with `relayer.send`, or in web3.py with `RelayerMiddleware`."
        )

    def sign_message(self, signable_message: SignableMessage) -> SignedMessage:
        version, header, body = (bytes(part) for part in signable_message)
        if version == b"E":
            return self._signed(signable_message, self._relayer.sign(body))
        if version == b"\x01":
            signature = self._relayer.sign_typed_data(domain_separator=header, hash_struct_message=body)
            return self._signed(signable_message, signature)
        raise ValueError("The service signs messages of `encode_defunct` and `encode_typed_data` alone.")

    def sign_typed_data(
        self,
        domain_data: dict[str, Any] | None = None,
        message_types: dict[str, Any] | None = None,
        message_data: dict[str, Any] | None = None,
        full_message: dict[str, Any] | None = None,
    ) -> SignedMessage:
        signable = encode_typed_data(domain_data, message_types, message_data, full_message)
        parts = {"domain": domain_data, "types": message_types, "message": message_data}
        return self._signed(signable, self._relayer.sign_typed_data(**typed_data_fields(full_message or parts)))

    def _signed(self, signable: SignableMessage, signature: Signature) -> SignedMessage:
        found = HexBytes(signature.sig)
        if Account.recover_message(signable, signature=found) != self.address:
            raise ValueError(f"The signature is not one of {self.address} for this message. Check the address.")
        digest = HexBytes(keccak(b"\x19" + b"".join(signable)))
        return SignedMessage(digest, int(signature.r, 16), int(signature.s, 16), signature.v, found)
