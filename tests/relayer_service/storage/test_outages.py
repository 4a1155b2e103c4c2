"""PostgreSQL away: whoever needs it fails at once, one attempt is made for each verdict, and it is found again."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connections
from django.db.models.sql.compiler import cursor_iter

from relayer_service.database.access import is_unavailable
from relayer_service.database.postgresql import base, outages
from relayer_service.database.postgresql.outages import Outage, outage
from tests.concurrency import wait_until
from tests.databases import named
from tests.gates import Gate, gate

pytestmark = pytest.mark.both_engines

ALIAS = "gated"
FOR_EVER = 10**6


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The attempts to connect that were made."""
    made: list[int] = []
    connect = psycopg.Connection.connect.__func__  # type: ignore[attr-defined]  # of the class method

    def counted(cls: Any, *args: Any, **kwargs: Any) -> Any:
        made.append(1)
        return connect(cls, *args, **kwargs)

    monkeypatch.setattr(psycopg.Connection, "connect", classmethod(counted))
    return made


@pytest.fixture
def postgresql(db: None) -> Iterator[Gate]:
    """The test database behind a gate, as `connections["gated"]`."""
    with gate() as found, named(ALIAS, found.configuration):
        yield found


def run(statement: str = "SELECT 1") -> Any:
    """Run a statement as a request does: with a connection of the pool, which is returned after it."""
    try:
        with connections[ALIAS].cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchone()
    finally:
        connections[ALIAS].close()


def works() -> bool:
    try:
        return bool(run() == (1,))
    except OperationalError:
        return False


@pytest.mark.postgresql
@pytest.mark.parametrize("silent", [False, True], ids=["refused", "silent"])
def test_everybody_fails_after_one_attempt_for_each_verdict(
    postgresql: Gate, attempts: list[int], monkeypatch: pytest.MonkeyPatch, silent: bool
) -> None:
    monkeypatch.setattr(outages, "RETRY_SECONDS", FOR_EVER)
    if silent:
        postgresql.silent = True
    else:
        postgresql.close()
    assert not works()
    pool = connections[ALIAS].pool  # type: ignore[attr-defined]  # PostgreSQL's alone
    for verdict in range(3):
        # Until the last attempt has ended, of which the pool makes several at once before it knows.
        wait_until(lambda: not pool.get_stats().get("pool_size"))
        attempts.clear()
        outage.retry_at = 0.0
        for _ in range(20):
            with pytest.raises(OperationalError, match="PostgreSQL is unavailable") as raised:
                run()
            assert is_unavailable(raised.value)
        assert len(attempts) == 1, verdict


@pytest.mark.postgresql
def test_a_connection_that_breaks_leads_to_the_verdict_and_back(
    postgresql: Gate, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(outages, "RETRY_SECONDS", 0.01)
    assert works()
    postgresql.close()
    wait_until(lambda: not works() and outage.is_down)
    assert not works()
    postgresql.open()
    wait_until(works)
    assert not outage.is_down
    said = [record.getMessage().partition(":")[0] for record in caplog.records if record.name == outages.__name__]
    # Twice if an attempt from before the end succeeds after another one has failed.
    assert said
    assert said == ["PostgreSQL is unavailable", "PostgreSQL is available again"] * (len(said) // 2)


@pytest.mark.postgresql
def test_a_connection_that_breaks_before_its_cursor_is_closed_is_unavailable(postgresql: Gate) -> None:
    cursor = connections[ALIAS].chunked_cursor()
    cursor.execute("SELECT 1")
    rows: Any = cursor_iter(cursor, [], None, 1)
    next(rows)
    postgresql.close()
    with pytest.raises(psycopg.OperationalError) as raised:
        rows.close()
    assert is_unavailable(raised.value)
    # It would otherwise warn whatever test collects it.
    cursor.close()


@pytest.mark.postgresql
def test_idle_connections_are_used_while_no_new_one_can_be_made(postgresql: Gate) -> None:
    assert works()
    with pytest.raises(psycopg.OperationalError), outage.attempt():
        raise psycopg.OperationalError("connection refused")
    assert outage.is_down
    assert works()


@pytest.mark.postgresql
def test_a_pool_that_is_exhausted_is_no_outage(postgresql: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "WAIT_SECONDS", 0)
    pool: Any = connections[ALIAS].pool  # type: ignore[attr-defined]  # PostgreSQL's alone
    assert works()
    held = [pool.getconn(timeout=60) for _ in range(pool.max_size)]
    with pytest.raises(OperationalError, match="couldn't get a connection"):
        run()
    assert not outage.is_down
    for each in held:
        pool.putconn(each)
    assert works()
    # Neither is a statement that takes too long.
    with pytest.raises(OperationalError, match="statement timeout"):
        run("SET statement_timeout = 1; SELECT pg_sleep(60)")
    assert not outage.is_down


@pytest.mark.parametrize(
    ("text", "is_down"),
    [
        ("connection refused", True),
        ("FATAL:  the database system is starting up", True),
        ("FATAL:  sorry, too many clients already", False),
        ('FATAL:  too many connections for role "relayer"', False),
        ("FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute", False),
    ],
)
def test_a_server_that_has_no_more_connections_is_not_away(text: str, is_down: bool) -> None:
    found = Outage()
    with pytest.raises(psycopg.OperationalError), found.attempt():
        raise psycopg.OperationalError(text)
    assert found.is_down == is_down
