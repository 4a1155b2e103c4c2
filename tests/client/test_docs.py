"""The Python code of the documents: that of the README runs, and names in docs/python.md exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from relayer_client import Client, Relayer
from tests.client.running import Service
from tests.servers import PROJECT
from tests.transactions.hardhat import LocalChain


def blocks(name: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", (PROJECT / name).read_text(), re.M | re.S)


def test_the_code_of_the_readme_runs(service: Service, node: LocalChain) -> None:
    (code,) = blocks("README.md")
    assert len(code.splitlines()) <= 10
    path = os.pathsep.join([str(PROJECT / "client"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", code.replace("http://127.0.0.1:8000", service.url)]
    env = {**os.environ, "TOKEN": service.token, "PYTHONPATH": path}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert re.fullmatch(r"confirmed 0x[0-9a-f]{64}\n", done.stdout)


@pytest.mark.parametrize("name", ["docs/python.md", "client/README.md"])
def test_the_methods_of_the_document_exist(name: str) -> None:
    code = "\n".join(blocks(name))
    compile(code, name, "exec")
    called = re.findall(r"\b(client|relayer)\.(\w+)\(", code)
    assert called
    assert [each for each in called if not hasattr({"client": Client, "relayer": Relayer}[each[0]], each[1])] == []
