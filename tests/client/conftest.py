"""The service as `make run` starts it, with its worker and a Hardhat node, for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from relayer_client import Client, Relayer
from tests import servers
from tests.client.running import SETTINGS, Service, mine_always
from tests.integration import test_run
from tests.relayers.factories import KEY
from tests.transactions.hardhat import LocalChain


@pytest.fixture(scope="package")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A running service with a relayer `sender`, which has the node's first account."""
    with ExitStack() as stack:
        try:
            chain = LocalChain()
        except servers.Unavailable as reason:
            pytest.skip(str(reason))
        stack.callback(chain.stop)
        started = test_run.Service(tmp_path_factory.mktemp("client") / "data", extra=SETTINGS)
        started.start()
        stack.callback(started.stop)
        found = Service(started.url, started.printed("Token"), chain)
        with found.client() as client:
            client.create_signer(id="sender", type="plain", config={"key": KEY})
            client.create_relayer(
                id="sender",
                name="Sender",
                network="hardhat",
                signer_id="sender",
                custom_rpc_urls=[{"url": chain.url}],
                allow_signing=["messages", "typed_data"],
            )
        yield found


@pytest.fixture
def node(service: Service) -> LocalChain:
    """The node, which mines every transaction at once, and a block now and then for confirmations."""
    mine_always(service.chain)
    return service.chain


@pytest.fixture
def client(service: Service, node: LocalChain) -> Iterator[Client]:
    with service.client() as found:
        yield found


@pytest.fixture
def relayer(client: Client) -> Iterator[Relayer]:
    """The relayer, which has no open transactions at the end of a test."""
    relayer = client.relayer("sender")
    yield relayer
    relayer.cancel_all()
