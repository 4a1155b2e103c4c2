"""`make node`, without the installation."""

import shutil
import subprocess
from pathlib import Path

from tests.servers import PROJECT

BANNER = (
    "A Hardhat node at http://127.0.0.1:8545, chain id 31337; a block every second; "
    "the keys of its accounts are public. Ctrl-C ends it.\n"
)


def test_make_node_runs_on_loopback_from_the_tests_installation_or_names_what_is_missing(tmp_path: Path) -> None:
    shutil.copy(PROJECT / "Makefile", tmp_path)
    node, programs = tmp_path / "tests/node", tmp_path / "programs"
    hardhat = node / "node_modules/.bin/hardhat"
    for folder in (programs, hardhat.parent):
        folder.mkdir(parents=True)
    (node / "package-lock.json").touch()
    # Without what the make that runs the tests says to those below it, and without npm.
    for name in ("sh", "echo", "test"):
        (programs / name).symlink_to(shutil.which(name) or name)

    def make_node() -> tuple[int, str, str]:
        command = [shutil.which("make") or "make", "node"]
        done = subprocess.run(command, env={"PATH": str(programs)}, cwd=tmp_path, capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    code, output, errors = make_node()
    assert (code, output, errors.splitlines()[0]) == (2, "", "Cannot start: Node.js with npm is needed.")
    hardhat.write_text('#!/bin/sh\necho "$PWD: hardhat $@"\n')
    hardhat.chmod(0o755)
    (node / "node_modules/installed").touch()
    assert make_node() == (0, f"{BANNER}{node}: hardhat node --hostname 127.0.0.1 --port 8545\n", "")
