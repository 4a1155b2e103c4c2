"""Sending messages: claimed under a lease, attempted together, and written back.

A claim counts as an attempt, and the next message about the same cause waits for a minute after it. The lease is
longer than that: even what a killed worker had claimed is not repeated within the minute.
"""

import asyncio
import logging
import uuid
from datetime import datetime, timedelta
from functools import partial

import aiohttp
from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone

from incidents.channels import REQUESTS, Request
from incidents.messages import plain_text, test_data
from incidents.models import AlertMessage, AlertRoute
from notifications.delivery import mail, posting, signing
from relayer_service.audit.recording import acted, record
from relayer_service.database.access import is_unavailable, release_connection
from relayer_service.database.clock import DatabaseNow, database_now
from relayer_service.storage.encryption import DecryptionError

logger = logging.getLogger(__name__)

# Between two messages about one cause to one route, whatever happens.
INTERVAL = timedelta(minutes=1)
# Minutes before each further attempt: a day in all, after which a message has failed.
RETRY_MINUTES = (1, 2, 5, 10, 30, 60, *[120] * 12)
# Messages of a route that are sent together, and pending ones that are read to choose them.
MAX_TOGETHER, MAX_READ = 10, 1_000
PENDING = AlertMessage.State.PENDING


def send_due() -> None:
    """Send what is due on every route, in at most WEBHOOK_TIMEOUT_SECONDS."""
    due = AlertMessage.objects.filter(route=OuterRef("pk"), due_at__lte=DatabaseNow())
    routes = AlertRoute.objects.filter(Exists(due), enabled=True).values_list("pk", flat=True)
    claimed = [message for pk in list(routes) for message in claim_safely(pk)]
    if claimed:
        # The connection returns to its pool, as receivers may take long.
        release_connection()
        for message, error in asyncio.run(attempt_all(claimed)):
            write_outcome(message, error)


def claim_safely(route_pk: int) -> list[AlertMessage]:
    """Claim the due messages of a route; one that fails does not keep others from theirs."""
    try:
        return claim(route_pk)
    except Exception as error:
        if is_unavailable(error):
            raise
        logger.exception("The alerts of a route cannot be read")
        return []


def claim(route_pk: int) -> list[AlertMessage]:
    """Claim the due messages of a route, the oldest of each cause, unless another worker is claiming them."""
    with transaction.atomic():
        locked = AlertRoute.objects.select_for_update(skip_locked=True, no_key=True)
        route = locked.filter(pk=route_pk, enabled=True).first()
        if route is None:
            return []
        now = database_now()
        together = posting.MAIL_THREADS if route.is_email else MAX_TOGETHER
        keys = [message.pk for message in sendable(route, now)[:together]]
        # One that is just being left out is skipped.
        rows = AlertMessage.objects.filter(pk__in=keys, state=PENDING).order_by("pk")
        chosen = list(rows.select_for_update(skip_locked=True))
        lease, values = uuid.uuid4(), {"due_at": now + lease_length(), "attempted_at": now}
        claimed = AlertMessage.objects.filter(pk__in=[message.pk for message in chosen])
        claimed.update(attempts=F("attempts") + 1, lease=lease, **values)
        for message in chosen:
            message.route, message.lease, message.attempts = route, lease, message.attempts + 1
    return chosen


def sendable(route: AlertRoute, now: datetime) -> list[AlertMessage]:
    messages: QuerySet[AlertMessage] = AlertMessage.objects.filter(route=route)
    pending = messages.filter(state=PENDING).order_by("pk")
    if route.is_quiet(now):
        # Staff who send a test want to see it.
        is_test = Q(incident=None)
        is_severe = Q(incident__severe=True) | Q(incident__announced_severe=True, event=AlertMessage.Event.ENDED)
        pending = pending.filter(is_test | is_severe if route.severe_passes else is_test)
    recent = set(messages.filter(attempted_at__gt=now - INTERVAL).exclude(key="").values_list("key", flat=True))
    first: dict[str, AlertMessage] = {}
    for message in pending[:MAX_READ]:
        # Tests are about no cause.
        first.setdefault(message.key or message.identifier, message)
    return [each for each in first.values() if each.key not in recent and each.due_at and each.due_at <= now]


def lease_length() -> timedelta:
    return INTERVAL + timedelta(seconds=settings.WEBHOOK_TIMEOUT_SECONDS)


async def attempt_all(messages: list[AlertMessage]) -> list[tuple[AlertMessage, str]]:
    async with posting.open_session() as session:
        errors = await asyncio.gather(*(attempt(session, message) for message in messages))
    return list(zip(messages, errors, strict=True))


async def attempt(session: aiohttp.ClientSession, message: AlertMessage) -> str:
    """Make one attempt at a message; return what went wrong, without a URL or a key, or "" if it was accepted."""
    assert message.route
    try:
        async with asyncio.timeout(settings.WEBHOOK_TIMEOUT_SECONDS):
            if message.route.is_email:
                texts = message.data["summary"], plain_text(message.data)
                send = partial(mail.send_text, *texts, message.route.addresses, message.identifier)
                await asyncio.get_running_loop().run_in_executor(posting.mail_pool, send)
                return ""
            requests = REQUESTS[message.route.channel](message.route, message, timezone.now())
            # All are repeated if one of them fails.
            return max(await asyncio.gather(*(post(session, request) for request in requests)))
    except TimeoutError:
        return "No response in time."
    except (mail.MailError, signing.UnusableKey, DecryptionError) as error:
        return str(error)[: posting.MAX_ERROR_LENGTH]
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return posting.describe(error)
    except Exception:
        logger.exception("Unexpected error in an attempt at an alert")
        return "Internal error. See the worker's log."


async def post(session: aiohttp.ClientSession, request: Request) -> str:
    posted = session.post(request.url, data=request.body, headers=request.headers, allow_redirects=False)
    async with posted as response:
        return "" if 200 <= response.status < 300 else f"Returned HTTP {response.status}."


def write_outcome(message: AlertMessage, error: str) -> None:
    """Write the outcome of an attempt, unless the lease was lost."""
    now = database_now()
    if not error:
        message.release(None, state=AlertMessage.State.SENT, sent_at=now, attempted_at=now, error="")
    elif message.attempts <= len(RETRY_MINUTES) and message.event != AlertMessage.Event.TEST:
        due_at = now + timedelta(minutes=RETRY_MINUTES[message.attempts - 1])
        message.release(due_at, attempted_at=now, error=error)
    else:
        message.release(None, state=AlertMessage.State.FAILED, attempted_at=now, error=error)
    fields = {"message": message.identifier, "route": message.route_name, "attempt": message.attempts}
    if error:
        logger.warning("Alert to %s failed: %s", message.route_name, error, extra={"fields": fields})
    else:
        logger.info("Alert sent to %s", message.route_name, extra={"fields": fields})


def send_test(route: AlertRoute) -> AlertMessage:
    """Write a test message to a route, which a worker sends like any other."""
    with transaction.atomic():
        now = database_now()
        data = test_data(route, now)
        names = {"route": route, "route_name": route.identifier}
        message = AlertMessage.objects.create(**names, event=AlertMessage.Event.TEST, data=data, due_at=now)
        record([acted(route, "Sent a test alert.")])
    return message
