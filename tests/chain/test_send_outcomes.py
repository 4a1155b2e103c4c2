"""What the words of clients mean, with any case, prefix and suffix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chain.broadcast.send_outcomes import Broadcast, NodeReply, judge_error, judge_result
from chain.broadcast.send_texts import TEXTS, Hint, Outcome
from chain.nodes.answers import RATE_LIMIT_CODES
from tests.amounts import amount
from tests.chain.faults import SECRET, secret_url
from tests.chain.send_dialects import MESSAGES, NOT_READY, QUOTAS, WRONG_CHAIN

HASH = "0x" + "ab" * 32
CODES = [-32000, -32002, -32003, -32010, -32603]
FAULTS: dict[Outcome | Hint, str] = {
    Hint.RATE_LIMITED: "rate limit exceeded",
    Hint.WRONG_CHAIN: "is on another chain",
    Hint.NOT_READY: "does not accept transactions now",
}
REVERTS = ["execution reverted: {}", "VM Exception while processing transaction: reverted with reason string '{}'"]
# Words of proxies around those of a client, which mean nothing themselves.
NOISE = st.text("0123456789 :;,.|()[]{}<>/'\"-\n\t", max_size=20)
PREFIXES = st.builds(str.__add__, st.sampled_from(["", "rpc error: ", "[node-3] ", "err: "]), NOISE)
SUFFIXES = st.builds(str.__add__, NOISE, st.sampled_from(["", " (request 17)", " | retry later", "; see the log"]))
CASES: st.SearchStrategy[Callable[[str], str]] = st.sampled_from([str, str.lower, str.upper, str.title])


def judge(message: Any, code: Any = -32000, **fields: Any) -> NodeReply:
    return judge_error({"code": code, "message": message, **fields}, HASH)


def test_the_words_of_every_client_have_their_outcome() -> None:
    assert [(judge(message).outcome, message) for _, message in MESSAGES] == MESSAGES


@pytest.mark.parametrize(("outcome", "message"), MESSAGES)
@settings(max_examples=amount(10, 30))
@given(data=st.data())
def test_case_prefix_suffix_and_code_do_not_matter(outcome: Outcome, message: str, data: st.DataObject) -> None:
    text = data.draw(CASES)(f"{data.draw(PREFIXES)}{message}{data.draw(SUFFIXES)}")
    reply = judge(text, data.draw(st.sampled_from(CODES)))
    assert (reply.outcome, reply.fault) == (outcome, None)


def test_each_row_counts_wherever_its_words_are() -> None:
    for client, text, meaning, source in TEXTS:
        assert client
        assert source
        expected = meaning if isinstance(meaning, Outcome) else Outcome.UNKNOWN
        for message in (text, f"INTERNAL_ERROR: {text.title()}, 0x1f (12 < 15)"):
            reply = judge(message)
            assert (reply.outcome, str(reply.fault or "")) == (expected, FAULTS.get(meaning, "")), text
    assert len({text.lower() for _, text, _, _ in TEXTS}) == len(TEXTS)


@given(
    message=st.sampled_from([message for _, message in MESSAGES] + WRONG_CHAIN + [row[1] for row in TEXTS]),
    revert=st.sampled_from(REVERTS),
)
@example("too many requests", REVERTS[0])
def test_words_that_a_revert_quotes_do_not_count(message: str, revert: str) -> None:
    text = revert.format(message)
    assert judge(text) == NodeReply(Broadcast(Outcome.REFUSED, " ".join(text.split())[:200]))


def test_oz_681_an_internal_error_is_no_fault_of_the_node() -> None:
    """OpenZeppelin 681: -32603 "nonce too low" counted as a failure of the node, until all nodes were paused."""
    assert judge("nonce too low", -32603) == NodeReply(Broadcast(Outcome.NONCE_TOO_LOW, "nonce too low"))
    assert judge("internal error", -32603) == NodeReply(Broadcast(Outcome.UNKNOWN, "internal error"))


def test_the_error_that_a_provider_wraps_is_read() -> None:
    reply = judge("Internal JSON-RPC error.", -32603, data={"code": -32000, "message": "nonce too low"})
    assert reply == NodeReply(Broadcast(Outcome.NONCE_TOO_LOW, "Internal JSON-RPC error."))
    # The message counts before the wrapped one.
    assert judge("already known", data="insufficient funds").outcome == Outcome.KNOWN


@pytest.mark.parametrize("message", WRONG_CHAIN)
def test_a_node_that_finds_the_chain_id_invalid_is_on_another_chain(message: str) -> None:
    reply = judge(message)
    assert reply.broadcast == Broadcast(Outcome.UNKNOWN, message)
    assert reply.fault is not None
    assert (reply.fault.wrong_chain, reply.fault.pause_seconds) == (True, 600)


@pytest.mark.parametrize("message", [*QUOTAS, "Your account hit its rate limit", "request limit reached"])
def test_a_rate_limit_pauses_the_node(message: str) -> None:
    reply = judge_error({"code": -32000, "message": message}, HASH, retry_after="7")
    assert reply.broadcast == Broadcast(Outcome.UNKNOWN, message)
    assert reply.fault is not None
    assert (str(reply.fault), reply.fault.pause_seconds) == ("rate limit exceeded", 7)


@pytest.mark.parametrize("code", sorted(RATE_LIMIT_CODES))
def test_the_code_of_a_rate_limit_counts_only_without_known_words(code: int) -> None:
    assert str(judge("compute units exceeded", code).fault) == "rate limit exceeded"
    assert judge("nonce too low", code) == NodeReply(Broadcast(Outcome.NONCE_TOO_LOW, "nonce too low"))


@pytest.mark.parametrize("message", NOT_READY)
def test_a_node_that_is_not_ready_is_at_fault(message: str) -> None:
    reply = judge(message)
    assert (reply.outcome, str(reply.fault)) == (Outcome.UNKNOWN, "does not accept transactions now")


@pytest.mark.parametrize(
    "message",
    ["invalid nonce; got 7, expected 7", "invalid nonce; got 7", "unknown transaction", "gas limit reached", ""],
)
def test_a_nonce_without_a_direction_and_other_words_prove_nothing(message: str) -> None:
    assert judge(message) == NodeReply(Broadcast(Outcome.UNKNOWN, message))


@pytest.mark.parametrize(
    ("message", "price"),
    [
        ("Replacement transaction underpriced. A maxFeePerGas of at least 11000000000 is necessary", 11_000_000_000),
        ("transaction underpriced: gas tip cap 1, minimum needed 25000000000", 25_000_000_000),
        ("gas price too low: 1250000 wei, use at least tx.gasPrice = 1797420 wei", 1_797_420),
        ("transaction underpriced", None),
        (f"transaction underpriced, at least {10**40}", None),
        # The minimum of a nonce and of gas is no price.
        ("Transaction nonce too low. Expected nonce to be at least 7 but got 5.", None),
        ("intrinsic gas too low: gas 20000, minimum needed 21000", None),
    ],
)
def test_the_minimum_price_is_read_where_a_node_names_it(message: str, price: int | None) -> None:
    assert judge(message).broadcast.minimum_price == price


def test_a_failure_of_a_transaction_that_was_mined_is_an_acceptance() -> None:
    message = "Error: Transaction reverted without a reason string"
    assert judge(message, -32603, data={"message": message, "txHash": HASH}) == NodeReply(Broadcast(Outcome.ACCEPTED))
    other = judge(message, -32603, data={"message": message, "txHash": "0x" + "cd" * 32})
    assert other == NodeReply(Broadcast(Outcome.REFUSED, message))
    # Nor is it one beside another error.
    assert judge("nonce too low", data={"txHash": HASH}).outcome == Outcome.NONCE_TOO_LOW


def test_the_hash_of_the_transaction_is_an_acceptance() -> None:
    assert judge_result(HASH.upper().replace("0X", "0x"), HASH) == NodeReply(Broadcast(Outcome.ACCEPTED))


@pytest.mark.parametrize("result", ["0x" + "cd" * 32, None, 7, [HASH]])
def test_any_other_result_proves_nothing(result: Any) -> None:
    reply = judge_result(result, HASH)
    assert reply.broadcast == Broadcast(Outcome.UNKNOWN, "returned another hash than the transaction's")
    assert reply.fault is not None


def test_the_words_are_short_and_have_no_urls_and_no_control_characters() -> None:
    message = f"dial {secret_url(8545)}: refused\r\n\x00\x1b[31m\u2028 {'x' * 500}"
    error = judge(message).broadcast.error
    assert error == f"dial [URL] refused [31m {'x' * 176}"
    assert (len(error), SECRET in error) == (200, False)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["code", "message", "data"]), inner)
        ),
    )
)
def test_an_error_of_any_shape_has_a_verdict(error: Any) -> None:
    reply = judge_error(error, HASH)
    assert len(reply.broadcast.error) <= 200
    assert reply.broadcast.error.isprintable()
