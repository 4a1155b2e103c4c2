"""States that follow from a row's columns, computed by the database."""

from collections.abc import Mapping

from django.db.models import Case, CharField, Q, Value, When


def first_state(conditions: Mapping[str, Q], otherwise: str) -> Case:
    """Return the expression of the first state whose condition holds, and of another where none does."""
    cases = [When(condition, then=Value(state)) for state, condition in conditions.items()]
    return Case(*cases, default=Value(otherwise), output_field=CharField())
