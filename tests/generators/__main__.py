"""`make generators`: lint the documents, generate, compile and try clients, and write `results.md`.

python -m tests.generators              all linters and generators, with both documents
python -m tests.generators --check      fail if a document is not the one that `results.md` is about
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from tests.generators import results
from tests.generators.generators import CALLS, GENERATORS, Failed, Generator
from tests.generators.linters import LINTERS, Linter

STEPS = ("generate", "compile", "call")


def main(arguments: list[str]) -> int:
    if "--check" in arguments:
        stale = results.stale_documents()
        for name in stale:
            print(f"{name} has changed since clients were generated from it: run `make generators`")
        return 1 if stale else 0
    with tempfile.TemporaryDirectory(prefix="generators-") as folder:
        os.environ |= {"DJANGO_SETTINGS_MODULE": "tests.settings", "DATA_DIR": folder, "DATABASE_URL": ""}
        rows = run_all(Path(folder))
    linted = [results.Row(linter.name, document, [lint(linter, document)]) for linter in LINTERS for document in CALLS]
    results.write(rows, linted)
    return 1 if any(set(row.outcomes) != {"ok"} for row in [*rows, *linted]) else 0


def lint(linter: Linter, document: str) -> str:
    try:
        linter.check(document)
    except Failed as failure:
        print(f"{linter.name}, {document}: failed\n{failure}", flush=True)
        return "failed"
    return "ok"


def run_all(folder: Path) -> list[results.Row]:
    import django

    django.setup()
    from django.core.management import call_command

    from tests.generators import service

    call_command("migrate", verbosity=0)
    rows = []
    for document in CALLS:
        with service.running(document, folder / "log") as arguments:
            for generator in GENERATORS:
                rows.append(run_one(generator, document, folder, arguments))
    return rows


def run_one(generator: Generator, document: str, folder: Path, arguments: list[str]) -> results.Row:
    """Take the steps up to the first that fails, and print what it wrote."""
    started = time.monotonic()
    outcomes: list[str] = []
    with tempfile.TemporaryDirectory(dir=folder) as client:
        try:
            for step in STEPS:
                take(step, generator, document, Path(client), arguments)
                outcomes.append("ok")
        except Failed as failure:
            print(f"{generator.name}, {document}: {STEPS[len(outcomes)]} failed\n{failure}", flush=True)
            outcomes.append("failed")
    print(f"{time.monotonic() - started:5.1f} s  {generator.name}, {document}: {', '.join(outcomes)}", flush=True)
    return results.Row(generator.name, document, [*outcomes, *["-"] * (len(STEPS) - len(outcomes))])


def take(step: str, generator: Generator, document: str, client: Path, arguments: list[str]) -> None:
    from tests.generators import service

    if step == "generate":
        generator.generate(document, client)
    elif step == "compile":
        generator.compile(document, client)
    else:
        service.fill(arguments[-1])
        printed = generator.call(document, client, arguments)
        if printed != service.EXPECTED[document]:
            raise Failed("\n".join(["the calls printed:", *printed]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
