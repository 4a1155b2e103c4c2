"""Bulk actions over the API: jobs that are chosen by a filter, started once, and read while they run."""

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from notifications.jobs import ReplayDeliveries
from notifications.models import Delivery
from relayer_service.api import jobs
from relayer_service.jobs import running
from relayer_service.models import AuditEntry, Job
from relayer_service.storage.selections import Selection
from relayers.jobs.kinds import PauseRelayers
from relayers.models import Relayer
from tests.api import Api
from tests.contract import bodies
from tests.relayer_service.jobs import run_jobs
from tests.relayers import factories
from tokens.models import AccessToken
from tokens.writes import issue

pytestmark = pytest.mark.django_db

REPLAY = "/api/v1/notifications/hook-1/deliveries/replay"
PAUSE = "/api/v1/relayers/pause"
RESUME = "/api/v1/relayers/resume"
MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture(autouse=True)
def batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch has two rows, and a task does one batch."""
    for kind in (ReplayDeliveries, PauseRelayers):
        monkeypatch.setattr(kind, "batch_size", 2)
    monkeypatch.setattr(running, "SLICE_SECONDS", 0)


def deliveries() -> None:
    hook, other = factories.notification("hook-1"), factories.notification("hook-2")
    for number in range(6):
        Delivery.objects.create(
            identifier=f"msg_{number}",
            notification=other if number == 5 else hook,
            event="relayer.resumed" if number == 4 else "relayer.paused",
            body=b"{}",
            state="delivered" if number == 3 else "failed",
            attempts_made=10,
            created_at=MOMENT + timedelta(minutes=number),
        )


def fleet() -> None:
    hook = factories.notification("hook-1")
    for number in range(5):
        network = "base" if number == 4 else "sepolia"
        factories.relayer(identifier=f"r-{number}", network=network, notification=hook, paused=number == 3)


def replayed() -> set[str]:
    return set(Delivery.objects.filter(state="pending", attempts_made=0).values_list("identifier", flat=True))


def paused() -> list[str]:
    return list(Relayer.objects.filter(paused=True).order_by("pk").values_list("identifier", flat=True))


def events(name: str) -> list[str]:
    return sorted(Delivery.objects.filter(event=name).values_list("subject", flat=True))


def started(kind: str, total: int) -> dict[str, Any]:
    job = Job.objects.get()
    counts = {"total": total, "done": 0, "skipped": 0, "failed": 0, "failures": []}
    created_at = job.created_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {"id": str(job.pk), "kind": kind, "state": "waiting", **counts, "created_at": created_at}


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({}, {"msg_0", "msg_1", "msg_2", "msg_3", "msg_4"}),
        ({"event": "relayer.paused", "state": "failed"}, {"msg_0", "msg_1", "msg_2"}),
        ({"created_from": "2026-01-02T03:05:05Z", "created_before": "2026-01-02T04:07:05+01:00"}, {"msg_1", "msg_2"}),
        ({"created_from": "2040-01-01T00:00:00Z"}, set()),
    ],
)
def test_the_deliveries_of_a_filter_are_replayed(manager: Api, chosen: dict[str, str], expected: set[str]) -> None:
    deliveries()
    answer = manager.post(REPLAY, {"filter": chosen})
    assert (answer.status, answer.body) == (201, bodies.success(started("replay_deliveries", len(expected))))
    assert replayed() == set()
    # What is added after the start of a job is not part of it.
    Delivery.objects.filter(identifier="msg_3").update(state="failed")
    run_jobs()
    assert replayed() == expected


def test_the_progress_of_a_job_can_be_read(manager: Api, user: User) -> None:
    deliveries()
    # In flight.
    lease = {"lease": "5f0c1f6e-4a7e-4b0b-8a3a-0a3a0a3a0a3a", "due_at": timezone.now() + timedelta(minutes=1)}
    Delivery.objects.filter(identifier="msg_1").update(state="pending", **lease)
    job = manager.post(REPLAY, {"filter": {}}).body["data"]
    path = f"/api/v1/jobs/{job['id']}"
    assert manager.get(path).body == bodies.success(job)
    running.run_job.call_local(int(job["id"]))
    shown = manager.get(path).body["data"]
    assert shown == {**job, "state": "running", "done": 1, "skipped": 1, "started_at": shown["started_at"]}
    run_jobs()
    shown = manager.get(path).body["data"]
    times = {name: shown[name] for name in ("started_at", "finished_at")}
    assert shown == {**job, "state": "finished", "done": 4, "skipped": 1, **times}
    # Any token that reads sees jobs of tokens, and none of staff.
    of_staff = running.start("verify_signers", Selection.from_keys([1]), "olga")
    reader = Api(issue(name="dashboard", user=user, scopes=["read"])[1])
    assert reader.get(path).body == bodies.success(shown)
    for identifier in (str(of_staff.pk), "0", "1" + "0" * 30, "one", "1.0", "%D9%A1", "%00"):
        answer = reader.get(f"/api/v1/jobs/{identifier}")
        unknown = bodies.failure(f"Job with ID {unquote(identifier)} not found")
        assert (answer.status, answer.body) == (404, unknown)


def test_a_job_that_is_killed_at_any_step_replays_each_delivery_once(
    manager: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    deliveries()
    manager.post(REPLAY, {"filter": {"state": "failed"}})
    progress = running._progress

    class Killed(BaseException):
        pass

    def kill(*args: Any) -> Any:
        raise Killed

    for _ in range(2):
        # After the batch, before the commit.
        monkeypatch.setattr(running, "_progress", kill)
        before = replayed()
        with pytest.raises(Killed):
            run_jobs()
        assert replayed() == before
        monkeypatch.setattr(running, "_progress", progress)
        Job.objects.update(due_at=timezone.now())
        running.run_job.call_local(Job.objects.get().pk)
    assert replayed() == {"msg_0", "msg_1", "msg_2", "msg_4"}
    recorded = AuditEntry.objects.filter(object_type="delivery").values_list("object_id", flat=True)
    assert sorted(recorded) == ["msg_0", "msg_1", "msg_2", "msg_4"]


def test_the_relayers_of_a_filter_are_paused_and_resumed(manager: Api) -> None:
    fleet()
    token = AccessToken.objects.get()
    answer = manager.post(PAUSE, {"filter": {"network": "sepolia"}, "reason": "The nodes move."})
    assert (answer.status, answer.body) == (201, bodies.success(started("pause_relayers", 4)))
    run_jobs()
    assert (paused(), events("relayer.paused")) == (["r-0", "r-1", "r-2", "r-3"], ["r-0", "r-1", "r-2"])
    job = Job.objects.get()
    assert (job.state, job.done, job.skipped) == ("finished", 3, 1)
    columns = ("actor_kind", "actor", "actor_key", "request_id", "reason")
    recorded = AuditEntry.objects.filter(object_type="relayer").values_list(*columns)
    assert [*recorded] == [("token", "terraform", token.key, f"job-{job.pk}", "The nodes move.")] * 3
    manager.post(RESUME, {"filter": {"q": "R-1"}})
    run_jobs()
    assert (paused(), events("relayer.resumed")) == (["r-0", "r-2", "r-3"], ["r-1"])


FAULTS: list[tuple[str, Any, list[str]]] = [
    (REPLAY, {}, ["filter: this field is required"]),
    (REPLAY, {"filter": None}, ["filter: null is not allowed here"]),
    (REPLAY, {"filter": {"state": "lost"}}, ["filter.state: must be one of: pending, delivered, failed"]),
    (
        REPLAY,
        {"filter": {"created_from": "yesterday"}},
        ["filter.created_from: a time with its offset as in RFC 3339 is required"],
    ),
    (PAUSE, {"filter": {"network": 1}, "why": ""}, ["why: unknown field", "filter.network: a string is required"]),
    (RESUME, {"filter": {}, "reason": "x" * 501}, ["reason: at most 500 characters are allowed"]),
    (PAUSE, {"filter": {}}, ["filter: more than 1,000,000 rows match; narrow it"]),
]


def test_a_filter_that_cannot_be_starts_no_job(manager: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "MAX_SELECTED", 4)
    unknown = manager.post(REPLAY, {"filter": {}})
    assert (unknown.status, unknown.body) == (404, bodies.failure("Notification with ID hook-1 not found"))
    fleet()
    for path, body, faults in FAULTS:
        answer = manager.post(path, body)
        assert (answer.status, bodies.uncoded(answer.body)) == (400, bodies.bad_request(*faults))
    assert not Job.objects.exists()
    assert manager.post(PAUSE, {"filter": {"network": "sepolia"}}).status == 201


def test_a_relayer_whose_id_is_like_a_path_can_be_managed(manager: Api) -> None:
    factories.relayer(identifier="pause")
    assert manager.get(PAUSE).body["data"]["id"] == "pause"
    assert manager.patch(PAUSE, {"name": "Another"}).body["data"]["name"] == "Another"
    assert manager("DELETE", f"{PAUSE}/").status == 200
    assert manager.get(PAUSE).body == bodies.failure("Relayer with ID pause not found")
