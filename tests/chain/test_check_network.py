"""The command that asks the nodes of a network what they are."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from pytest_django import Settings

from chain import network_check, networks
from chain.networks import NetworkKind
from tests.chain import faults
from tests.chain.faults import SECRET, each, error, node

NOW = 1_800_000_000
CHAIN = 31337
UNKNOWN_METHOD = error(-32601, "the method does not exist")
WORD = "0x" + "00" * 31 + "07"

pytestmark = pytest.mark.usefixtures("quick_nodes", "frozen")


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the time be known to the tests of how old a block is."""

    class Clock:
        monotonic = time.monotonic

        @staticmethod
        def time() -> float:
            return NOW + 0.9

    monkeypatch.setattr(network_check, "time", Clock)


@pytest.fixture
def use(tmp_path: Path, settings: Settings) -> Iterator[Callable[..., None]]:
    def use(**changes: Any) -> None:
        """Have a network `ours`, with what is given."""
        entry = {"chain_id": CHAIN, "symbol": "OUR", "decimals": 18, "block_seconds": 1, **changes}
        (tmp_path / "networks.json").write_text(json.dumps({"networks": {"ours": entry}}))
        settings.NETWORKS_FILE = str(tmp_path / "networks.json")
        networks.networks.cache_clear()

    yield use
    networks.networks.cache_clear()


def check(name: str, *urls: str) -> tuple[list[str], str]:
    """Run the command; return the lines that it prints, with a node's address as `NODE`, and why it fails."""
    output, failure = io.StringIO(), ""
    try:
        call_command("check_network", name, *(f"--url={url}" for url in urls), stdout=output)
    except CommandError as raised:
        assert raised.returncode == 1
        failure = str(raised)
    text = output.getvalue()
    assert SECRET not in text + failure
    for number, url in enumerate(urls):
        shown = f"http://127.0.0.1:{url.rpartition(':')[2].partition('/')[0]}/***"
        # As wide as what stands there otherwise, so that columns stay where they are.
        text = text.replace(shown, f"NODE-{number}".ljust(len(shown), "."))
    return text.splitlines(), failure


def cells(lines: list[str]) -> dict[str, str]:
    """Return what the table says of its only node, by column."""
    _, _, head, row, *_ = lines
    starts = [head.index(column) for column in network_check.COLUMNS]
    return {
        column: row[start:end].strip()
        for column, start, end in zip(network_check.COLUMNS, starts, [*starts[1:], None], strict=True)
    }


def block(number: int, age: int = 5) -> dict[str, Any]:
    return {"number": hex(number), "timestamp": hex(NOW - age)}


def fees(base_fees: int, ratios: list[float], **more: Any) -> dict[str, Any]:
    return {"oldestBlock": "0x1", "baseFeePerGas": ["0x7"] * base_fees, "gasUsedRatio": ratios, **more}


HISTORY = fees(6, [0.5, 0.4, 0.3, 0.6, 0.5], reward=[["0x1"]] * 5)


def answers(**changes: Any) -> faults.Behaviour:
    """Answer as a node of the network does, with changes; `finalized` is what is said to that tag."""
    finalized = changes.pop("finalized", {"result": block(36)})
    said = {
        "eth_chainId": {"result": hex(CHAIN)},
        "eth_getBlockByNumber": {"result": block(100)},
        "eth_feeHistory": {"result": HISTORY},
    } | changes

    def answer(call: dict[str, Any]) -> Any:
        if call["params"] == ["finalized", False]:
            return finalized
        return said.get(call["method"], UNKNOWN_METHOD)

    return each(answer)


def test_a_node_that_fits_is_a_row_of_a_table(use: Callable[..., None]) -> None:
    use(kind="op-stack", max_head_age_seconds=5)
    with node(answers(eth_call={"result": WORD})) as server:
        lines, failure = check("ours", server.url)
    port = "." * (len(f"http://127.0.0.1:{server.server_port}/***") - len("NODE-0"))
    pad = " " * (len(port) + 2)
    assert lines == [
        "ours: chain 31337, kind op-stack",
        "",
        f"node{pad}  chain ID  head  age  fee history                       batches   finalized  oracle",
        f"NODE-0{port}  31337     100   5 s  next base fee, rewards, fullness  accepted  64 deep    answers",
    ]
    assert failure == ""


