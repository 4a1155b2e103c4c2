"""The committed table of results, and whether it is about the documents as they are."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.generators.generators import CALLS, FOLDER
from tests.servers import PROJECT

TABLE = FOLDER / "results.md"
HASH = re.compile(r"^- `(\S+)`: `([0-9a-f]{64})`$", re.MULTILINE)
PIN = re.compile(r"^(openapi-[\w-]+)==(\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Row:
    program: str
    document: str
    # Of the steps generate, compile, call.
    outcomes: list[str]


def digest(document: Path) -> str:
    return hashlib.sha256(document.read_bytes()).hexdigest()


def stale_documents(folder: Path = PROJECT, table: Path = TABLE) -> list[str]:
    """Return the documents that are not those of the table."""
    written = dict(HASH.findall(table.read_text()))
    return [name for name in CALLS if written.get(name) != digest(folder / name)]


def write(rows: Sequence[Row], linted: Sequence[Row]) -> None:
    pins = dict(PIN.findall((FOLDER / "requirements.lock").read_text()))
    pins |= json.loads((FOLDER / "package.json").read_text())["devDependencies"]
    used = [f"{name} {pins[name]}" for name in sorted(pins) if not name.startswith("@types/")]
    lines = [
        "# Generated clients",
        "",
        "Written by `make generators`: each client was generated, compiled (`tsc --strict`, `mypy`) and made the ten",
        "calls of `calls/` against a running service. `make check` fails if a document has changed since.",
        "",
        *(f"- `{name}`: `{digest(PROJECT / name)}`" for name in CALLS),
        "",
        "| generator | document | generate | compile | ten calls |",
        "|---|---|---|---|---|",
        *(f"| {row.program} | `{row.document}` | {' | '.join(row.outcomes)} |" for row in rows),
        "",
        "Linters, with their default rules but for those that `redocly.yaml` and `spectral.yaml` explain:",
        "",
        "| linter | document | no errors and no warnings |",
        "|---|---|---|",
        *(f"| {row.program} | `{row.document}` | {' | '.join(row.outcomes)} |" for row in linted),
        "",
        "Versions:",
        "",
        *(f"- {each}" for each in used),
    ]
    TABLE.write_text("\n".join(lines) + "\n")
