"""What the overview shows of signers: the step to the first one."""

from django.http import HttpRequest

from relayer_service.console.overview.getting_started import DEMO, Demo, Step, add_page
from signers.config_shapes import SignerType
from signers.key_sources import HARDHAT_KEY, first_source
from signers.models import Signer
from signers.writes import SignerWrite


def step(request: HttpRequest) -> Step:
    return Step(
        "signer",
        "Add a signer",
        "The key that signs transactions.",
        ["signers.add_signer"],
        Signer.objects.all(),
        lambda: add_page("signers_signer", identifier="signer-1", type=SignerType.PLAIN, key_source=first_source()),
        set_up,
    )


def set_up(demo: Demo) -> None:
    found = Signer.objects.filter(identifier=DEMO).first()
    values = {"id": DEMO, "type": SignerType.PLAIN, "config": {"key": HARDHAT_KEY}}
    demo.rows["Signer"] = found or SignerWrite.new(values).save()
