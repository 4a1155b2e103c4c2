"""The settings of examples/django_shop, with a database and a service of the tests."""

import os
import sys
from typing import Any

from psycopg.conninfo import conninfo_to_dict

from tests.servers import PROJECT

sys.path += [str(PROJECT / "client"), str(PROJECT / "examples/django_shop")]

from settings import *  # type: ignore[import-not-found]  # noqa: F403  # of the example


def database(url: str) -> dict[str, Any]:
    if url.startswith("sqlite:"):
        # On a busy machine, another writer takes long.
        options = {"timeout": 180, "transaction_mode": "IMMEDIATE"}
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": url.removeprefix("sqlite:"), "OPTIONS": options}
    parts: dict[str, Any] = conninfo_to_dict(url)
    return {"ENGINE": "django.db.backends.postgresql", "NAME": parts.pop("dbname"), "OPTIONS": parts}


DATABASES = {"default": database(os.environ["SHOP_DATABASE_URL"])}
RELAYER_CLIENT = {"URL": os.environ["RELAYER_URL"], "TOKEN": os.environ["RELAYER_TOKEN"]}
