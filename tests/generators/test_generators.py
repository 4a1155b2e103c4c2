"""Two of the generators, and the table of all: `make generators` runs the others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.generators import results, service
from tests.generators.generators import CALLS, GENERATORS, NODE_MODULES, PYTHON, Generator

DOCUMENT = "openapi-extensions.yaml"
# One of each language, those that take the least time and need no Java.
NAMES = {"openapi-python-client", "openapi-typescript, openapi-fetch"}
CHOSEN = [generator for generator in GENERATORS if generator.name in NAMES]
needs_generators = pytest.mark.skipif(
    not (PYTHON.exists() and NODE_MODULES.exists()), reason="the generators are not installed"
)


@pytest.mark.long
@pytest.mark.one_engine
@needs_generators
def test_generated_clients_compile_and_call_the_service(transactional_db: None, tmp_path: Path) -> None:
    assert len(CHOSEN) == len(NAMES)
    with service.running(DOCUMENT, tmp_path / "log") as arguments:
        printed = {generator.name: calls(generator, tmp_path, arguments) for generator in CHOSEN}
    assert printed == dict.fromkeys(NAMES, service.EXPECTED[DOCUMENT])


def calls(generator: Generator, tmp_path: Path, arguments: list[str]) -> list[str]:
    folder = tmp_path / generator.calls
    folder.mkdir()
    generator.generate(DOCUMENT, folder)
    generator.compile(DOCUMENT, folder)
    service.fill(arguments[-1])
    return generator.call(DOCUMENT, folder, arguments)


def test_every_generator_makes_ten_calls_with_each_document() -> None:
    assert {name: len(lines) for name, lines in service.EXPECTED.items()} == dict.fromkeys(CALLS, 10)


def test_a_document_that_has_changed_since_the_table_was_written_is_found(tmp_path: Path) -> None:
    for name in CALLS:
        (tmp_path / name).write_text(name)
    table = tmp_path / "results.md"
    table.write_text("".join(f"- `{name}`: `{results.digest(tmp_path / name)}`{os.linesep}" for name in CALLS))
    assert results.stale_documents(tmp_path, table) == []
    (tmp_path / DOCUMENT).write_text("another")
    assert results.stale_documents(tmp_path, table) == [DOCUMENT]


def test_the_table_has_every_generator_and_no_failure() -> None:
    text = results.TABLE.read_text()
    rows = [f"| {generator.name} | `{document}` | ok | ok | ok |" for generator in GENERATORS for document in CALLS]
    assert [row for row in rows if row not in text] == []
