"""Runs the steps of a Dockerfile without a container engine: each stage in a folder that takes the place of its root.

There is no base image: programs are those of this machine. Packages are not installed but linked from those that the
tests run with, if these have the locked versions.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import string
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import distribution
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement

from tests.concurrency import PATIENCE_SECONDS
from tests.servers import PROJECT

# The start of an absolute path.
ROOT = re.compile(r"(?:^|(?<=[\s=\"':]))/(?=\w)")
PYTHON = sys.executable
# Commands that need a base image, and what stands in for them.
STAND_INS = {
    r"groupadd .*": ":",
    r"python3 -m venv (\S+)": rf"{PYTHON} -m venv --without-pip \1",
    r"(\S+)/bin/pip install --require-hashes --only-binary :all: -r (\S+)": rf"{PYTHON} -m tests.dockerfile \1 \2",
}


@dataclass
class Stage:
    """What the steps of a stage have made."""

    root: Path
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": os.environ["PATH"]})
    folder: Path = Path("/")
    user: str = ""
    command: list[str] = field(default_factory=list)
    health_check: list[str] = field(default_factory=list)

    def place(self, text: str) -> str:
        """Move the absolute paths of a text into the root."""
        return ROOT.sub(f"{self.root}/", text)

    def assign(self, text: str) -> None:
        for word in shlex.split(text):
            name, _, value = word.partition("=")
            self.environment[name] = string.Template(self.place(value)).substitute(self.environment)

    def shell(self, text: str) -> None:
        for pattern, stand_in in STAND_INS.items():
            text = re.sub(pattern, stand_in, text) if re.fullmatch(pattern, text) else text
        words = [word if word == PYTHON else self.place(word) for word in re.split(r"(\s)", text)]
        environment = self.environment | {"PYTHONPATH": str(PROJECT) if "tests.dockerfile" in words else ""}
        subprocess.run(["sh", "-ec", "".join(words)], cwd=self.folder, env=environment, check=True)

    def step(self, name: str, value: str) -> None:
        if name == "RUN":
            self.shell(value)
        elif name in {"ARG", "ENV"}:
            self.assign(value)
        elif name == "WORKDIR":
            self.folder = Path(self.place(value))
        elif name == "USER":
            self.user = value
        elif name == "CMD":
            self.command = json.loads(value)
        elif name == "HEALTHCHECK":
            self.health_check = json.loads(value.partition(" CMD ")[2])
        elif name not in {"EXPOSE", "STOPSIGNAL"}:
            raise NotImplementedError(name)

    def start(self, command: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
        """Start a program as the user of the image, if this one may become another."""
        return subprocess.Popen(
            [*(as_user(self.user) if os.getuid() == 0 else []), *(self.place(word) for word in command)],
            cwd=self.folder,
            env=self.environment | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, command: list[str], environment: dict[str, str]) -> tuple[int, str]:
        """Return the exit code of a program and what it printed."""
        with self.start(command, environment) as process:
            output, _ = process.communicate(timeout=PATIENCE_SECONDS)
            return process.returncode, output


@cache
def as_user(user: str) -> list[str]:
    """Return what runs the command after it as another user, who may read what this one may where that is needed."""
    uid, gid = user.split(":")
    setpriv = ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups"]
    shell = ["sh", "-c", 'exec "$@"', "sh"]
    if subprocess.run([*setpriv, *shell, PYTHON, "-c", ""], capture_output=True).returncode:
        setpriv += ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    return [*setpriv, *shell]


def build(dockerfile: Path, context: Path, folder: Path) -> Stage:
    """Return the last stage of a Dockerfile, whose root no one can write to but for /tmp."""
    stages: dict[str, Stage] = {}
    for name, value in instructions(dockerfile.read_text()):
        if name == "FROM":
            stage = Stage(folder / str(len(stages)))
            stages[value.partition(" AS ")[2]] = stage
            (stage.root / "tmp").mkdir(parents=True)
        elif name == "COPY":
            copy(value, stages, stage, context)
        else:
            stage.step(name, value)
    set_writable(stage.root, False)
    (stage.root / "tmp").chmod(0o1777)
    return stage


def instructions(text: str) -> Iterator[tuple[str, str]]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for line in re.sub(r" *\\\n *", " ", "\n".join(lines)).splitlines():
        name, _, value = line.partition(" ")
        if name:
            yield name, value.strip()


def copy(value: str, stages: dict[str, Stage], stage: Stage, context: Path) -> None:
    *sources, target = value.split()
    place = Path(stage.place(target))
    if sources[0].startswith("--from="):
        origin = stages[sources.pop(0).removeprefix("--from=")]
        for source in sources:
            shutil.copytree(origin.place(source), place, symlinks=True, dirs_exist_ok=True)
        return
    sent = list(sent_files(context, (context / ".dockerignore").read_text()))
    for source in sources:
        files = [path for path in sent if path.is_relative_to(source)]
        assert files, f"{source} is not sent to the engine"
        for path in files:
            into = place / (path.name if path == PurePosixPath(source) else path.relative_to(source))
            into.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(context / path, into)


def sent_files(context: Path, ignore: str) -> Iterator[PurePosixPath]:
    """Yield the files that an engine receives: the last pattern that matches a file or a folder above it decides."""
    patterns = [line for line in ignore.splitlines() if line and not line.startswith("#")]
    kept = {line[1:].partition("/")[0] for line in patterns if line.startswith("!")}
    matchers = [(re.compile(translate(line.lstrip("!"))), line.startswith("!")) for line in patterns]
    for top in (path for path in context.iterdir() if path.name in kept):
        for file in [top] if top.is_file() else (path for path in top.rglob("*") if path.is_file()):
            path = PurePosixPath(file.relative_to(context).as_posix())
            verdicts = [keeps for pattern, keeps in matchers if any(map(pattern.fullmatch, names(path)))]
            if verdicts[-1]:
                yield path


def names(path: PurePosixPath) -> list[str]:
    return [str(path), *map(str, path.parents)]


def translate(pattern: str) -> str:
    return re.escape(pattern).replace(r"\*\*/", "(?:.*/)?").replace(r"\*", "[^/]*")


def set_writable(root: Path, writable: bool) -> None:
    for folder, _, files in os.walk(root):
        for path in (Path(folder), *(Path(folder, name) for name in files)):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | 0o200 if writable else path.stat().st_mode & ~0o222)


def link_packages(venv: Path, lock: Path) -> None:
    """Link the packages of a lock into a venv; fail if one is missing here or has another version."""
    (site,) = venv.glob("lib/python*/site-packages")
    for line in re.findall(r"^[\w.\[\],-]+==[^\\\n]+", lock.read_text(), re.M):
        requirement = Requirement(line)
        if requirement.marker and not requirement.marker.evaluate():
            continue
        found = distribution(requirement.name)
        assert requirement.specifier.contains(found.version), f"{line}: {found.version} is installed"
        tops = {path.parts[0] for path in found.files or [] if path.parts[0] not in {"..", "__pycache__"}}
        for top in tops:
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(found.locate_file(top))))


if __name__ == "__main__":
    link_packages(Path(sys.argv[1]), Path(sys.argv[2]))
