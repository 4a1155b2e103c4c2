"""Selections of rows, as short texts that come back from a page."""

import pytest
from django.db.models import Q
from hypothesis import given
from hypothesis import strategies as st

from relayer_service.storage.selections import Selection, SelectionError

pytestmark = pytest.mark.both_engines


@pytest.mark.parametrize(
    ("keys", "text"),
    [([], ""), ([7], "7"), ([9, 5, 7, 6, 6], "5x3,2"), ([1, 3, 5], "1,2,2"), (range(1, 25_001), "1x25000")],
)
def test_a_selection_is_a_short_text_and_back(keys: list[int], text: str) -> None:
    assert str(Selection.from_keys(keys)) == text
    assert list(Selection.parse(text)) == sorted(set(keys))
    assert len(Selection.parse(text)) == len(set(keys))


@given(st.sets(st.integers(min_value=1, max_value=200)), st.integers(0, 201), st.integers(1, 20))
def test_what_follows_a_key_is_found(keys: set[int], after: int, count: int) -> None:
    selection = Selection.parse(str(Selection.from_keys(keys)))
    assert selection.first(count, after) == [key for key in sorted(keys) if key > after][:count]
    assert [key for batch in selection.batches(count) for key in batch] == sorted(keys)


def test_a_long_run_is_selected_as_a_range() -> None:
    selection = Selection.from_keys([1, 3, *range(5, 15), 20, 21])
    assert list(selection.conditions(4)) == [Q(pk__range=(5, 14)), Q(pk__in=[1, 3, 20, 21])]
    assert list(selection.conditions(3))[1:] == [Q(pk__in=[1, 3, 20]), Q(pk__in=[21])]


# No database has a key of more than 63 bits.
TOO_LARGE = ",".join(["9" * 18] * 10)


@pytest.mark.parametrize("text", ["x", "1,", "0", "-1", "1x", "1x0", "1x2x3", "1x1000001", "9" * 19, TOO_LARGE, "1 2"])
def test_a_text_that_is_no_selection_is_refused(text: str) -> None:
    with pytest.raises(SelectionError):
        Selection.parse(text)
