"""The header `Relayer-Generation` of responses: it falls if the service's database was restored from a backup."""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from urllib.parse import unquote

# Called for each response in this context that has the header, with the ID of its relayer.
on_generation: ContextVar[Callable[[str, int], None] | None] = ContextVar("on_generation", default=None)
MAX_DIGITS = 18


def report_generation(path: str, headers: Mapping[str, str]) -> None:
    report, value = on_generation.get(), headers.get("relayer-generation", "")
    if report and value.isdecimal() and len(value) <= MAX_DIGITS:
        report(unquote(path.split("/")[2]), int(value))
