"""Client of the Relayer Management Service: send transactions, follow them, and manage a fleet.

`Client` and `Relayer` block, `AsyncClient` and `AsyncRelayer` are their twins for asyncio.
"""

from relayer_client._async.client import AsyncClient
from relayer_client._async.pages import AsyncPages
from relayer_client._async.relayer import AsyncRelayer
from relayer_client._sync.client import Client
from relayer_client._sync.pages import Pages
from relayer_client._sync.relayer import Relayer
from relayer_client._version import __version__
from relayer_client.results import Transaction
from relayer_client.retries import NO_RETRIES, Retries

__all__ = [
    "NO_RETRIES",
    "AsyncClient",
    "AsyncPages",
    "AsyncRelayer",
    "Client",
    "Pages",
    "Relayer",
    "Retries",
    "Transaction",
    "__version__",
]
