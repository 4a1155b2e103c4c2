"""Incidents from one reading of the causes to the next, with their messages, in one transaction.

After a kill nothing or everything of a reading is stored. What the next one finds is compared with the stored state,
so that no begin, growth or end is lost, and none is written twice.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from html import unescape
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils.html import strip_tags
from django.utils.safestring import SafeString

from incidents.kinds import Kind, Problem, problems
from incidents.messages import Details, message_data
from incidents.models import AlertMessage, AlertRoute, Incident, IncidentRelayer, RelayerKeys
from relayer_service.console.overview.attention import AttentionSubject, Cause
from relayer_service.console.overview.incidents import all_subjects, examples_of
from relayer_service.database.clock import database_now
from relayer_service.models import Acknowledgement
from relayers.models import Relayer

logger = logging.getLogger(__name__)

# What returns the details of an incident for its messages.
DetailsReader = Callable[[Incident], Details]
# What returns the relayers that have a cause, by its key.
Readers = Mapping[str, Callable[[Cause], QuerySet[Any, Any] | None]]
# A problem is announced once it has lasted for this long, with the number that it has by then. A node that fails is
# severe from its second check on, a minute after the first.
SETTLE_SEVERE, SETTLE = timedelta(seconds=20), timedelta(minutes=2)
# It ends once it has been absent for this long, so that one that comes and goes is one incident.
ABSENCE = timedelta(minutes=2)
GROWTH = 10
PENDING = AlertMessage.State.PENDING
BEGAN, GREW, ENDED = AlertMessage.Event.BEGAN, AlertMessage.Event.GREW, AlertMessage.Event.ENDED
# What a reading changes.
COLUMNS = [
    *("title", "url", "severe", "unit", "number", "largest", "absent_since", "ended_at", "announced", "magnitude"),
    "announced_severe",
    *("acknowledged_by", "acknowledged_at", "note"),
]
# Of what was announced.
TITLE = "data__title"
PRUNE_BATCH_SIZE = 1_000
# Of the details in a message.
MAX_NAMED, MAX_REASON = 3, 500


def watch() -> None:
    """Read the causes once; open, update and end incidents, and write the messages about them."""
    # Before the transaction: it waits for other parts of the service.
    subjects, is_complete = all_subjects()
    readers = {cause.key: subject.relayers for subject in subjects for cause in subject.causes}
    found = problems(cause for subject in subjects for cause in subject.causes)
    with transaction.atomic():
        now = database_now()
        open_incidents(found, now)
        incidents = list(Incident.objects.filter(ended_at=None).select_for_update().order_by("pk"))
        before = {incident.pk: columns_of(incident) for incident in incidents}
        for incident in incidents:
            if incident.key in found or (is_complete and not is_hidden(incident, found, readers)):
                observe(incident, found.get(incident.key), now)
        relayers = {
            incident.pk: relayers_with(found[incident.key], readers) if incident.key in found else []
            for incident in incidents
        }

        def read_details(incident: Incident) -> Details:
            return details_of(incident, found.get(incident.key), subjects, relayers[incident.pk])

        announce(incidents, relayers, read_details, now)
        note_acknowledgements(incidents, found)
        changed = [incident for incident in incidents if columns_of(incident) != before[incident.pk]]
        Incident.objects.bulk_update(changed, COLUMNS, batch_size=100)
    with transaction.atomic():
        note_relayers(incidents, relayers)


def columns_of(incident: Incident) -> list[Any]:
    return [getattr(incident, name) for name in COLUMNS]


def open_incidents(found: Mapping[str, Problem], now: datetime) -> None:
    known = set(Incident.objects.filter(ended_at=None).values_list("key", flat=True))
    # Another worker may open the same one concurrently: the constraint decides.
    Incident.objects.bulk_create(
        (
            Incident(
                key=key,
                kind=problem.kind,
                network=problem.network,
                opened_at=now,
                **{"started_at": min(problem.since or now, now), "largest": 0, **current(problem)},
            )
            for key, problem in found.items()
            if key not in known
        ),
        ignore_conflicts=True,
    )


def current(problem: Problem) -> dict[str, Any]:
    first = problem.largest[0]
    values = {"title": problem.title[:300], "url": first.url, "unit": first.unit}
    return {**values, "severe": problem.severe, "number": problem.number}


def observe(incident: Incident, problem: Problem | None, now: datetime) -> None:
    """Set what a reading found of an incident: its problem, or that it has none."""
    if problem is None:
        incident.absent_since = incident.absent_since or now
        if now - incident.absent_since >= ABSENCE:
            incident.ended_at = incident.absent_since
        return
    incident.absent_since = None
    for name, value in current(problem).items():
        setattr(incident, name, value)
    incident.largest = max(incident.largest, incident.number)


def is_hidden(incident: Incident, found: Mapping[str, Problem], readers: Readers) -> bool:
    """Return whether it may last behind a worse one: while no block comes, no transaction counts as late."""
    if incident.kind != Kind.STUCK:
        return False
    worse = {problem.kind: problem for problem in found.values() if problem.network == incident.network}
    if Kind.CHAIN_HALTED in worse:
        return True
    # Only that of the same relayers: others may have nodes of their own.
    unreachable = relayers_with(worse[Kind.NODE_DOWN], readers) if Kind.NODE_DOWN in worse else []
    return any(incident.relayers.filter(relayer__in=keys).exists() for keys in unreachable)


def relayers_with(problem: Problem, readers: Readers) -> RelayerKeys:
    """Return the relayers that have a problem, by cause; not yet read."""
    lists = (readers[cause.key](cause) for cause in problem.causes)
    return [relayers for relayers in lists if relayers is not None]


def details_of(
    incident: Incident, problem: Problem | None, subjects: Iterable[AttentionSubject], relayers: RelayerKeys
) -> Details:
    """Return what a reading found of an incident; of one without a problem, the relayers that had it."""
    keys = relayers or [incident.relayers.values_list("relayer", flat=True)]
    rows = Relayer.objects.filter(Q.create([Q(pk__in=each) for each in keys], connector=Q.OR))
    named = list(rows.order_by("pk").values_list("identifier", flat=True)[:MAX_NAMED])
    return Details(reason(problem, subjects) if problem else "", named, rows.count() if named else 0)


def reason(problem: Problem, subjects: Iterable[AttentionSubject]) -> str:
    """Return the text that the row of "Needs attention" has for the largest cause."""
    cause = problem.largest[0]
    try:
        # One that cannot be read must not keep the message back.
        with transaction.atomic():
            example = examples_of(subjects, [cause]).get(cause.key)
    except Exception:
        logger.exception("The reason of an incident cannot be read")
        example = None
    text = example.reason if example else cause.reason
    # Some are HTML.
    return (unescape(strip_tags(text)) if isinstance(text, SafeString) else text)[:MAX_REASON]


def announce(
    incidents: Sequence[Incident], relayers: Mapping[int, RelayerKeys], read_details: DetailsReader, now: datetime
) -> None:
    """Write the messages that the incidents call for, to each route that they match."""
    routes = list(AlertRoute.objects.order_by("pk"))
    messages = AlertMessage.objects.filter(incident__in=incidents, event=BEGAN)
    began = {(incident, route): title for incident, route, title in messages.values_list("incident", "route", TITLE)}
    for incident in incidents:
        event = next_event(incident, now)
        informed = [route for route in routes if (incident.pk, route.pk) in began]
        if incident.absent_since is None and incident.announced is not None:
            # Also to routes that it did not match so far.
            others = [route for route in routes if route.enabled and route not in informed]
            chosen = [route for route in others if route.matches(incident, relayers[incident.pk])]
            write(incident, BEGAN, chosen, read_details, now)
        if event is not None:
            titles = {route.pk: began[incident.pk, route.pk] for route in informed if event == ENDED}
            chosen = [route for route in informed if route.enabled or event == ENDED]
            write(incident, event, chosen, read_details, now, titles)


def next_event(incident: Incident, now: datetime) -> str | None:
    """Return what to report of an incident that was announced, and note that it is now."""
    if incident.ended_at is not None:
        return ENDED
    if incident.absent_since is not None or now - incident.opened_at < (SETTLE_SEVERE if incident.severe else SETTLE):
        return None
    is_first = incident.announced is None
    is_worse = incident.severe and not incident.announced_severe
    if is_first or is_worse or incident.number >= GROWTH * (incident.announced or 0):
        incident.announced, incident.announced_severe = incident.number, incident.announced_severe or incident.severe
        if not is_first:
            incident.magnitude += 1
            return GREW
    return None


def write(
    incident: Incident,
    event: str,
    routes: Sequence[AlertRoute],
    read_details: DetailsReader,
    now: datetime,
    titles: Mapping[int, str] = {},
) -> None:
    """Write one message per route, and leave out earlier ones of the incident that no worker has begun to send.

    `titles` are by route, where the title that was announced is repeated.
    """
    if not routes:
        return
    details = read_details(incident)
    earlier = AlertMessage.objects.filter(key=incident.key, route__in=routes, state=PENDING, attempts=0)
    if event == BEGAN:
        # Of incidents of the same problem that have ended, unless receivers know of their begin.
        known = AlertMessage.objects.filter(
            incident=OuterRef("incident"), route=OuterRef("route"), event=BEGAN, attempts__gt=0
        )
        earlier = earlier.filter(~Exists(known))
    else:
        earlier = earlier.filter(incident=incident)
    earlier.update(state=AlertMessage.State.SKIPPED, due_at=None)
    AlertMessage.objects.bulk_create(
        AlertMessage(
            route=route,
            route_name=route.identifier,
            incident=incident,
            key=incident.key,
            event=event,
            magnitude=0 if event == BEGAN else incident.magnitude,
            data=message_data(incident, event, route, now, details, titles.get(route.pk, incident.title)),
            created_at=now,
            due_at=now,
        )
        for route in routes
    )


def note_acknowledgements(incidents: Iterable[Incident], found: Mapping[str, Problem]) -> None:
    """Keep who acknowledged the causes: acknowledgements are deleted when these end."""
    stored = {each.cause: each for each in Acknowledgement.objects.order_by("at")}
    for incident in incidents:
        for cause in found[incident.key].causes if incident.key in found else ():
            if known := stored.get(cause.key):
                incident.acknowledged_by, incident.acknowledged_at = known.by, known.at
                incident.note = known.note


def note_relayers(incidents: Iterable[Incident], relayers: Mapping[int, RelayerKeys]) -> None:
    """Store the relayers that have the problem of an incident, up to a maximum."""
    maximum = IncidentRelayer.MAX_PER_INCIDENT
    for incident in incidents:
        lists = relayers[incident.pk]
        if not lists:
            continue
        stored = set(incident.relayers.values_list("relayer", flat=True))
        new: set[int] = set()
        for keys in lists:
            if len(stored) + len(new) < maximum:
                new |= {*keys[:maximum]} - stored
        # Another worker may store the same ones concurrently.
        IncidentRelayer.objects.bulk_create(
            (IncidentRelayer(incident=incident, relayer_id=pk) for pk in sorted(new)[: maximum - len(stored)]),
            ignore_conflicts=True,
        )


def prune() -> None:
    """Delete incidents that ended AUDIT_KEEP_DAYS ago, and test messages as old."""
    if not settings.AUDIT_KEEP_DAYS:
        return
    oldest = database_now() - timedelta(days=settings.AUDIT_KEEP_DAYS)
    ended = Incident.objects.filter(ended_at__lt=oldest).order_by("ended_at")
    AlertMessage.objects.filter(incident=None, created_at__lt=oldest).delete()
    Incident.objects.filter(pk__in=list(ended.values_list("pk", flat=True)[:PRUNE_BATCH_SIZE])).delete()
