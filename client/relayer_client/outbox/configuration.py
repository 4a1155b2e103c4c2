"""The setting RELAYER_CLIENT: `URL` and `TOKEN` of the service, and `TIMEOUT` in seconds.

Instead of the last two, `CLIENT` is a function that returns a new client, or its dotted path. Processes that only
enqueue need none of them; those that send do.
"""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, router
from django.utils.module_loading import import_string

from relayer_client import NO_RETRIES, Client
from relayer_client.checks import is_service_url, is_token

NAMES = frozenset({"URL", "TOKEN", "TIMEOUT", "CLIENT"})
TIMEOUT_SECONDS = 30.0
# Those that the outbox is tested on.
VENDORS = frozenset({"postgresql", "sqlite"})


def open_client() -> Client:
    """Return a client with the settings. It repeats no request: a later run does that."""
    values = getattr(settings, "RELAYER_CLIENT", {})
    faults = find_faults()
    if not faults and (factory := values.get("CLIENT")):
        client = (import_string(factory) if isinstance(factory, str) else factory)()
        if isinstance(client, Client):
            return client
        faults = ["RELAYER_CLIENT['CLIENT'] must return a relayer_client.Client."]
    faults = faults or [f"RELAYER_CLIENT has no {name}." for name in ("URL", "TOKEN") if not values.get(name)]
    if faults:
        raise ImproperlyConfigured(" ".join(faults))
    timeout = values.get("TIMEOUT", TIMEOUT_SECONDS)
    return Client(values["URL"], values["TOKEN"], timeout=timeout, retries=NO_RETRIES)


def find_faults() -> list[str]:
    """Return what is wrong with the setting, without its values."""
    values = getattr(settings, "RELAYER_CLIENT", {})
    if not isinstance(values, dict):
        return ["RELAYER_CLIENT must be a dictionary."]
    found = [f"RELAYER_CLIENT has an unknown key: {name}." for name in sorted(map(str, values.keys() - NAMES))]
    url, token, timeout = values.get("URL"), values.get("TOKEN"), values.get("TIMEOUT", TIMEOUT_SECONDS)
    if url and not is_service_url(url):
        found.append("RELAYER_CLIENT['URL'] must begin with http:// or https://, and have no user name.")
    if token and not is_token(token):
        found.append("RELAYER_CLIENT['TOKEN'] must be a string of ASCII characters.")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout <= 0:
        found.append("RELAYER_CLIENT['TIMEOUT'] must be a number of seconds above 0.")
    if (factory := values.get("CLIENT")) and not (callable(factory) or isinstance(factory, str)):
        found.append("RELAYER_CLIENT['CLIENT'] must be a function or its dotted path.")
    if factory and values.keys() & {"TOKEN", "TIMEOUT"}:
        found.append("RELAYER_CLIENT['CLIENT'] replaces TOKEN and TIMEOUT: remove them.")
    return found


def check_settings(**_: Any) -> list[CheckMessage]:
    return [Error(fault, id="relayer_client.E001") for fault in find_faults()]


def check_database(**_: Any) -> list[CheckMessage]:
    from relayer_client.outbox.models import OutboxTransaction

    connection = connections[router.db_for_write(OutboxTransaction)]
    if connection.vendor in VENDORS:
        return []
    return [
        Error(f"The outbox supports PostgreSQL and SQLite, not {connection.display_name}.", id="relayer_client.E002")
    ]
