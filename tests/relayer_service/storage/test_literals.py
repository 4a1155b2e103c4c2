"""Conditions with their constants in the text of the statement, so that SQLite uses partial indexes."""

import pytest
from django.db.models import Q

from relayer_service.database.literals import with_literals
from relayers.models import CONDITIONS, Relayer
from tests.relayers import factories

pytestmark = [pytest.mark.django_db, pytest.mark.both_engines]


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (Q(health__failed_checks__gt=0), '"failed_checks" > 0'),
        (Q(name="it's 5%"), "\"name\" = 'it''s 5%%'"),
        (Q(network__in=["a", "b"]), "\"network\" IN ('a', 'b')"),
        (~Q(address="") | Q(chain_id=None), "\"address\" = ''"),
        (Q(paused=True), '"paused"'),
    ],
)
def test_constants_are_in_the_text(condition: Q, text: str) -> None:
    sql, parameters = Relayer.objects.filter(with_literals(condition)).query.sql_with_params()
    assert text in sql
    assert parameters == ()


def test_conditions_find_the_same_rows() -> None:
    relayers = [factories.relayer(identifier=name, **{name: True}) for name in ("paused", "balance_is_low")]
    for state, condition in CONDITIONS.items():
        names = {row.identifier for row in Relayer.objects.filter(with_literals(condition))}
        assert names == {row.identifier for row in relayers if state in row.states}, state
    special = factories.relayer(name="it's 5%")
    # With a parameter besides.
    found = Relayer.objects.filter(with_literals(Q(name="it's 5%")), identifier=special.identifier)
    assert [*found] == [special]
