"""Refuse functions, methods and classes of the product that nothing but tests refers to."""

import re
import subprocess
import sys
from collections import Counter
from itertools import chain
from pathlib import Path
from sysconfig import get_path

from vulture import Vulture
from vulture.core import Item

from tests.servers import PROJECT

KINDS = {"class", "function", "method", "property"}
# Their methods are hooks: they call what overrides them.
FRAMEWORKS = ("django", "rest_framework", "drf_spectacular", "unfold")
METHOD = re.compile(r"^ +(?:async )?def (\w+)", re.MULTILINE)
# Django builds these names: of a form's field, and of a permission that an action requires.
BUILT_NAMES = re.compile(r"clean_(\w+)|has_(\w+)_permission")
# Found by their class.
FOUND = re.compile(r"__\w+__|\w+Config")
EXPECTED = {
    # drf-spectacular finds these because they exist.
    *("ExactInteger", "BearerScheme", "RpcId", "RpcParams", "RpcRequest", "RpcResult"),
    # The standard library calls these.
    *("do_GET", "log_message", "verify_request", "readinto", "makefile"),
    # Unfold's site calls this if it exists.
    "extra_urls",
    # A test begins with empty caches.
    "clear_all",
    # For migrations to come: CONTRIBUTING.md, "Change the schema".
    "AddUniqueIndexConcurrently",
}
MENTION = re.compile(r"(?<!def )(?<!class )\b\w+")
MENTIONING = (".py", ".html", ".js", ".toml", ".txt")
APART = ("tests/", "benchmarks/", "client/", "docs/", "examples/")


def product_files() -> list[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout.split()
    chosen = [PROJECT / name for name in names if name.endswith(MENTIONING) and not name.startswith(APART)]
    return [path for path in chosen if path.exists()]


def hooks() -> set[str]:
    files = chain.from_iterable(Path(get_path("purelib"), name).rglob("*.py") for name in FRAMEWORKS)
    return {name for file in files for name in METHOD.findall(file.read_text())}


def is_called(item: Item, called: set[str], mentions: Counter[str]) -> bool:
    """Return whether a framework calls it, by a name of its own or one that it builds."""
    if built := BUILT_NAMES.fullmatch(item.name):
        return mentions[built[1] or built[2]] > 0
    return bool(FOUND.fullmatch(item.name)) or (item.typ == "method" and item.name in called)


def main() -> int:
    files = product_files()
    mentions = Counter(word for path in files for word in MENTION.findall(path.read_text()))
    vulture = Vulture(ignore_decorators=["@*"])
    vulture.scavenge([path for path in files if path.suffix == ".py" and "migrations" not in path.parts])
    unused = [item for item in vulture.get_unused_code() if item.typ in KINDS and not mentions[item.name]]
    called = hooks()
    unused = [item for item in unused if item.name not in EXPECTED and not is_called(item, called, mentions)]
    for item in unused:
        print(f"{item.filename}:{item.first_lineno}: Nothing refers to the {item.typ} `{item.name}`. Delete it.")
    return 1 if unused else 0


if __name__ == "__main__":
    sys.exit(main())
