"""Secrets at rest: model fields stored as AES-256-GCM ciphertext, bound to its row and column."""

from __future__ import annotations

import base64
import json
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings
from django.db import models
from django.db.models.query_utils import DeferredAttribute

if TYPE_CHECKING:
    JSONTextField = models.TextField[Any, Any]
else:
    JSONTextField = models.TextField

NONCE_BYTES = 12
# The id of a key, then base64 of a nonce, a tag of 16 bytes and at least one byte of JSON.
CIPHERTEXT = re.compile(r"[0-9A-Za-z]{1,16}:[0-9A-Za-z+/]{38,}={0,2}")


class DecryptionError(Exception):
    """A secret cannot be decrypted with the configured keys. The text names the key, never a value."""


@dataclass(frozen=True)
class Sealed:
    """A stored ciphertext: `key id:base64(nonce + ciphertext)`."""

    text: str

    @property
    def key_id(self) -> str:
        return self.text.partition(":")[0]


class Dumped(Sealed):
    """A ciphertext from a dump. It stays encrypted on its instance, because Django saves the value it reads there."""


@dataclass(frozen=True, repr=False)
class Unsealed:
    """A plain value to save, without a repr."""

    value: Any


def primary_key_id() -> str:
    return next(iter(settings.ENCRYPTION_KEYS))


def seal(value: bytes, context: str) -> Sealed:
    key_id = primary_key_id()
    nonce = os.urandom(NONCE_BYTES)
    ciphertext = AESGCM(settings.ENCRYPTION_KEYS[key_id]).encrypt(nonce, value, context.encode())
    return Sealed(f"{key_id}:{base64.b64encode(nonce + ciphertext).decode()}")


def unseal(sealed: Sealed, context: str) -> bytes:
    key = settings.ENCRYPTION_KEYS.get(sealed.key_id)
    if key is None:
        raise DecryptionError(f"The encryption key {sealed.key_id!r} is missing from ENCRYPTION_KEYS.")
    try:
        blob = base64.b64decode(sealed.text.partition(":")[2], validate=True)
        return AESGCM(key).decrypt(blob[:NONCE_BYTES], blob[NONCE_BYTES:], context.encode())
    except (InvalidTag, ValueError):
        raise DecryptionError(
            f"A value encrypted with the key {sealed.key_id!r} cannot be decrypted: "
            "the key has a different value, or the ciphertext belongs to another row."
        ) from None


class EncryptedAttribute(DeferredAttribute):
    """Decrypts the value on each read, so that no plain copy stays on the instance."""

    field: EncryptedJSONField

    def __get__(self, instance: Any, cls: Any = None) -> Any:
        if instance is None:
            return self
        stored = self.stored(instance)
        if isinstance(stored, Sealed) and not isinstance(stored, Dumped):
            return json.loads(unseal(stored, self.field.context(instance)))
        return stored.value if isinstance(stored, Unsealed) else stored

    def stored(self, instance: Any) -> Any:
        return super().__get__(instance)

    def __set__(self, instance: Any, value: Any) -> None:
        keep = value is None or isinstance(value, (Sealed, Unsealed))
        instance.__dict__[self.field.attname] = value if keep else Unsealed(value)


class EncryptedJSONField(JSONTextField):
    """An encrypted JSON value, bound to its column and to the row's `identifier`, which never changes."""

    descriptor_class = EncryptedAttribute
    # The type checker reads these: any JSON value can be set and read.
    _pyi_private_set_type: Any
    _pyi_private_get_type: Any

    def context(self, instance: models.Model) -> str:
        return f"{self.model._meta.label_lower}.{self.column}:{instance.identifier}"  # type: ignore[attr-defined]

    def pre_save(self, model_instance: models.Model, add: bool) -> Sealed | None:
        stored = model_instance.__dict__.get(self.attname)
        if isinstance(stored, Unsealed):
            stored = seal(json.dumps(stored.value).encode(), self.context(model_instance))
            model_instance.__dict__[self.attname] = stored
        return stored

    def get_prep_value(self, value: Any) -> str | None:
        if value is None:
            return None
        if not isinstance(value, Sealed):
            raise ValueError(f"{self.name} is not ciphertext: plain values cannot be loaded, updated or queried")
        return value.text

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> Sealed | None:
        return None if value is None else Sealed(value)

    def value_from_object(self, obj: models.Model) -> Any:
        return getattr(type(obj), self.attname).stored(obj)

    def value_to_string(self, obj: models.Model) -> str:
        sealed = self.pre_save(obj, add=False)
        return "" if sealed is None else sealed.text

    def to_python(self, value: Any) -> Dumped | Unsealed | None:
        """Return the value of a dump. A plain one fails when it is saved: errors raised here would repeat it."""
        if value is None:
            return None
        return Dumped(value) if isinstance(value, str) and CIPHERTEXT.fullmatch(value) else Unsealed(value)

    def clean(self, value: Any, model_instance: models.Model | None) -> Any:
        """Return a form's value unchanged: it is never ciphertext."""
        self.validate(value, model_instance)
        self.run_validators(value)
        return value


def sealed(instance: models.Model, field: EncryptedJSONField) -> Sealed | None:
    stored = instance.__dict__.get(field.attname)
    assert stored is None or isinstance(stored, Sealed)
    return stored


def reseal(instance: models.Model, field: EncryptedJSONField, old: Sealed) -> bool:
    """Encrypt a value with the primary key, unless it was changed concurrently; return whether it was saved."""
    context = field.context(instance)
    new = seal(unseal(old, context), context)
    rows = type(instance)._base_manager.filter(pk=instance.pk, **{field.attname: old})
    return bool(rows.update(**{field.attname: new}))
