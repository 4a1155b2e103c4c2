"""Encrypt every secret under the first of ENCRYPTION_KEYS. It can be interrupted and run again."""

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
        parser.add_argument("--batch", type=int, default=500, help="rows per transaction (default: 500)")

    def handle(self, *args: Any, **options: Any) -> None:
        EncryptionKey.objects.ensure_canary()
        unreadable: list[str] = []
        for model in apps.get_models():
            for field in model._meta.concrete_fields if model is not EncryptionKey else []:
                if isinstance(field, EncryptedJSONField):
                    unreadable += self._rotate_all(field, options["batch"])
        if unreadable:
            raise CommandError("Could not decrypt, left unchanged:\n  " + "\n  ".join(unreadable))
        retired = EncryptionKey.objects.exclude(identifier=encryption.primary_key_id())
        names = sorted(retired.values_list("identifier", flat=True))
        retired.delete()
        self.stderr.write("Done." + (f" Keys no longer needed: {', '.join(names)}." if names else ""))

    def _rotate_all(self, field: EncryptedJSONField, batch: int) -> list[str]:
        """Process a table until no row changes, and return the secrets that could not be decrypted."""
        # Processes with the old settings can encrypt more rows in the meantime.
        while True:
            changed, unreadable = self._rotate(field, batch)
            if not changed:
                return unreadable

    def _rotate(self, field: EncryptedJSONField, batch: int) -> tuple[int, list[str]]:
        """Process a table once; return the number of changed rows and the secrets that could not be decrypted."""
        model: type[Model] = field.model
        name = f"{model._meta.label}.{field.name}"
        rest = rows = model._base_manager.exclude(**{f"{field.attname}__isnull": True}).order_by("pk")
        total, done, changed = rows.count(), 0, 0
        unreadable: list[str] = []
        while page := list(rest[:batch]):
            with transaction.atomic():
                for row in page:
                    try:
                        old = encryption.sealed(row, field)
                        if old is not None and old.key_id != encryption.primary_key_id():
                            changed += encryption.reseal(row, field, old)
                    except DecryptionError as error:
                        unreadable.append(f"{model._meta.label} {row}: {error}")
            done, rest = done + len(page), rows.filter(pk__gt=page[-1].pk)
            self._show_progress(name, done, total)
        self.stderr.write(f"{name}: re-encrypted {changed} of {done} rows.")
        return changed, unreadable

    def _show_progress(self, name: str, done: int, total: int) -> None:
        if self.stderr.isatty():
            bar = "#" * int(30 * min(1.0, done / max(1, total)))
            self.stderr.write(f"\r{name} [{bar:<30}] {done}/{total} ", ending="")
