"""`make node`, without the installation."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.servers import PROJECT

BANNER = (
    "A Hardhat node at http://127.0.0.1:8545, chain id 31337; a block every second; "
    "the keys of its accounts are public. Ctrl-C ends it.\n"
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copy(PROJECT / "Makefile", tmp_path)
    (tmp_path / "tests/node").mkdir(parents=True)
    (tmp_path / "tests/node/package-lock.json").touch()
    return tmp_path


def make_node(project: Path) -> tuple[int, str, str]:
    # Without what the make that runs the tests says to those below it, and without npm.
    programs = project / "programs"
    programs.mkdir()
    for name in ("sh", "echo", "test"):
        (programs / name).symlink_to(shutil.which(name) or name)
    command = [shutil.which("make") or "make", "node"]
    done = subprocess.run(command, env={"PATH": str(programs)}, cwd=project, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_a_node_of_ones_own_runs_on_loopback_from_the_tests_installation(project: Path) -> None:
    hardhat = project / "tests/node/node_modules/.bin/hardhat"
    hardhat.parent.mkdir(parents=True)
    hardhat.write_text('#!/bin/sh\necho "$PWD: hardhat $@"\n')
    hardhat.chmod(0o755)
    (project / "tests/node/node_modules/installed").touch()
    assert make_node(project) == (
        0,
        f"{BANNER}{project}/tests/node: hardhat node --hostname 127.0.0.1 --port 8545\n",
        "",
    )


def test_a_machine_without_npm_is_told_so_in_one_line(project: Path) -> None:
    code, output, errors = make_node(project)
    assert (code, output) == (2, "")
    assert errors.splitlines()[0] == "Cannot start: Node.js with npm is needed."
