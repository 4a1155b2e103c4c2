"""Hold openapi.yaml against what the code generates, and validate it; `--write` writes it anew."""

import os
import sys
import warnings

import yaml

from tests.servers import PROJECT

COMMITTED = PROJECT / "openapi.yaml"


def main(arguments: list[str]) -> int:
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    import django
    from django.core.management import call_command
    from django.test.utils import override_settings

    django.setup()
    generated = PROJECT / ".openapi.generated.yaml"
    try:
        with override_settings(ROOT_URLCONF="relayer_service.urls"):
            call_command("spectacular", file=str(generated), validate=True, fail_on_warn=True)
        text = generated.read_text()
    finally:
        generated.unlink(missing_ok=True)
    validate(text)
    if "--write" in arguments:
        COMMITTED.write_text(text)
    elif not COMMITTED.exists() or COMMITTED.read_text() != text:
        print("openapi.yaml is not what the code generates: run `make schema`")
        return 1
    return 0


def validate(text: str) -> None:
    from openapi_spec_validator import OpenAPIV31SpecValidator, validate

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        validate(yaml.safe_load(text), cls=OpenAPIV31SpecValidator)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
