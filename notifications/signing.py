"""Signatures of webhooks, after the Standard Webhooks specification."""

import base64
import binascii
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from standardwebhooks import Webhook

BASE64_PREFIX = "whsec_"


class UnusableKey(Exception):
    """A key cannot be used for signing; the text says why."""


def key_bytes(signing_key: str) -> bytes:
    """Return the bytes of a key: base64 after the prefix of the standard, UTF-8 of any other key."""
    if not signing_key.startswith(BASE64_PREFIX):
        try:
            return signing_key.encode()
        except UnicodeEncodeError:
            raise UnusableKey("The signing key has a character that no text can have.") from None
    encoded = signing_key.removeprefix(BASE64_PREFIX)
    try:
        # Padding is optional.
        key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not key:
        raise UnusableKey("The signing key begins with whsec_ and is not base64 after it.")
    return key


def headers(
    identifier: str, moment: datetime, body: bytes, signing_key: str | None, other_keys: Sequence[str] = ()
) -> dict[str, str]:
    """Return the headers of an attempt; without a key there is no signature among them.

    Other keys sign too: a receiver takes what one of its keys has signed. One that is unusable is left out.
    """
    timestamp = int(moment.timestamp())
    result = {"webhook-id": identifier, "webhook-timestamp": str(timestamp)}
    if signing_key is not None:
        keys = [key_bytes(signing_key), *usable(other_keys)]
        signatures = [Webhook(key).sign(identifier, moment.astimezone(UTC), body.decode()) for key in keys]
        result["webhook-signature"] = " ".join(signatures)
    return result


def usable(signing_keys: Sequence[str]) -> Iterator[bytes]:
    for signing_key in signing_keys:
        with suppress(UnusableKey):
            yield key_bytes(signing_key)
