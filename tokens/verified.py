"""Tokens that this process verified a moment ago, so that the next request costs no query."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from django.conf import settings

if TYPE_CHECKING:
    from tokens.models import AccessToken

MOST_ENTRIES = 10_000


class VerifiedTokens:
    """Remember tokens by a hash of their whole text, for TOKEN_CACHE_SECONDS each."""

    def __init__(self) -> None:
        self._entries: OrderedDict[bytes, tuple[float, AccessToken]] = OrderedDict()
        self._lock = threading.Lock()
        # Rises with every revocation, so that a row that was read before one is not remembered after it.
        self.generation = 0

    def get(self, text: str) -> AccessToken | None:
        entry = self._entries.get(self._digest(text))
        if entry is None or time.monotonic() >= entry[0]:
            return None
        return entry[1]

    def add(self, text: str, token: AccessToken, generation: int) -> None:
        """Remember a token that was verified, unless one was revoked since `generation` was read."""
        with self._lock:
            if generation != self.generation:
                return
            digest = self._digest(text)
            self._entries[digest] = (time.monotonic() + settings.TOKEN_CACHE_SECONDS, token)
            self._entries.move_to_end(digest)
            while len(self._entries) > MOST_ENTRIES:
                self._entries.popitem(last=False)

    def forget(self, keys: set[str]) -> None:
        with self._lock:
            self.generation += 1
            for digest, (_, token) in list(self._entries.items()):
                if token.key in keys:
                    del self._entries[digest]

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()

    @staticmethod
    def _digest(text: str) -> bytes:
        return hashlib.sha256(text.encode()).digest()


verified_tokens = VerifiedTokens()
