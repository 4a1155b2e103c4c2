"""What tests need besides the client: here the fake service has it, elsewhere a real one."""

from typing import Protocol

from relayer_client import Relayer, Transaction
from relayer_client.results import TransactionStatus
from relayer_client.testing import LOST, FakeService


class Bench(Protocol):
    relayer: Relayer

    def lose_response(self) -> None:
        """Lose the response to the next request, which is carried out."""

    def move(self, transaction: Transaction, status: TransactionStatus) -> None:
        """Wait until a transaction has this status."""


class FakeBench:
    def __init__(self) -> None:
        self.service = FakeService()
        self.relayer = self.service.client().relayer("sender")

    def lose_response(self) -> None:
        self.service.inject(LOST)

    def move(self, transaction: Transaction, status: TransactionStatus) -> None:
        self.service.move(transaction, status)
