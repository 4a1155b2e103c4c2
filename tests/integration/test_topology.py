"""Two web processes behind nginx, two workers, one PostgreSQL and one Redis, with the settings of production."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import redis

from tests import servers, topology
from tests.chain import faults
from tests.concurrency import wait_until
from tests.contract import bodies
from tests.notifications.receivers import receiver
from tests.relayers.factories import KEY
from tests.topology import EXPECTED, PASSWORD, Load, Topology, call, read

pytestmark = [pytest.mark.long, pytest.mark.one_engine]

RELAYERS = 40
EMPTY_LIST = bodies.page([], total_items=0)


def refused(status: HTTPStatus) -> dict[str, Any]:
    return bodies.failure(status.phrase)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, redis_url: str) -> Iterator[Topology]:
    redis.from_url(redis_url).flushdb()
    try:
        with topology.running(tmp_path_factory.mktemp("topology"), redis_url) as running:
            yield running
    except servers.Unavailable as reason:
        pytest.skip(str(reason))
    finally:
        redis.from_url(redis_url).flushdb()


def test_a_limit_is_counted_across_both_web_processes(service: Topology) -> None:
    token = service.manage("issue_token", "limited")
    first, second = service.each_web(token)
    answers = [web.get("/api/v1/relayers").status for web in [first, second] * 5]
    assert answers == [200] * 10
    with service.outside(token) as client:
        refusals = [caller.get("/api/v1/relayers") for caller in (first, second, client)]
    assert [answer.status for answer in refusals] == [429] * 3
    assert [answer.body for answer in refusals] == [refused(HTTPStatus.TOO_MANY_REQUESTS)] * 3


def test_a_token_that_staff_disable_is_refused_by_both_web_processes(service: Topology) -> None:
    token = service.manage("issue_token", "revoked")
    webs = service.each_web(token)
    assert [web.get("/api/v1/signers").body for web in webs] == [EMPTY_LIST] * 2
    ((row,),) = service.rows("SELECT id FROM tokens_accesstoken WHERE name = 'revoked'")
    browser = service.browser()
    browser.submit("/admin/login/?next=/admin/tokens/accesstoken/", username="admin", password=PASSWORD)
    chosen = {"action": "disable", "_selected_action": str(row), "confirmed": str(row)}
    page = browser.submit("/admin/tokens/accesstoken/", **chosen)
    assert "Revoked: 1." in page
    # Longer than the seconds for which a process trusts what it has verified, on a busy machine too.
    wait_until(lambda: [web.get("/api/v1/signers").status for web in webs] == [401, 401], seconds=60)
    assert [web.get("/api/v1/signers").body for web in webs] == [refused(HTTPStatus.UNAUTHORIZED)] * 2


def test_each_relayer_is_checked_once_and_each_webhook_is_sent_once(service: Topology, tmp_path: Path) -> None:
    asked: Counter[str] = Counter()

    def behave(handler: faults.Handler, calls: Any) -> None:
        if any(
            call["method"] == "eth_getTransactionCount" for call in (calls if isinstance(calls, list) else [calls])
        ):
            asked[handler.path] += 1
        faults.answering({"result": hex(31337)})(handler, calls)

    def load(**changes: Any) -> str:
        signer = {"id": "signer-1", "type": "plain", "config": {"key": KEY}}
        hook = {"id": "hook-1", "type": "webhook", "url": target.url, "signing_key": "a key of the receiver"}
        relayers = [
            {
                "id": f"relayer-{number}",
                "name": f"Relayer {number}",
                "network": "hardhat",
                "network_type": "evm",
                "signer_id": "signer-1",
                "notification_id": "hook-1",
                "custom_rpc_urls": [{"url": f"http://127.0.0.1:{node.server_port}/{number}", "weight": 100}],
                **changes,
            }
            for number in range(RELAYERS)
        ]
        file = tmp_path / "fleet.json"
        file.write_text(json.dumps({"signers": [signer], "notifications": [hook], "relayers": relayers}))
        return service.manage("load_config", str(file)).splitlines()[-1]

    with faults.node(behave) as node, receiver(key="a key of the receiver") as target:
        assert load() == f"{RELAYERS + 2} created, 0 updated, 0 unchanged."
        wait_until(
            lambda: service.rows("SELECT count(*) FROM relayers_relayerhealth WHERE nonce = 31337") == [(RELAYERS,)]
        )
        service.wait_for_turns("check_relayers")
        assert asked == {f"/{number}": 1 for number in range(RELAYERS)}

        load(paused=True)
        wait_until(lambda: len(target.requests) >= RELAYERS)
        service.wait_for_turns("send_due_webhooks")
        paused = [json.loads(request.body)["data"]["relayer_id"] for request in target.requests]
        assert sorted(paused) == sorted(f"relayer-{number}" for number in range(RELAYERS))
        assert len(set(target.webhook_ids)) == RELAYERS
        assert target.forged == []


def test_web_processes_are_replaced_under_load_without_a_failed_request(service: Topology) -> None:
    with Load(service, *[read] * 3, *[call] * 3) as load:
        load.wait_for_more()
        # One after the other as fast as their units allow.
        assert [service.replace_web(port) for port in service.ports] == [0] * 2
        load.wait_for_more()
    assert load.answers.keys() == EXPECTED


def test_each_worker_shows_that_it_takes_tasks(service: Topology) -> None:
    beats = [service.beat_file(number) for number in (1, 2)]
    for file in beats:
        file.unlink()
    wait_until(lambda: all(file.exists() for file in beats))


def test_the_proxy_says_who_calls_and_how(service: Topology) -> None:
    with service.outside() as client:
        claims = {"X-Forwarded-Proto": "http", "X-Forwarded-For": "192.0.2.1", "X-Request-ID": "claimed"}
        answer = client.get("/api/v1/signers", headers=claims)
    assert (answer.status, answer.body) == (401, refused(HTTPStatus.UNAUTHORIZED))
    assert answer.headers["strict-transport-security"] == "max-age=31536000; includeSubDomains; preload"
    lines = [json.loads(line) for port in service.ports for line in service.log(f"web-{port}")]
    assert [line["client"] for line in lines if line["request_id"] == "claimed" and "client" in line] == ["127.0.0.1"]


def test_plain_http_is_redirected_for_people_and_refused_to_programs(service: Topology) -> None:
    with closing(HTTPConnection("127.0.0.1", service.proxy.http_port)) as connection:
        connection.request("GET", "/admin/", headers={"Host": "localhost"})
        page = connection.getresponse()
        assert (page.status, page.headers["Location"], page.read()) == (301, "https://localhost/admin/", b"")
        connection.request("GET", "/api/v1/signers", headers={"Host": "localhost"})
        call = connection.getresponse()
        faults = {"logs": [{"level": "log", "message": "HTTPS is required"}]}
        assert (call.status, json.loads(call.read())) == (400, refused(HTTPStatus.BAD_REQUEST) | {"metadata": faults})
