"""The follower: rows that store the address of a signer, and move to the new one when its key is replaced."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from django.db.models import Model, QuerySet
from django.utils.module_loading import import_string

from signers.models import Signer

MAX_NAMED = 10


class Follower(ABC):
    @abstractmethod
    def rows(self, signer: Signer) -> QuerySet[Any]:
        """Return the rows of a signer; their `address` is empty if it is unknown."""

    @abstractmethod
    def follow(self, signer: Signer, address: str) -> int:
        """Move the rows of a signer to its address, empty while it is unknown; return how many moved.

        The caller holds the lock of the signer's row, and staff have confirmed the move. Raises `ValidationError` if
        it is refused.
        """

    @abstractmethod
    def refusal(self, signer: Signer, address: str) -> str:
        """Return why the rows of a signer cannot move to this address now, or "".

        In a transaction, whose caller has locked the signer's row, the answer stays true until its end.
        """

    @abstractmethod
    def balance(self, row: Any) -> tuple[str, str]:
        """Return the last known balance of a row's account, rounded and exact: the account keeps it."""

    def elsewhere(self, signer: Signer, address: str) -> QuerySet[Any]:
        return self.rows(signer).exclude(address__in=["", address])


def get_follower() -> Follower:
    follower: Follower = import_string("relayers.writes.RelayerFollower")()
    return follower


def first_names(names: Sequence[str], count: int) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {count - MAX_NAMED:,} more" if count > MAX_NAMED else ""
    return f"{', '.join(names[:MAX_NAMED])}{more}"


def counted(model: type[Model], number: int) -> str:
    return f"{number:,} {model._meta.verbose_name if number == 1 else model._meta.verbose_name_plural}"
