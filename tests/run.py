"""`make test`: run the suite once on SQLite and once on PostgreSQL, with the servers that it needs."""

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import AbstractContextManager, ExitStack

from tests import servers


def main(arguments: list[str]) -> int:
    failed: list[str] = []
    # Ended from outside, it still stops the servers that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with ExitStack() as stack:
        redis_url = start(stack, servers.redis(), failed)
        postgresql_url = start(stack, servers.postgresql(), failed)
        engines = {"SQLite": "", "PostgreSQL": postgresql_url}
        for engine, url in engines.items():
            if url is None:
                continue
            print(f"\n===== on {engine} =====", flush=True)
            data_dir = stack.enter_context(tempfile.TemporaryDirectory(prefix="relayer-tests-"))
            environment = os.environ | {
                "DATABASE_URL": url,
                "TEST_REDIS_URL": redis_url or "",
                "DATA_DIR": data_dir,
            }
            if subprocess.call([sys.executable, "-m", "pytest", *arguments], env=environment):
                failed.append(engine)
    if failed:
        print(f"\nFailed: {', '.join(failed)}")
    return 1 if failed else 0


def start(stack: ExitStack, server: AbstractContextManager[str], failed: list[str]) -> str | None:
    """Start a server; where this machine cannot, say so, which with CI=true is a failure."""
    try:
        return stack.enter_context(server)
    except servers.Unavailable as reason:
        print(f"SKIPPED {reason}")
        if os.environ.get("CI") == "true":
            failed.append(str(reason))
        return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
