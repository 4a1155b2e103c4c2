"""Queries that are compiled once."""

import pytest
from django.db.models import QuerySet
from django.db.transaction import TransactionManagementError

from relayer_service.database.compiled import compiled
from signers.models import Signer
from tests.relayers import factories

pytestmark = pytest.mark.both_engines

built: list[int] = []


@compiled()
def named(names: list[str], after: int) -> QuerySet[Signer]:
    built.append(len(names))
    return Signer.objects.filter(identifier__in=names, sequence__gt=after).order_by("sequence")


@compiled()
def locked(pk: int) -> QuerySet[Signer]:
    return Signer.objects.filter(pk=pk).select_for_update()


@pytest.mark.django_db
def test_a_query_is_built_once_for_lists_of_similar_lengths_and_has_the_values_of_each_call() -> None:
    rows = [factories.signer(f"signer-{number}") for number in range(4)]
    built.clear()
    names = [row.identifier for row in rows]

    assert named(names, 0) == rows
    assert named(names[1:], 0) == rows[1:]
    assert named(names, rows[1].pk) == rows[2:]
    assert (named([], 0), built) == ([], [4])


@pytest.mark.django_db(transaction=True)
def test_rows_are_not_locked_outside_of_a_transaction() -> None:
    with pytest.raises(TransactionManagementError):
        locked(1)
