"""Run many sequences in several processes."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter

from tests.transactions.sequences.processes import prepare, run_many

IN_PART = 50


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=1)
    parser.add_argument("--seed", type=int, default=0, help="of the first sequence")
    parser.add_argument("--gate", action="store_true", help="check what arrives at the node, too")
    parser.add_argument("--rights", action="store_true", help="sequences of tokens and staff")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.count)
    started = time.monotonic()
    parts = [seeds[start : start + IN_PART] for start in range(0, len(seeds), IN_PART)]
    with multiprocessing.get_context("spawn").Pool(min(options.jobs, len(parts)), prepare) as pool:
        results = [pool.apply_async(run_many, (part, options)) for part in parts]
        found = [result.get() for result in results]
    violations = [each for _, some, _ in found for each in some]
    for each in violations:
        print(each)
    kinds = sum((each for _, _, each in found), Counter[str]())
    print(", ".join(f"{count} {name}" for name, count in kinds.most_common()))
    print(
        f"{len(seeds)} sequences, {sum(steps for steps, _, _ in found)} steps, {len(violations)} with violations, "
        f"{time.monotonic() - started:.0f} s"
    )
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
