"""Private nodes of relayers over REST: set with the scope `manage`, and shown by extension operations only."""

from collections.abc import Iterator

import pytest

from relayers.models import Relayer
from tests.api import Api
from tests.contract import bodies
from tests.relayers import factories
from tests.relayers.stub_nodes import StubNodes, stub_nodes

LIST = "/api/v1/relayers"
PATH = f"{LIST}/relayer-1"
SEPOLIA = 11155111


@pytest.fixture
def nodes() -> Iterator[StubNodes]:
    with stub_nodes() as running:
        yield running


def test_private_nodes_are_stored_encrypted_and_shown_masked(manager: Api, nodes: StubNodes) -> None:
    factories.relayer()
    contract = manager.get(LIST).body["data"]
    sent = {"private_rpc_urls": [{"url": nodes.url(SEPOLIA)}], "private_fallback_blocks": 30}
    shown = {
        "private_rpc_urls": [{"url": f"http://127.0.0.1:{nodes.port}/***", "weight": 100}],
        "private_fallback_blocks": 30,
    }
    changed = manager.patch(PATH, sent)
    assert (changed.status, changed.body["data"]) == (200, contract[0] | shown)
    assert manager.get(PATH).body["data"] == contract[0] | shown
    assert manager.get(LIST).body["data"] == contract
    stored = Relayer.objects.get()
    assert stored.private_node_urls() == [(nodes.url(SEPOLIA), 100)]
    assert nodes.url(SEPOLIA) not in str(Relayer.objects.values().get())

    removed = manager.patch(PATH, {"private_rpc_urls": None, "private_fallback_blocks": None})
    assert removed.body["data"] == contract[0]


def test_a_private_node_of_another_chain_and_zero_blocks_are_refused(manager: Api, nodes: StubNodes) -> None:
    factories.relayer()
    for patch, fault in (
        (
            {"private_rpc_urls": [{"url": nodes.url(5)}]},
            f"private_rpc_urls[0].url: this node is on chain 5, not on {SEPOLIA}",
        ),
        ({"private_fallback_blocks": 0}, "private_fallback_blocks: a whole number from 1 to 2147483647 is required"),
    ):
        answer = manager.patch(PATH, patch)
        assert (answer.status, bodies.uncoded(answer.body)) == (400, bodies.bad_request(fault))
