"""Where the key of a new local signer comes from."""

import secrets

from django.conf import settings
from django.db.models import TextChoices
from eth_keys.constants import SECPK1_N

# Of the first account of a Hardhat node: published, with funds only on local chains.
HARDHAT_KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"


class KeySource(TextChoices):
    ENTER = "enter", "Enter a key"
    GENERATE = "generate", "Generate a new key"
    KEYSTORE = "keystore", "Upload a keystore file"
    HARDHAT = "hardhat", "The first account of make node (its key is public)"

    @classmethod
    def offered(cls) -> list["KeySource"]:
        """Return the sources that a form offers; the public key only on a developer's machine."""
        return [cls.ENTER, cls.GENERATE, cls.KEYSTORE, *([cls.HARDHAT] if settings.LOCAL else [])]


def first_source() -> KeySource:
    return KeySource.HARDHAT if settings.LOCAL else KeySource.GENERATE


def new_key(source: str) -> str:
    """Return the key of a source that makes one."""
    return HARDHAT_KEY if source == KeySource.HARDHAT else f"0x{1 + secrets.randbelow(SECPK1_N - 1):064x}"
