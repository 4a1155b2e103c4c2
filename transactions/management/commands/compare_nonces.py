"""Compare the nonces of relayers with the chain: whether other programs have transactions of their accounts in flight.

Exit code 1: there are some. Exit code 2: a chain could not be read, or an argument is wrong.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django.core.management.base import BaseCommand, CommandError, CommandParser

from chain.errors import NodesUnreachable
from chain.nodes import failover
from chain.nodes.answers import Fault, quantity
from chain.nodes.attempts import Call
from relayer_service.background.pools import map_threads
from relayer_service.evm import checksummed
from relayer_service.storage.encryption import DecryptionError
from relayers.models import Relayer
from transactions.models import Lane
from transactions.repair.lane_selection import add_relayer_option

USED_ELSEWHERE, UNREADABLE = 1, 2
TAGS = ("latest", "pending")


class Comparison(NamedTuple):
    relayer: Relayer
    # The highest counts that a node reported.
    latest: int = 0
    pending: int = 0
    next_nonce: int | None = None
    error: str = ""

    @property
    def used_elsewhere(self) -> int:
        """Return how many nonces others have used that this service has not accounted for."""
        own = self.latest if self.next_nonce is None else self.next_nonce
        return max(0, max(self.latest, self.pending) - own)

    def __str__(self) -> str:
        if self.error:
            return f"{self.relayer}: {self.error}"
        counts = f"{self.relayer}: latest {self.latest}, pending {self.pending}"
        if not self.used_elsewhere:
            next_nonce = max(self.latest, self.next_nonce or 0)
            return f"{counts}, next nonce {next_nonce}: ready"
        return f"{counts}: {self.used_elsewhere} of other programs"


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        add_relayer_option(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        relayers = chosen_relayers(options["relayer"])
        # By account: a lane outlives its relayer, and continues with the next one.
        lanes = Lane.objects.values_list("chain_id", "address", "next_nonce")
        next_nonces = {(chain_id, address): next_nonce for chain_id, address, next_nonce in lanes}
        found = map_threads(lambda relayer: compare(relayer, next_nonces), relayers)
        for each in found:
            self.stdout.write(str(each))
        used = sum(bool(each.used_elsewhere) for each in found)
        unreadable = sum(bool(each.error) for each in found)
        ready = len(found) - used - unreadable
        self.stdout.write(f"{ready} ready, {used} used by other programs, {unreadable} could not be read.")
        if used:
            raise CommandError("Other programs have transactions of these accounts.", returncode=USED_ELSEWHERE)
        if unreadable:
            raise CommandError("Not every chain could be read.", returncode=UNREADABLE)


def chosen_relayers(names: Sequence[str]) -> list[Relayer]:
    relayers = Relayer.objects.filter(network_type=Relayer.NetworkType.EVM).order_by("pk")
    if not names:
        return list(relayers)
    found = list(relayers.filter(identifier__in=names))
    if missing := sorted({*names} - {relayer.identifier for relayer in found}):
        raise CommandError(f"No such relayer: {', '.join(missing)}", returncode=UNREADABLE)
    return found


def compare(relayer: Relayer, next_nonces: Mapping[tuple[int, str], int | None]) -> Comparison:
    """Read the counts from all nodes of a relayer: each has its own mempool."""
    chain_id = relayer.expected_chain_id
    if not relayer.address or chain_id is None:
        return Comparison(relayer, error="Its address or chain ID is unknown.")
    calls = [Call("eth_getTransactionCount", [relayer.address, tag]) for tag in TAGS]
    try:
        answers = list(failover.answers(relayer.node_urls(), calls, chain_id, check_counts))
    except (NodesUnreachable, DecryptionError) as error:
        return Comparison(relayer, error=str(error))
    latest, pending = (max(quantity(each) or 0 for each in column) for column in zip(*answers, strict=True))
    return Comparison(relayer, latest, pending, next_nonces.get((chain_id, checksummed(relayer.address))))


def check_counts(answers: list[Any]) -> None:
    if any(quantity(answer) is None for answer in answers):
        raise Fault("did not report both transaction counts")
