"""References to the environment in a config file: `${NAME}` stands for a variable, `$${` for the text `${`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from relayer_service.api.serializers import MAX_NAME_LENGTH
from relayer_service.ops.logs import redact

NAME = r"[A-Za-z_][A-Za-z0-9_]*"
REFERENCE = re.compile(rf"\$\$\{{|\$\{{(?:(?P<name>{NAME})\}})?")
NOT_IN_NAMES = re.compile(r"[^A-Z0-9]")
# Ids are printed, and what a variable holds never is.
ID_PATH = re.compile(r"\w+\[\d+\]\.id")

Fault = tuple[str, str]


class Unresolved(Exception):
    """Why a text with references stands for nothing; it never holds a value."""


def resolve(
    document: Any, environment: Mapping[str, str] = os.environ, printed: re.Pattern[str] = ID_PATH
) -> tuple[Any, list[Fault]]:
    """Give a document with its references replaced, and a fault with its path for each that cannot be."""
    faults: list[Fault] = []

    def walk(value: Any, path: str) -> Any:
        if isinstance(value, dict):
            return {name: walk(item, join(path, name)) for name, item in value.items()}
        if isinstance(value, list):
            return [walk(item, f"{path}[{index}]") for index, item in enumerate(value)]
        if not isinstance(value, str) or "${" not in value:
            return value
        try:
            if printed.fullmatch(path) and any(match["name"] for match in REFERENCE.finditer(value)):
                what = "an id" if path.endswith(".id") else f"the {path.rpartition('.')[2]}"
                raise Unresolved(f"{what} is written out and not taken from the environment")
            return resolve_text(value, environment)
        except Unresolved as fault:
            faults.append((path, str(fault)))
            return value

    return walk(document, ""), faults


def resolve_text(text: str, environment: Mapping[str, str]) -> str:
    """Replace the references in one text. What a variable holds is taken as it is."""

    def replacement(match: re.Match[str]) -> str:
        if match[0] == "$${":
            return "${"
        name = match["name"]
        if name is None:
            raise Unresolved("a reference is written ${NAME}, and the text ${ as $${")
        value = environment.get(name, "")
        # An empty value would remove a secret that a forgotten variable was meant to set.
        if not value:
            raise Unresolved(f"the environment variable {name} is not set, or empty")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Unresolved(f"the environment variable {name} is not UTF-8 text") from None
        return value

    return REFERENCE.sub(replacement, text)


def escape(text: str) -> str:
    """Give a text that `resolve` turns into this one."""
    return text.replace("${", "$${")


def join(path: str, name: str) -> str:
    """Add a member's name to a path. A value that was written as a name by mistake is not told back whole."""
    shown = redact(name[:MAX_NAME_LENGTH])
    return f"{path}.{shown}" if path else shown


class Variables:
    """Names of variables for secrets: readable, valid, and no two alike."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def reference(self, *parts: str) -> str:
        """Give a reference to a variable that is named after these parts."""
        wanted = name = "_".join(NOT_IN_NAMES.sub("_", part.upper()) for part in parts)
        number = 1
        while name in self.names:
            number += 1
            name = f"{wanted}_{number}"
        self.names.add(name)
        return f"${{{name}}}"
