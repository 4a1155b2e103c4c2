"""The declaration of events, and the events about webhooks themselves and workers.

Each app declares its events in its `events.py`, with the type of their data.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any, ClassVar, Generic, TypedDict, TypeVar

from django.apps import apps
from django.utils.module_loading import module_has_submodule

# A time in the format of API responses.
Timestamp = Annotated[str, {"format": "date-time"}]
Data = TypeVar("Data", bound=Mapping[str, object])


@dataclass(frozen=True)
class Event(Generic[Data]):
    name: str
    data: type[Data]
    description: str
    # The extension that adds the event to the OpenAPI document.
    extension: ClassVar[str] = "lifecycle"
    # The component of the OpenAPI document with the same fields as `data`, if there is one.
    component: ClassVar[str] = ""
    # The component that describes some of the fields of `data`, if there is one.
    base_component: ClassVar[str] = ""

    def subject(self, data: Data) -> str:
        """Return the id of the relayer that the event is about, or "" for other events."""
        return ""


def all_events() -> dict[str, Event[Any]]:
    """Return the events of all apps by name; an app's events come before the events of apps it builds on."""
    modules = [
        import_module(f"{app.name}.events")
        for app in reversed([*apps.get_app_configs()])
        if app.module and module_has_submodule(app.module, "events")
    ]
    declared = [event for module in modules for event in vars(module).values() if isinstance(event, Event)]
    return {event.name: event for event in declared}


class NotificationData(TypedDict):
    notification_id: str


class NotificationFailingData(NotificationData):
    failing_since: Timestamp
    error: str


class WorkerData(TypedDict):
    # The last heartbeat of the worker, or of any before none was running.
    stopped_since: Timestamp


class WorkerStoppedData(WorkerData):
    # Its host and process ID; null if no worker is left.
    worker: str | None
    workers_left: int


NOTIFICATION_TEST = Event("notification.test", NotificationData, "A test event, sent on request.")
NOTIFICATION_FAILING = Event(
    "notification.failing", NotificationFailingData, "Deliveries to another webhook have started to fail."
)
NOTIFICATION_GONE = Event(
    "notification.gone", NotificationData, "Another webhook returned 410 Gone. No more events are sent to it."
)
WORKER_STOPPED = Event(
    "worker.stopped",
    WorkerStoppedData,
    "A worker was killed or hangs. With none left, nothing is sent and no relayer is checked.",
)
WORKER_RESUMED = Event("worker.resumed", WorkerData, "A worker is running again, after none was.")
# Events about one target that other targets receive.
ABOUT_TARGETS = {NOTIFICATION_FAILING.name, NOTIFICATION_GONE.name}
