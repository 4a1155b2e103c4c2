"""JSON-RPC requests of web3.py, some of which the service answers instead of the node."""

import time
import warnings
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from relayer_client import errors
from relayer_client._async.relayer import AsyncRelayer
from relayer_client.fields import TransactionFields
from relayer_client.results import Transaction, TransactionStatus
from relayer_client.retries import poll_pauses
from relayer_client.wakeups import async_sleep
from relayer_client.web3_fields import Nonces, Prices, hexadecimal, to_bytes, transaction_fields, typed_data_fields

AsyncMakeRequest = Callable[[Any, Any], Awaitable[Any]]

TYPED_DATA = ("eth_signTypedData", "eth_signTypedData_v3", "eth_signTypedData_v4")
# Which of the two parameters is the address that signs.
SIGNING = {"personal_sign": 1, "eth_sign": 0, **dict.fromkeys(TYPED_DATA, 0)}
UNFINISHED: tuple[TransactionStatus, ...] = ("pending", "sent", "submitted", "mined")
PAYLOAD = attrgetter("to", "value", "data")
NONCE_IGNORED = "The service assigns nonces: that of a transaction is ignored. Omit it."
BY_HASH = frozenset({"eth_getTransactionReceipt", "eth_getTransactionByHash"})
# web3.py asks for a receipt ten times a second.
LOOKUP_SECONDS = 1.0
MAX_LOOKUPS = 1000
# How long a transaction with a hash is held back while no node accepts it.
NODE_SECONDS = 10.0


