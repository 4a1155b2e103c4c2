"""The service that generated clients call, with one relayer and one notification, and what the calls print."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.contrib.auth.models import User

from notifications.models import Delivery, Notification
from relayer_service import extensions
from relayers.models import Relayer
from signers.models import Signer
from tests import processes
from tests.chain.encoded import SEPOLIA_CHAIN
from tests.chain.fee_node import FeeNode, serve
from tests.relayers import factories
from tokens.writes import issue

EXTENSIONS = {"openapi.yaml": "", "openapi-extensions.yaml": ",".join(extensions.BUILT)}
# The same with every generator.
EXPECTED = {
    "openapi.yaml": [
        "1 signer: signer-1",
        "plain-1 is local",
        "409 Signer with this ID already exists",
        "store-1 is provider_c at https://secrets.example.com",
        "3 signers, on page 2: plain-1",
        "relayer-1 has the cap 100000000000",
        "notification-1 signs: true",
        "404 Notification not found",
        "feeEstimate 0.00004389",
        "-32601 Method not found",
    ],
    "openapi-extensions.yaml": [
        "ok",
        "plain-1 is local",
        "hooks-1 signs: false",
        "relayer-2 is paused: true",
        "relayer-2 has the cap 5000000000",
        "1 relayer that is paused: relayer-2",
        "notification.test is pending since this century",
        "feeQuote 43890000000000 wei of ETH, 1 token",
        "relayer-2 on evm is paused: true",
        "Relayer deleted successfully",
    ],
}


@contextmanager
def running(document: str, log: Path) -> Iterator[list[str]]:
    """Run the service that a document describes; yield its URL, a token and the URL of a node."""
    scopes = ["read", "manage"] if EXTENSIONS[document] else []
    user = User.objects.create_user("generators")
    token = issue(name="generators", user=user, scopes=scopes)[1]
    with serve(FeeNode(chain_id=SEPOLIA_CHAIN)) as node, processes.web(log, EXTENSIONS=EXTENSIONS[document]) as port:
        yield [f"http://127.0.0.1:{port}", token, node.url]
    user.delete()


def fill(node_url: str) -> None:
    """Have one relayer, its signer and a notification, and nothing of earlier calls."""
    for model in (Relayer, Signer, Delivery, Notification):
        model.objects.all().delete()
    Notification.objects.create(identifier="notification-1", url="https://example.com/hooks")
    urls = [{"url": node_url, "weight": 100}]
    factories.relayer(network="sepolia", rpc_urls=urls, policies={"gas_price_cap": 100_000_000_000})
