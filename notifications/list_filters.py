"""Query parameters of the list of a notification's deliveries."""

from django.db.models import Q

from notifications.events import all_events
from notifications.models import Delivery
from relayer_service.api.filters import one_of, time_range

DELIVERY_FILTERS = {
    "state": one_of({state: Q(state=state) for state in Delivery.State.values}, "Only deliveries in this state."),
    "event": one_of({event: Q(event=event) for event in all_events()}, "Only deliveries of this event."),
    **time_range("created_at", "created"),
}
