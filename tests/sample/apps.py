import importlib
import os
import sys
from functools import cache
from types import ModuleType
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.signals import setting_changed
from django.urls import clear_url_caches


class SampleConfig(AppConfig):
    name = "tests.sample"

    def ready(self) -> None:
        # Not in the settings: they come before the web server has chosen where metrics are shared.
        from chain.nodes import attempts
        from rpc import relayer_lookup

        if attempts.__name__ not in os.environ.get("TEST_CONSTANTS", ""):
            # A busy machine may be slow.
            attempts.ATTEMPT_SECONDS = attempts.DEADLINE_SECONDS = 60
        setting_changed.connect(route_extensions)
        # Tests change rows, and call at once.
        relayer_lookup.CACHE_SECONDS = 0


ROOT = "tests.sample.urls"
HANDLERS = ("handler400", "handler403", "handler404", "handler500")


def route_extensions(setting: str, **kwargs: Any) -> None:
    """Route what the extensions have that a test switches on or off; a service does it once, when it starts."""
    if setting != "EXTENSIONS":
        return
    names = (*(f"{app}.urls" for app in settings.RESOURCES), "relayer_service.urls", ROOT)
    enabled = tuple(settings.EXTENSIONS)
    for name, routes in zip(names, built_routes(names, enabled), strict=True):
        importlib.import_module(name).urlpatterns = routes  # type: ignore[attr-defined]
    if settings.ROOT_URLCONF.startswith(ROOT):
        settings.ROOT_URLCONF = root(enabled)
    else:
        clear_url_caches()


@cache
def built_routes(names: tuple[str, ...], enabled: tuple[str, ...]) -> list[list[Any]]:
    """Return the routes of each module, built once for each choice of extensions: it takes longer than most tests."""
    return [importlib.reload(importlib.import_module(name)).urlpatterns for name in names]


@cache
def root(enabled: tuple[str, ...]) -> str:
    """Return the name of a copy of the root: Django keeps compiled routes by the name of their module."""
    module = importlib.import_module(ROOT)
    copy = ModuleType(".".join((ROOT, *enabled)))
    copy.__dict__.update(urlpatterns=module.urlpatterns, **{name: getattr(module, name) for name in HANDLERS})
    sys.modules[copy.__name__] = copy
    return copy.__name__
