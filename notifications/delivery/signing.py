"""Signatures of webhooks, according to the Standard Webhooks specification."""

import base64
import binascii
import secrets
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime

from standardwebhooks import Webhook

BASE64_PREFIX = "whsec_"
# The name of the header.
SIGNATURE = "webhook-signature"
KEY_BYTES = 32


class UnusableKey(Exception):
    """The key cannot be used for signing; the message has the reason."""


def new_key() -> str:
    """Return a random key in the standard's format."""
    return BASE64_PREFIX + base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()


def key_bytes(signing_key: str) -> bytes:
    """Return the bytes of a key: base64 after the standard's prefix, UTF-8 for any other key."""
    if not signing_key.startswith(BASE64_PREFIX):
        try:
            return signing_key.encode()
        except UnicodeEncodeError:
            raise UnusableKey("The signing key is not valid Unicode.") from None
    encoded = signing_key.removeprefix(BASE64_PREFIX)
    try:
        # Padding is optional.
        key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not key:
        raise UnusableKey("The signing key starts with whsec_ but is not valid base64 after it.")
    return key


def headers(
    identifier: str, moment: datetime, body: bytes, signing_key: str | None, other_keys: Sequence[str] = ()
) -> dict[str, str]:
    """Return the headers of an attempt, without a signature if there is no key.

    Other keys sign too, as receivers accept any valid signature; unusable ones are skipped.
    """
    timestamp = int(moment.timestamp())
    result = {"webhook-id": identifier, "webhook-timestamp": str(timestamp)}
    if signing_key is not None:
        keys = [key_bytes(signing_key)]
        for other_key in other_keys:
            with suppress(UnusableKey):
                keys.append(key_bytes(other_key))
        signatures = [Webhook(key).sign(identifier, moment.astimezone(UTC), body.decode()) for key in keys]
        result[SIGNATURE] = " ".join(signatures)
    return result
