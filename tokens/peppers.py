"""Peppers: the secrets of TOKEN_PEPPERS, with which tokens are hashed. The first one hashes, all of them verify.

A token stores the ID and a fingerprint of its pepper, so that a missing or changed pepper is found without the token's
secret. Tokens of releases without fingerprints get theirs at their next use.
"""

import hashlib
import hmac
from functools import cache

from django.conf import settings

FINGERPRINT_LENGTH = 16
# Never a token's secret, which has no spaces.
FINGERPRINTED = "fingerprint of a pepper"


def digest(secret: str, pepper: bytes) -> str:
    return hmac.new(pepper, secret.encode(), hashlib.sha256).hexdigest()


@cache
def fingerprint(pepper: bytes) -> str:
    return digest(FINGERPRINTED, pepper)[:FINGERPRINT_LENGTH]


def fingerprints() -> dict[str, str]:
    """Return the fingerprints of the configured peppers by ID."""
    return {identifier: fingerprint(pepper) for identifier, pepper in settings.TOKEN_PEPPERS.items()}
