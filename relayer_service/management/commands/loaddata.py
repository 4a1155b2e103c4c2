"""Django's `loaddata`, for tables with row counts and ciphertext."""

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.core.management.commands import loaddata

from relayer_service.models import RowDelta
from relayer_service.storage import encryption
from relayer_service.storage.encryption import DecryptionError, EncryptedJSONField


class Command(loaddata.Command):
    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--allow-unreadable", action="store_true", help="also load secrets that cannot be decrypted"
        )

    def handle(self, *fixture_labels: Any, **options: Any) -> None:
        self.allow_unreadable, self.unreadable = options["allow_unreadable"], 0
        super().handle(*fixture_labels, **options)

    def loaddata(self, fixture_labels: Any) -> None:
        # Triggers count the rows as they are loaded.
        self.excluded_models.add(RowDelta)
        super().loaddata(fixture_labels)

    def reset_sequences(self, *args: Any) -> None:
        """Raise an error for unreadable secrets, as this is the last step of the transaction."""
        if self.unreadable and not self.allow_unreadable:
            raise CommandError(f"Nothing was loaded: {self.unreadable} secrets cannot be decrypted.")
        super().reset_sequences(*args)

    def save_obj(self, obj: Any) -> bool:
        """Load a row, and report secrets that were encrypted for another row or under an unknown key."""
        saved: bool = super().save_obj(obj)
        for field in obj.object._meta.concrete_fields if saved else []:
            if isinstance(field, EncryptedJSONField) and (sealed := encryption.sealed(obj.object, field)):
                try:
                    encryption.unseal(sealed, field.context(obj.object))
                except DecryptionError as error:
                    self.unreadable += 1
                    self.stderr.write(f"{obj.object._meta.label} {obj.object}: {field.name}: {error}")
        return saved
