"""What staff upload or paste to add a signer. Errors never quote it, and nothing but the result is kept."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import UploadedFile
from rest_framework.exceptions import ParseError

from relayer_service.api.parsers import loads
from relayer_service.background.shares import Busy, ThreadShare
from signers import keystores

MAX_FILE_BYTES = 65_536
KEY_VERSION_EXAMPLE = (
    "projects/my-project/locations/europe-west3/keyRings/relayers/cryptoKeys/relayer-1/cryptoKeyVersions/1"
)
KEY_VERSION = re.compile(
    r"projects/(?P<project_id>[^/]+)/locations/(?P<location>[^/]+)/keyRings/(?P<key_ring_id>[^/]+)"
    r"/cryptoKeys/(?P<key_id>[^/]+)/cryptoKeyVersions/(?P<key_version>[0-9]+)"
)
NOT_A_KEY_VERSION = f"Enter the resource name of a key version, such as {KEY_VERSION_EXAMPLE}."
# The others are URLs, which are not used.
REQUIRED = ("project_id", "private_key_id", "private_key", "client_email")
KEPT = ("type", "universe_domain", *REQUIRED)
# Decrypting takes up to 256 MB and some seconds, by design of the format.
DECRYPTING = ThreadShare(Fraction(1, 16))


def read_json(source: UploadedFile[Any] | str) -> dict[str, Any]:
    if isinstance(source, str):
        text = source.encode()
    else:
        # Two forms validate the same request.
        source.seek(0)
        text = source.read(MAX_FILE_BYTES + 1)
    if len(text) > MAX_FILE_BYTES:
        raise ValidationError(f"It is larger than {MAX_FILE_BYTES // 1024} KiB. Choose the JSON file of the key.")
    try:
        found = loads(text)
    except ParseError:
        found = None
    if not isinstance(found, dict):
        raise ValidationError("It is not a JSON object. Choose the JSON file of the key.")
    return found


def service_account(source: UploadedFile[Any] | str) -> dict[str, Any]:
    """Return what is used of Google's key of a service account."""
    found = read_json(source)
    missing = [name for name in REQUIRED if not isinstance(found.get(name), str) or not found[name]]
    if found.get("type", "service_account") != "service_account" or len(missing) == len(REQUIRED):
        raise ValidationError("It is not the key of a service account. Create one under Service Accounts, Keys.")
    if missing:
        raise ValidationError(f"It has no {', '.join(missing)}. Download the key again.")
    return {name: found[name] for name in KEPT if name in found}


def key_version(name: str) -> dict[str, Any]:
    match = KEY_VERSION.fullmatch(name.strip())
    if match is None:
        raise ValidationError(NOT_A_KEY_VERSION)
    return {**match.groupdict(), "key_version": int(match["key_version"])}


def decrypted_key(keystore: UploadedFile[Any], passphrase: str) -> str:
    found = read_json(keystore)
    try:
        with DECRYPTING.occupied():
            return keystores.decrypt(found, passphrase)
    except Busy:
        raise ValidationError("Other keystores are being decrypted. Try again in some seconds.") from None
    except keystores.KeystoreError as error:
        raise ValidationError(f"The keystore cannot be decrypted: {error}.") from None
