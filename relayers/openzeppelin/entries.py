"""The JSON files of OpenZeppelin Relayer: bounded reading, and objects that know their path and what was read."""

import re
from pathlib import Path
from typing import Any

from rest_framework.exceptions import ParseError

from relayer_service.api.parsers import loads
from relayer_service.fleet.references import Fault, escape, join

MAX_FILE_BYTES = 4 * 2**20
MAX_VALUES = 200_000
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
VALUE = 'a string, or {"type": "env" or "plain", "value": "..."}, is required'


class Unreadable(Exception):
    """Why a file cannot be read. The text contains nothing of its content."""


def read_json(path: Path) -> Any:
    try:
        if not path.is_file():
            raise Unreadable("no such file")
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror}") from None
    if len(content) > MAX_FILE_BYTES:
        raise Unreadable(f"the file is over {MAX_FILE_BYTES} bytes")
    try:
        return loads(content, MAX_VALUES)
    except ParseError as error:
        raise Unreadable(str(error.detail).replace("the body", "the file")) from None


class Report:
    """What was found in the files: faults, and what is not imported, each with its path and the reason."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.skipped: list[Fault] = []
        self.notes: list[Fault] = []
        # Environment variables that the fleet file refers to.
        self.variables: set[str] = set()
        # Whether the fleet file contains secrets.
        self.has_secrets = False

    def fault(self, path: str, text: str) -> None:
        self.faults.append((path, text))

    def skip(self, path: str, reason: str) -> None:
        self.skipped.append((path, reason))

    def note(self, path: str, text: str) -> None:
        self.notes.append((path, text))


class Entry:
    """An object of a file. Null is the same as omitted, as in their files."""

    def __init__(self, value: Any, path: str, report: Report) -> None:
        if not isinstance(value, dict):
            report.fault(path, "an object is required")
            value = {}
        self.members = {name: member for name, member in value.items() if member is not None}
        self.path, self.report = path, report
        self.unread = [*self.members]

    def at(self, name: str) -> str:
        return join(self.path, name)

    def take(self, name: str) -> Any:
        """Return a member, or None, and count it as read."""
        if name in self.unread:
            self.unread.remove(name)
        return self.members.get(name)

    def text(self, name: str) -> str:
        """Return a member that must be a string; "" and a fault if it is none."""
        value = self.take(name)
        if isinstance(value, str) and value:
            return value
        self.report.fault(self.at(name), "this field is required" if value is None else "a string is required")
        return ""

    def entry(self, name: str) -> "Entry":
        value = self.take(name)
        return Entry({} if value is None else value, self.at(name), self.report)

    def entries(self, name: str) -> list["Entry"]:
        return as_entries(self.list(name), self.at(name), self.report)

    def list(self, name: str) -> list[Any]:
        value = self.take(name)
        if value is None or isinstance(value, list):
            return value or []
        self.report.fault(self.at(name), "a list is required")
        return []

    def value(self, name: str) -> str | None:
        """Return a member that may be secret as the fleet file has it; None if it is missing or not valid."""
        value = self.take(name)
        return None if value is None else converted(value, self.at(name), self.report)

    def skip_unread(self) -> None:
        """Report the members that nothing has read."""
        for name in self.unread:
            self.report.skip(self.at(name), "no counterpart")


def escaped(value: Any) -> Any:
    """Return a value in which no string is a reference."""
    if isinstance(value, list):
        return [escaped(each) for each in value]
    return escape(value) if isinstance(value, str) else value


def as_entries(values: list[Any], path: str, report: Report) -> list[Entry]:
    """Return the objects of a list; what is none is a fault."""
    found = [Entry(each, f"{path}[{index}]", report) for index, each in enumerate(values)]
    return [entry for entry, each in zip(found, values, strict=True) if isinstance(each, dict)]


def converted(value: Any, path: str, report: Report) -> str | None:
    """Return a string or a secret value as the fleet file has it; None, and a fault, if it is neither."""
    if isinstance(value, str):
        return escape(value)
    if not isinstance(value, dict) or value.keys() != {"type", "value"} or not isinstance(value["value"], str):
        report.fault(path, VALUE)
        return None
    text: str = value["value"]
    if value["type"] == "env":
        if not VARIABLE.fullmatch(text):
            report.fault(f"{path}.value", "the name of an environment variable is required")
            return None
        report.variables.add(text)
        return f"${{{text}}}"
    if value["type"] != "plain":
        report.fault(f"{path}.type", "must be one of: env, plain")
        return None
    report.has_secrets = True
    return escape(text)


def converted_urls(urls: list[Any], path: str, report: Report) -> list[dict[str, Any]]:
    """Return RPC URLs as the fleet file has them."""
    found = []
    for index, each in enumerate(urls):
        where = f"{path}[{index}]"
        if isinstance(each, dict) and "url" in each:
            entry = Entry(each, where, report)
            url, weight = entry.value("url"), entry.take("weight")
            entry.skip_unread()
        elif isinstance(each, (str, dict)):
            url, weight = converted(each, where, report), None
        else:
            url, weight = None, None
            report.fault(where, 'a URL or {"url": "...", "weight": 100} is required')
        found.append({"url": (url or "").strip()} | ({} if weight is None else {"weight": weight}))
    return found
