"""Pauses of nodes: counted, shared through the cache, and never in the way when the cache fails."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from typing import Any

import pytest
import redis
from django.core.cache import caches

from chain.nodes import breakers
from relayer_service.database.caches import FailOpenRedisCache
from relayer_service.observability import metrics
from tests.concurrency import wait_until
from tests.relayer_service.observability.test_metrics import samples
from tests.servers import PROJECT, free_port

URL = "https://node.example.com/SECRET"
OTHER = "https://other.example.com/SECRET"


def test_a_node_is_paused_after_some_failures() -> None:
    seen = []
    for _ in range(3):
        breakers.note_failure(URL)
        seen.append(breakers.paused([URL, OTHER]))
    assert seen == [set(), set(), {URL}]


def test_a_shorter_pause_does_not_replace_a_longer_one() -> None:
    breakers.pause(URL, 300)
    breakers.pause(URL, 0.01)
    time.sleep(0.05)
    assert breakers.paused([URL]) == {URL}


def test_failures_count_for_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breakers, "WINDOW_SECONDS", 0)
    for _ in range(10):
        breakers.note_failure(URL)
    assert breakers.paused([URL]) == set()


def test_keys_in_the_cache_do_not_hold_the_url() -> None:
    for _ in range(3):
        breakers.note_failure(URL)
    kept = repr(caches["default"]._cache)  # type: ignore[attr-defined]  # what the process keeps
    assert "node-pause-" in kept
    assert "example.com" not in kept


def test_a_cache_that_is_down_pauses_nothing_and_fails_nothing(settings: Any) -> None:
    settings.CACHES = {
        "default": {
            "BACKEND": "relayer_service.database.caches.FailOpenRedisCache",
            "LOCATION": f"redis://127.0.0.1:{free_port()}/0",
        }
    }
    for _ in range(10):
        breakers.note_failure(URL)
    assert breakers.paused([URL]) == set()
    assert FailOpenRedisCache.down_until > 0


PROGRAM = """
import os, sys, django
django.setup()
from chain.nodes import breakers
url = sys.argv[1]
for _ in range(2):
    if os.fork() == 0:
        already = url in breakers.paused([url])
        for _ in range(3):
            breakers.note_failure(url)
        print(already, url in breakers.paused([url]), flush=True)
        os._exit(0)
    os.wait()
"""


def run_two_processes(url: str, **environment: str) -> list[str]:
    """Return of each whether it knew of a node's failures, and whether it does after three of its own."""
    env = os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings", "DATABASE_URL": "", **environment}
    command = [sys.executable, "-c", PROGRAM, url]
    return subprocess.run(
        command, env=env, cwd=PROJECT, check=True, capture_output=True, text=True
    ).stdout.splitlines()


def test_processes_share_what_they_know_through_redis(redis_url: str) -> None:
    url = f"https://node.example.com/SECRET-{uuid.uuid4()}"
    assert run_two_processes(url, REDIS_URL=redis_url) == ["False True", "True True"]
    with redis.Redis.from_url(redis_url) as client:
        kept = [key.decode() for key in client.keys("*node-*")]
    assert kept
    assert not [key for key in kept if "SECRET" in key or "example.com" in key]


def test_without_redis_each_process_learns_by_itself() -> None:
    assert run_two_processes(URL, REDIS_URL="") == ["False True", "False True"]


def test_the_nodes_that_a_process_has_paused_are_a_metric(settings: Any) -> None:
    breakers.pause(URL, 300)
    breakers.pause(OTHER, 0.001)
    wait_until(lambda: breakers.paused_by_this_process() == 1)
    metrics._refreshed_at = 0.0
    assert samples(metrics.own_exposition().decode())["relayer_nodes_paused{}"] == 1
