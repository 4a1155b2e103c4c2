"""The rows that a soak begins with, and a session of staff."""

import urllib.request
from dataclasses import dataclass
from http.cookiejar import CookieJar
from urllib.parse import urlencode

from benchmarks.rpc import SENDER
from benchmarks.soak.receiver import Receiver, signing_key

RELAYERS = 200
TARGETS = 6
USER, PASSWORD = "staff", "a-password-of-the-soak"
# The first relayers belong to those who pause and resume; estimates are asked of the last, which is never paused.
ESTIMATED = f"soak-{RELAYERS - 1}"


@dataclass(frozen=True)
class Row:
    pk: int
    identifier: str


@dataclass(frozen=True)
class Rows:
    token: str
    targets: list[Row]
    # Each of them has the target at the same place as its notification.
    relayers: list[Row]


def create(node_url: str, receiver: Receiver) -> Rows:
    """Create what callers need, in a database that is migrated."""
    from django.contrib.auth.models import User
    from django.utils import timezone

    from notifications.models import Notification
    from relayers.models import Relayer
    from rpc.models import FeeToken, PriceSource
    from signers.models import Signer
    from tokens.writes import issue

    signer = Signer(identifier="soak", type="plain")
    signer.set_config({"key": "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"})
    signer.save()
    targets = []
    for number in range(TARGETS):
        target = Notification(identifier=f"soak-{number}", url=receiver.url(f"/soak-{number}/0"))
        target.set_signing_key(signing_key(f"/soak-{number}/0"))
        target.save()
        targets.append(target)
    relayers = []
    for number in range(RELAYERS):
        relayer = Relayer(identifier=f"soak-{number}", name=f"Soak {number}", network="hardhat", address=SENDER)
        relayer.signer, relayer.notification = signer, targets[number % TARGETS]
        relayer.set_rpc_urls([{"url": node_url, "weight": 100}])
        relayer.save()
        relayers.append(relayer)
    fee_token = FeeToken.objects.create(network="hardhat", symbol="BENCH", address="0x" + "11" * 20, decimals=6)
    PriceSource.objects.create(
        token=fee_token, kind="fixed", rate_text="3000.5", rate_set_at=timezone.now(), max_age_seconds=86400
    )
    user = User.objects.create_superuser(USER, password=PASSWORD)
    return Rows(
        token=str(issue(name="soak", user=user)[1]),
        targets=[Row(target.pk, target.identifier) for target in targets],
        relayers=[Row(relayer.pk, relayer.identifier) for relayer in relayers[:TARGETS]],
    )


def log_in(port: int) -> dict[str, str]:
    """Log in as staff; return the cookies of the session."""
    jar = CookieJar()
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
    url = f"http://127.0.0.1:{port}/admin/login/?next=/health"
    opener.open(url).read()
    cookies = {cookie.name: cookie.value or "" for cookie in jar}
    form = {"username": USER, "password": PASSWORD, "csrfmiddlewaretoken": cookies["csrftoken"]}
    opener.open(url, urlencode(form).encode()).read()
    return {cookie.name: cookie.value or "" for cookie in jar}
