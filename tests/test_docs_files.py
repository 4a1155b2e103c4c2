"""The files that the documents name exist."""

import re
from pathlib import Path

import pytest

from tests.servers import PROJECT

DOCUMENTS = [*sorted(PROJECT.glob("*.md")), *sorted((PROJECT / "docs").glob("*.md")), PROJECT / "tests/README.md"]
FILE = re.compile(r"`([\w.-]+(?:/[\w.-]+)*\.(?:py|json|yaml|toml|md|html|example))`")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


def missing(line: str) -> list[str]:
    """Return the files of a line that do not exist; a name alone is beside the file before it, or in some app."""
    folder, found = PROJECT, []
    for name in FILE.findall(line):
        if "/" in name:
            folder = (PROJECT / name).parent
        if not ((PROJECT / name).is_file() or (folder / name).is_file() or any(PROJECT.glob(f"*/{name}"))):
            found.append(name)
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(PROJECT)))
def test_every_file_that_is_named_exists(document: Path) -> None:
    assert [name for line in document.read_text().splitlines() for name in missing(line)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(PROJECT)))
def test_every_link_leads_to_a_file(document: Path) -> None:
    assert [name for name in LINK.findall(document.read_text()) if not (document.parent / name).exists()] == []


def test_a_missing_file_is_found() -> None:
    assert missing("`relayer_service/urls.py`, `nowhere.py`, `rpc/nowhere.py`") == ["nowhere.py", "rpc/nowhere.py"]
