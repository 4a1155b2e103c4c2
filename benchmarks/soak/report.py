"""The figures of a soak, and how they are printed."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from benchmarks.soak.answers import NO_ANSWER, Answer, Disturbance, is_excused

MAX_SHOWN = 20


def request_figures(answers: Iterable[Answer]) -> dict[str, Any]:
    """Return for each kind of request the counts by status, and how long it took."""
    by_kind: dict[str, list[Answer]] = defaultdict(list)
    for answer in answers:
        by_kind[answer.kind].append(answer)
    return {kind: line(by_kind[kind]) for kind in sorted(by_kind)}


def line(answers: list[Answer]) -> dict[str, Any]:
    times = [answer.ended - answer.began for answer in answers if answer.trouble != NO_ANSWER]
    percentiles = statistics.quantiles(times, n=100, method="inclusive") if len(times) > 1 else [0.0] * 99
    return {
        "requests": len(answers),
        "statuses": dict(sorted(Counter(answer.status for answer in answers).items())),
        "p50_milliseconds": round(percentiles[49] * 1000, 1),
        "p99_milliseconds": round(percentiles[98] * 1000, 1),
        "longest_milliseconds": round(max(times, default=0.0) * 1000, 1),
    }


def troubles(
    answers: Iterable[Answer], disturbances: list[Disturbance], patience: int
) -> tuple[list[Answer], list[str]]:
    """Return the answers that what was done to the service excuses, and the faults."""
    wrong = [answer for answer in answers if answer.trouble]
    excused = [answer for answer in wrong if is_excused(answer, disturbances, patience)]
    faults = [answer for answer in wrong if answer not in set(excused)]
    return excused, [f"{describe(answer, disturbances)}: {answer.details}" for answer in faults]


def describe(answer: Answer, disturbances: list[Disturbance]) -> str:
    before = [disturbance for disturbance in disturbances if disturbance.at <= answer.ended]
    since = f", {answer.ended - before[-1].at:.1f} s after: {before[-1].name}" if before else ""
    return f"{answer.kind}, {answer.status} after {answer.ended - answer.began:.2f} s{since}"


def excuses(
    excused: Iterable[Answer], disturbances: list[Disturbance], start: float, patience: int
) -> list[dict[str, Any]]:
    """Return what each disturbance cost: the requests that failed by it, and until when."""
    lines = []
    left = list(excused)
    for disturbance in disturbances:
        mine = [answer for answer in left if is_excused(answer, [disturbance], patience)]
        left = [answer for answer in left if answer not in set(mine)]
        if mine:
            lines.append(
                {
                    "at": round(disturbance.at - start),
                    "what": disturbance.name,
                    "failed": dict(Counter(answer.status for answer in mine)),
                    "for_seconds": round(max(answer.ended for answer in mine) - disturbance.at, 2),
                }
            )
    return lines


def print_results(results: dict[str, Any]) -> None:
    print(f"\n{'':24}{'requests':>9}{'p50 ms':>9}{'p99 ms':>9}{'longest':>9}   by status")
    for kind, figures in results["requests"].items():
        statuses = ", ".join(f"{status}: {count:,}" for status, count in figures["statuses"].items())
        times = "".join(f"{figures[name]:>9,.1f}" for name in figures if name.endswith("milliseconds"))
        print(f"{kind:24}{figures['requests']:>9,}{times}   {statuses}")
    print("\nDone to it: " + ", ".join(f"{name} {count} times" for name, count in results["done"].items()))
    for cost in results["failed_by_it"]:
        failed = ", ".join(f"{status}: {count}" for status, count in cost["failed"].items())
        print(f"  at {cost['at']:>4} s {cost['what']:26} {failed}, the last after {cost['for_seconds']:.2f} s")
    if "transactions" in results:
        print_transactions(results["transactions"])
    sent = results["webhooks"]
    waits = ", ".join(f"{name} {value} s" for name, value in sent["seconds_until_arrival"].items())
    print(f"\nWebhooks: {sent['emitted']:,} emitted, {sent['lost']} lost, {sent['duplicates']} duplicates;", end=" ")
    print(f"they arrived after {waits}.")
    print(f"\n{'memory':24}{'seconds':>9}{'first MB':>10}{'last MB':>9}{'KB/minute':>11}")
    for process in results["memory"]:
        print(
            f"{process['process']:24}{process['seconds']:>9}{process['first_megabytes']:>10.1f}"
            f"{process['last_megabytes']:>9.1f}{process['slope_kilobytes_per_minute']:>11,}"
        )
    logged = ", ".join(f"{name} {count:,} times" for name, count in results["exceptions_logged"].items())
    print(f"\nExceptions in the logs: {logged or 'none'}.")
    faults = results["faults"]
    print(f"\n{len(faults)} faults" + (":" if faults else "."))
    for fault in faults[:MAX_SHOWN]:
        print(f"  {fault}")


def print_transactions(figures: dict[str, Any]) -> None:
    names = ("accepted", "final", "lost", "doubled", "stuck", "contradicted", "wei_of_value_over_a_limit")
    print("\nTransactions: " + ", ".join(f"{figures[name]:,} {name.replace('_', ' ')}" for name in names) + ".")
    for name, value in figures.items():
        if name in names:
            continue
        counts = value if isinstance(value, dict) else {"": value}
        details = ", ".join(f"{key} {count:,}".strip() for key, count in counts.items())
        print(f"  {name.replace('_', ' ')}: {details or 'none'}")
