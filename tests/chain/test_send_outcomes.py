"""What the words of clients mean, with any case, prefix and suffix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chain.broadcast.send_outcomes import Broadcast, Verdict, judge_error, judge_result
from chain.broadcast.send_texts import TEXTS, Hint, Outcome
from chain.nodes.answers import RATE_LIMIT_CODES
from tests.amounts import amount
from tests.chain.faults import SECRET, secret_url
from tests.chain.send_dialects import DIALECTS, NOT_READY, OLD_WORDS, QUOTAS, WRONG_CHAIN

HASH = "0x" + "ab" * 32
CODES = [-32000, -32002, -32003, -32010, -32603]
MESSAGES = [
    (outcome, message) for words in DIALECTS.values() for outcome, found in words.items() for _, message in found
] + [(outcome, message) for outcome, messages in OLD_WORDS.items() for message in messages]
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


def judge(message: Any, code: Any = -32000, **fields: Any) -> Verdict:
    return judge_error({"code": code, "message": message, **fields}, HASH)


@pytest.mark.parametrize("client", DIALECTS)
def test_the_words_of_each_client_have_their_outcome(client: str) -> None:
    expected = [(outcome, message) for outcome, found in DIALECTS[client].items() for _, message in found]
    judged = [
        (judge(message, code).outcome, message) for found in DIALECTS[client].values() for code, message in found
    ]
    assert judged == expected


@pytest.mark.parametrize(("outcome", "message"), MESSAGES)
@settings(max_examples=amount(10, 100))
@given(data=st.data())
def test_case_prefix_suffix_and_code_do_not_matter(outcome: Outcome, message: str, data: st.DataObject) -> None:
    text = data.draw(CASES)(f"{data.draw(PREFIXES)}{message}{data.draw(SUFFIXES)}")
    verdict = judge(text, data.draw(st.sampled_from(CODES)))
    assert (verdict.outcome, verdict.fault) == (outcome, None)


@pytest.mark.parametrize(("client", "text", "meaning"), [row[:3] for row in TEXTS])
def test_each_row_counts_wherever_its_words_are(client: str, text: str, meaning: Outcome | Hint) -> None:
    messages = [text, text.upper(), f"rpc error: code = 2: {text}", f"INTERNAL_ERROR: {text.title()}, 0x1f (12 < 15)"]
    expected = meaning if isinstance(meaning, Outcome) else Outcome.UNKNOWN
    for message in messages:
        verdict = judge(message)
        assert (verdict.outcome, str(verdict.fault or "")) == (expected, FAULTS.get(meaning, "")), client


def test_each_row_has_a_client_a_source_and_words_of_its_own() -> None:
    assert all(client and source for client, _, _, source in TEXTS)
    assert len({text.lower() for _, text, _, _ in TEXTS}) == len(TEXTS)


@given(
    message=st.sampled_from([message for _, message in MESSAGES] + WRONG_CHAIN + [row[1] for row in TEXTS]),
    revert=st.sampled_from(REVERTS),
)
@example("too many requests", REVERTS[0])
def test_words_that_a_revert_quotes_do_not_count(message: str, revert: str) -> None:
    text = revert.format(message)
    assert judge(text) == Verdict(Broadcast(Outcome.REFUSED, " ".join(text.split())[:200]))


def test_oz_681_an_internal_error_with_a_low_nonce_is_no_fault_of_the_node() -> None:
    """OpenZeppelin 681: -32603 "nonce too low" counted as a failure of the node, until all nodes were paused."""
    assert judge("nonce too low", -32603) == Verdict(Broadcast(Outcome.NONCE_TOO_LOW, "nonce too low"))


def test_oz_681_an_internal_error_without_known_words_is_no_fault_either() -> None:
    """OpenZeppelin 681."""
    assert judge("internal error", -32603) == Verdict(Broadcast(Outcome.UNKNOWN, "internal error"))


def test_the_error_that_a_provider_wraps_is_read() -> None:
    verdict = judge("Internal JSON-RPC error.", -32603, data={"code": -32000, "message": "nonce too low"})
    assert verdict == Verdict(Broadcast(Outcome.NONCE_TOO_LOW, "Internal JSON-RPC error."))


def test_the_message_counts_before_the_wrapped_one() -> None:
    assert judge("already known", data="insufficient funds").outcome == Outcome.KNOWN


@pytest.mark.parametrize("message", WRONG_CHAIN)
def test_a_node_that_finds_the_chain_id_invalid_is_on_another_chain(message: str) -> None:
    verdict = judge(message)
    assert verdict.broadcast == Broadcast(Outcome.UNKNOWN, message)
    assert verdict.fault is not None
    assert (verdict.fault.wrong_chain, verdict.fault.pause_seconds) == (True, 600)


@pytest.mark.parametrize("message", [*QUOTAS, "Your account hit its rate limit", "request limit reached"])
def test_a_rate_limit_pauses_the_node(message: str) -> None:
    verdict = judge_error({"code": -32000, "message": message}, HASH, retry_after="7")
    assert verdict.broadcast == Broadcast(Outcome.UNKNOWN, message)
    assert verdict.fault is not None
    assert (str(verdict.fault), verdict.fault.pause_seconds) == ("rate limit exceeded", 7)


@pytest.mark.parametrize("code", sorted(RATE_LIMIT_CODES))
def test_the_code_of_a_rate_limit_counts_only_without_known_words(code: int) -> None:
    assert str(judge("compute units exceeded", code).fault) == "rate limit exceeded"
    assert judge("nonce too low", code) == Verdict(Broadcast(Outcome.NONCE_TOO_LOW, "nonce too low"))


@pytest.mark.parametrize("message", NOT_READY)
def test_a_node_that_is_not_ready_is_at_fault(message: str) -> None:
    verdict = judge(message)
    assert (verdict.outcome, str(verdict.fault)) == (Outcome.UNKNOWN, "does not accept transactions now")


@pytest.mark.parametrize("message", ["invalid nonce; got 7, expected 7", "invalid nonce; got", "invalid nonce; got 7"])
def test_a_nonce_without_a_direction_proves_nothing(message: str) -> None:
    assert judge(message) == Verdict(Broadcast(Outcome.UNKNOWN, message))


@pytest.mark.parametrize("message", ["unknown transaction", "something else", "gas limit reached", ""])
def test_other_words_prove_nothing(message: str) -> None:
    assert judge(message) == Verdict(Broadcast(Outcome.UNKNOWN, message))


@pytest.mark.parametrize(
    ("message", "price"),
    [
        (DIALECTS["hardhat"][Outcome.REPLACEMENT_UNDERPRICED][0][1], 11_000_000_000),
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
    assert judge(message, -32603, data={"message": message, "txHash": HASH}) == Verdict(Broadcast(Outcome.ACCEPTED))
    other = judge(message, -32603, data={"message": message, "txHash": "0x" + "cd" * 32})
    assert other == Verdict(Broadcast(Outcome.REFUSED, message))


def test_the_hash_of_another_error_is_no_acceptance() -> None:
    assert judge("nonce too low", data={"txHash": HASH}).outcome == Outcome.NONCE_TOO_LOW


def test_the_hash_of_the_transaction_is_an_acceptance() -> None:
    assert judge_result(HASH.upper().replace("0X", "0x"), HASH) == Verdict(Broadcast(Outcome.ACCEPTED))


@pytest.mark.parametrize("result", ["0x" + "cd" * 32, "0x", None, True, 7, {}, [HASH]])
def test_any_other_result_proves_nothing(result: Any) -> None:
    verdict = judge_result(result, HASH)
    assert verdict.broadcast == Broadcast(Outcome.UNKNOWN, "returned another hash than the transaction's")
    assert verdict.fault is not None


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
    verdict = judge_error(error, HASH)
    assert len(verdict.broadcast.error) <= 200
    assert verdict.broadcast.error.isprintable()
