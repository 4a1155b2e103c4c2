"""The OpenAPI documents, which are what the code generates: `make check` compares them."""

from functools import cache
from typing import Any

import yaml

from tests.servers import PROJECT

CONTRACT, EXTENSIONS = "openapi.yaml", "openapi-extensions.yaml"


@cache
def read_document(name: str = CONTRACT) -> dict[str, Any]:
    """Return a document, which callers do not change."""
    return parse((PROJECT / name).read_bytes())


def parse(text: bytes) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.load(text, Loader=yaml.CSafeLoader)
    return loaded
