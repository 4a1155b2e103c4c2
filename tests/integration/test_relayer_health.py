"""The state of a relayer over real processes: a node that dies and returns, a worker, and a webhook."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from relayer_service.background import tasks
from relayers.models import Relayer, RelayerHealth
from tests import processes, servers
from tests.api import WireApi
from tests.concurrency import wait_until
from tests.notifications.receivers import Receiver, receiver
from tests.relayers import factories

KEY = "a key of the receiver"
SECRET = "a-key-of-the-provider"
DATA = {"relayer_id": "relayer-1", "name": "Relayer 1", "network": "local", "network_type": "evm"}
DATA |= {"actor": "health check"}
DETAILS = "The nonce could not be read from any node: connection failed."


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver(key=KEY) as server:
        yield server


@pytest.fixture
def port() -> int:
    return servers.free_port()


@pytest.fixture
def relayer(wire: WireApi, hook: Receiver, port: int) -> Relayer:
    tasks.prepare_queue()
    tasks.queue.storage.flush_all()
    notification = factories.notification(url=hook.url)
    notification.set_signing_key(KEY)
    notification.save()
    return factories.relayer(
        network="local",
        chain_id=31337,
        notification=notification,
        rpc_urls=[{"url": f"http://127.0.0.1:{port}/{SECRET}", "weight": 100}],
        due_at=timezone.now(),
    )


@pytest.fixture
def worker_log(tmp_path: Path) -> Path:
    return tmp_path / "worker.log"


@pytest.fixture
def node(port: int) -> Iterator[ExitStack]:
    """A real node, until it is closed."""
    with ExitStack() as stack:
        try:
            stack.enter_context(servers.hardhat(port))
        except servers.Unavailable as reason:
            pytest.skip(str(reason))
        yield stack


@pytest.fixture
def worker(relayer: Relayer, node: ExitStack, worker_log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with worker_log.open("wb") as log:
        process = processes.worker(
            log,
            HEALTH_CHECK_SECONDS="1",
            TEST_CONSTANTS="chain.nodes.attempts.ATTEMPT_SECONDS=5",
            WEBHOOK_ALLOWED_PRIVATE_NETWORKS="127.0.0.0/8",
        )
    yield process
    process.kill()
    process.wait()


def shown(wire: WireApi) -> dict[str, Any]:
    (found,) = wire.get("/api/v1/relayers").body["data"]
    return {name: found.get(name) for name in ("system_disabled", "disabled_reason")}


def body(hook: Receiver, number: int) -> Any:
    """Return a body that came, but for its timestamp, which is one of the moment."""
    found = json.loads(hook.requests[number].body)
    moment = parse_datetime(found.pop("timestamp"))
    assert moment is not None
    assert abs((timezone.now() - moment).total_seconds()) < 120
    return found


@pytest.mark.long
def test_a_relayer_is_disabled_when_its_last_node_dies_and_enabled_when_it_returns(
    node: ExitStack, worker: subprocess.Popen[bytes], worker_log: Path, hook: Receiver, port: int, wire: WireApi
) -> None:
    wait_until(RelayerHealth.objects.filter(nonce=0).exists)
    assert shown(wire) == {"system_disabled": False, "disabled_reason": None}
    assert hook.requests == []
    node.close()
    reason = {"type": "NonceSyncFailed", "details": DETAILS}
    wait_until(RelayerHealth.objects.filter(system_disabled=True).exists)
    assert shown(wire) == {"system_disabled": True, "disabled_reason": reason}
    wait_until(lambda: len(hook.requests) == 1)
    assert body(hook, 0) == {"type": "relayer.disabled", "data": DATA | {"reason": DETAILS, "disabled_reason": reason}}
    with servers.hardhat(port):
        wait_until(RelayerHealth.objects.filter(system_disabled=False).exists)
        assert shown(wire) == {"system_disabled": False, "disabled_reason": None}
        wait_until(lambda: len(hook.requests) == 2)
        assert body(hook, 1) == {"type": "relayer.enabled", "data": DATA | {"reason": "The nonce was read again."}}
    assert hook.forged == []
    assert processes.stop(worker) == 0
    log = worker_log.read_text()
    assert " is disabled: " in log
    assert SECRET not in log
    assert "Unclosed" not in log
    assert "Traceback" not in log
