"""The figures that were measured of the reference server, and the same ones of this service.

Both on two cores, with Hardhat at a block a second, two confirmations and a local key. The reference is OpenZeppelin
Relayer 1.8.0 as it ships, with Redis; its figures were measured once and are constants here.
"""

from contextlib import ExitStack

from benchmarks.databases import Bench
from benchmarks.report import Failed, Row
from benchmarks.sending import crashes
from benchmarks.sending.burst import Burst, send_at_once
from benchmarks.sending.deployment import Deployment, deployed
from benchmarks.sending.hardhat import MiningChain, mining_chain
from benchmarks.sending.networks import networks_file
from benchmarks.sending.rows import Senders, create_apart

CONFIRMATIONS = 2
SINGLES, FAST_SINGLES = 10, 2
SENDS, CALLERS = 100, 8
KILLS, KILLED_SENDS = 7, 54
FAST_KILLS, FAST_KILLED_SENDS = 2, 10
REFERENCE = "reference, as shipped: {}"


def measure(bench: Bench) -> list[Row]:
    with ExitStack() as stack:
        chain = stack.enter_context(mining_chain())
        database = stack.enter_context(bench.postgresql())
        settings = {"NETWORKS_FILE": networks_file(database.folder, chain.url, CONFIRMATIONS)}
        deployment = stack.enter_context(deployed(database, workers=1, **settings))
        senders = create_apart(database, deployment.settings, chain.url, 3)
        chain.fund(senders.addresses)
        single, burst, killed = (only(senders, number) for number in range(3))
        return [
            *single_rows(deployment, chain, single, FAST_SINGLES if bench.fast else SINGLES),
            *burst_rows(send_at_once(deployment, chain, burst, SENDS, CALLERS)),
            kill_row(deployment, chain, killed, fast=bench.fast),
        ]


def only(senders: Senders, number: int) -> Senders:
    return Senders(senders.token, [senders.relayers[number]], [senders.addresses[number]])


def single_rows(deployment: Deployment, chain: MiningChain, senders: Senders, rounds: int) -> list[Row]:
    # The first waits for the worker to start.
    send_at_once(deployment, chain, senders, 1, 1)
    found = [send_at_once(deployment, chain, senders, 1, 1) for _ in range(rounds)]
    return [
        slowest("one transaction, accepted to submitted: slowest", [each.submitted[0] for each in found], 0.42),
        slowest("one transaction, accepted to confirmed: slowest", [each.confirmed[0] for each in found], 7.6),
    ]


def slowest(figure: str, seconds: list[float], best: float) -> Row:
    against = REFERENCE.format(f"at least {best:g} s")
    return Row(figure, round(max(seconds), 2), "s", against, at_most=best)


def burst_rows(burst: Burst) -> list[Row]:
    name = f"{SENDS} at once from {CALLERS} callers"
    p50 = burst.accepted.percentile(50) * 1000
    return [
        Row(f"{name}: accepted", round(burst.accepted.rate), "/s", REFERENCE.format("7/s"), at_least=7),
        Row(f"{name}: accepting, p50", round(p50, 1), "ms", REFERENCE.format("1,200 ms"), at_most=1200),
        Row(f"{name}: to submitted, p50", round(burst.submitted_p50, 2), "s", REFERENCE.format("21 s"), at_most=21),
        Row(f"{name}: all confirmed", round(max(burst.confirmed), 1), "s", REFERENCE.format("45 s"), at_most=45),
    ]


def kill_row(deployment: Deployment, chain: MiningChain, senders: Senders, *, fast: bool) -> Row:
    kills, sends = (FAST_KILLS, FAST_KILLED_SENDS) if fast else (KILLS, KILLED_SENDS)
    found = crashes.send_while_killing(deployment, chain, senders, sends, kills)
    if found.doubled:
        raise Failed(f"{found.doubled} transactions were executed twice")
    return Row(
        f"{sends} acknowledged, all processes killed {kills} times: confirmed",
        found.confirmed,
        "",
        REFERENCE.format("52 of 54"),
        at_least=sends,
        beside={"s from the last kill to the last confirmed": round(found.seconds, 1)},
    )
