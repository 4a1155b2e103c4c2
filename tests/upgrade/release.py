"""The last release, which runs on the schema of this one while an upgrade lasts: its commit, files and migrations."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

from tests.servers import PROJECT

FILE = Path(__file__).with_name("last_release")


class NoHistory(Exception):
    """The commit of the last release cannot be read from this checkout."""


def commit() -> str:
    return FILE.read_text().strip()


def extract(folder: Path) -> None:
    """Write the files of the last release to a folder."""
    with tarfile.open(fileobj=io.BytesIO(_git("archive", commit()))) as archive:
        archive.extractall(folder, filter="data")


def migrations() -> set[tuple[str, str]]:
    """Return the migrations of the last release, as app label and name."""
    paths = [Path(line) for line in _git("ls-tree", "-r", "--name-only", commit()).decode().splitlines()]
    return {
        (path.parent.parent.name, path.stem)
        for path in paths
        if path.parent.name == "migrations" and path.suffix == ".py" and path.stem != "__init__"
    }


def _git(*arguments: str) -> bytes:
    try:
        return subprocess.run(["git", *arguments], cwd=PROJECT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "stderr", b"").decode().strip() or str(error)
        raise NoHistory(
            f"The last release {commit()} cannot be read: {reason}. Clone the repository with its history "
            f"(`git fetch --unshallow`), or correct {FILE}."
        ) from None
