"""Encrypt every secret under the first of ENCRYPTION_KEYS. It can be stopped at any moment and run again."""

from typing import Any

from django.apps import apps
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction
from django.db.models import Model

from relayer_service.models import EncryptionKey
from relayer_service.storage import encryption
from relayer_service.storage.encryption import DecryptionError, EncryptedJSONField


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--batch", type=int, default=500, help="how many rows are read at once")

    def handle(self, *args: Any, **options: Any) -> None:
        EncryptionKey.objects.ensure_canary()
        unreadable: list[str] = []
        for model in apps.get_models():
            for field in model._meta.concrete_fields if model is not EncryptionKey else []:
                if isinstance(field, EncryptedJSONField):
                    unreadable += self._rotate_all(field, options["batch"])
        if unreadable:
            raise CommandError("These could not be read, and stay as they are:\n  " + "\n  ".join(unreadable))
        retired = EncryptionKey.objects.exclude(identifier=encryption.primary_key_id())
        names = sorted(retired.values_list("identifier", flat=True))
        retired.delete()
        self.stderr.write("Done." + (f" No longer needed: {', '.join(names)}." if names else ""))

    def _rotate_all(self, field: EncryptedJSONField, batch: int) -> list[str]:
        """Go through a table until nothing is left to encrypt; return what could not be read.

        Processes that still run with the old settings may have encrypted more meanwhile.
        """
        while True:
            changed, unreadable = self._rotate(field, batch)
            if not changed:
                return unreadable

    def _rotate(self, field: EncryptedJSONField, batch: int) -> tuple[int, list[str]]:
        """Go through a table once, by primary key, so that memory does not depend on its size."""
        model: type[Model] = field.model
        rows = model._base_manager.exclude(**{f"{field.attname}__isnull": True}).order_by("pk")
        total = rows.count()
        seen, changed, last = 0, 0, None
        unreadable: list[str] = []
        while True:
            page = list((rows if last is None else rows.filter(pk__gt=last))[:batch])
            if not page:
                break
            with transaction.atomic():
                for row in page:
                    try:
                        changed += self._rotate_row(row, field)
                    except DecryptionError as error:
                        unreadable.append(f"{model._meta.label} {row}: {error}")
            seen, last = seen + len(page), page[-1].pk
            self._progress(f"{model._meta.label}.{field.name}", seen, total)
        self.stderr.write(f"{model._meta.label}.{field.name}: {changed} of {seen} were encrypted anew.")
        return changed, unreadable

    @staticmethod
    def _rotate_row(row: Model, field: EncryptedJSONField) -> bool:
        old = encryption.sealed(row, field)
        if old is None or old.key_id == encryption.primary_key_id():
            return False
        return encryption.reseal(row, field, old)

    def _progress(self, name: str, seen: int, total: int) -> None:
        if not self.stderr.isatty():
            return
        part = min(1.0, seen / total) if total else 1.0
        self.stderr.write(f"\r{name} [{'#' * int(part * 30):<30}] {seen}/{total} ", ending="")
