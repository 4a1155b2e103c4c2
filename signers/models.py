import hashlib
from typing import Any

import orjson
from django.db import models

from relayer_service.audit.values import Hidden, hidden_column
from relayer_service.database.prefixes import prefix_index
from relayer_service.storage.encryption import DecryptionError, EncryptedJSONField, Sealed, sealed
from relayer_service.storage.resources import Resource, text_column
from signers.config_shapes import SignerType, shown_config, split

MAX_ERROR_LENGTH = 200


class Signer(Resource):
    """A local key, or a reference to a key held by a provider."""

    type = models.CharField(
        max_length=32, choices=SignerType, help_text="Cannot be changed after the signer is created."
    )
    config = models.JSONField(
        default=dict, editable=False, help_text="The config without its secrets, as returned by the API."
    )
    secrets = EncryptedJSONField(editable=False)
    verified_identity = models.CharField(
        max_length=128,
        blank=True,
        editable=False,
        help_text="The address or public key found by the last verification.",
    )
    verified_at = models.DateTimeField(null=True, editable=False)
    last_error = text_column(
        MAX_ERROR_LENGTH, "The error of the last call to it; empty if the call succeeded.", editable=False
    )

    class Meta(Resource.Meta):
        indexes = [
            prefix_index("identifier", name="signer_identifier_prefix"),
            prefix_index("verified_identity", name="signer_identity_prefix"),
            models.Index("type", "sequence", name="signer_type"),
            models.Index("verified_at", "sequence", name="signer_verified"),
        ]
        constraints = [
            models.CheckConstraint(condition=models.Q(type__in=SignerType.values), name="signer_type_known"),
            models.CheckConstraint(condition=~models.Q(identifier=""), name="signer_identifier_not_empty"),
        ]

    def audited(self) -> dict[str, Any]:
        values: dict[str, Any] = {"type": self.type, "verified_identity": self.verified_identity}
        shown = shown_config(self.config)
        values |= {
            f"config.{name}": value if value == shown[name] else Hidden.from_value(value, shown[name])
            for name, value in self.config.items()
        }
        secrets = self.readable_secrets()
        if secrets is None:
            return values | {"config": hidden_column(self, "secrets")}
        return values | {f"config.{name}": Hidden.from_value(value) for name, value in secrets.items()}

    def set_config(self, config: dict[str, Any]) -> None:
        """Set the whole config, in the shape of requests, and reset the result of Verify."""
        self.config, self.secrets = split(SignerType(self.type), config)
        self.verified_identity, self.verified_at, self.last_error = "", None, ""

    @property
    def config_version(self) -> str:
        """A hash of the stored config: of the ciphertext and the public part."""
        # Sorted, as a database may return the keys of an object in another order.
        stored = [self.sealed_secrets.text, self.config]
        return hashlib.sha256(orjson.dumps(stored, option=orjson.OPT_SORT_KEYS)).hexdigest()

    @property
    def sealed_secrets(self) -> Sealed:
        stored = sealed(self, Signer._meta.get_field("secrets"))
        assert stored is not None, "a signer must be saved before it is used"
        return stored

    def readable_secrets(self) -> dict[str, Any] | None:
        try:
            return dict(self.secrets)
        except DecryptionError:
            return None

    def full_config(self) -> dict[str, Any]:
        return {**self.config, **self.secrets}
