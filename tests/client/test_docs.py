"""The code of the documents: that of the README and the example of sending run, names in client/README.md exist."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any

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


def run_shell(commands: list[str], service: Service) -> list[Any]:
    """Run commands of a document, and return their answers."""
    script = "\n".join(commands).replace("http://127.0.0.1:8000", service.url)
    done = subprocess.run(
        ["bash", "-c", script], env={**os.environ, "TOKEN": service.token}, capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def shell_commands(name: str) -> list[str]:
    """Return the commands with a prompt; their further lines are indented."""
    return re.findall(r"^    \$ (.*(?:\n        .*)*)", (PROJECT / name).read_text(), re.M)


def test_the_commands_of_the_readme_run(service: Service, client: Client) -> None:
    # Other tests have the relayer `sender`. The local node of this one does not run, so that nothing is confirmed.
    commands = [each.replace("sender", "readme").removeprefix("sleep 3; ") for each in shell_commands("README.md")]
    signer, relayer, sent, listed = (answer["data"] for answer in run_shell(commands, service))
    assert signer == {"id": "readme", "type": "local", "config": {}}
    assert (relayer["id"], sent["relayer_id"], sent["status"]) == ("readme", "readme", "pending")
    assert [each["id"] for each in listed] == [sent["id"]]
    client.relayer("readme").cancel(sent["id"])
    client.delete_relayer("readme")
    client.delete_signer("readme")


def test_a_transaction_that_is_sent_again_as_documented_is_the_same(service: Service, relayer: Relayer) -> None:
    (command, *_) = shell_commands("docs/transactions.md")
    assert "Idempotency-Key" in command
    first, again = run_shell([f"{command}; echo"] * 2, service)
    assert (again["data"]["id"], first["data"]["relayer_id"]) == (first["data"]["id"], "sender")


def test_the_methods_of_the_document_exist() -> None:
    code = "\n".join(blocks("client/README.md"))
    compile(code, "client/README.md", "exec")
    called = re.findall(r"\b(client|relayer)\.(\w+)\(", code)
    assert called
    assert [each for each in called if not hasattr({"client": Client, "relayer": Relayer}[each[0]], each[1])] == []
