"""The files that the documentation names exist."""

import re
from pathlib import Path

import pytest

from tests.servers import PROJECT

DOCUMENTS = [*sorted(PROJECT.glob("*.md")), *sorted((PROJECT / "docs").glob("*.md"))]
FILE = re.compile(r"`([\w.-]+(?:/[\w.-]+)*\.(?:py|json|yaml|toml|md|html|example))`")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
# Names that stand for a file of each app, or of whoever reads it.
OF_EACH_APP = {
    f"{name}.py"
    for name in (
        "apps",
        "config",
        "dashboard",
        "metrics",
        "panels",
        "schema",
        "serializers",
        "tasks",
        "urls",
        "viewsets",
    )
}


def missing(line: str) -> list[str]:
    """Return the files of a line that are not there; a name alone is a file beside the one before it."""
    folder, found = PROJECT, []
    for name in FILE.findall(line):
        if "/" in name:
            folder = (PROJECT / name).parent
        if not ((PROJECT / name).is_file() or (folder / name).is_file() or name in OF_EACH_APP):
            found.append(name)
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_file_that_is_named_exists(document: Path) -> None:
    assert [name for line in document.read_text().splitlines() for name in missing(line)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_to_a_file(document: Path) -> None:
    assert [name for name in LINK.findall(document.read_text()) if not (document.parent / name).exists()] == []


def test_a_file_that_is_not_there_is_found() -> None:
    assert missing("`relayer_service/urls.py`, `nowhere.py` and `rpc/nowhere.py`") == ["nowhere.py", "rpc/nowhere.py"]