@dataclass
class AsyncBridge:
    """Sends transactions of the relayer's account through the service, and everything else to the node."""

    relayer: AsyncRelayer
    make_request: AsyncMakeRequest
    address: str | None
    timeout: float
    prices: Prices
    nonce: Nonces
    lookups: dict[str, tuple[float, Transaction | None]] = field(default_factory=dict)

    async def request(self, method: str, params: Any) -> Any:
        if method == "eth_sendTransaction" and await self.is_own(params[0]):
            return _response(await self._send(params[0]))
        if method == "eth_signTransaction" and await self.is_own(params[0]):
            raise ValueError("The service does not sign transactions for others to send. Use send_transaction.")
        if method in SIGNING and await self.is_own({"from": params[SIGNING[method]]}):
            return _response(await self._sign(method, params[1 - SIGNING[method]]))
        response = await self.make_request(method, params)
        if method == "eth_accounts":
            own = await self.own_address()
            others = [each for each in response.get("result") or () if each.lower() != own.lower()]
            return _response([own, *others])
        if method in BY_HASH and not response.get("error") and response.get("result") is None:
            return await self._find_replacement(method, hexadecimal(params[0])) or response
        return response

    async def is_own(self, transaction: Mapping[str, Any]) -> bool:
        """Return whether a transaction is for the relayer: it names its address, or none."""
        sender = transaction.get("from")
        if not sender:
            return True
        return hexadecimal(sender) == (await self.own_address()).lower()

    async def own_address(self) -> str:
        if self.address is None:
            self.address = await own_address(self.relayer)
        return self.address

    async def _sign(self, method: str, content: Any) -> str:
        if "TypedData" in method:
            signature = await self.relayer.sign_typed_data(**typed_data_fields(content))
        else:
            signature = await self.relayer.sign(to_bytes(content))
        return f"0x{signature.sig}"

    async def _send(self, transaction: Mapping[str, Any]) -> str:
        """Send a transaction, and return its hash once a node has it, or else soon after it has one."""
        fields = transaction_fields(transaction, self.prices)
        key, nonce = transaction.get("idempotency_key"), transaction.get("nonce")
        if nonce is None:
            sent = await self.relayer.send(idempotency_key=key, **fields)
        else:
            sent = await self._send_with_nonce(int(nonce, 0) if isinstance(nonce, str) else nonce, key, fields)
        try:
            sent = await self.relayer.wait(sent, "sent", timeout=self.timeout)
            sent = await self.relayer.wait(sent, "submitted", timeout=NODE_SECONDS)
        except errors.WaitTimeout as error:
            if error.transaction is None or error.transaction.hash is None:
                raise
            sent = error.transaction
        except errors.TransactionUnsuccessful as error:
            # A node returns the hash of one that reverts, too.
            if error.transaction.block_number is None:
                raise
            sent = error.transaction
        assert sent.hash is not None
        return sent.hash

    async def _send_with_nonce(
        self, nonce: int, key: str | None, fields: TransactionFields, attempt: int = 1
    ) -> Transaction:
        """Send a transaction, or replace that which has the nonce. As on a chain, a nonce pays only once."""
        try:
            found = await self.relayer.get_transaction_by_nonce(nonce)
        except errors.NotFound:
            response = await self.make_request("eth_getTransactionCount", [await self.own_address(), "latest"])
            if response.get("result") is None or int(response["result"], 16) > nonce:
                raise ValueError(f"Nonce {nonce} is used, or the node returns no next one. Omit it.") from None
            warnings.warn(NONCE_IGNORED, stacklevel=2)
            if key is not None:
                return await self.relayer.send(idempotency_key=key, **fields)
            return await self._send_once(nonce, fields, attempt)
        if self.nonce == "replace":
            return await self._replace(found, fields)
        raise ValueError(
            f"Nonce {nonce} is that of transaction {found.id}, which is {found.status}: both would be sent. "
            'Omit the nonce, or replace the other one with `RelayerMiddleware.build(..., nonce="replace")`.'
        )

    async def _send_once(self, nonce: int, fields: TransactionFields, attempt: int) -> Transaction:
        """Send a transaction unless one was sent for this nonce before, which can have another one or none yet."""
        try:
            sent = await self.relayer.send(idempotency_key=f"web3-nonce-{nonce}-{attempt}", **fields)
        except errors.IdempotencyKeyReused:
            # Its state is unknown.
            is_taken = await self._has_unfinished()
        else:
            if not sent.is_final:
                return sent
            # One that was executed with this nonce is of a former development chain.
            is_taken = sent.status == "confirmed" and sent.nonce != nonce
        if is_taken:
            raise ValueError(f"Another transaction was sent for nonce {nonce}. Omit the nonce to send both.")
        # Again from the start, as it may have been executed meanwhile.
        return await self._send_with_nonce(nonce, None, fields, attempt + 1)

    async def _has_unfinished(self) -> bool:
        for status in UNFINISHED:
            if await self.relayer.list_transactions(status=status, per_page=1).first():
                return True
        return False

    async def _replace(self, transaction: Transaction, fields: TransactionFields) -> Transaction:
        """Replace a transaction, and return it once its replacement is signed."""
        # With the hash of what it replaces.
        replaced = await self.relayer.replace(transaction, **fields)
        deadline, pauses = time.monotonic() + self.timeout, poll_pauses()
        while True:
            current = await self.relayer.get_transaction(transaction)
            # If the former payload is mined, it is that of the transaction again.
            if current.hash != replaced.hash and PAYLOAD(current) == PAYLOAD(replaced):
                return current
            if current.block_number is not None or time.monotonic() > deadline:
                raise errors.WaitTimeout(current.id, "replaced", current)
            await async_sleep(next(pauses))

    async def _find_replacement(self, method: str, asked: str) -> Any:
        """Return the node's answer for the current hash of a transaction; None if it is still unknown.

        A receipt of the no-op that cancels a transaction is not its receipt.
        """
        transaction = await self._look_up(asked)
        if transaction is None or transaction.hash is None:
            return None
        if transaction.is_final and (
            transaction.block_number is None or transaction.status in ("canceled", "expired")
        ):
            raise errors.UNSUCCESSFUL[transaction.status](transaction)
        if transaction.hash.lower() == asked:
            return None
        response = await self.make_request(method, [transaction.hash])
        found = response.get("result")
        if found is None or not (transaction.is_final or _same_receiver(found.get("to"), transaction.to)):
            return None
        return response

    async def _look_up(self, asked: str) -> Transaction | None:
        """Return the transaction that has a hash, of any attempt, at most a second old."""
        at, transaction = self.lookups.get(asked, (0.0, None))
        if not at or time.monotonic() - at > LOOKUP_SECONDS:
            transaction = await self.relayer.list_transactions(hash=asked, per_page=1).first()
            if len(self.lookups) >= MAX_LOOKUPS:
                self.lookups.clear()
            self.lookups[asked] = (time.monotonic(), transaction)
        return transaction


async def own_address(relayer: AsyncRelayer) -> str:
    """Return the address of a relayer, which the service has if its extension `lifecycle` is enabled."""
    address = (await relayer.client.get_relayer(relayer.id)).address
    if address is None:
        raise ValueError(f"Relayer {relayer.id} has no address yet. Check its signer, and try again.")
    return address


def _response(result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 0, "result": result}


def _same_receiver(one: str | None, other: str | None) -> bool:
    return (one or "").lower() == (other or "").lower()
