"""How much is tried of what has no end: some in `make test`, as much as makes sure in `make test-all`."""

import os


def amount(some: int, enough: int) -> int:
    return enough if os.environ.get("TEST_ALL") else some
