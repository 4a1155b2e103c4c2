"""The witness of a lane: a database that is behind it was restored, and holds all lanes before anything is signed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from pytest_django import DjangoCaptureOnCommitCallbacks

from relayer_service.models import AuditEntry
from tests.relayer_service.api.test_throttling import shared_cache
from tests.relayers import factories as relayers
from tests.relayers.config_files import OTHER_ADDRESS, OTHER_KEY
from tests.transactions import factories
from tests.transactions.test_commits import send
from transactions.lanes import leasing, work
from transactions.lanes.commits import Result, commit
from transactions.models import Lane, Status
from transactions.requests import actions
from transactions.settlement.nonces import restores, witness

pytestmark = pytest.mark.django_db

HELD = {"lost_commits": "The database is older than what was sent: it was restored from a backup."}


@pytest.fixture(autouse=True)
def folder(settings: Any, tmp_path: Path) -> Path:
    settings.DATA_DIR = tmp_path
    return tmp_path


@pytest.fixture
def on_redis(settings: Any, redis_url: str) -> None:
    settings.DATA_DIR = settings.DATA_DIR / "missing"
    settings.REDIS_URL, settings.CACHES = redis_url, shared_cache(redis_url)


@pytest.fixture
def lane() -> Lane:
    """A lane that this worker holds, at the third generation."""
    made = factories.lane(relayers.relayer(), generation=3, witness=witness.new_name())
    claimed = leasing.claim(made.pk)
    assert claimed is not None
    return claimed


@pytest.fixture
def idle() -> Lane:
    """Another lane, which has never signed."""
    signer = relayers.signer("signer-2", OTHER_KEY)
    return factories.lane(relayers.relayer(identifier="relayer-2", signer=signer, address=OTHER_ADDRESS))


def see(lane: Lane, generation: int) -> None:
    """Have the witness of a lane see a generation."""
    witness.write(Lane(witness=lane.witness, generation=generation))


def seen(lane: Lane) -> int:
    return witness.read([lane.witness])[lane.witness]


def held() -> list[dict[str, str]]:
    return [{reason: entry["details"] for reason, entry in lane.holds.items()} for lane in Lane.objects.order_by("pk")]


def test_each_commit_of_signed_bytes_is_seen(
    lane: Lane, idle: Lane, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    # Another database gets names of its own, though the folder is the same.
    see(lane, 9)
    Lane.objects.update(witness="")
    found = []
    for nonce in (0, 1):
        with django_capture_on_commit_callbacks(execute=True):
            commit(lane, Result(attempts=[send(factories.transaction(lane), nonce)]))
        found.append(Lane.objects.get(pk=lane.pk))
    assert [each.generation for each in found] == [4, 5]
    assert seen(found[1]) == 5
    assert found[0].witness == found[1].witness != lane.witness
    work.load(lane)
    assert held() == [{}, {}]
    waiting = factories.transaction(lane, status=Status.SENT, nonce=7)
    commit(lane, Result(reasons={1: (waiting, "It waits.")}))
    assert Lane.objects.get(pk=lane.pk).generation == 5


@pytest.mark.parametrize("place", ["folder", "on_redis"])
def test_a_witness_that_is_ahead_holds_all_lanes_once(
    lane: Lane, idle: Lane, place: str, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    request.getfixturevalue(place)
    # It never goes back.
    for generation in (2, 4, 2):
        see(lane, generation)
    assert seen(lane) == 4
    loaded = work.load(lane)
    assert loaded is not None
    assert (list(loaded.lane.holds), loaded.assigns_nonces, held()) == (["lost_commits"], False, [HELD, HELD])
    assert [(record.levelno, record.message) for record in caplog.records if record.name == restores.__name__] == [
        (logging.CRITICAL, f"All lanes are held: {HELD['lost_commits']}")
    ]
    entries = AuditEntry.objects.filter(object_type="lane")
    assert {(entry.who, entry.reason) for entry in entries} == {
        ("Worker witness", f"Held: The database may have lost commits. {HELD['lost_commits']}")
    }
    Lane.objects.update(holds={}, held_since=None)
    work.load(lane)
    assert held() == [{}, {}]
    # The same backup may be restored again.
    Lane.objects.filter(pk=lane.pk).update(witness=lane.witness)
    work.load(lane)
    assert held() == [HELD, HELD]


def test_a_process_compares_all_lanes_before_its_first_turn(lane: Lane, idle: Lane) -> None:
    """One without a witness may have lost commits, too."""
    see(lane, 4)
    restores._checks.clear()
    assert leasing.claim(idle.pk) is not None
    assert held() == [HELD, HELD]


@pytest.mark.parametrize("generation", [0, 2, 3])
def test_a_witness_that_is_missing_or_behind_proves_nothing(
    lane: Lane, generation: int, django_assert_num_queries: Any
) -> None:
    """A worker was killed between the commit and the witness: it is written before anything is broadcast."""
    if generation:
        see(lane, generation)
    work.load(lane)
    assert (held(), seen(lane)) == ([{}], 3)
    with django_assert_num_queries(0, connection=connection):
        restores.check(lane)
    # A commit of another worker meanwhile is no restore: between reading the lane and its witness, both have risen.
    Lane.objects.update(generation=4)
    see(lane, 4)
    assert not restores.check(lane)
    assert held() == [{}]


@pytest.mark.parametrize("breakage", [lambda path: path.write_text(""), lambda path: path.mkdir()])
def test_a_witness_that_cannot_be_written_stops_nothing(
    lane: Lane,
    folder: Path,
    breakage: Callable[[Path], Any],
    caplog: pytest.LogCaptureFixture,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    path = folder / witness.FOLDER
    if breakage(path) is None:
        # A folder in the place of the file.
        (path / lane.witness).mkdir()
    row = factories.transaction(lane)
    with django_capture_on_commit_callbacks(execute=True):
        commit(lane, Result(attempts=[send(row, 0)]))
    row.refresh_from_db()
    assert row.status == Status.SENT
    for _ in range(3):
        assert work.load(lane) is not None
    assert [record.message for record in caplog.records if record.name == witness.__name__] == [
        f"The lane {lane} has no witness: a restored database would not be noticed"
    ]


def test_nothing_is_closed_before_a_worker_has_noticed(lane: Lane) -> None:
    """What is to be canceled may have been sent after the backup."""
    row = factories.transaction(lane)
    see(lane, 4)
    actions.cancel(row.pk, by="payments")
    row.refresh_from_db()
    assert (row.status, row.requested_action) == (Status.PENDING, "cancel")
