"""What each process of a run does: its own database in memory, and a part of the seeds."""

from __future__ import annotations

import logging
import os
import tempfile
from argparse import Namespace
from collections import Counter
from pathlib import Path
from typing import Any

import django
from django.conf import settings
from django.db import connection
from django.test.utils import setup_test_environment


def prepare() -> None:
    """Set up Django with a database in memory."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    django.setup()
    setup_test_environment()
    # Its models need the settings.
    from tests.transactions.sequences.sequence import write_network

    logging.disable(logging.CRITICAL)
    settings.NETWORKS_FILE = write_network(Path(tempfile.mkdtemp()))
    settings.EXTENSIONS = ["lifecycle", "transactions"]
    creation: Any = connection.creation
    connection.settings_dict["TEST"]["NAME"] = None
    creation.create_test_db(verbosity=0, serialize=False)


def run_many(seeds: range, options: Namespace) -> tuple[int, list[str], Counter[str]]:
    from tests.transactions.sequences import rights, sequence

    steps, violations, kinds = 0, [], Counter[str]()
    for seed in seeds:
        try:
            found = rights.run(seed) if options.rights else sequence.run(seed, checks_gate=options.gate)
        except Exception as error:  # reported with its seed
            violations.append(f"seed {seed}: {error!r}")
            continue
        steps += len(found.steps)
        kinds.update(step.split()[0] for step in found.steps)
        if found.violations:
            violations.append(f"seed {seed}: {found.violations[:3]} after {found.steps}")
    return steps, violations, kinds
