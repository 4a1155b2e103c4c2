"""Jobs: run by one worker at a time, never lost with it, stopped between two batches, and seen by those who may."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from relayer_service.background.tasks import queue
from relayer_service.database.clock import database_now
from relayer_service.jobs import running
from relayer_service.jobs.kinds import Result
from relayer_service.models import Job
from relayer_service.storage.selections import Selection
from relayers.models import Relayer, RelayerHealth
from relayers.tasks import CheckRelayers
from tests.concurrency import in_threads
from tests.notifications.admin_pages import staff_who_may, told
from tests.relayer_service.jobs import run_jobs, start_job
from tests.relayers import factories
from tokens.models import AccessToken
from tokens.writes import issue, rotate

pytestmark = pytest.mark.django_db

LIST = "/admin/relayer_service/job/"


@pytest.fixture(autouse=True)
def batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch has two rows, and a task does one batch."""
    monkeypatch.setattr(CheckRelayers, "batch_size", 2)
    monkeypatch.setattr(running, "SLICE_SECONDS", 0)


def start(count: int = 5) -> Job:
    later = timezone.now() + timedelta(minutes=5)
    for number in range(count):
        factories.relayer(identifier=f"r-{number}", due_at=later)
    return start_job("check_relayers", Selection.from_queryset(Relayer.objects.all()))


def run_once(job: Job) -> None:
    running.run_job.call_local(job.pk)


def due() -> list[str]:
    return list(
        Relayer.objects.filter(health__due_at__lte=database_now()).order_by("pk").values_list("identifier", flat=True)
    )


def page_of(job: Job, view: str = "change") -> str:
    return f"{LIST}{job.pk}/{view}/"


def test_a_job_goes_on_batch_by_batch_to_its_end(
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    def pushed(work: Callable[[], Any]) -> list[Any]:
        """Return the arguments of the tasks that go on with a job."""
        queue.flush()
        with django_capture_on_commit_callbacks(execute=True):
            work()
        return [task.args for task in queue.pending() if task.name == "run_job"]

    assert len(pushed(start)) == 1
    job = Job.objects.get()
    assert (job.title, job.state, job.total) == ("Check 5 relayers now", "waiting", 5)
    # The sweep finds a job whose task was lost.
    assert pushed(running.run_due_jobs.call_local) == [(job.pk,)]
    assert pushed(lambda: run_once(job)) == [(job.pk,)]
    job.refresh_from_db()
    assert (job.state, job.done, due()) == ("running", 2, ["r-0", "r-1"])
    assert pushed(run_jobs)[1:] == []
    job.refresh_from_db()
    assert (job.state, job.done, job.due_at, job.lease) == ("finished", 5, None, None)
    assert job.started_at
    assert job.finished_at
    assert len(due()) == 5


def killed_worker(job: Job) -> Job:
    """Claim a job, do one batch and never come back."""
    (claimed,) = Job.objects.filter(pk=job.pk).claim(1, running.LEASE)
    running.work(claimed, 0)
    held: Job = claimed
    return held


def test_another_worker_goes_on_where_a_killed_one_was() -> None:
    job = start()
    killed_worker(job)
    run_once(job)
    job.refresh_from_db()
    assert job.done == 2
    Job.objects.update(due_at=timezone.now())
    RelayerHealth.objects.update(due_at=timezone.now() + timedelta(minutes=5))
    run_jobs()
    job.refresh_from_db()
    assert (job.state, job.done) == ("finished", 5)
    assert due() == ["r-2", "r-3", "r-4"]


def test_a_worker_that_has_lost_its_lease_does_nothing_more() -> None:
    job = start()
    slow = killed_worker(job)
    Job.objects.update(due_at=timezone.now())
    Job.objects.filter(pk=job.pk).claim(1, running.LEASE)
    with pytest.raises(running.LeaseLostError):
        running.work(slow, 0)
    job.refresh_from_db()
    assert (job.done, due()) == (2, ["r-0", "r-1"])


@pytest.mark.django_db(transaction=True)
def test_of_two_workers_one_runs_the_job() -> None:
    job = start(2)
    calls: list[Any] = []
    run = CheckRelayers.run

    def count(kind: CheckRelayers, keys: Sequence[int]) -> Result:
        calls.append(keys)
        return run(kind, keys)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CheckRelayers, "run", count)
        in_threads(*[partial(run_once, job)] * 3)
    job.refresh_from_db()
    assert (len(calls), job.done, job.state) == (1, 2, "finished")


def test_a_job_is_stopped_between_two_batches(admin_client: Client) -> None:
    job = start()
    run_once(job)
    assert "Stop" in admin_client.get(page_of(job)).content.decode()
    assert told(admin_client.post(page_of(job, "stop"), follow=True)) == ["The job stops after the batch in progress."]
    assert ">Stop" not in admin_client.get(page_of(job)).content.decode()
    run_jobs()
    job.refresh_from_db()
    assert (job.state, job.stopped_by, job.done, due()) == ("stopped", "admin", 2, ["r-0", "r-1"])
    page = admin_client.get(page_of(job)).context
    assert page["summary"] == ("Stopped by admin after 2 of 5. Completed changes are kept; the rest is unchanged.")
    assert page["progress_url"] == page["stop_url"] == ""
    # One that has not begun is stopped at once.
    other = start_job("check_relayers", Selection.from_keys([1]))
    admin_client.post(page_of(other, "stop"))
    other.refresh_from_db()
    assert (other.state, other.due_at) == ("stopped", None)


