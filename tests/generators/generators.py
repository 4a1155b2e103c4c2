"""The generators: how each is run, how its client is compiled, and how the calls of `calls/` are made with it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from tests.servers import PROJECT

FOLDER = Path(__file__).parent
PYTHON = FOLDER / ".venv/bin/python"
NODE_MODULES = FOLDER / "node_modules"
# The calls in `calls/`, by document.
CALLS = {"openapi.yaml": "contract", "openapi-extensions.yaml": "extensions"}
STRICT = {
    "strict": True,
    "module": "commonjs",
    "moduleResolution": "node10",
    "target": "es2022",
    "lib": ["es2022", "dom"],
    "types": ["node"],
    # Types of packages are not those of the client.
    "skipLibCheck": True,
    "outDir": "out",
}
# The template of openapi-python-client for its own HTTP client has errors, whatever the document is.
MYPY = "[mypy]\n[mypy-client.client]\nignore_errors = True\n"


class Failed(Exception):
    """A step failed; the message is the end of its output."""


def run(command: list[str | Path], folder: Path) -> str:
    # Programs of both kinds, and no telemetry.
    path = os.pathsep.join([str(PYTHON.parent), str(NODE_MODULES / ".bin"), os.environ["PATH"]])
    quiet = {"DO_NOT_TRACK": "1", "REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"}
    env = os.environ | {"PATH": path, "PYTHONPATH": ""} | quiet
    finished = subprocess.run([*map(str, command)], cwd=folder, env=env, capture_output=True, text=True, check=False)
    if finished.returncode:
        raise Failed("\n".join((finished.stdout + finished.stderr).splitlines()[-20:]))
    return finished.stdout


@dataclass(frozen=True)
class Generator(ABC):
    name: str
    # The folder of its calls.
    calls: str
    command: tuple[str, ...]

    def generate(self, document: str, folder: Path) -> None:
        """Write the client, in which {document} and {folder} of the command are replaced."""
        places = {"document": PROJECT / document, "folder": folder}
        run([part.format(**places) for part in self.command], folder)

    @abstractmethod
    def compile(self, document: str, folder: Path) -> None: ...

    @abstractmethod
    def call(self, document: str, folder: Path, arguments: list[str]) -> list[str]:
        """Make the calls; return what they printed."""

    def copy_calls(self, document: str, folder: Path, suffix: str) -> None:
        shutil.copy(FOLDER / "calls" / self.calls / f"{CALLS[document]}.{suffix}", folder / f"calls.{suffix}")


class PythonGenerator(Generator):
    def compile(self, document: str, folder: Path) -> None:
        self.copy_calls(document, folder, "py")
        (folder / "mypy.ini").write_text(MYPY)
        run(["mypy", "--config-file=mypy.ini", "--package=client", "--module=calls"], folder)

    def call(self, document: str, folder: Path, arguments: list[str]) -> list[str]:
        return run([PYTHON, "calls.py", *arguments], folder).splitlines()


class TypeScriptGenerator(Generator):
    def compile(self, document: str, folder: Path) -> None:
        self.copy_calls(document, folder, "ts")
        (folder / "tsconfig.json").write_text(json.dumps({"compilerOptions": STRICT, "include": ["**/*.ts"]}))
        (folder / "node_modules").symlink_to(NODE_MODULES)
        run(["tsc"], folder)

    def call(self, document: str, folder: Path, arguments: list[str]) -> list[str]:
        return run(["node", "out/calls.js", *arguments], folder).splitlines()


OPENAPI_GENERATOR = ("openapi-generator-cli", "generate", "--input-spec={document}")
GENERATORS: list[Generator] = [
    PythonGenerator(
        "openapi-generator, python",
        "openapi_generator_python",
        (*OPENAPI_GENERATOR, "--generator-name=python", "--output={folder}", "--package-name=client"),
    ),
    TypeScriptGenerator(
        "openapi-generator, typescript-fetch",
        "openapi_generator_fetch",
        (*OPENAPI_GENERATOR, "--generator-name=typescript-fetch", "--output={folder}/client"),
    ),
    PythonGenerator(
        "openapi-python-client",
        "openapi_python_client",
        (
            *("openapi-python-client", "generate", "--path={document}", "--output-path={folder}/client"),
            *("--meta=none", "--fail-on-warning"),
        ),
    ),
    TypeScriptGenerator(
        "openapi-typescript, openapi-fetch",
        "openapi_typescript",
        ("openapi-typescript", "{document}", "--output={folder}/client.ts"),
    ),
    TypeScriptGenerator(
        "@hey-api/openapi-ts", "hey_api", ("openapi-ts", "--input={document}", "--output={folder}/client")
    ),
]
