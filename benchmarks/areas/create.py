"""Creates: a signer, against the plain way and the limit. A fast look has its list too, for `.ci/run`."""

import json

from benchmarks import comparison, fill
from benchmarks.areas import lists
from benchmarks.databases import Bench, Database
from benchmarks.report import Failed, Row
from benchmarks.resources import SIGNERS
from benchmarks.targets import GRANIAN, GUNICORN, LIMIT, SERVICE, TARGETS, Server, serving


def measure(bench: Bench) -> list[Row]:
    with bench.postgresql() as database:
        fill.fill(database, lists.SMALL, stock=True)
        with serving({target: (database, target) for target in TARGETS}) as servers:
            listed = lists.beside_controls(SIGNERS, servers, fast=True) if bench.fast else []
            compare_answers(servers, database)
            found = comparison.rates(
                servers,
                lambda server: server.request(SIGNERS.path, SIGNERS.new),
                fast=bench.fast,
                after_turn=lambda: remove_new(database),
            )
    return [*comparison.rows("signers: create", found, stock=1.8, goal=2.2), *listed]


def remove_new(database: Database) -> None:
    with database.connect() as connection:
        for statement in SIGNERS.remove_new:
            connection.execute(statement)


def compare_answers(servers: dict[str, Server], database: Database) -> None:
    """Raise Failed unless all answer the same: the limit to the byte, stock without the envelope."""
    answers = {}
    for name, server in servers.items():
        answers[name] = server.answer(server.request(SIGNERS.path, SIGNERS.new))
        remove_new(database)
    if answers[SERVICE] != answers[LIMIT]:
        raise Failed(f"service and limit differ:\n  {answers[SERVICE]!r}\n  {answers[LIMIT]!r}")
    created = json.loads(answers[SERVICE])["data"]
    for name in (GUNICORN, GRANIAN):
        if json.loads(answers[name]) != created:
            raise Failed(f"the service and {name} differ:\n  {created}\n  {answers[name]!r}")
