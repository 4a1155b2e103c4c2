"""A node of 150 relayers comes and goes every 20 seconds for 10 minutes, while workers are killed at every step."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from inspect import iscoroutinefunction
from itertools import cycle, pairwise
from typing import Any

import pytest
from pytest_django import Settings

from incidents import delivery, watching
from incidents.models import AlertMessage
from tests.incidents.factories import route
from tests.incidents.fleet import TITLE, bodies, incidents, node_down, node_up, relayers
from tests.notifications.clock import NOON, Clock
from tests.notifications.mail_servers import mail_server
from tests.notifications.receivers import Behaviour, Handler, answer, receiver

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_engines]

LENGTH = timedelta(minutes=10)


class Killed(BaseException):
    """The end of a worker."""


# Where a worker is killed: before or after what is named. Then one that is not.
WATCHING = [
    (watching, "open_incidents", "before"),
    (watching, "open_incidents", "after"),
    (watching, "announce", "after"),
    (watching, "note_relayers", "after"),
    None,
]
SENDING = [
    (delivery, "claim", "after"),
    (delivery, "attempt_all", "before"),
    (delivery, "attempt_all", "after"),
    (delivery, "write_outcome", "after"),
    # A lease is 15 ticks: of seven steps, each next attempt meets another one.
    *(None, None, None),
]


@contextmanager
def killed(step: Any) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, suppress(Killed):
        if step is not None:
            module, name, when = step
            patch.setattr(module, name, dying(getattr(module, name), after=when == "after"))
        yield


def dying(work: Callable[..., Any], *, after: bool) -> Callable[..., Any]:
    def die(*args: Any) -> None:
        if after:
            work(*args)
        raise Killed

    async def die_later(*args: Any) -> None:
        if after:
            await work(*args)
        raise Killed

    return die_later if iscoroutinefunction(work) else die


def noting(clock: Clock, moments: list[datetime]) -> Behaviour:
    def behave(handler: Handler) -> None:
        moments.append(clock.now)
        answer()(handler)

    return behave


@pytest.mark.long
def test_a_flapping_node_is_one_begin_and_one_end_per_route(clock: Clock, settings: Settings) -> None:
    relayers(150)
    moments: dict[str, list[datetime]] = defaultdict(list)
    with (
        receiver(noting(clock, moments["hook"])) as hook,
        receiver(noting(clock, moments["slack"])) as slack,
        mail_server() as mail,
    ):
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", mail.port
        route("hook", hook.url, kinds=["node_down"])
        route("slack", slack.url, channel="slack", kinds=["node_down"])
        route("mail", "mailto:ops@example.com", channel="email", kinds=["node_down"])
        route("other network", hook.url, networks=["mainnet"])
        watches, sends = cycle(WATCHING), cycle(SENDING)
        for tick in range(16 * 60 // 5):
            elapsed = timedelta(seconds=5 * tick)
            if elapsed.seconds % 20 == 0 and elapsed < LENGTH:
                node_up() if elapsed.seconds % 40 else node_down(clock)
            if tick % 2 == 0:
                with killed(next(watches)):
                    watching.watch()
            with killed(next(sends)):
                delivery.send_due()
            clock.forward(5)
        (incident,) = incidents()
        assert (incident.largest, incident.relayers.count()) == (150, 150)
        assert incident.ended_at is not None
        assert LENGTH - timedelta(minutes=1) <= incident.ended_at - NOON <= LENGTH + timedelta(minutes=1)
        # None is lost, and none is written twice.
        assert Counter(AlertMessage.objects.values_list("route_name", "event", "state")) == Counter(
            {(name, event, "sent"): 1 for name in ("hook", "slack", "mail") for event in ("began", "ended")}
        )
        # Receivers that recognize a repeated message have one of each; whatever happens, it is one in a minute.
        types = {request.webhook_id: body["type"] for body, request in zip(bodies(hook), hook.requests, strict=True)}
        assert sorted(types.values()) == ["incident.began", "incident.ended"]
        assert len({message["Message-ID"] for message in mail.messages}) == 2
    for received in moments.values():
        assert all(later - earlier >= timedelta(minutes=1) for earlier, later in pairwise(received))
    # Only those that a worker had sent and not written when it was killed came again.
    assert {name: len(received) for name, received in moments.items()} == {"hook": 3, "slack": 5}
    assert bodies(hook)[0]["data"]["summary"] == f"{TITLE}, 150 relayers"
