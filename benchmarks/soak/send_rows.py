"""The relayers that send in a soak, each with a webhook."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.sending.rows import new_relayer
from benchmarks.soak.receiver import Receiver, signing_key
from benchmarks.soak.rows import PASSWORD, USER

PATH = "/transactions"


@dataclass(frozen=True)
class SendingRelayer:
    identifier: str
    address: str


@dataclass(frozen=True)
class SendingRows:
    token: str
    relayers: list[SendingRelayer]


def create(urls: Sequence[str], receiver: Receiver, count: int) -> SendingRows:
    """Create what senders need, in a database that is migrated."""
    from django.contrib.auth.models import User

    from notifications.models import Notification
    from tokens.writes import issue

    target = Notification(identifier="transactions", url=receiver.url(PATH))
    target.set_signing_key(signing_key(PATH))
    target.save()
    relayers = []
    for number in range(count):
        relayer = new_relayer(number, urls[0], target)
        relayer.set_rpc_urls([{"url": url, "weight": 100} for url in urls])
        relayer.save()
        relayers.append(SendingRelayer(relayer.identifier, relayer.address))
    user = User.objects.create_superuser(USER, password=PASSWORD)
    return SendingRows(str(issue(name="soak", user=user, scopes=["send", "manage"])[1]), relayers)
