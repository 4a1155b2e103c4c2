"""The web server while PostgreSQL is away: it lives, says so, and goes on by itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import processes
from tests.api import WireApi
from tests.concurrency import wait_until
from tests.contract import bodies
from tests.gates import gate
from tests.relayer_service.observability.test_metrics import samples

OF_THE_DATABASE = ("database", "migrations", "encryption", "worker")


@pytest.mark.postgresql
@pytest.mark.long
def test_an_outage_of_postgresql_is_told_and_survived(transactional_db: None, token: str, tmp_path: Path) -> None:
    with (
        gate() as postgresql,
        processes.web(tmp_path / "log", DATABASE_URL=postgresql.url, METRICS_ALLOW="127.0.0.1") as port,
    ):
        api = WireApi(token, port)
        wait_until(lambda: api.get("/api/v1/signers").status == 200)
        wait_until(lambda: api.get("/ready").body["parts"]["database"] == "ok")
        postgresql.close()
        wait_until(lambda: api.get("/api/v1/signers").status == 503)
        refused = api.get("/api/v1/signers")
        assert (refused.body, refused.headers["retry-after"]) == (bodies.failure("Service Unavailable"), "5")
        assert api.get("/health").body == {"status": "ok"}
        ready = api.get("/ready")
        assert ready.status == 503
        assert {ready.body["parts"][part] for part in OF_THE_DATABASE} == {"failed"}
        found = samples(WireApi(port=port).get("/metrics").text.decode())
        assert found["relayer_http_requests_total{method=GET,route=signer-list,status=503}"] >= 1
        postgresql.open()
        wait_until(lambda: api.get("/api/v1/signers").status == 200)
        wait_until(lambda: api.get("/ready").body["parts"]["database"] == "ok")
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [line for line in lines if "traceback" in line] == []
