"""What messages say of an incident beyond its row: why it is, and its first relayers. Read only for a new message."""

import logging
from collections.abc import Iterable, Sequence
from html import unescape
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils.html import strip_tags
from django.utils.safestring import SafeString

from incidents.kinds import Problem
from incidents.messages import Details
from incidents.models import Incident
from relayer_service.console.overview.attention import AttentionSubject
from relayer_service.console.overview.incidents import examples_of
from relayers.models import Relayer

logger = logging.getLogger(__name__)

MAX_NAMED = 3
MAX_REASON = 500


def details_of(
    incident: Incident,
    problem: Problem | None,
    subjects: Iterable[AttentionSubject],
    relayers: Sequence[QuerySet[Any, Any]],
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
