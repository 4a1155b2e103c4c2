"""Refuse functions, methods and classes of the product that nothing but tests refers to."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from vulture import Vulture

from tests.servers import PROJECT

KINDS = {"class", "function", "method", "property"}
# Django, REST framework and drf-spectacular call these by their names.
HOOKS = re.compile(
    r"__\w+__|\w+Config|clean_\w+|(get|has|map|select|prepare|response)_\w+|authenticate\w*|\w+_(redirect|view|value|urls)"
    r"|lookup_allowed|value_to_string"
)
EXPECTED = {
    # drf-spectacular finds these because they exist.
    *("ExactInteger", "BearerScheme", "RpcId", "RpcParams", "RpcRequest", "RpcResult"),
    # The standard library calls these.
    *("do_GET", "log_message", "verify_request", "readinto", "makefile"),
    # A test begins with empty caches.
    "clear_all",
}
MENTIONING = (".py", ".html", ".js", ".toml", ".txt")
APART = ("tests/", "benchmarks/", "client/", "docs/", "examples/")


def product_files() -> list[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout.split()
    chosen = [PROJECT / name for name in names if name.endswith(MENTIONING) and not name.startswith(APART)]
    return [path for path in chosen if path.exists()]


def main() -> int:
    files = product_files()
    mentions = Counter(word for path in files for word in re.findall(r"\w+", path.read_text()))
    vulture = Vulture(ignore_decorators=["@*"])
    vulture.scavenge([path for path in files if path.suffix == ".py" and "migrations" not in path.parts])
    unused = [item for item in vulture.get_unused_code() if item.typ in KINDS and mentions[item.name] == 1]
    unused = [item for item in unused if item.name not in EXPECTED and not HOOKS.fullmatch(item.name)]
    for item in unused:
        print(f"{item.filename}:{item.first_lineno}: Nothing refers to the {item.typ} `{item.name}`. Delete it.")
    return 1 if unused else 0


if __name__ == "__main__":
    sys.exit(main())
