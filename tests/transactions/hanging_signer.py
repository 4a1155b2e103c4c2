"""A signer that does not answer until a test lets it."""

import threading

from signers.backends.local import Local

answers = threading.Event()


class Hanging(Local):
    def _sign(self, digest: bytes) -> tuple[int, int]:
        assert answers.wait(600)
        return super()._sign(digest)