def test_what_does_not_fit_is_a_hint(use: Callable[..., None]) -> None:
    use(kind="op-stack", max_head_age_seconds=60)
    history = fees(2, [1e-9, 2e-9])
    behaviour = answers(
        eth_getBlockByNumber={"result": block(100, age=61)},
        eth_feeHistory={"result": history},
        eth_call={"result": "0x"},
        finalized=error(-32602, "unknown block tag"),
    )
    with node(behaviour) as server:
        lines, failure = check("ours", server.url)
    name = lines[3].partition(" ")[0]
    assert cells(lines) == {
        "node": name,
        "chain ID": "31337",
        "head": "100",
        "age": "61 s",
        "fee history": "last block, no rewards, no fullness",
        "batches": "accepted",
        "finalized": "not supported",
        "oracle": "no answer",
    }
    assert lines[4:] == [
        "",
        f"{name}: the head block is older than max_head_age_seconds, 60",
        f"{name}: the fee history ends with the last block: set base_fee_rule, unless it follows EIP-1559",
        f"{name}: the fee history does not report how full blocks are: set reports_fullness to false",
        f"{name}: the tag finalized is not supported: set finality_depth",
        f"{name}: the fee calls of kind op-stack are not supported: check kind",
    ]
    assert failure == ""


def test_what_is_set_already_is_no_hint(use: Callable[..., None]) -> None:
    use(base_fee_rule="last-block", reports_fullness=False, finality_depth=10)
    behaviour = answers(eth_feeHistory={"result": fees(2, [0.99, 0.99])}, finalized={"result": None})
    with node(behaviour) as server:
        lines, _ = check("ours", server.url)
    assert (cells(lines)["fee history"], len(lines)) == ("last block, no rewards, no fullness", 4)


@pytest.mark.parametrize(
    ("history", "rule"),
    [(UNKNOWN_METHOD, "none"), *((history, "eip-1559") for history in (UNKNOWN_METHOD, {"result": fees(9, [0.5])}))],
)
def test_a_network_without_a_fee_history_needs_its_rule(
    use: Callable[..., None], history: dict[str, Any], rule: str
) -> None:
    use(base_fee_rule=rule)
    with node(answers(eth_feeHistory=history)) as server:
        lines, _ = check("ours", server.url)
    name = lines[3].partition(" ")[0]
    assert cells(lines)["fee history"] == "none"
    hint = f"{name}: the fee history has no base fees: set base_fee_rule to none"
    assert lines[4:] == ([] if rule == "none" else ["", hint])


def test_a_node_that_should_say_the_next_base_fee_is_asked_for_it(use: Callable[..., None]) -> None:
    use(base_fee_rule="eth_baseFee")
    for answer, hint in (
        ({"result": "0x7"}, []),
        (UNKNOWN_METHOD, ["eth_baseFee is not supported: set base_fee_rule to last-block"]),
    ):
        with node(answers(eth_baseFee=answer, eth_feeHistory={"result": fees(2, [0.5, 0.6])})) as server:
            lines, _ = check("ours", server.url)
        assert [line.partition(": ")[2] for line in lines[5:]] == hint


@pytest.mark.parametrize(
    ("ratios", "fullness"),
    [([0, 0], True), ([1, 1], True), ([2e-6, 0], True), ([2e-7, 1e-7], False), ([2], False)],
)
def test_how_full_blocks_are_has_to_be_plausible(
    use: Callable[..., None], ratios: list[float], fullness: bool
) -> None:
    use(reports_fullness=False)
    with node(answers(eth_feeHistory={"result": fees(len(ratios) + 1, ratios)})) as server:
        lines, _ = check("ours", server.url)
    assert cells(lines)["fee history"] == f"next base fee, no rewards, {'fullness' if fullness else 'no fullness'}"


