"""The example shop, run against the service and the node of the tests."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.client.running import Service
from tests.servers import PROJECT

EXAMPLE = PROJECT / "examples/django_shop"


def environment(service: Service, **extra: str) -> dict[str, str]:
    values = {
        "DJANGO_SETTINGS_MODULE": "settings",
        "PYTHONPATH": os.pathsep.join([str(PROJECT), str(PROJECT / "client")]),
        "RELAYER_URL": service.url,
        "RELAYER_TOKEN": service.token,
    }
    return os.environ | values | extra


def prepare(service: Service) -> str:
    """Add the relayer `shop` and its token as the README says, and return the token's address."""
    command = [sys.executable, "prepare.py", service.chain.url]
    done = subprocess.run(command, cwd=EXAMPLE, env=environment(service), capture_output=True, text=True, check=True)
    return done.stdout.strip().removeprefix("export TOKEN_CONTRACT=")
