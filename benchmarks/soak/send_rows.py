"""The relayers that send in a soak, each with a webhook, and with spending rules where it is limited."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.sending.rows import new_relayer
from benchmarks.soak.receiver import Receiver, signing_key
from benchmarks.soak.rows import PASSWORD, USER

PATH = "/transactions"
# Of a request that has a value; five of them are the limit of a day, which a soak soon reaches.
VALUE = 10**15
LIMITS = {"max_value_per_day": 5 * VALUE, "max_gas_cost_per_day": 10**18}


@dataclass(frozen=True)
class SendingRelayer:
    identifier: str
    address: str


@dataclass(frozen=True)
class SendingRows:
    token: str
    relayers: list[SendingRelayer]


def create(nodes: Sequence[tuple[str, int]], receiver: Receiver, count: int, limits: Mapping[str, int]) -> SendingRows:
    """Create what senders need, in a database that is migrated: nodes are URLs with weights."""
    from django.contrib.auth.models import User

    from notifications.models import Notification
    from spending.models import SpendingPolicy
    from spending.rules import validate_rules
    from tokens.writes import issue

    target = Notification(identifier="transactions", url=receiver.url(PATH))
    target.set_signing_key(signing_key(PATH))
    target.save()
    relayers = []
    for number in range(count):
        relayer = new_relayer(number, nodes[0][0], target)
        relayer.set_rpc_urls([{"url": url, "weight": weight} for url, weight in nodes])
        if limits:
            rules = validate_rules({name: str(limit) for name, limit in limits.items()})
            relayer.spending = SpendingPolicy.objects.create(rules=rules)
        relayer.save()
        relayers.append(SendingRelayer(relayer.identifier, relayer.address))
    user = User.objects.create_superuser(USER, password=PASSWORD)
    return SendingRows(str(issue(name="soak", user=user, scopes=["send", "manage"])[1]), relayers)
