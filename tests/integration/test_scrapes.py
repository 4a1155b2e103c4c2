"""Debian's Prometheus, with the shipped configuration, scrapes two web servers and two workers by their addresses."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import processes
from tests.concurrency import PATIENCE_SECONDS, wait_until
from tests.servers import PROJECT, free_port, wait_for_port

SHIPPED = PROJECT / "deploy/prometheus"
# Prometheus has no token, and names no host that is allowed.
ENVIRONMENT = {"ALLOWED_HOSTS": "relayer.example.com", "METRICS_ALLOW": "127.0.0.1", "WORKER_THREADS": "4"}


class Prometheus:
    def __init__(self, port: int) -> None:
        self.port = port

    def is_ready(self) -> bool:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=PATIENCE_SECONDS).close()
        except urllib.error.HTTPError:
            return False
        return True

    def query(self, expression: str) -> dict[str, float]:
        """Return what an expression is now, by the job and the other labels of each series."""
        url = f"http://127.0.0.1:{self.port}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as response:
            found = json.load(response)["data"]["result"]
        return {
            ",".join(value for name, value in sorted(each["metric"].items())): float(each["value"][1])
            for each in found
        }


def configuration(webs: list[int], workers: list[int]) -> dict[str, Any]:
    """Return the shipped configuration, with the processes of this machine, scraped more often."""
    shipped: dict[str, Any] = yaml.safe_load((SHIPPED / "prometheus.yml").read_text())
    shipped["global"] |= {"scrape_interval": "3s", "scrape_timeout": "3s", "evaluation_interval": "1s"}
    shipped["rule_files"] = [str(SHIPPED / "alerts.yaml")]
    for job, ports in zip(shipped["scrape_configs"], (webs, workers), strict=True):
        for key in [key for key in job if key.endswith("sd_configs") or key == "static_configs"]:
            del job[key]
        job["static_configs"] = [{"targets": [f"127.0.0.1:{port}" for port in ports]}]
    return shipped


@contextmanager
def prometheus(folder: Path, webs: list[int], workers: list[int]) -> Iterator[Prometheus]:
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("there is no prometheus")
    port = free_port()
    (folder / "prometheus.yml").write_text(json.dumps(configuration(webs, workers)))
    command = [
        program,
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait_for_port(port, process=process)
            found = Prometheus(port)
            wait_until(found.is_ready)
            yield found
        finally:
            processes.stop(process)


@contextmanager
def worker(folder: Path) -> Iterator[int]:
    """Run a worker that can be scraped, and yield the port."""
    port = free_port()
    command = [*processes.WORKER, "--metrics", f"127.0.0.1:{port}"]
    with (folder / f"worker-{port}.log").open("wb") as log:
        process = processes.start(command, processes.environment(**ENVIRONMENT), log)
        try:
            wait_for_port(port, process=process)
            yield port
        finally:
            processes.stop(process)


@pytest.mark.long
@pytest.mark.one_engine
def test_prometheus_reads_web_servers_and_workers_by_their_addresses(transactional_db: None, tmp_path: Path) -> None:
    with ExitStack() as stack:
        workers = [stack.enter_context(worker(tmp_path)) for _ in range(2)]
        webs = [
            stack.enter_context(processes.web(tmp_path / f"web-{count}.log", WEB_PROCESSES=count, **ENVIRONMENT))
            for count in ("1", "2")
        ]
        found = stack.enter_context(prometheus(tmp_path, webs, workers))
        wait_until(lambda: found.query("sum by (job) (up)") == {"relayer-web": 2, "relayer-worker": 2})
        wait_until(
            lambda: found.query("count by (job) (relayer_build_info)") == {"relayer-web": 2, "relayer-worker": 2}
        )
        # Of a web server with two processes both are shown, whichever of them is scraped.
        by_process = "count by (job) (relayer_process_resident_memory_bytes)"
        wait_until(lambda: found.query(by_process) == {"relayer-web": 3, "relayer-worker": 2})
        wait_until(lambda: found.query('min by (part) (relayer_ready{part="worker"})') == {"worker": 1})
        wait_until(lambda: found.query("count(relayer_worker_last_poll_timestamp_seconds > 0)") == {"": 2})
        beats = 'sum(relayer_task_duration_seconds_count{task="heartbeat"}) > 0'
        wait_until(lambda: found.query(beats))
        assert not found.query('{job=~"relayer-.*",__name__!~"relayer_.*|up|scrape_.*|ALERTS.*"}')
