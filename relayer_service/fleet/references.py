"""References to environment variables in a fleet file: `${NAME}`; `$${` is an escaped `${`."""

import re
from collections.abc import Collection, Mapping
from typing import Any

from relayer_service.api.serializers import shown_name

REFERENCE = re.compile(r"\$\$\{|\$\{(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)\})?")
NOT_IN_NAMES = re.compile(r"[^A-Z0-9]")
FIELD_PATH = re.compile(r"(\w+)\[\d+\]\.(\w+)")

Fault = tuple[str, str]


class Unresolved(Exception):
    """A reference that cannot be resolved. The text never contains a value."""


def resolve(
    document: Any, environment: Mapping[str, str], printed: Mapping[str, Collection[str]]
) -> tuple[Any, list[Fault]]:
    """Return a document with its references resolved, and the faults of those that cannot be or would be printed."""
    faults: list[Fault] = []

    def walk(value: Any, path: str) -> Any:
        if isinstance(value, dict):
            return {name: walk(item, join(path, name)) for name, item in value.items()}
        if isinstance(value, list):
            return [walk(item, f"{path}[{index}]") for index, item in enumerate(value)]
        if not isinstance(value, str) or "${" not in value:
            return value
        try:
            field = FIELD_PATH.fullmatch(path)
            is_printed = field and field[2] in {"id", *printed.get(field[1], ())}
            if field and is_printed and any(match["name"] for match in REFERENCE.finditer(value)):
                what = "an id" if field[2] == "id" else f"the {field[2]}"
                raise Unresolved(f"{what} cannot be taken from the environment")
            return resolve_text(value, environment)
        except Unresolved as fault:
            faults.append((path, str(fault)))
            return value

    return walk(document, ""), faults


def resolve_text(text: str, environment: Mapping[str, str]) -> str:
    """Replace the references in a text; those in the value of a variable are not resolved."""

    def replacement(match: re.Match[str]) -> str:
        if match[0] == "$${":
            return "${"
        name = match["name"]
        if name is None:
            raise Unresolved("write a reference as ${NAME}, and a literal ${ as $${")
        value = environment.get(name, "")
        # An empty value would remove a secret that a forgotten variable was meant to set.
        if not value:
            raise Unresolved(f"the environment variable {name} is not set or empty")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Unresolved(f"the environment variable {name} is not UTF-8 text") from None
        return value

    return REFERENCE.sub(replacement, text)


def join(path: str, name: str) -> str:
    shown = shown_name(name)
    return f"{path}.{shown}" if path else shown


def escape(text: str) -> str:
    return text.replace("${", "$${")


class Variables:
    """Unique, readable names of variables for the secrets of a dump."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def reference(self, *parts: str) -> str:
        wanted = name = "_".join(NOT_IN_NAMES.sub("_", part.upper()) for part in parts)
        number = 1
        while name in self.names:
            number += 1
            name = f"{wanted}_{number}"
        self.names.add(name)
        return f"${{{name}}}"
