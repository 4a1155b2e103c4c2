"""The lies of a node, about connections, batches and single calls: see lying_node.py."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

from eth_utils.crypto import keccak

from tests.chain import faults
from tests.transactions.lying_node import SEND, Answer, Call, Lie, Request, honest

# Returns the answer to one call; `Request.pass_on` has the honest one.
CallLie = Callable[[Request, Call], Answer]


# The connection.


def drop_request(request: Request) -> None:
    faults.reset(request.handler, None)


def drop_answer(request: Request) -> None:
    request.answers()
    faults.reset(request.handler, None)


def break_off(request: Request) -> None:
    """Break the connection in the middle of the answer."""
    body = request.body(request.answers())
    request.handler.send_response(200)
    request.handler.send_header("Content-Length", str(len(body)))
    request.handler.end_headers()
    request.handler.wfile.write(body[: len(body) // 2])
    request.handler.close_connection = True


def answer_twice(request: Request) -> None:
    body = request.body(request.answers())
    # In one write: a second answer that arrives later would be read as that of the next request.
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    request.handler.wfile.write(answer * 2)


def answer_late_again(request: Request) -> None:
    """Answer a second time when the first answer was read, perhaps as that of the next request."""
    body = request.body(request.answers())
    faults.send(request.handler, body)
    request.handler.server.closing.wait(0.02)
    faults.send(request.handler, body)


def delay(seconds: float) -> Lie:
    """Pass the request on late."""

    def delay(request: Request) -> None:
        request.handler.server.closing.wait(seconds)
        honest(request)

    return delay


def hold(released: threading.Event) -> Lie:
    """Pass the request on when the test says so."""

    def hold(request: Request) -> None:
        while not released.wait(0.02) and not request.handler.server.closing.is_set():
            pass
        honest(request)

    return hold


def status(code: int, *, with_json: bool, retry_after: str = "") -> Lie:
    """Answer with an error of HTTP, without passing the request on."""

    def status(request: Request) -> None:
        refusal = json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": f"HTTP {code}"}})
        headers = {"Retry-After": retry_after} if retry_after else {}
        faults.send(request.handler, refusal.encode() if with_json else b"<html>", code, headers)

    return status


# Batches.


def refuse_batch(request: Request) -> None:
    if request.is_batch:
        faults.no_batches(request.handler, request.calls)
    else:
        honest(request)


def shorten(request: Request) -> None:
    """Leave the last answer out."""
    answers = request.answers()
    request.answer(answers[:-1] if request.is_batch else answers)


def reorder(request: Request) -> None:
    request.answer(request.answers()[::-1])


def split(request: Request) -> None:
    """Pass the calls of a batch on out of order, as a provider that runs them in parallel does."""
    answers = [request.pass_on(call) for call in reversed(request.calls)]
    request.answer(answers[::-1])


# Single calls of a request.


def per_call(lie: CallLie, *, only: Callable[[int], bool] = lambda position: True) -> Lie:
    """Lie about calls, by their positions in the request."""

    def tell(request: Request) -> None:
        request.answer(
            [
                lie(request, call) if only(position) else request.pass_on(call)
                for position, call in enumerate(request.calls)
            ]
        )

    tell.__name__ = getattr(lie, "__name__", "per_call")
    return tell


def failing(call: Call, code: int, message: str) -> Answer:
    return {"jsonrpc": "2.0", "id": call["id"], "error": {"code": code, "message": message}}


def returning(call: Call, result: Any) -> Answer:
    return {"jsonrpc": "2.0", "id": call["id"], "result": result}


def rate_limit(position: int) -> Lie:
    """Limit one call of a batch, which is not passed on."""

    def rate_limit(request: Request, call: Call) -> Answer:
        return failing(call, -32005, "rate limit exceeded")

    return per_call(rate_limit, only=lambda other: other == position)


def refuse(message: str, code: int = -32000) -> Lie:
    """Refuse calls with these words, without data and without passing them on."""

    def refuse(request: Request, call: Call) -> Answer:
        return failing(call, code, message)

    return per_call(refuse)


def report_chain(chain_id: int) -> Lie:
    """Be a node of another chain, which takes the signatures for those of other senders."""

    def report_chain(request: Request, call: Call) -> Answer:
        if call["method"] == "eth_chainId":
            return returning(call, hex(chain_id))
        return failing(call, -32000, "invalid sender") if call["method"] == SEND else request.pass_on(call)

    return per_call(report_chain)


@per_call
def forget(request: Request, call: Call) -> Answer:
    """Answer a transaction with its hash, and do not pass it on."""
    return returning(call, transaction_hash(call)) if call["method"] == SEND else request.pass_on(call)


@per_call
def change_hash(request: Request, call: Call) -> Answer:
    """Accept a transaction, and answer with another hash."""
    answer = request.pass_on(call)
    return returning(call, "0x" + "ee" * 32) if call["method"] == SEND and "result" in answer else answer


def change_receipts(**fields: Any) -> Lie:
    """Answer receipts with other fields, such as `blockHash` or `transactionHash`."""

    def change_receipts(request: Request, call: Call) -> Answer:
        answer = request.pass_on(call)
        if call["method"] == "eth_getTransactionReceipt" and answer.get("result"):
            answer["result"] |= fields
        return answer

    return per_call(change_receipts)


def hide_behind(hidden: str, invented: Mapping[str, Any]) -> Lie:
    """Hide a mined transaction, and report an invented one in its place: in its block, with its receipt."""

    def hide_behind(request: Request, call: Call) -> Answer:
        answer, method = request.pass_on(call), call["method"]
        if method == "eth_getBlockByNumber" and call["params"][1] and answer.get("result"):
            entries = answer["result"]["transactions"]
            answer["result"]["transactions"] = [one | invented if one["hash"] == hidden else one for one in entries]
        if method not in {"eth_getTransactionReceipt", "eth_getTransactionByHash"}:
            return answer
        if call["params"][0] == hidden:
            return returning(call, None)
        if call["params"][0] == invented["hash"]:
            truth = request.pass_on(call | {"params": [hidden]})["result"]
            named = {"transactionHash": invented["hash"]} if "transactionHash" in (truth or {}) else invented
            return returning(call, truth and truth | named)
        return answer

    return per_call(hide_behind)


def lag(blocks: int) -> Lie:
    """Answer from a state that is some blocks old: counts, balances, receipts, transactions and blocks."""

    def lag(request: Request, call: Call) -> Answer:
        head = int(request.pass_on(_call("eth_blockNumber"))["result"], 16)
        old = max(0, head - blocks)
        method, params = call["method"], list(call["params"])
        if method == "eth_blockNumber":
            return returning(call, hex(old))
        if method in BLOCK_PARAMETERS and params[BLOCK_PARAMETERS[method]] in TAGS:
            params[BLOCK_PARAMETERS[method]] = hex(old)
        answer = request.pass_on(call | {"params": params})
        found = answer.get("result")
        if method in {"eth_getTransactionReceipt", "eth_getTransactionByHash"} and found and found["blockNumber"]:
            return answer if int(found["blockNumber"], 16) <= old else returning(call, None)
        if method == "eth_getBlockByNumber" and found and int(found["number"] or "0x0", 16) > old:
            return returning(call, None)
        return answer

    return per_call(lag)


def raise_head(blocks: int) -> Lie:
    """Report a head that is so many blocks too high, as a number and as the latest block."""

    def tell(request: Request, call: Call) -> Answer:
        answer = request.pass_on(call)
        found = answer.get("result")
        if call["method"] == "eth_blockNumber" and found:
            return returning(call, hex(int(found, 16) + blocks))
        if call["method"] == "eth_getBlockByNumber" and call["params"][0] in {"latest", "finalized"} and found:
            return returning(call, found | {"number": hex(int(found["number"], 16) + blocks)})
        return answer

    tell.__name__ = f"raise_head_{blocks}"
    return per_call(tell)


def raise_tips(tip: int) -> Lie:
    """Report that the last blocks paid this tip."""

    def raise_tips(request: Request, call: Call) -> Answer:
        answer = request.pass_on(call)
        if call["method"] == "eth_feeHistory" and answer.get("result"):
            rows = answer["result"].get("reward") or ()
            answer["result"]["reward"] = [[hex(tip)] * len(row) for row in rows]
        return answer

    return per_call(raise_tips)


TAGS = {"latest", "pending", "safe", "finalized"}
# The position of the block among the parameters.
BLOCK_PARAMETERS = {"eth_getTransactionCount": 1, "eth_getBalance": 1, "eth_call": 1, "eth_getBlockByNumber": 0}


def _call(method: str, *params: Any) -> Call:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}


def transaction_hash(call: Call) -> str:
    return f"0x{keccak(bytes.fromhex(call['params'][0][2:])).hex()}"


# None lasts, so that what is done again succeeds in the end; none makes a transaction that was accepted look refused.
SEEDED: list[Lie] = [
    drop_request,
    drop_answer,
    break_off,
    answer_twice,
    delay(0.05),
    status(429, with_json=False, retry_after="1"),
    status(429, with_json=True),
    status(500, with_json=False),
    status(502, with_json=True),
    refuse_batch,
    shorten,
    reorder,
    split,
    rate_limit(0),
    rate_limit(1),
    refuse("internal error", -32603),
    refuse("header not found"),
    forget,
    change_hash,
    lag(1),
    lag(3),
    report_chain(5),
    change_receipts(blockHash="0x" + "ee" * 32),
]
