"""The files and headings that the documents name exist."""

import re
from pathlib import Path

from tests.servers import PROJECT

DOCUMENTS = [
    *sorted(PROJECT.glob("*.md")),
    *sorted((PROJECT / "docs").glob("*.md")),
    PROJECT / "tests/README.md",
    PROJECT / "client/README.md",
]
FILE = re.compile(r"`([\w.-]+(?:/[\w.-]+)*\.(?:py|json|yaml|toml|md|html|example))`")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
ANCHOR = re.compile(r"\]\((?!https?:)([^)#]*)#([^)]+)\)")
CODE = re.compile(r"^```.*?^```$", re.M | re.S)
HEADING = re.compile(r"^#+ (.*)$", re.M)


def missing(line: str) -> list[str]:
    """Return the files of a line that do not exist; a name alone is beside the file before it, or in some app."""
    folder, found = PROJECT, []
    for name in FILE.findall(line):
        if "/" in name:
            folder = (PROJECT / name).parent
        if not ((PROJECT / name).is_file() or (folder / name).is_file() or any(PROJECT.glob(f"*/{name}"))):
            found.append(name)
    return found


def test_every_file_that_is_named_exists() -> None:
    lines = [(path.name, line) for path in DOCUMENTS for line in path.read_text().splitlines()]
    assert [(name, found) for name, line in lines for found in missing(line)] == []
    assert missing("`relayer_service/urls.py`, `nowhere.py`, `rpc/nowhere.py`") == ["nowhere.py", "rpc/nowhere.py"]


def anchors(document: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub derives them."""
    headings = HEADING.findall(CODE.sub("", document.read_text()))
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_leads_to_a_file_and_heading() -> None:
    for document in DOCUMENTS:
        text = document.read_text()
        assert [name for name in LINK.findall(text) if not (document.parent / name).exists()] == [], document
        targets = [(document.parent / name if name else document, anchor) for name, anchor in ANCHOR.findall(text)]
        assert [(path.name, anchor) for path, anchor in targets if anchor not in anchors(path)] == [], document
