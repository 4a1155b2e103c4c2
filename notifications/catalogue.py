"""Declarations of events: each app has its own in its `events.py`, with the type of their data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Generic, TypeVar

from django.apps import apps
from django.utils.module_loading import module_has_submodule

Data = TypeVar("Data", bound=Mapping[str, object])


@dataclass(frozen=True)
class Event(Generic[Data]):
    name: str
    data: type[Data]
    description: str

    def subject(self, data: Data) -> str:
        """Return the id of the relayer that an event is about, or nothing for other events."""
        return ""


def all_events() -> dict[str, Event[Any]]:
    """Return the events of all apps by name; those of an app come before those of the apps it builds on."""
    modules = [
        import_module(f"{app.name}.events")
        for app in reversed([*apps.get_app_configs()])
        if app.module and module_has_submodule(app.module, "events")
    ]
    declared = [event for module in modules for event in vars(module).values() if isinstance(event, Event)]
    return {event.name: event for event in declared}
