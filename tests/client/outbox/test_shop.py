"""The example shop pays out tokens, against the service of `make run` and a node."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

from tests.client.outbox import shop
from tests.client.running import Service
from tests.concurrency import PATIENCE_SECONDS, wait_until
from tests.servers import PROJECT
from tests.transactions.hardhat import LocalChain

RECEIVER = "0x00000000000000000000000000000000DeaDBeef"
PAY = f"from payouts.models import pay; pay('4711', '{RECEIVER}', 5)"


def test_a_payout_is_confirmed_and_recorded(
    service: Service, node: LocalChain, shop_token: str, tmp_path: Path
) -> None:
    env = shop.environment(service, TOKEN_CONTRACT=shop_token)
    manage = [sys.executable, str(shop.EXAMPLE / "manage.py")]
    for arguments in (["migrate"], ["shell", "-c", PAY], ["check", "--fail-level", "WARNING"]):
        subprocess.run([*manage, *arguments], cwd=tmp_path, env=env, capture_output=True, check=True)

    def status() -> str:
        with sqlite3.connect(tmp_path / "shop.sqlite3") as database:
            return str(database.execute("SELECT status FROM payouts_payout").fetchone()[0])

    assert status() == "requested"
    assert node.call(shop_token, "balanceOf(address)(uint256)", RECEIVER) == 0
    with (tmp_path / "log").open("wb") as log:
        sender = subprocess.Popen([*manage, "send_outbox"], cwd=tmp_path, env=env, stdout=log, stderr=log)
        try:
            wait_until(lambda: status() == "confirmed" or sender.poll() is not None)
        finally:
            sender.send_signal(signal.SIGTERM)
    assert sender.wait(PATIENCE_SECONDS) == 0
    assert node.call(shop_token, "balanceOf(address)(uint256)", RECEIVER) == 5
    assert service.token not in (tmp_path / "log").read_text()


def test_a_sender_without_a_token_says_so(service: Service, tmp_path: Path) -> None:
    env = shop.environment(service) | {"RELAYER_TOKEN": ""}
    command = [sys.executable, str(shop.EXAMPLE / "manage.py"), "send_outbox", "--once"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 1
    assert "ImproperlyConfigured: RELAYER_CLIENT has no TOKEN." in done.stderr


def test_the_admin_of_the_outbox_works(tmp_path: Path) -> None:
    values = {
        "DJANGO_SETTINGS_MODULE": "tests.client.outbox.shop_settings",
        "SHOP_DATABASE_URL": f"sqlite:{tmp_path / 'shop.sqlite3'}",
        "RELAYER_URL": "http://127.0.0.1:9",
        "RELAYER_TOKEN": "a-secret-token",
    }
    command = [sys.executable, "-m", "tests.client.outbox.admin_pages"]
    done = subprocess.run(command, cwd=PROJECT, env=os.environ | values, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_example_is_about_sixty_lines() -> None:
    files = [path for path in shop.EXAMPLE.rglob("*.py") if path.parent.name != "migrations"]
    lines = [line for path in files if path.name != "prepare.py" for line in path.read_text().splitlines()]
    assert len([line for line in lines if line and not re.match(r"\s*[\])}]", line)]) <= 66
