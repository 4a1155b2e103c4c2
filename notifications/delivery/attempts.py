"""One attempt: a signed POST to a target, and its outcome."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus

import aiohttp
from django.conf import settings
from django.utils import timezone
from prometheus_client import Counter, Histogram

from notifications import signing
from notifications.models import Delivery
from relayer_service.net import addresses, outgoing
from relayer_service.observability.metrics import BUCKETS
from relayer_service.storage.encryption import DecryptionError

logger = logging.getLogger(__name__)

MAX_ANSWER_BYTES = 2048
MAX_ERROR_LENGTH = 200
# Less than most servers hold a connection: a request on one that was just closed would count as a failure.
KEEP_ALIVE_SECONDS = 2
# Statuses with which a target may say when the next attempt is welcome.
RETRY_AFTER_STATUSES = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}

ATTEMPTS = Counter(
    "relayer_webhook_attempts_total",
    "Attempts at deliveries, by what became of the delivery: `delivered`, `retried` later, or `failed` for good.",
    ["outcome"],
)
ATTEMPT_SECONDS = Histogram(
    "relayer_webhook_attempt_duration_seconds", "Time that one attempt takes.", buckets=(*BUCKETS, 15, 30)
)


@dataclass
class Outcome:
    """The outcome of an attempt: an answer with its status, or an error in words that name no address."""

    delivery: Delivery
    started_at: datetime
    milliseconds: int = 0
    response_code: int | None = None
    answer: str = ""
    error: str = ""
    retry_after: timedelta | None = None

    @property
    def succeeded(self) -> bool:
        return self.response_code is not None and 200 <= self.response_code < 300

    @property
    def gone(self) -> bool:
        return self.response_code == HTTPStatus.GONE


def may_connect(host: str, port: int) -> bool:
    allowed = addresses.is_allowed(host, settings.WEBHOOK_ALLOWED_PRIVATE_NETWORKS)
    return allowed and addresses.is_allowed_port(port)


def open_session() -> aiohttp.ClientSession:
    headers = outgoing.UNCOMPRESSED_HEADERS
    return outgoing.open_session(
        may_connect, keepalive_seconds=KEEP_ALIVE_SECONDS, headers=headers, auto_decompress=False
    )


async def send(session: aiohttp.ClientSession, delivery: Delivery) -> Outcome:
    """Make one attempt at a delivery, within the time that connection and answer may take together."""
    outcome, clock = Outcome(delivery, timezone.now()), time.monotonic()
    try:
        async with asyncio.timeout(settings.WEBHOOK_TIMEOUT_SECONDS):
            await _post(session, outcome)
    except (signing.UnusableKey, DecryptionError) as error:
        outcome.error = str(error)[:MAX_ERROR_LENGTH]
    except (aiohttp.ClientError, OSError, ValueError) as error:
        # Once there is a status it counts, even if the rest of the answer is lost.
        if outcome.response_code is None:
            outcome.error = describe(error)
    except Exception:
        # Retried like any other failure: it must not hold up other deliveries.
        logger.exception("An attempt failed for an unknown reason")
        if outcome.response_code is None:
            outcome.error = "The attempt failed for a reason that is in the log."
    outcome.milliseconds = round((time.monotonic() - clock) * 1000)
    return outcome


async def _post(session: aiohttp.ClientSession, outcome: Outcome) -> None:
    delivery, target = outcome.delivery, outcome.delivery.notification
    body = bytes(delivery.body)
    keys = target.signing_key, target.other_signing_keys()
    headers = signing.headers(delivery.identifier, outcome.started_at, body, *keys)
    async with session.post(target.url, data=body, headers=headers, allow_redirects=False) as response:
        outcome.response_code = response.status
        if not outcome.succeeded:
            outcome.error = f"The target answered {response.status}."
        if response.status in RETRY_AFTER_STATUSES:
            outcome.retry_after = outgoing.parse_retry_after(response.headers.get("Retry-After"), outcome.started_at)
        text = bytearray()
        async for part in response.content.iter_chunked(MAX_ANSWER_BYTES):
            text += part
            outcome.answer = as_text(text[:MAX_ANSWER_BYTES])
            if len(text) >= MAX_ANSWER_BYTES:
                break


def observe_attempt(outcome: Outcome) -> None:
    is_last = outcome.gone or outcome.delivery.attempts_made + 1 >= len(settings.WEBHOOK_SCHEDULE)
    ATTEMPTS.labels("delivered" if outcome.succeeded else "failed" if is_last else "retried").inc()
    ATTEMPT_SECONDS.observe(outcome.milliseconds / 1000)


def as_text(answer: bytearray) -> str:
    """Return an answer as text that every database can store."""
    return answer.decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")


def describe(error: BaseException) -> str:
    """Return why there was no answer, without a host name or an address of the network."""
    if outgoing.is_forbidden(error):
        return "The target's address or port is not allowed."
    known = (words for kind, words in WORDS if isinstance(error, kind))
    return next(known, "The connection broke before the answer was there.")


WORDS: list[tuple[type[BaseException], str]] = [
    (TimeoutError, "There was no answer in time."),
    (aiohttp.ClientConnectorDNSError, "The target's name cannot be resolved."),
    (aiohttp.ClientConnectorCertificateError, "The target's TLS certificate is not valid."),
    (aiohttp.ClientSSLError, "TLS could not be agreed on with the target."),
    (aiohttp.ClientConnectorError, "The target cannot be connected to."),
    (aiohttp.InvalidURL, "The URL cannot be used."),
    (aiohttp.ClientResponseError, "The target's answer is not HTTP."),
    (ValueError, "The URL cannot be used."),
]
