"""JSON-RPC requests of web3.py, some of which the service answers instead of the node."""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from relayer_client import errors
from relayer_client._async.relayer import AsyncRelayer
from relayer_client.results import Transaction
from relayer_client.web3_fields import hexadecimal, transaction_fields

AsyncMakeRequest = Callable[[Any, Any], Awaitable[Any]]

BY_HASH = frozenset({"eth_getTransactionReceipt", "eth_getTransactionByHash"})
# web3.py asks for a receipt ten times a second.
LOOKUP_SECONDS = 1.0
MAX_LOOKUPS = 1000
# How long a transaction with a hash is held back while no node accepts it.
NODE_SECONDS = 10.0


class AsyncBridge:
    """Sends transactions of the relayer's account through the service, and everything else to the node."""

    def __init__(
        self, relayer: AsyncRelayer, make_request: AsyncMakeRequest, *, address: str | None, timeout: float
    ) -> None:
        self._relayer = relayer
        self._make_request = make_request
        self._address = address
        self._timeout = timeout
        self._lookups: dict[str, tuple[float, Transaction | None]] = {}

    async def request(self, method: str, params: Any) -> Any:
        if method == "eth_sendTransaction" and await self.is_own(params[0]):
            return {"jsonrpc": "2.0", "id": 0, "result": await self._send(params[0])}
        response = await self._make_request(method, params)
        if method == "eth_accounts":
            own = await self._own_address()
            others = [each for each in response.get("result") or () if each.lower() != own.lower()]
            return {"jsonrpc": "2.0", "id": 0, "result": [own, *others]}
        if method in BY_HASH and not response.get("error") and response.get("result") is None:
            return await self._find_replacement(method, hexadecimal(params[0])) or response
        return response

    async def is_own(self, transaction: Mapping[str, Any]) -> bool:
        """Return whether a transaction is for the relayer: it names its address, or none."""
        sender = transaction.get("from")
        if not sender:
            return True
        own = await self._own_address()
        return hexadecimal(sender) == own.lower()

    async def _own_address(self) -> str:
        if self._address is None:
            self._address = (await self._relayer.client.get_relayer(self._relayer.id)).address
        if self._address is None:
            raise ValueError(f"Relayer {self._relayer.id} has no address yet. Check its signer, and try again.")
        return self._address

    async def _send(self, transaction: Mapping[str, Any]) -> str:
        """Send a transaction, and return its hash once a node has it, or else soon after it has one."""
        sent = await self._relayer.send(**transaction_fields(transaction))
        try:
            sent = await self._relayer.wait(sent, "sent", timeout=self._timeout)
            sent = await self._relayer.wait(sent, "submitted", timeout=NODE_SECONDS)
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
        response = await self._make_request(method, [transaction.hash])
        found = response.get("result")
        if found is None or not (transaction.is_final or _same_receiver(found.get("to"), transaction.to)):
            return None
        return response

    async def _look_up(self, asked: str) -> Transaction | None:
        """Return the transaction that has a hash, of any attempt, at most a second old."""
        at, transaction = self._lookups.get(asked, (0.0, None))
        if not at or time.monotonic() - at > LOOKUP_SECONDS:
            transaction = await self._relayer.list_transactions(hash=asked, per_page=1).first()
            if len(self._lookups) >= MAX_LOOKUPS:
                self._lookups.clear()
            self._lookups[asked] = (time.monotonic(), transaction)
        return transaction


def _same_receiver(one: str | None, other: str | None) -> bool:
    return (one or "").lower() == (other or "").lower()
