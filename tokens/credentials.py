"""The format of a token: `rms_<key>_<secret><checksum>`.

The key is public and indexed; the secret is stored only as a hash. The checksum lets the service reject a mistyped
token without a query, and secret scanners recognise a real one.
"""

import re
import secrets
import string
import zlib
from dataclasses import dataclass, field

ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
KEY_LENGTH = 12
SECRET_LENGTH = 40
CHECKSUM_LENGTH = 6

PATTERN = re.compile(
    rf"rms_([0-9A-Za-z]{{{KEY_LENGTH}}})_([0-9A-Za-z]{{{SECRET_LENGTH}}})([0-9A-Za-z]{{{CHECKSUM_LENGTH}}})",
    re.ASCII,
)


@dataclass(frozen=True)
class Credential:
    key: str
    secret: str = field(repr=False)

    def __str__(self) -> str:
        """Return only the public part, as credentials may be logged."""
        return f"rms_{self.key}_***"

    def reveal(self) -> str:
        body = f"rms_{self.key}_{self.secret}"
        return body + checksum(body)


def generate() -> Credential:
    return Credential(_random(KEY_LENGTH), _random(SECRET_LENGTH))


def parse(text: str) -> Credential | None:
    match = PATTERN.fullmatch(text)
    if not match or checksum(text[:-CHECKSUM_LENGTH]) != match[3]:
        return None
    return Credential(match[1], match[2])


def checksum(text: str) -> str:
    """Return the CRC-32 of a text in base 62."""
    number, digits = zlib.crc32(text.encode()), ""
    for _ in range(CHECKSUM_LENGTH):
        number, digit = divmod(number, len(ALPHABET))
        digits = ALPHABET[digit] + digits
    return digits


def _random(length: int) -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(length))
