"""A running service that clients call."""

from dataclasses import dataclass

from relayer_client import AsyncClient, Client
from tests.concurrency import PATIENCE_SECONDS
from tests.transactions.hardhat import LocalChain

# What `make run` needs besides, where many requests come at once.
SETTINGS = {"RATE_LIMIT_RPC": "", "RATE_LIMIT_LIST_RELAYERS": "", "RATE_LIMIT_LIST_SIGNERS": ""}


@dataclass
class Service:
    url: str
    token: str
    chain: LocalChain

    def client(self) -> Client:
        return Client(self.url, self.token, timeout=PATIENCE_SECONDS)

    def async_client(self) -> AsyncClient:
        return AsyncClient(self.url, self.token, timeout=PATIENCE_SECONDS)


def mine_always(chain: LocalChain) -> None:
    """Mine every transaction at once, and a block now and then, so that they are confirmed."""
    chain.mine_at_once()
    chain.rpc("evm_setIntervalMining", 200)
