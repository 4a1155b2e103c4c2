"""What is done to the service, when, and to which of its processes."""

import random
import time
from dataclasses import dataclass
from typing import Any

import psycopg

from benchmarks.soak.answers import CUT, REDIS_STARTED, REDIS_STOPPED, WEB_KILLED, WORKER_KILLED, Disturbance
from benchmarks.soak.fleet import Fleet, Redis

# Others' connections to this database; the server's own processes are left alone.
CUT_CONNECTIONS = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND datname = current_database() AND backend_type = 'client backend'
"""
# From this part of the time on the oldest process of each kind is spared, so that its memory can be watched.
SPARED_FROM = 0.25
REDIS_STOPS_AT = (0.25, 0.6)


@dataclass(frozen=True)
class Pace:
    """For how long the service is called, how often what is done to it, and by how much a busy machine is excused."""

    seconds: int
    kill_seconds: int = 20
    cut_seconds: int = 30
    redis_seconds: int = 10
    patience: int = 1


def plan(pace: Pace) -> list[tuple[float, str]]:
    """Return what is done, each with its time.

    Every second time a worker is killed a web process is too. Redis is away when a worker starts. At the end the
    service is left alone for a while, in which all must be well.
    """
    last = pace.seconds - pace.kill_seconds // 2
    kills = range(pace.kill_seconds, last, pace.kill_seconds)
    events: list[tuple[float, str]] = [(at, WORKER_KILLED) for at in kills]
    events += [(at, WEB_KILLED) for at in kills[1::2]]
    events += [(at, CUT) for at in range(pace.cut_seconds, last, pace.cut_seconds)]
    for part in REDIS_STOPS_AT:
        stop = part * pace.seconds // pace.kill_seconds * pace.kill_seconds - pace.redis_seconds / 2
        events += [(stop, REDIS_STOPPED), (stop + pace.redis_seconds, REDIS_STARTED)]
    return sorted(events)


class Chaos:
    def __init__(self, fleet: Fleet, redis: Redis, connection: psycopg.Connection[Any]) -> None:
        self.fleet = fleet
        self.redis = redis
        self.connection = connection
        self.done: list[Disturbance] = []

    def do(self, name: str, *, spare_oldest: bool) -> None:
        self.done.append(Disturbance(name, time.monotonic()))
        if name == CUT:
            self.connection.execute(CUT_CONNECTIONS)
        elif name == REDIS_STOPPED:
            self.redis.stop()
        elif name == REDIS_STARTED:
            self.redis.start()
        elif name == WEB_KILLED:
            self.fleet.kill_web(self._victim(self.fleet.web_processes(), spare_oldest))
        else:
            self.fleet.kill_worker(self._victim(self.fleet.worker_processes(), spare_oldest))

    @staticmethod
    def _victim(pids: list[int], spare_oldest: bool) -> int:
        """Choose one of several, the oldest first."""
        return random.choice(pids[1:] if spare_oldest else pids)
