"""web3.py through a relayer: `w3.middleware_onion.add(RelayerMiddleware.build(relayer))`.

`eth_sendTransaction` of the relayer's account, or without `from`, goes to the service, which assigns the nonce, sets
the price and signs; any other request goes to the node. Needs `pip install relayer-client[web3]`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

from web3 import AsyncWeb3, Web3
from web3.middleware import ENSNameToAddressMiddleware, ValidationMiddleware, Web3Middleware

from relayer_client._async.bridge import AsyncBridge
from relayer_client._async.relayer import AsyncRelayer
from relayer_client._sync.bridge import Bridge
from relayer_client._sync.relayer import Relayer

if TYPE_CHECKING:
    from web3.types import AsyncMakeRequestFn, MakeRequestFn

SEND = "eth_sendTransaction"
SENT_SECONDS = 120.0


class RelayerMiddleware(Web3Middleware):
    """Sends the transactions of an account through its relayer, and finds them under every hash that they had."""

    # What the onion does to a transaction inside of this one: it resolves names, and compares chain IDs.
    BEFORE_SENDING = (ENSNameToAddressMiddleware, ValidationMiddleware)

    def __init__(
        self,
        w3: AsyncWeb3[Any] | Web3,
        *,
        relayer: Relayer | AsyncRelayer,
        address: str | None = None,
        timeout: float = SENT_SECONDS,
    ) -> None:
        super().__init__(w3)
        self._relayer = relayer
        self._options: dict[str, Any] = {"address": address, "timeout": timeout}

    @classmethod
    def build(
        cls, relayer: Relayer | AsyncRelayer, *, address: str | None = None, timeout: float = SENT_SECONDS
    ) -> Any:
        """Return the middleware for an onion: of `Web3` with a `Relayer`, of `AsyncWeb3` with an `AsyncRelayer`.

        `timeout` is for how many seconds sending waits for a hash, before it raises `WaitTimeout`, which has the ID
        of the transaction. `address` saves the request for the relayer's.
        """
        return partial(cls, relayer=relayer, address=address, timeout=timeout)

    def wrap_make_request(self, make_request: MakeRequestFn) -> MakeRequestFn:
        if not isinstance(self._relayer, Relayer):
            raise TypeError("Web3 needs a Relayer, AsyncWeb3 an AsyncRelayer.")
        bridge = Bridge(self._relayer, make_request, **self._options)

        def request(method: Any, params: Any) -> Any:
            if method == SEND and bridge.is_own(params[0]):
                for kind in self.BEFORE_SENDING:
                    method, params = kind(self._w3).request_processor(method, params)
            return bridge.request(method, params)

        return cast("MakeRequestFn", request)

    async def async_wrap_make_request(self, make_request: AsyncMakeRequestFn) -> AsyncMakeRequestFn:
        if not isinstance(self._relayer, AsyncRelayer):
            raise TypeError("Web3 needs a Relayer, AsyncWeb3 an AsyncRelayer.")
        bridge = AsyncBridge(self._relayer, make_request, **self._options)

        async def request(method: Any, params: Any) -> Any:
            if method == SEND and await bridge.is_own(params[0]):
                for kind in self.BEFORE_SENDING:
                    method, params = await kind(self._w3).async_request_processor(method, params)
            return await bridge.request(method, params)

        return cast("AsyncMakeRequestFn", request)
