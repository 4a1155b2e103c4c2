"""Counts that are kept as rows with changes: writers append rows and take no lock, the worker folds them into sums."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import Count, Model

FOLD_ROWS = 500


def fold(model: type[Model], column: str, *groups: str) -> None:
    """Replace the rows of each group by one with their sum. Each step is one transaction: sums are always exact."""
    rows = model._default_manager.order_by().values(*groups).annotate(parts=Count("pk")).filter(parts__gt=1)
    for group in rows.values(*groups):
        while _fold_some(model, column, group) == FOLD_ROWS:
            pass


def _fold_some(model: type[Model], column: str, group: dict[str, Any]) -> int:
    manager = model._default_manager
    with transaction.atomic():
        rows = list(manager.filter(**group).select_for_update(skip_locked=True)[:FOLD_ROWS])
        total = sum(getattr(row, column) for row in rows)
        manager.filter(pk__in=[row.pk for row in rows]).delete()
        if total:
            manager.create(**group, **{column: total})
    return len(rows)
