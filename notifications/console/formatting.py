"""Webhooks and deliveries, as lists and pages show them."""

import json
import shlex
from contextlib import suppress

from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import mark_safe

from notifications.delivery import counts, signing, texts
from notifications.delivery.posting import request_body
from notifications.models import Delivery, Notification
from relayer_service.console.dates import to_the_minute, until
from relayer_service.console.overview.dashboard import label
from relayer_service.console.references import link
from relayer_service.net import outgoing
from relayer_service.net.addresses import mask, without_user_info
from relayer_service.storage.encryption import DecryptionError

VARIANTS: dict[str, str] = {
    Delivery.State.PENDING: "info",
    Delivery.State.DELIVERED: "success",
    Delivery.State.FAILED: "danger",
}
IN_TURN = mark_safe('<span title="While a webhook fails, one delivery at a time is tried.">in its turn</span>')


def is_retried(notification: Notification) -> bool:
    """Return whether one delivery at a time is tried, and the others wait until one arrives."""
    return notification.enabled and notification.failing_since is not None and notification.gone_at is None


def state(notification: Notification) -> tuple[str, str, str]:
    """Return the name of the state, the variant of its label, and its reason or start."""
    if not notification.enabled:
        return "Stopped", "info", "disabled"
    if notification.gone_at:
        return "Stopped", "danger", f"returned 410 at {to_the_minute(notification.gone_at)}"
    if notification.failing_since:
        return "Failing, retrying", "warning", f"since {to_the_minute(notification.failing_since)}"
    if not notification.tried:
        return "Not tried yet", "info", ""
    return "Working", "success", ""


def state_label(notification: Notification) -> str:
    name, variant, _ = state(notification)
    return label(name, variant)


def state_with_details(notification: Notification) -> str:
    details = state(notification)[2]
    return format_html("{} {}", state_label(notification), details) if details else state_label(notification)


def signing_key(notification: Notification) -> str:
    return label("set", "success") if notification.has_signing_key else label("none", "warning")


def skipped_events(notification: Notification) -> str:
    count = counts.skipped_events(notification)
    return f"{count:,} while it was disabled" if count else "none"


def delivery_state(delivery: Delivery) -> str:
    """Return the label of the state; of a pending delivery, whether it was tried or waits behind others."""
    webhook, name = delivery.notification, delivery.state
    if delivery.state == Delivery.State.PENDING and webhook.enabled and not webhook.gone_at:
        name = "retrying" if delivery.attempts_made else "waiting" if is_retried(webhook) else name
    return label(name, VARIANTS[delivery.state])


def next_attempt(delivery: Delivery) -> str:
    if delivery.due_at is None:
        return "-"
    if not delivery.notification.enabled:
        return "held while the webhook is disabled"
    is_due = delivery.due_at <= timezone.now()
    if is_due and is_retried(delivery.notification):
        return IN_TURN
    return "in progress" if delivery.lease and not is_due else until(delivery.due_at)


def target(delivery: Delivery, *, with_secrets: bool) -> str:
    webhook = delivery.notification
    return format_html("{} ({})", link(webhook), webhook.shown_url if with_secrets else webhook.masked_url)


def headers(delivery: Delivery, *, with_secrets: bool) -> str:
    """Return the headers of the last attempt."""
    last = delivery.attempts.last()
    if last is None:
        return "Not sent yet."
    # With a signature, anyone could send the event again.
    sent = outgoing.HEADERS | signing.headers(delivery.identifier, last.started_at, b"", None)
    if last.signature:
        sent[signing.SIGNATURE] = last.signature if with_secrets else "***"
    return plain_text("\n".join(f"{name}: {value}" for name, value in sent.items()))


def body(delivery: Delivery) -> str:
    return plain_text(json.dumps(json.loads(request_body(delivery)), indent=2, ensure_ascii=False))


def message(delivery: Delivery) -> str:
    event = bytes(delivery.body)
    return plain_text(f"Subject: {texts.subject(event)}\n\n{texts.text(event)}")


def curl(delivery: Delivery, *, with_secrets: bool) -> str:
    """Return a curl command that sends the request, signed now; with a masked URL and unsigned without secrets."""
    webhook, sent = delivery.notification, request_body(delivery)
    key = None
    with suppress(DecryptionError):
        key = webhook.signing_key if with_secrets else None
    try:
        signed = signing.headers(delivery.identifier, timezone.now(), sent, key, webhook.other_signing_keys())
    except signing.UnusableKey:
        signed = signing.headers(delivery.identifier, timezone.now(), sent, None)
    url = without_user_info(webhook.url) if with_secrets else mask(webhook.url)
    named = (f"-H {shlex.quote(f'{name}: {value}')}" for name, value in {**outgoing.HEADERS, **signed}.items())
    lines = ["curl -i -X POST", *named, f"--data-raw {shlex.quote(sent.decode())}", shlex.quote(url)]
    return " \\\n  ".join(lines)


def curl_to_copy(delivery: Delivery) -> str:
    return render_to_string("admin/notifications/delivery/curl.html", {"curl": curl(delivery, with_secrets=True)})


def plain_text(text: str) -> str:
    """Return a text as it is: the response of a target is untrusted."""
    return format_html('<pre class="plain-text">{}</pre>', text)
