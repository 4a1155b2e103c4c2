"""One relayer: its transactions, signatures and fees."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, Unpack, get_args

from relayer_client import errors
from relayer_client._async.pages import AsyncPages
from relayer_client._async.polling import WAIT_SECONDS, deadlines, poll
from relayer_client.addresses import check_address
from relayer_client.checks import key_or_new, list_query, resource_path, transaction_id
from relayer_client.encoding import decode
from relayer_client.erc20 import transfer
from relayer_client.fees import FeeEstimate, FeeQuote
from relayer_client.fields import (
    HexData,
    PriceFields,
    SendingFields,
    TransactionFields,
    TransactionFilter,
    TypedDataFields,
)
from relayer_client.results import (
    Balance,
    CanceledTransactions,
    DryRun,
    Signature,
    Speed,
    Status,
    Transaction,
)
from relayer_client.wakeups import AsyncWakeup

if TYPE_CHECKING:
    from relayer_client._async.client import AsyncClient

Until = Literal["sent", "submitted", "mined", "confirmed", "final"]
PROGRESS = ("pending", "sent", "submitted", "mined", "confirmed")


class AsyncRelayer:
    """A relayer of the service, by its ID; nothing is requested until a method is called."""

    def __init__(self, client: "AsyncClient", relayer_id: str) -> None:
        self.id = relayer_id
        self.client = client
        self._path = resource_path("relayers", relayer_id)
        # Of the tokens of the relayer's network, by address: on another network, an address is of another token.
        self._decimals: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r}, {self.client.url!r})"

    def _transaction_path(self, transaction: Transaction | str, action: str = "") -> str:
        return f"{self._path}/transactions/{_id_of(transaction)}{action}"

    # Transactions

    async def send(self, *, idempotency_key: str | None = None, **fields: Unpack[TransactionFields]) -> Transaction:
        """Send a transaction, and return it as soon as the service has stored it.

        Its request is repeated with the same key until it is answered, so it is never sent twice. To repeat the call
        itself, such as after a restart, provide your own key.
        """
        key = key_or_new(idempotency_key)
        body = {"value": 0, **fields}
        return await self.client.fetch(Transaction, "POST", f"{self._path}/transactions", body=body, key=key)

    async def transfer_token(
        self,
        token: str,
        to: str,
        amount: Decimal | int,
        *,
        decimals: int | None = None,
        idempotency_key: str | None = None,
        **fields: Unpack[SendingFields],
    ) -> Transaction:
        """Send an amount of an ERC-20 token, in whole tokens, as `send` does.

        `token` is its address. Its decimals are those of the fee token, whose reading needs the scope `read`; provide
        `decimals` for any other token, or without that scope.
        """
        if decimals is None:
            decimals = await self._decimals_of(check_address(token))
        call = transfer(token, to, amount, decimals=decimals)
        return await self.send(idempotency_key=idempotency_key, **call, **fields)

    async def _decimals_of(self, token: str) -> int:
        if token.lower() not in self._decimals:
            network = (await self.client.get_relayer(self.id)).network
            async for found in self.client.list_fee_tokens(network=network):
                if found.decimals is not None:
                    self._decimals[found.address.lower()] = found.decimals
        if token.lower() not in self._decimals:
            raise ValueError(f"The service does not know the decimals of {token}: provide decimals=...")
        return self._decimals[token.lower()]

    async def dry_run(self, **fields: Unpack[TransactionFields]) -> DryRun:
        """Return whether a transaction would be accepted now, and what it would cost; nothing is sent."""
        path, body = f"{self._path}/transactions/dry-run", {"value": 0, **fields}
        return await self.client.fetch(DryRun, "POST", path, body=body, repeatable=True)

    async def get_transaction(self, transaction: Transaction | str) -> Transaction:
        return await self.client.fetch(Transaction, "GET", self._transaction_path(transaction))

    async def get_transaction_by_nonce(self, nonce: int) -> Transaction:
        path = self._path + resource_path("transactions", "by-nonce", str(nonce))
        return await self.client.fetch(Transaction, "GET", path)

    def list_transactions(
        self, *, per_page: int = 100, **filters: Unpack[TransactionFilter]
    ) -> AsyncPages[Transaction]:
        """Return the transactions, newest first, or those that finished last first with a range of `finished`.

        `hash` is that of any attempt, `metadata` a pair such as `"customer:81"`, `token` the ID of a token.
        """
        query = list_query(TransactionFilter, filters, per_page)
        return self.client.pages(Transaction, f"{self._path}/transactions", query)

    async def wait(
        self, transaction: Transaction | str, until: Until = "confirmed", *, timeout: float = WAIT_SECONDS
    ) -> Transaction:
        """Return a transaction once it has reached a status, or raise `WaitTimeout` within these seconds.

        A transaction that ends in another way raises `TransactionFailed`, `TransactionExpired` or
        `TransactionCanceled`; with `until="final"` it is returned. It is read with growing pauses, which
        `client.notify` ends; with `timeout=0` or less, once. Outages of the service are waited out. A blocking
        client does not interrupt a response that trickles in: each step of a request has the seconds that are left.
        """
        (found,) = await self.wait_all([transaction], until, timeout=timeout)
        return found

    async def wait_all(
        self,
        transactions: Iterable[Transaction | str],
        until: Until = "confirmed",
        *,
        timeout: float = WAIT_SECONDS,
    ) -> list[Transaction]:
        """Wait for transactions, as `wait` does, all of them within these seconds; return them in their order.

        The first that does not reach the status raises; with `until="final"`, unsuccessful ones are returned, too.
        """
        if until not in get_args(Until):
            raise ValueError(f"until must be one of {', '.join(get_args(Until))}, not {until!r}.")
        limits = deadlines(timeout)
        return [await self._wait(each, until, *limits) for each in transactions]

    async def _wait(self, transaction: Transaction | str, until: Until, deadline: float, last: float) -> Transaction:
        identifier, path = _id_of(transaction), self._transaction_path(transaction)
        with self.client.wakeups.register(identifier, AsyncWakeup()) as wakeup:
            return await poll(
                lambda: self.client.fetch(Transaction, "GET", path, deadline=last),
                lambda current: reached(current, until),
                lambda current: errors.WaitTimeout(identifier, until, current),
                wakeup.pause,
                deadline,
            )

    async def cancel(self, transaction: Transaction | str, *, reason: str | None = None) -> Transaction:
        """Cancel a transaction; it can be too late, so wait for its final status."""
        path = self._transaction_path(transaction)
        return await self.client.fetch(Transaction, "DELETE", path, query={"reason": reason}, repeatable=True)

    async def cancel_all(self, *, reason: str | None = None) -> CanceledTransactions:
        """Cancel all transactions that are not mined."""
        path = f"{self._path}/transactions/pending"
        return await self.client.fetch(CanceledTransactions, "DELETE", path, query={"reason": reason}, repeatable=True)

    async def replace(
        self, transaction: Transaction | str, *, reason: str | None = None, **fields: Unpack[TransactionFields]
    ) -> Transaction:
        """Replace the payload of a transaction; its ID stays, its hash changes."""
        path, body = self._transaction_path(transaction), {"value": 0, **fields}
        return await self.client.fetch(Transaction, "PUT", path, query={"reason": reason}, body=body, repeatable=True)

    async def speed_up(
        self, transaction: Transaction | str, *, reason: str | None = None, **fields: Unpack[PriceFields]
    ) -> Transaction:
        """Raise the price of a transaction: to a speed or to fixed prices, or by one step."""
        path = self._transaction_path(transaction, "/speed-up")
        # A repeated step would be a second one, as would be a speed, whose price follows the market.
        has_prices = any(value is not None for name, value in fields.items() if name != "speed")
        return await self.client.fetch(
            Transaction, "POST", path, query={"reason": reason}, body=fields or None, repeatable=has_prices
        )

    # Signatures

    async def sign(self, message: str | bytes) -> Signature:
        """Sign a message (EIP-191): bytes, or the UTF-8 bytes of a string."""
        name = "message" if isinstance(message, str) else "message_hex"
        return await self.client.fetch(Signature, "POST", f"{self._path}/sign", body={name: message})

    async def sign_typed_data(self, **fields: Unpack[TypedDataFields]) -> Signature:
        """Sign typed data (EIP-712)."""
        return await self.client.fetch(Signature, "POST", f"{self._path}/sign-typed-data", body=fields)

    # Fees

    async def fee_estimate(self, *, fee_token: str, network: str, transaction: HexData) -> FeeEstimate:
        """Return the maximum fee of an encoded transaction in a token."""
        params = {"fee_token": fee_token, "network": network, "transaction": transaction}
        found: FeeEstimate = await self._rpc(FeeEstimate, "feeEstimate", params, repeatable=True)
        return found

    async def fee_quote(
        self,
        *,
        network: str,
        transaction: HexData,
        fee_tokens: list[str] | None = None,
        speed: Speed | None = None,
    ) -> FeeQuote:
        """Return the expected and the maximum fee of an encoded transaction, by default in all tokens."""
        params = {"network": network, "transaction": transaction, "fee_tokens": fee_tokens, "speed": speed}
        given = {name: value for name, value in params.items() if value is not None}
        found: FeeQuote = await self._rpc(FeeQuote, "feeQuote", given, repeatable=True)
        return found

    async def rpc(self, method: str, params: Mapping[str, Any], *, repeatable: bool = False) -> Any:
        """Return the result of a JSON-RPC method; raise an `RpcError` if it fails."""
        return await self._rpc(Any, method, params, repeatable=repeatable)

    async def _rpc(self, kind: Any, method: str, params: Mapping[str, Any], *, repeatable: bool) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return await self.client.call(
            "POST",
            f"{self._path}/rpc",
            read=lambda response: decode(kind, errors.rpc_result(response)),
            body=body,
            repeatable=repeatable,
        )

    # State

    async def status(self) -> Status:
        """Return the result of the last health check."""
        return await self.client.fetch(Status, "GET", f"{self._path}/status")

    async def balance(self) -> Balance:
        """Return the balance that a node reports now."""
        return await self.client.fetch(Balance, "GET", f"{self._path}/balance")


def _id_of(transaction: Transaction | str) -> str:
    return transaction_id(transaction.id if isinstance(transaction, Transaction) else transaction)


def reached(transaction: Transaction, until: Until) -> bool:
    """Return whether a transaction has reached a status; raise if it never will."""
    if until == "final":
        return transaction.is_final
    if kind := errors.UNSUCCESSFUL.get(transaction.status):
        raise kind(transaction)
    # A newer service may have others, which are no end.
    return transaction.status in PROGRESS[PROGRESS.index(until) :]
