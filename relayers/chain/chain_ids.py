"""Which chain each node is on, by its own account."""

from __future__ import annotations

from collections.abc import Sequence

from django.conf import settings

from relayer_service.ops.pools import at_once
from relayers.chain.answers import Fault, quantity
from relayers.chain.attempts import Call, attempt


def ask(urls: Sequence[str]) -> list[int | str]:
    """Return the chain id of each node, or in words why there is none; all are asked at once."""
    return at_once(_ask_one, urls)


def _ask_one(url: str) -> int | str:
    try:
        (answer,) = attempt(url, [Call("eth_chainId")], None, settings.NODE_ATTEMPT_SECONDS)
    except Fault as fault:
        return str(fault)
    chain_id = quantity(answer)
    return "it does not tell its chain id" if chain_id is None else chain_id
