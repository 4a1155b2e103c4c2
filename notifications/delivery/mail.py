"""One attempt at an e-mail, through Django's e-mail backend."""

import smtplib
from email.utils import parseaddr

from django.conf import settings
from django.core.mail import EmailMessage, get_connection

from notifications.delivery import texts
from notifications.models import Delivery

SMTP = "django.core.mail.backends.smtp.EmailBackend"
ACCEPTED = 250


class MailError(Exception):
    """The message was not accepted; `code` is the mail server's, if it answered."""

    def __init__(self, text: str, code: int | None = None) -> None:
        super().__init__(text)
        self.code = code


def send(delivery: Delivery) -> None:
    """Send a delivery as one message to all addresses; raise `MailError` if the mail server does not accept it."""
    body = bytes(delivery.body)
    send_text(texts.subject(body), texts.text(body), delivery.notification.addresses, delivery.identifier)


def send_text(subject: str, text: str, addresses: list[str], identifier: str) -> None:
    """Send a text to all addresses; raise `MailError` if the mail server does not accept it.

    It blocks for at most EMAIL_TIMEOUT at each step, so that callers run it in a thread.
    """
    if settings.EMAIL_BACKEND == SMTP and not settings.EMAIL_HOST:
        raise MailError("No mail server is configured. Set EMAIL_URL.")
    domain = parseaddr(settings.DEFAULT_FROM_EMAIL)[1].partition("@")[2] or "localhost"
    message = EmailMessage(
        subject=f"{settings.EMAIL_SUBJECT_PREFIX} {subject}".strip(),
        body=text,
        to=addresses,
        # The same at every attempt, so that duplicates are recognized.
        headers={"Message-ID": f"<{identifier}@{domain}>", "Auto-Submitted": "auto-generated"},
        connection=get_connection(timeout=settings.EMAIL_TIMEOUT),
    )
    try:
        message.send()
    except smtplib.SMTPRecipientsRefused as error:
        code = next((code for code, _ in error.recipients.values()), None)
        raise MailError("The mail server refused all addresses.", code) from None
    except smtplib.SMTPAuthenticationError as error:
        raise MailError("The mail server refused the user name or password of EMAIL_URL.", error.smtp_code) from None
    except smtplib.SMTPResponseException as error:
        raise MailError(f"The mail server refused the message ({error.smtp_code}).", error.smtp_code) from None
    except (smtplib.SMTPException, OSError):
        raise MailError("Cannot connect to the mail server.") from None
