"""The blocking client is generated from the asynchronous one, and up to date."""

import re
import subprocess
import sys

import pytest

from tests.servers import PROJECT

PACKAGE = PROJECT / "client/relayer_client"


def test_the_blocking_client_is_up_to_date() -> None:
    command = [sys.executable, "client/generate_sync.py", "--check"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_blocking_client_awaits_nothing() -> None:
    for path in (PACKAGE / "_sync").glob("*.py"):
        assert (path.name, re.findall(r"\b(?:async|await|asyncio|Async\w+)\b", path.read_text())) == (path.name, [])


@pytest.mark.parametrize("module", ["relayer_client", "relayer_client.webhooks", "relayer_client.outbox"])
def test_neither_django_nor_web3_is_needed(module: str) -> None:
    check = "import sys; sys.exit(bool({'django', 'web3', 'relayer_service'} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", f"import {module}; {check}"], cwd=PROJECT / "client", check=True)
