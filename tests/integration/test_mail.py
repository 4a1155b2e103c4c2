"""E-mail with real workers, of which one is killed."""

from pathlib import Path

import pytest

from notifications.models import Delivery, Notification, mailto
from tests.concurrency import wait_until
from tests.forked_workers import Workers
from tests.notifications.factories import emit_test
from tests.notifications.mail_servers import LOOPBACK, mail_server


@pytest.mark.long
@pytest.mark.django_db(transaction=True)
def test_a_message_that_a_killed_worker_had_begun_is_sent_by_another(tmp_path: Path) -> None:
    channel = Notification.objects.create(identifier="mail", type="email", url=mailto("ops@example.com"))
    with mail_server() as server:
        server.hold_next = True
        delivery = emit_test(channel)
        url = f"smtp://{LOOPBACK}:{server.port}?from=relayers@example.com"
        workers = Workers(1, tmp_path, EMAIL_URL=url, WEBHOOK_TIMEOUT_SECONDS="10")
        try:
            wait_until(server.holds.is_set)
            workers.kill_oldest()
            wait_until(lambda: Delivery.objects.filter(state="delivered").exists())
        finally:
            workers.end()
        assert [message["Message-ID"] for message in server.messages] == [f"<{delivery.identifier}@example.com>"]
    # The attempt of the killed worker was never written.
    assert Delivery.objects.get().attempts_made == 1
