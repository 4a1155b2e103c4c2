"""The step that combines a network, a signer and a webhook."""

from django.conf import settings
from django.http import HttpRequest

from chain import nodes
from chain.networks import Network, networks
from notifications.getting_started import demo_webhook
from relayer_service.admin.getting_started import DEMO, FIRST_ROWS, CannotSetUp, Demo, Step, add_page
from relayer_service.background.shares import Busy, waiting_for_others
from relayers.models import Relayer
from relayers.writes import RelayerWrite
from signers.models import Signer

LOCAL_NETWORK, LOCAL_CHAIN_ID, TEST_NETWORK = "hardhat", 31337, "sepolia"
START = "No node of chain {} answers at {}. Start it with `make node` and try again. Nothing was created."

TAKEN = "A relayer with the ID demo exists on another network. Delete it first. Nothing was created."


def relayer(request: HttpRequest) -> Step:
    return Step(
        "relayer",
        "Add a relayer",
        "Sends transactions from the signer's account on a network.",
        ["relayers.add_relayer", "signers.view_signer"],
        Relayer.objects.all(),
        relayer_page,
        set_up,
        in_use=Relayer.objects.order_by("pk")[FIRST_ROWS : FIRST_ROWS + 1],
        check=check,
    )


def relayer_page() -> str:
    """Return the add page with the newest signer, on the local chain if this is a developer's machine."""
    newest = Signer.objects.order_by("-sequence").values_list("pk", flat=True).first()
    network = LOCAL_NETWORK if settings.LOCAL else TEST_NETWORK
    values = {"identifier": "relayer-1", "name": "Relayer 1", "network": network}
    return add_page("relayers_relayer", **values, signer=str(newest)) if newest else ""


def local_network() -> Network | None:
    network = networks().get(LOCAL_NETWORK)
    return network if network and network.chain_id == LOCAL_CHAIN_ID else None


def check() -> None:
    """Raise an error unless the local node answers: the demo's key is public, and only for that chain."""
    network = local_network()
    urls = network.rpc_urls if network else ()
    try:
        with waiting_for_others():
            found = nodes.chain_ids(urls)
    except Busy:
        found = []
    if LOCAL_CHAIN_ID not in found:
        raise CannotSetUp(START.format(LOCAL_CHAIN_ID, ", ".join(urls) or "any URL"))


def set_up(demo: Demo) -> None:
    found = Relayer.objects.filter(identifier=DEMO).first()
    if found and found.expected_chain_id != LOCAL_CHAIN_ID:
        raise CannotSetUp(TAKEN)
    demo.rows["Relayer"] = found or new_relayer(demo)


def new_relayer(demo: Demo) -> Relayer:
    values = {
        "id": DEMO,
        "name": "Demo",
        "network": LOCAL_NETWORK,
        "network_type": "evm",
        "signer_id": demo.rows["Signer"],
        "notification_id": demo_webhook(),
        "policies": {},
    }
    return RelayerWrite.new(values).save()
