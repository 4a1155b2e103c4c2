"""Five relayers, one refusing and one missing, through kills and a restore: no row is paid twice.

Several senders write at once on PostgreSQL alone. `OUTBOX_ROWS=1000` tries that many.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests import databases, processes
from tests.client.outbox.shop import environment
from tests.client.running import Service
from tests.servers import PROJECT
from tests.transactions.hardhat import LocalChain


@pytest.mark.long
@pytest.mark.postgresql
def test_no_row_is_paid_twice_and_each_has_an_end_or_a_reason(
    transactional_db: None, service: Service, node: LocalChain, tmp_path: Path
) -> None:
    rows = int(os.environ.get("OUTBOX_ROWS") or 40)
    plan = {"rows": rows, "sender_kills": 5, "service_kills": 1}
    with databases.empty("shop", tmp_path):
        settings = {"DJANGO_SETTINGS_MODULE": "tests.client.outbox.shop_settings", "TOKEN_CONTRACT": "-"}
        env = environment(service, SHOP_DATABASE_URL=processes.database_url("shop"), **settings)
        command = [sys.executable, "-m", "tests.client.outbox.outages", str(tmp_path), node.url, json.dumps(plan)]
        done = subprocess.run(command, cwd=PROJECT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    result = json.loads(done.stdout)
    assert result["sender_kills"] == 5
    statuses = {"healthy": "confirmed", "refusing": "queued", "missing": "failed"}
    counts: Counter[str] = Counter()
    for relayer, status, has_reason, paid, count in result["rows"]:
        # What a kill has left in doubt, and what the restored service no longer has, is for staff to check.
        assert status in (statuses[relayer], "uncertain")
        assert has_reason or status == "confirmed"
        assert paid == (status == "confirmed") or (relayer, status, paid) == ("healthy", "uncertain", 1)
        counts[relayer] += count
    assert counts == {"healthy": rows // 5 * 3, "refusing": rows // 5, "missing": rows // 5}
