"""What nodes answer in the payment model, and which answers are lies."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tests.model.payment_state import EXTERNAL, INVENTED, Answer, PaymentState, Row, Tx, mined_at

# HONEST answers truly; SILENT too, or not at all; LIAR truly, or with one of the scenario's lies.
HONEST, SILENT, LIAR = "honest", "silent", "liar"

LIES = {
    "hide": "no receipt",
    "foreign": "an invented entry with the account's sender and nonce",
    "signed_foreign": "a real signature of another holder of the key, which was never mined",
    "swap": "another attempt of the row than the one that was mined, for example the no-op",
    "early": "an attempt of the row, although the nonce is unused",
    "head": "a head that is too high; the lane stores it",
}


def truth(s: PaymentState, nonce: int) -> Answer:
    # Receipts of every node are judged by the lane's stored head.
    return Answer(mined_at(s, nonce), nonce < len(s.chain) and (s.high or nonce < s.fin), True)


def answers(s: PaymentState, node: str, lies: Collection[str], row: Row, nonce: int) -> Iterator[Answer]:
    """Yield what a node can say used the nonce of a row."""
    real = truth(s, nonce)
    yield real
    if node == SILENT:
        yield Answer(None, False, False, silent=True)
    if node == LIAR:
        yield from (Answer(tx, final, False) for tx, final in told(lies, row, nonce, real.tx))


def told(lies: Collection[str], row: Row, nonce: int, real: Tx | None) -> Iterator[tuple[Tx | None, bool]]:
    if "hide" in lies and real:
        yield None, False
    if "foreign" in lies:
        yield Tx(INVENTED, nonce), True
    if "signed_foreign" in lies and real != Tx(EXTERNAL, nonce):
        yield Tx(EXTERNAL, nonce), True
    if "swap" in lies if real else "early" in lies:
        for tx in sorted(row.attempts):
            if tx.nonce == nonce and tx != real:
                yield from ((tx, final) for final in (False, True))
