"""A relayer with little, the one that funds it, and a worker for each, on a chain that mines on request."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import F

from relayers.models import RelayerHealth
from tests.transactions import accounts
from tests.transactions.engines import Engine, end_lease, let_time_pass
from tests.transactions.mempool import MempoolChain
from transactions.models import Lane, TopUp, Transaction
from transactions.top_ups import finding

ETH = 10**18
MINIMUM, TARGET, DAILY_LIMIT = ETH, 3 * ETH, 7 * ETH
FUNDS = 100 * ETH


class Funded:
    """The relayer `poor`, which `rich` tops up to 3 ETH when it has less than 1, with at most 7 in a day."""

    def __init__(self, chain: MempoolChain, **changes: Any) -> None:
        self.chain = chain
        self.rich = accounts.sender(chain, chain.ledger, "rich")
        amounts = {
            "top_up_minimum_text": str(MINIMUM),
            "top_up_target_text": str(TARGET),
            "top_up_daily_limit_text": str(DAILY_LIMIT),
        }
        self.top_up: dict[str, Any] = {"funding_relayer": self.rich.relayer, **amounts}
        self.poor = accounts.sender(chain, chain.ledger, "poor", **self.top_up, **changes)
        chain.set_balance(self.rich.address, FUNDS)
        self.has(0)

    def has(self, balance: int) -> None:
        """Let the relayer have this balance, and its last check have found it. The chain needs a block for it."""
        self.chain.set_balance(self.poor.address, balance)
        self.chain.block()
        RelayerHealth.objects.filter(relayer__identifier="poor").update(balance_text=str(balance))

    def balance(self) -> int:
        return int(self.chain.rpc("eth_getBalance", self.poor.address, "latest"), 16)

    def received(self) -> int:
        """Return the value of all that was sent to it and mined."""
        blocks = (self.chain.rpc("eth_getBlockByNumber", hex(number), True) for number in range(self.chain.head() + 1))
        sent = [one for block in blocks for one in block["transactions"] if one["to"] == self.poor.address.lower()]
        return sum(int(one["value"], 16) for one in sent)

    def sweep(self) -> None:
        finding.sweep()

    def work(self, blocks: int = 1) -> None:
        """Have all lanes take a turn and look at the chain, once for each block."""
        for _ in range(blocks):
            engines = [Engine(pk) for pk in Lane.objects.values_list("pk", flat=True)]
            for engine in engines:
                engine.turn()
            self.chain.block()
            for engine in engines:
                engine.look()
                let_time_pass(20)
                end_lease(engine.lane_pk)

    def states(self) -> list[tuple[str, int]]:
        """The top-ups in order, each with its amount in ETH."""
        return [(each.state, each.amount // ETH) for each in TopUp.objects.order_by("pk")]

    def last(self) -> TopUp:
        return TopUp.objects.select_related("transaction__lane").latest("pk")

    def requests(self) -> list[tuple[str, int, str]]:
        """The transactions of the funding relayer in order: receiver, value and status."""
        rows = Transaction.objects.filter(relayer=self.rich.relayer).order_by("sequence")
        return [(row.to, row.value, row.status) for row in rows]


def let_top_ups_age(**age: float) -> None:
    """Make all top-ups so much older."""
    TopUp.objects.update(created_at=F("created_at") - timedelta(**age))
    TopUp.objects.filter(due_at__isnull=False).update(due_at=F("due_at") - timedelta(**age))
