"""Django's `loaddata`, for rows that are counted by triggers and hold ciphertext."""

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.core.management.commands import loaddata

from relayer_service.models import RowDelta
from relayer_service.storage import encryption
from relayer_service.storage.encryption import DecryptionError, EncryptedJSONField


class Command(loaddata.Command):
    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--allow-unreadable", action="store_true", help="load secrets that cannot be read too")

    def handle(self, *fixture_labels: Any, **options: Any) -> None:
        self.allow_unreadable, self.unreadable = options["allow_unreadable"], 0
        super().handle(*fixture_labels, **options)

    def loaddata(self, fixture_labels: Any) -> None:
        # What is loaded is counted by the triggers.
        self.excluded_models.add(RowDelta)
        super().loaddata(fixture_labels)

    def reset_sequences(self, *args: Any) -> None:
        """Refuse what cannot be read: this is the last step before success is reported."""
        if self.unreadable and not self.allow_unreadable:
            raise CommandError(f"Nothing was loaded, as so many secrets cannot be read: {self.unreadable}.")
        super().reset_sequences(*args)

    def save_obj(self, obj: Any) -> bool:
        """Load a row, and name a secret of it that cannot be read: another row's, or one of a key that is not here."""
        saved: bool = super().save_obj(obj)
        for field in obj.object._meta.concrete_fields if saved else []:
            if isinstance(field, EncryptedJSONField) and (sealed := encryption.sealed(obj.object, field)):
                try:
                    encryption.unseal(sealed, field.context(obj.object))
                except DecryptionError as error:
                    self.unreadable += 1
                    self.stderr.write(f"{obj.object._meta.label} {obj.object}: {field.name}: {error}")
        return saved
