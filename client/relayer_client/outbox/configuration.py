"""The setting RELAYER_CLIENT: `URL` and `TOKEN` of the service, and `TIMEOUT` in seconds.

Processes that only enqueue need neither; those that send do.
"""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.core.exceptions import ImproperlyConfigured

from relayer_client import NO_RETRIES, Client
from relayer_client.checks import is_service_url, is_token

NAMES = frozenset({"URL", "TOKEN", "TIMEOUT"})
TIMEOUT_SECONDS = 30.0


def open_client() -> Client:
    """Return a client with the settings. It repeats no request: a later run does that."""
    values = getattr(settings, "RELAYER_CLIENT", {})
    faults = find_faults() or [f"RELAYER_CLIENT has no {name}." for name in ("URL", "TOKEN") if not values.get(name)]
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
    return found


def check_settings(**_: Any) -> list[CheckMessage]:
    return [Error(fault, id="relayer_client.E001") for fault in find_faults()]