@pytest.mark.parametrize(
    ("kind", "method", "result"),
    [
        (NetworkKind.ARBITRUM, "eth_call", WORD + WORD[2:] * 2),
        (
            NetworkKind.LINEA,
            "linea_estimateGas",
            dict.fromkeys(("gasLimit", "baseFeePerGas", "priorityFeePerGas"), "0x7"),
        ),
        (NetworkKind.ZKSYNC, "zks_estimateFee", {"gas_limit": "0x5208"}),
    ],
)
def test_the_oracle_of_a_kind_is_asked(use: Callable[..., None], kind: NetworkKind, method: str, result: Any) -> None:
    use(kind=kind)
    right, wrong = answers(**{method: {"result": result}}), answers(**{method: {"result": "0x"}})
    with node(right) as good, node(wrong) as bad:
        assert cells(check("ours", good.url)[0])["oracle"] == "answers"
        assert cells(check("ours", bad.url)[0])["oracle"] == "no answer"


def test_nodes_that_cannot_be_used_fail_the_check(use: Callable[..., None]) -> None:
    use()
    with node(answers()) as good, node(answers(eth_chainId={"result": "0x5"})) as other, faults.refusing() as nobody:
        lines, failure = check("ours", good.url, other.url, nobody)
    names = [line.partition(" ")[0] for line in lines[3:6]]
    assert [line.split()[1:3] for line in lines[3:6]] == [["31337", "100"], ["5", "-"], ["-", "-"]]
    assert lines[6:] == [
        "",
        f"{names[1]}: on chain 5 instead of 31337",
        f"{names[2]}: connection failed",
    ]
    assert failure == "2 of 3 nodes cannot be used."
    # One that limits the rate is not called again.
    with node(answers(eth_feeHistory=error(429, "compute units exceeded"))) as server:
        lines, failure = check("ours", server.url)
    assert lines[5].endswith(": rate limit exceeded")
    assert failure == "1 of 1 nodes cannot be used."
    assert [method for methods in server.methods for method in methods] == [
        "eth_chainId",
        "eth_getBlockByNumber",
        "eth_feeHistory",
    ]


def test_a_node_that_refuses_batches_and_says_nothing_of_its_head_is_shown(use: Callable[..., None]) -> None:
    use(max_head_age_seconds=60)
    said = answers(eth_getBlockByNumber={"result": []}, finalized={"result": []})

    def behave(handler: faults.Handler, asked: Any) -> None:
        (faults.no_batches if isinstance(asked, list) else said)(handler, asked)

    with node(behave) as server:
        lines, failure = check("ours", server.url)
    found = cells(lines)
    assert (found["head"], found["age"], found["finalized"]) == ("unreadable", "-", "not supported")
    # It is asked one by one.
    assert (found["chain ID"], found["batches"], failure) == ("31337", "rejected", "")


def test_the_networks_own_nodes_are_asked_unless_others_are_given(use: Callable[..., None]) -> None:
    with node(answers()) as own, node(answers()) as given:
        use(rpc_urls=[own.url])
        check("ours")
        assert (own.requests != [], given.requests) == (True, [])
        own.requests.clear()
        check("ours", given.url)
        assert (own.requests, given.requests != []) == ([], True)


@pytest.mark.parametrize(
    ("name", "url", "words"),
    [
        ("nowhere", [], "nowhere: unknown network: add it to NETWORKS_FILE"),
        ("holesky", [], "holesky: holesky was shut down in 2025: use hoodi, or sepolia"),
        ("ours", [], "ours has no RPC URLs: specify a node with --url"),
        ("ours", ["ftp://x"], "--url: an absolute http or https URL is required"),
    ],
)
def test_a_check_that_cannot_be_made_says_why(use: Callable[..., None], name: str, url: list[str], words: str) -> None:
    use()
    assert check(name, *url) == ([], words)
