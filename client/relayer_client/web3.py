"""web3.py through a relayer: `w3.middleware_onion.add(RelayerMiddleware.build(relayer))`.

`eth_sendTransaction` of the relayer's account, or without `from`, goes to the service, which assigns the nonce, sets
the price and signs, as do `personal_sign`, `eth_sign` and `eth_signTypedData` of its account; any other request goes
to the node. Needs `pip install relayer-client[web3]`.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, cast, get_args

from web3 import AsyncWeb3, Web3
from web3.middleware import ENSNameToAddressMiddleware, ValidationMiddleware, Web3Middleware
from web3.types import TxParams

from relayer_client import errors
from relayer_client._async.bridge import AsyncBridge
from relayer_client._async.relayer import AsyncRelayer
from relayer_client._sync.bridge import Bridge
from relayer_client._sync.relayer import Relayer
from relayer_client.results import Speed
from relayer_client.web3_fields import Nonces, Prices

if TYPE_CHECKING:
    from web3.types import AsyncMakeRequestFn, MakeRequestFn

SEND: str = "eth_sendTransaction"
SENT_SECONDS = 120.0


class RelayerTxParams(TxParams, total=False):
    """Parameters of a transaction, with those of the service alone."""

    speed: Speed
    valid_until: datetime | str
    idempotency_key: str


class RelayerMiddleware(Web3Middleware):
    """Sends the transactions of an account through its relayer, and finds them under every hash that they had."""

    # What the onion does to a transaction inside of this one: it resolves names, and compares chain IDs.
    BEFORE_SENDING: tuple[type[Web3Middleware], ...] = (ENSNameToAddressMiddleware, ValidationMiddleware)

    def __init__(self, w3: AsyncWeb3[Any] | Web3, *, relayer: Relayer | AsyncRelayer, **options: Any) -> None:
        super().__init__(w3)
        self._relayer = relayer
        self._options = options

    @classmethod
    def build(
        cls,
        relayer: Relayer | AsyncRelayer,
        *,
        address: str | None = None,
        timeout: float = SENT_SECONDS,
        prices: Prices = "service",
        nonce: Nonces = "refuse",
    ) -> Any:
        """Return the middleware for an onion: of `Web3` with a `Relayer`, of `AsyncWeb3` with an `AsyncRelayer`.

        `timeout` is for how many seconds sending waits for a hash, before it raises `WaitTimeout`, which has the ID
        of the transaction. `address` saves the request for the relayer's. With `prices="transaction"`, the prices of
        a transaction without `speed` are used exactly. A transaction with the nonce of another one raises
        `ValueError`; with `nonce="replace"`, it replaces an unfinished one.
        """
        for name, value, kind in (("prices", prices, Prices), ("nonce", nonce, Nonces)):
            if value not in get_args(kind):
                raise ValueError(f"{name} must be one of {', '.join(get_args(kind))}, not {value!r}.")
        return partial(cls, relayer=relayer, address=address, timeout=timeout, prices=prices, nonce=nonce)

    def wrap_make_request(self, make_request: MakeRequestFn) -> MakeRequestFn:
        if not isinstance(self._relayer, Relayer):
            raise TypeError("Web3 needs a Relayer, AsyncWeb3 an AsyncRelayer.")
        bridge = Bridge(self._relayer, make_request, **self._options)

        def request(method: Any, params: Any) -> Any:
            if method != SEND or not bridge.is_own(params[0]):
                return bridge.request(method, params)
            for kind in self.BEFORE_SENDING:
                method, params = kind(self._w3).request_processor(method, params)
            try:
                return bridge.request(method, params)
            except errors.TransactionFailed:
                # It raises `ContractLogicError` with the data of a revert.
                cast("Any", self._w3).eth.call(_call(params[0], bridge.own_address()), ccip_read_enabled=False)
                raise

        return cast("MakeRequestFn", request)

    async def async_wrap_make_request(self, make_request: AsyncMakeRequestFn) -> AsyncMakeRequestFn:
        if not isinstance(self._relayer, AsyncRelayer):
            raise TypeError("Web3 needs a Relayer, AsyncWeb3 an AsyncRelayer.")
        bridge = AsyncBridge(self._relayer, make_request, **self._options)

        async def request(method: Any, params: Any) -> Any:
            if method != SEND or not await bridge.is_own(params[0]):
                return await bridge.request(method, params)
            for kind in self.BEFORE_SENDING:
                method, params = await kind(self._w3).async_request_processor(method, params)
            try:
                return await bridge.request(method, params)
            except errors.TransactionFailed:
                call = _call(params[0], await bridge.own_address())
                await cast("Any", self._w3).eth.call(call, ccip_read_enabled=False)
                raise

        return cast("AsyncMakeRequestFn", request)


def _call(transaction: Any, sender: str) -> Any:
    """Return a call that does what a transaction would do."""
    payload = {name: transaction[name] for name in ("to", "value", "data", "input") if name in transaction}
    return {"from": sender, **payload}
