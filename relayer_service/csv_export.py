"""CSV exports: safe to open in a spreadsheet, and written a line at a time."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from django.http import StreamingHttpResponse

# The server buffers a whole response before it sends it.
MAX_EXPORTED = 50_000
# Rows that one query reads.
EXPORT_BATCH = 1_000
# Spreadsheets evaluate a cell that starts with one of these as a formula.
FORMULA_MARKS = ("=", "+", "-", "@", "\t", "\r", "\n")


def csv_lines(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> Iterator[str]:
    """Yield the line of the columns, then one of each row; None is an empty cell."""
    # `writerow` returns the result of `write`, which is the line.
    echo: Any = SimpleNamespace(write=str)
    writer = csv.writer(echo, quoting=csv.QUOTE_ALL)
    yield str(writer.writerow(columns))
    for row in rows:
        yield str(writer.writerow([escape_formula("" if cell is None else str(cell)) for cell in row]))


def escape_formula(text: str) -> str:
    return f"'{text}" if text.lstrip(" ").startswith(FORMULA_MARKS) else text


def download(lines: Iterable[str], filename: str) -> StreamingHttpResponse:
    response = StreamingHttpResponse(lines, content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{filename}"'
    response["Cache-Control"] = "no-store"
    return response
