import importlib
from typing import Any

from django.apps import AppConfig
from django.core.signals import setting_changed
from django.urls import clear_url_caches


class SampleConfig(AppConfig):
    name = "tests.sample"

    def ready(self) -> None:
        from rpc import relayer_lookup

        setting_changed.connect(build_urls_anew)
        # Tests change rows, and call at once.
        relayer_lookup.CACHE_SECONDS = 0


def build_urls_anew(setting: str, **kwargs: Any) -> None:
    """Route what the extensions have that a test switches on or off; a service does it once, when it starts."""
    if setting != "EXTENSIONS":
        return
    from relayer_service.urls import RESOURCES

    for name in (*(f"{app}.urls" for app in RESOURCES), "relayer_service.urls", "tests.sample.urls"):
        importlib.reload(importlib.import_module(name))
    clear_url_caches()
