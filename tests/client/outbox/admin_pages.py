"""Open the pages of the outbox in the shop's admin, as the program of a test."""

from __future__ import annotations

import django

django.setup()

from django.contrib.admin.models import LogEntry  # noqa: E402
from django.contrib.auth.models import Permission, User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection, transaction  # noqa: E402
from django.db.models import Model  # noqa: E402
from django.test import Client  # noqa: E402
from django.test.utils import CaptureQueriesContext, setup_test_environment  # noqa: E402
from django.utils import timezone  # noqa: E402

from relayer_client.outbox import enqueue  # noqa: E402
from relayer_client.outbox.models import OutboxTransaction, RelayerGeneration, Status  # noqa: E402

TRANSFER = f"0xa9059cbb{'0' * 24}{'22' * 20}{1_500_000:064x}"
LIST = "/admin/relayer_outbox/outboxtransaction/"


def sign_in(*codenames: str) -> Client:
    user = User.objects.create_user(f"staff-{User.objects.count()}", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    client = Client()
    client.force_login(user)
    return client


def add(*keys: str) -> list[OutboxTransaction]:
    with transaction.atomic():
        return [enqueue("sender", to=f"0x{'11' * 20}", key=key) for key in keys]


def choose(client: Client, action: str, *rows: Model, path: str = LIST, **fields: str) -> str:
    data = {"action": action, "_selected_action": [row.pk for row in rows], **fields}
    return client.post(path, data, follow=True).content.decode()


def status_of(row: OutboxTransaction) -> tuple[str, bool]:
    """Return the status, and whether a sender will take the row."""
    row.refresh_from_db()
    return row.status, row.next_attempt_at is not None


def check_rows_of_an_earlier_release_have_a_reason() -> None:
    call_command("migrate", "relayer_outbox", "0001", verbosity=0)
    (row,) = add("earlier")
    (failed,) = add("earlier-failed")
    OutboxTransaction.objects.update(status_reason="")
    OutboxTransaction.objects.filter(pk=failed.pk).update(status=Status.FAILED)
    call_command("migrate", verbosity=0)
    assert [OutboxTransaction.objects.get(pk=each.pk).status_reason for each in (row, failed)] == [
        "It waits for a sender: manage.py send_outbox hands it over.",
        "",
    ]


def check_lists() -> None:
    client = sign_in("view_outboxtransaction")

    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            page = client.get(LIST, {"q": "list", "status__exact": "queued"})
        assert page.status_code == 200
        return len(queries)

    add("list-1")
    few = count()
    add(*(f"list-{number}" for number in range(2, 40)))
    assert count() == few
    page = client.get(LIST).content.decode()
    assert "list-39" in page
    assert "a-secret-token" not in page


def check_rows_are_read_only() -> None:
    client = sign_in(*(f"{verb}_outboxtransaction" for verb in ("view", "add", "change", "delete")))
    (row,) = add("read-only")
    page = client.get(f"{LIST}{row.pk}/change/")
    assert page.status_code == 200
    assert b'name="_save"' not in page.content
    assert client.get(f"{LIST}add/").status_code == 403
    assert client.post(f"{LIST}{row.pk}/delete/", {"post": "yes"}).status_code == 403
    assert client.post(f"{LIST}{row.pk}/change/", {"status": "confirmed"}).status_code == 403
    assert status_of(row) == ("queued", True)


def check_only_unsent_rows_are_tried_again() -> None:
    client = sign_in("view_outboxtransaction", "change_outboxtransaction")
    rejected, uncertain, reverted, forgotten, confirmed = rows = add("a", "b", "c", "d", "e")
    for row, status, identifier in (
        (rejected, Status.FAILED, ""),
        (uncertain, Status.UNCERTAIN, ""),
        (reverted, Status.FAILED, "an ID"),
        (forgotten, Status.UNCERTAIN, "an ID"),
        (confirmed, Status.CONFIRMED, "an ID"),
    ):
        values = {"status": status, "transaction_id": identifier, "next_attempt_at": None}
        OutboxTransaction.objects.filter(pk=row.pk).update(**values)
    assert "2 changed, 3 skipped." in choose(client, "try_again", *rows)
    assert [status_of(row) for row in rows] == [
        ("queued", True),
        ("queued", True),
        ("failed", False),
        ("uncertain", False),
        ("confirmed", False),
    ]
    assert LogEntry.objects.count() == 2
    # Nothing is changed before it is confirmed for the rows that the page lists.
    page = choose(client, "mark_as_confirmed", *rows)
    assert f"d from sender: 0 wei to 0x{'11' * 20}. " in page
    assert "e from sender" not in page
    assert status_of(forgotten) == ("uncertain", False)
    assert "1 changed, 0 skipped." in choose(client, "mark_as_confirmed", forgotten, is_sure="yes")
    # It is due: the signal is sent.
    assert status_of(forgotten) == ("confirmed", True)
    OutboxTransaction.objects.filter(pk=uncertain.pk).update(status=Status.UNCERTAIN)
    assert "1 changed, 0 skipped." in choose(client, "mark_as_failed", uncertain)
    assert status_of(uncertain) == ("failed", True)


def check_only_rows_that_were_not_handed_over_are_canceled() -> None:
    client = sign_in("view_outboxtransaction", "change_outboxtransaction")
    waiting, claimed = rows = add("waiting", "claimed")
    OutboxTransaction.objects.filter(pk=claimed.pk).update(unanswered_since=timezone.now())
    assert "1 changed, 1 skipped." in choose(client, "cancel", *rows)
    assert (status_of(waiting), status_of(claimed)) == (("canceled", True), ("queued", True))


def check_a_row_shows_its_reason_its_transfer_and_a_link() -> None:
    client = sign_in("view_outboxtransaction")
    (row,) = add("transfer")
    OutboxTransaction.objects.filter(pk=row.pk).update(relayer="own", data=TRANSFER, transaction_id="an-id")
    page = client.get(LIST, {"relayer": "own"}).content.decode()
    assert "It waits for a sender" in page
    assert f"1500000 units to 0x{'22' * 20}" in page
    assert '<a href="http://127.0.0.1:9/admin/transactions/transaction/?q=an-id">an-id</a>' in page
    assert "read-only" not in page


def check_tokens_are_shown_before_a_row_is_marked() -> None:
    client = sign_in("view_outboxtransaction", "change_outboxtransaction")
    rows = add("tokens", "both")
    chosen = OutboxTransaction.objects.filter(pk__in=[row.pk for row in rows])
    chosen.update(data=TRANSFER, status=Status.UNCERTAIN)
    OutboxTransaction.objects.filter(key="both").update(value="7")
    page = choose(client, "mark_as_confirmed", *rows)
    shown = f"1500000 units to 0x{'22' * 20} of the token 0x{'11' * 20}"
    assert f"tokens from sender: {shown}. " in page
    assert f"both from sender: {shown}, with 7 wei. " in page


def check_a_restore_is_shown_and_acknowledged() -> None:
    permissions = ("view_outboxtransaction", "view_relayergeneration", "change_relayergeneration")
    client = sign_in(*permissions)
    fallen = RelayerGeneration.objects.create(relayer="fallen", generation=7, evidence="the generation fell")
    RelayerGeneration.objects.create(relayer="idle", generation=9)
    assert "fallen: the generation fell" in client.get(LIST).content.decode()
    choose(client, "acknowledge", fallen, path="/admin/relayer_outbox/relayergeneration/")
    assert {*RelayerGeneration.objects.values_list("evidence", "generation")} == {("", 0)}
    assert "seems to be restored" not in client.get(LIST).content.decode()


def check_actions_need_the_permission() -> None:
    (row,) = add("not permitted")
    OutboxTransaction.objects.filter(pk=row.pk).update(status=Status.UNCERTAIN)
    choose(sign_in("view_outboxtransaction", "add_outboxtransaction"), "mark_as_confirmed", row, is_sure="yes")
    row.refresh_from_db()
    assert row.status == Status.UNCERTAIN


if __name__ == "__main__":
    setup_test_environment()
    call_command("migrate", verbosity=0)
    call_command("makemigrations", check_changes=True, dry_run=True, verbosity=0)
    check_rows_of_an_earlier_release_have_a_reason()
    check_lists()
    check_rows_are_read_only()
    check_only_unsent_rows_are_tried_again()
    check_only_rows_that_were_not_handed_over_are_canceled()
    check_a_row_shows_its_reason_its_transfer_and_a_link()
    check_tokens_are_shown_before_a_row_is_marked()
    check_a_restore_is_shown_and_acknowledged()
    check_actions_need_the_permission()
