"""Losing commits: the rows of sending and the outbox as they were earlier, as after a restore or a failover."""

from __future__ import annotations

from typing import Any

from django.db import models, transaction

from notifications.models import Delivery
from transactions.models import Attempt, ChainWatch, Lane, StatusChange, Transaction

MODELS: list[type[models.Model]] = [ChainWatch, Lane, Transaction, Attempt, StatusChange, Delivery]


class Backup:
    """A copy of all rows of sending, which `restore` puts in the place of what is there by then."""

    def __init__(self) -> None:
        self._rows: dict[type[models.Model], list[dict[str, Any]]] = {
            model: list(model._base_manager.order_by("pk").values()) for model in MODELS
        }

    def restore(self) -> None:
        # Attempts and transactions refer to each other: foreign keys are checked when it commits.
        with transaction.atomic():
            for model in reversed(MODELS):
                model._base_manager.all()._raw_delete(model._base_manager.db)
            for model, rows in self._rows.items():
                model._base_manager.bulk_create(model(**values) for values in rows)
