"""One attempt: a signed POST to a target, its outcome, and the time of the next one."""

import asyncio
import logging
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus

import aiohttp
from django.conf import settings
from django.utils import timezone
from prometheus_client import Counter, Histogram

from notifications.delivery import mail, signing, texts
from notifications.models import Delivery, Notification
from relayer_service.background.pools import Pool
from relayer_service.net import addresses, outgoing, sessions
from relayer_service.observability import tracing
from relayer_service.observability.metrics import BUCKETS
from relayer_service.storage.encryption import DecryptionError

logger = logging.getLogger(__name__)

MAX_ANSWER_BYTES = 2048
MAX_ERROR_LENGTH = 200
# Shorter than most servers keep a connection: a request on one that was just closed would count as a failure.
KEEP_ALIVE_SECONDS = 2
# Messages that a process sends concurrently: each waits for a mail server in a thread.
MAIL_THREADS = 2
# Statuses whose Retry-After is honoured.
RETRY_AFTER_STATUSES = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
# A target can ask for a longer wait than the schedule has, up to the longest one of the default schedule.
MAX_RETRY_AFTER = timedelta(days=1)
# The share by which a wait is longer or shorter, so that targets that failed together are not attempted together.
JITTER = 0.1

mail_pool = Pool("webhook-mail", MAIL_THREADS)

ATTEMPTS = Counter(
    "relayer_webhook_attempts_total",
    "Delivery attempts, by outcome: `delivered`, `retried` later, or `failed` permanently.",
    ["outcome"],
)
ATTEMPT_SECONDS = Histogram(
    "relayer_webhook_attempt_duration_seconds", "Duration of an attempt.", buckets=(*BUCKETS, 15, 30)
)


@dataclass
class Outcome:
    """The outcome of an attempt: a response with its status, or an error text that names no address."""

    delivery: Delivery
    started_at: datetime
    milliseconds: int = 0
    response_code: int | None = None
    answer: str = ""
    error: str = ""
    retry_after: timedelta | None = None
    signature: str = ""

    @property
    def succeeded(self) -> bool:
        return self.response_code is not None and 200 <= self.response_code < 300

    @property
    def gone(self) -> bool:
        return self.response_code == HTTPStatus.GONE


def next_attempt(
    schedule: Sequence[int], attempts_made: int, now: datetime, retry_after: timedelta | None = None
) -> datetime | None:
    """Return the time of the next attempt, or None after the last; a schedule has the wait before each, in seconds."""
    if attempts_made >= len(schedule):
        return None
    wait = timedelta(seconds=schedule[attempts_made] * random.uniform(1 - JITTER, 1 + JITTER))  # noqa: S311  # no secret
    if retry_after is not None:
        wait = max(wait, min(retry_after, MAX_RETRY_AFTER))
    return now + wait


def may_connect(host: str, port: int) -> bool:
    allowed = addresses.is_allowed(host, settings.WEBHOOK_ALLOWED_PRIVATE_NETWORKS)
    return allowed and addresses.is_allowed_port(port)


def open_session() -> aiohttp.ClientSession:
    headers = outgoing.UNCOMPRESSED_HEADERS
    return sessions.open_session(
        may_connect, keepalive_seconds=KEEP_ALIVE_SECONDS, headers=headers, auto_decompress=False
    )


async def send(session: aiohttp.ClientSession, delivery: Delivery) -> Outcome:
    """Make one attempt at a delivery, in at most WEBHOOK_TIMEOUT_SECONDS."""
    outcome, clock = Outcome(delivery, timezone.now()), time.monotonic()
    try:
        async with asyncio.timeout(settings.WEBHOOK_TIMEOUT_SECONDS):
            if delivery.notification.is_email:
                await asyncio.get_running_loop().run_in_executor(mail_pool, mail.send, delivery)
                outcome.response_code = mail.ACCEPTED
            else:
                await _post(session, outcome)
    except mail.MailError as error:
        outcome.error, outcome.response_code = str(error), error.code
    except TimeoutError:
        if outcome.response_code is None:
            outcome.error = MAIL_TIMEOUT if delivery.notification.is_email else ERROR_TEXTS[0][1]
    except (signing.UnusableKey, DecryptionError) as error:
        outcome.error = str(error)[:MAX_ERROR_LENGTH]
    except (aiohttp.ClientError, OSError, ValueError) as error:
        # A status counts even if the rest of the response is lost.
        if outcome.response_code is None:
            outcome.error = describe(error)
    except Exception:
        # Retried like any other failure: it must not hold up other deliveries.
        logger.exception("Unexpected error in a webhook attempt")
        if outcome.response_code is None:
            outcome.error = "Internal error. See the worker's log."
    outcome.milliseconds = round((time.monotonic() - clock) * 1000)
    return outcome


async def _post(session: aiohttp.ClientSession, outcome: Outcome) -> None:
    delivery, target = outcome.delivery, outcome.delivery.notification
    body = request_body(delivery)
    keys = target.signing_key, target.other_signing_keys()
    headers = signing.headers(delivery.identifier, outcome.started_at, body, *keys)
    outcome.signature = headers.get(signing.SIGNATURE, "")
    headers |= tracing.headers(delivery.traceparent)
    async with session.post(target.url, data=body, headers=headers, allow_redirects=False) as response:
        outcome.response_code = response.status
        if not outcome.succeeded:
            outcome.error = f"Returned HTTP {response.status}."
        if response.status in RETRY_AFTER_STATUSES:
            outcome.retry_after = outgoing.parse_retry_after(response.headers.get("Retry-After"), outcome.started_at)
        text = bytearray()
        async for part in response.content.iter_chunked(MAX_ANSWER_BYTES):
            text += part
            outcome.answer = as_text(text[:MAX_ANSWER_BYTES])
            if len(text) >= MAX_ANSWER_BYTES:
                break


def request_body(delivery: Delivery) -> bytes:
    body = bytes(delivery.body)
    is_slack = delivery.notification.type == Notification.Type.SLACK
    return texts.slack_message(texts.subject(body), texts.text(body)) if is_slack else body


def observe_attempt(outcome: Outcome) -> None:
    is_last = outcome.gone or outcome.delivery.attempts_made + 1 >= len(settings.WEBHOOK_SCHEDULE)
    ATTEMPTS.labels("delivered" if outcome.succeeded else "failed" if is_last else "retried").inc()
    ATTEMPT_SECONDS.observe(outcome.milliseconds / 1000)


def as_text(answer: bytearray) -> str:
    """Return a response body as text that every database can store."""
    return answer.decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")


def describe(error: BaseException) -> str:
    """Return why there was no response, without a host name or an address of the network."""
    if outgoing.is_forbidden(error):
        return "The address or port is not allowed."
    known = (text for kind, text in ERROR_TEXTS if isinstance(error, kind))
    return next(known, "The connection was closed before the response was complete.")


MAIL_TIMEOUT = "The mail server did not respond in time."
ERROR_TEXTS: list[tuple[type[BaseException], str]] = [
    (TimeoutError, "No response in time."),
    (aiohttp.ClientConnectorDNSError, "The host name cannot be resolved."),
    (aiohttp.ClientConnectorCertificateError, "The TLS certificate is not valid."),
    (aiohttp.ClientSSLError, "TLS handshake failed."),
    (aiohttp.ClientConnectorError, "Connection failed."),
    (aiohttp.InvalidURL, "The URL is not valid."),
    (aiohttp.ClientResponseError, "The response is not HTTP."),
    (ValueError, "The URL is not valid."),
]