def test_what_fails_is_named_and_the_job_goes_on(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    job = start(25)
    first = Relayer.objects.order_by("pk")[0].pk

    def run(kind: CheckRelayers, keys: Sequence[int]) -> Result:
        if keys[0] == first:
            raise RuntimeError("a bug")
        return Result(1, [(str(Relayer.objects.get(pk=key)), "<b>Down.</b>") for key in keys[1:]])

    monkeypatch.setattr(CheckRelayers, "run", run)
    run_jobs()
    page = admin_client.get(page_of(job))
    # A fault of the service fails its batch alone.
    found = page.context["job"]
    assert (found.state, found.done, found.failed) == ("finished", 12, 13)
    faults = [["r-0", running.FAULT], ["r-1", running.FAULT]]
    assert page.context["failures"] == [*faults, *([f"r-{number}", "<b>Down.</b>"] for number in range(3, 19, 2))]
    assert "and 3 more" in page.content.decode()
    assert "<b>Down" not in page.content.decode()
    # It leads to its changes in the audit log, if that has them.
    verify = running.start(
        "verify_signers", Selection.from_keys([1]), "terraform", token_key="4BsmmmUhnwhg", reason="The nodes move."
    )
    assert "in the audit log" not in page.content.decode()
    shown = admin_client.get(page_of(verify))
    assert f"auditentry/?q=job-{verify.pk}" in shown.content.decode()
    facts = shown.context["facts"]
    assert (facts["Started by"].split(", ")[0], facts["Reason"]) == ("terraform (token)", "The nodes move.")


@pytest.mark.parametrize(
    ("permissions", "sees", "stops"),
    [
        (["view_relayer"], True, False),
        (["view_job"], True, False),
        (["view_relayer", "change_relayer"], True, False),
        (["view_relayer", "check_relayer"], True, True),
        (["view_signer", "change_signer"], False, False),
        (["view_auditentry"], False, False),
    ],
)
def test_a_job_is_seen_by_those_who_see_its_rows_and_stopped_by_those_who_may_start_it(
    client: Client, permissions: list[str], sees: bool, stops: bool
) -> None:
    job = start(1)
    viewer = staff_who_may(client, *permissions)
    listed = viewer.get(LIST)
    assert (listed.status_code == 200 and job.title in listed.content.decode()) is sees
    assert (viewer.get(page_of(job)).status_code == 200) is sees
    assert (viewer.get(page_of(job, "progress")).status_code == 200) is sees
    if sees:
        assert bool(viewer.get(page_of(job)).context["stop_url"]) is stops
    viewer.post(page_of(job, "stop"))
    job.refresh_from_db()
    assert (job.state == "stopped") is stops


LOSSES: dict[str, dict[str, Any]] = {
    "disabled": {"enabled": False},
    "expired": {"expires_at": timezone.now()},
    "scopes": {"scopes": ["read", "send"]},
}


@pytest.mark.parametrize(
    ("loss", "has_begun"), [("disabled", True), ("disabled", False), ("expired", True), ("scopes", False)]
)
def test_a_job_stops_when_its_token_loses_its_rights(
    user: User, admin_client: Client, has_begun: bool, loss: str
) -> None:
    start()
    Job.objects.all().delete()
    token, _ = issue(name="terraform", user=user, scopes=["manage"])
    selection = Selection.from_queryset(Relayer.objects.all())
    job = running.start("check_relayers", selection, token.name, token_key=token.key)
    if has_begun:
        run_once(job)
    AccessToken.objects.filter(pk=token.pk).update(**LOSSES[loss])
    run_jobs()
    job.refresh_from_db()
    assert (job.state, due()) == ("stopped", ["r-0", "r-1"] if has_begun else [])
    summary = admin_client.get(page_of(job)).context["summary"]
    assert summary.startswith(f"Stopped by {running.REVOKED} after {len(due())} of 5.")


def test_a_job_goes_on_when_its_token_is_rotated(user: User) -> None:
    start(1)
    token, _ = issue(name="terraform", user=user, scopes=["manage"])
    selection = Selection.from_queryset(Relayer.objects.all())
    job = running.start("check_relayers", selection, token.name, token_key=token.key)
    rotate(token.pk, timedelta())
    run_jobs()
    job.refresh_from_db()
    assert job.state == "finished"


@pytest.mark.parametrize(
    ("loss", "reason"),
    [
        ("active", running.NOT_PERMITTED),
        ("permission", running.NOT_PERMITTED),
        ("name", running.NO_USER),
        ("user", running.NO_USER),
    ],
)
def test_a_job_stops_when_its_user_may_not_start_it_any_more(
    client: Client, admin_client: Client, loss: str, reason: str
) -> None:
    staff_who_may(client, "check_relayer")
    user = User.objects.get(user_permissions__codename="check_relayer")
    job = start()
    Job.objects.update(actor=user.get_username())
    run_once(job)
    assert due() == ["r-0", "r-1"]
    if loss == "active":
        User.objects.filter(pk=user.pk).update(is_active=False)
    elif loss == "permission":
        user.user_permissions.clear()
    elif loss == "name":
        User.objects.filter(pk=user.pk).update(username="anna")
    else:
        user.delete()
    run_jobs()
    job.refresh_from_db()
    assert (job.state, due()) == ("stopped", ["r-0", "r-1"])
    summary = admin_client.get(page_of(job)).context["summary"]
    assert summary.startswith(f"Stopped by {reason} after 2 of 5.")


def test_a_job_is_deleted_long_after_its_end() -> None:
    old, new = start(1), start_job("check_relayers", Selection.from_keys([1]))
    run_jobs()
    Job.objects.filter(pk=old.pk).update(finished_at=timezone.now() - running.KEEP - timedelta(days=1))
    waiting = start_job("check_relayers", Selection.from_keys([1]))
    running.prune_jobs.call_local()
    assert set(Job.objects.all()) == {new, waiting}
