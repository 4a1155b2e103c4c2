"""Hold the OpenAPI documents against what the code generates, and validate them; `--write` writes them anew.

`openapi.yaml` is the contract's, `openapi-extensions.yaml` has all extensions too.
"""

import os
import sys
import tempfile
import warnings
from pathlib import Path

import yaml

from relayer_service import extensions
from tests.servers import PROJECT

# By the extensions that are on.
DOCUMENTS = {"openapi.yaml": [], "openapi-extensions.yaml": list(extensions.BUILT)}


def main(arguments: list[str]) -> int:
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    import django

    django.setup()
    generated = generate()
    for text in generated.values():
        validate(text)
    if "--write" in arguments:
        for name, text in generated.items():
            (PROJECT / name).write_text(text)
    stale = differing(PROJECT, generated)
    for name in stale:
        print(f"{name} is not what the code generates: run `make schema`")
    return 1 if stale else 0


def generate() -> dict[str, str]:
    from django.core.management import call_command
    from django.test.utils import override_settings

    texts = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, names in DOCUMENTS.items():
            with override_settings(ROOT_URLCONF="relayer_service.urls", EXTENSIONS=names):
                call_command("spectacular", file=f"{folder}/{name}", validate=True, fail_on_warn=True)
            texts[name] = Path(folder, name).read_text()
    return texts


def differing(folder: Path, generated: dict[str, str]) -> list[str]:
    """Return the names of the documents that are missing in a folder, or are not what was generated."""
    return [
        name for name, text in generated.items() if not (folder / name).exists() or (folder / name).read_text() != text
    ]


def validate(text: str) -> None:
    from openapi_spec_validator import OpenAPIV31SpecValidator, validate

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        validate(yaml.load(text, Loader=yaml.CSafeLoader), cls=OpenAPIV31SpecValidator)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
