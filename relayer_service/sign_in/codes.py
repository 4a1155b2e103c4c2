"""Codes of the second factor: time-based ones (RFC 6238) and recovery codes."""

import base64
import hashlib
import secrets
from urllib.parse import quote, urlencode

from django_otp.oath import TOTP

KEY_BYTES = 20
DIGITS = 6
# A code is accepted one step of 30 seconds before and after its own.
TOLERANCE = 1
ISSUER = "Relayer Management"
RECOVERY_CODES = 10
# No two characters look alike. A code of 12 has 59 bits.
ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
GROUPS, GROUP_LENGTH = 3, 4


def new_key() -> str:
    return secrets.token_hex(KEY_BYTES)


def matching_step(key: str, text: str, after: int, now: float) -> int | None:
    """Return the time step of a code; None if it is wrong, or not later than the step `after`."""
    digits = normalized(text)
    if not (len(digits) == DIGITS and digits.isascii() and digits.isdigit()):
        return None
    totp = TOTP(bytes.fromhex(key))
    totp.time = now
    return totp.t() if totp.verify(int(digits), TOLERANCE, after + 1) else None


def base32(key: str) -> str:
    """Return a key as authenticator apps accept it when it is typed."""
    return base64.b32encode(bytes.fromhex(key)).decode()


def provisioning_uri(key: str, username: str) -> str:
    parameters = urlencode({"secret": base32(key), "issuer": ISSUER}, quote_via=quote)
    return f"otpauth://totp/{quote(f'{ISSUER}:{username}', safe='')}?{parameters}"


def new_recovery_codes() -> list[str]:
    return ["-".join(_group() for _ in range(GROUPS)) for _ in range(RECOVERY_CODES)]


def _group() -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(GROUP_LENGTH))


def digest(recovery_code: str) -> str:
    return hashlib.sha256(normalized(recovery_code).encode()).hexdigest()


def normalized(text: str) -> str:
    return "".join(text.lower().replace("-", "").split())
