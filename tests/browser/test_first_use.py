"""First use, counted in clicks: from the sign-in page to a confirmed transaction on a Hardhat node."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Browser, Locator, Page, expect

from notifications.models import Delivery
from relayer_service.background import tasks
from tests import processes, servers
from tests.browser.conftest import PATIENCE
from tests.browser.test_accessibility import AXE, findings_here
from tests.chain.hardhat import Chain
from tests.concurrency import wait_until
from transactions.models import Transaction

BLOCK_MILLISECONDS = 500


class Visitor:
    """Somebody who has signed in with the first click; each further one is counted."""

    def __init__(self, page: Page) -> None:
        self.page, self.clicks = page, 0
        page.goto("/admin/")
        page.locator("[name=username]").fill("olga")
        page.locator("[name=password]").fill("a-password-for-tests")
        self.click(page.get_by_role("button", name=re.compile("log in|sign in", re.IGNORECASE)))
        expect(page.get_by_text("Getting started")).to_be_visible()

    def click(self, element: Locator) -> None:
        self.clicks += 1
        element.click()

    def press(self, button: str) -> None:
        self.click(self.page.get_by_role("button", name=button, exact=True))

    def expect_confirmed(self) -> None:
        """Wait until the page shows it by itself."""
        expect(self.page.locator(".status-facts", has_text="confirmed").last).to_be_visible()


@pytest.fixture
def service(staff: User, static_files: None, tmp_path: Path) -> Iterator[str]:
    """The address of a web server with a worker and a node, which mines as that of `make node`."""
    network = {"chain_id": 31337, "symbol": "ETH", "decimals": 18, "block_seconds": 1, "confirmations": 1}
    with ExitStack() as stack:
        node = stack.enter_context(servers.hardhat())
        Chain(node).rpc("evm_setIntervalMining", BLOCK_MILLISECONDS)
        file = tmp_path / "networks.json"
        entry = {**network, "kind": "none", "testnet": True, "finality_depth": 1, "rpc_urls": [node]}
        file.write_text(json.dumps({"networks": {"hardhat": entry}}))
        environment = {"EXTENSIONS": "transactions", "NETWORKS_FILE": str(file)}
        tasks.prepare_queue()
        worker = processes.worker(stack.enter_context((tmp_path / "worker").open("wb")), **environment)
        stack.callback(processes.stop, worker)
        yield f"http://127.0.0.1:{stack.enter_context(processes.web(tmp_path / 'web', **environment))}"


@pytest.fixture
def visitor(browser: Browser, service: str) -> Iterator[Visitor]:
    with browser.new_context(base_url=service, viewport={"width": 1440, "height": 900}) as context:
        context.set_default_timeout(PATIENCE)
        expect.set_options(timeout=PATIENCE)
        yield Visitor(context.new_page())


def test_the_demo_takes_two_clicks(visitor: Visitor) -> None:
    page = visitor.page
    visitor.press("Set up a local demo")
    visitor.expect_confirmed()
    assert visitor.clicks == 2
    assert not AXE.exists() or findings_here(page, "demo") == {}
    expect(page.locator("#issued-token")).to_have_text(re.compile("^rms_"))
    assert Transaction.objects.get().status == "confirmed"
    wait_until(lambda: {*Delivery.objects.values_list("state", flat=True)} == {"delivered"})
    page.goto("/admin/")
    expect(page.get_by_text("Getting started")).to_have_count(0)
