"""Compares the nodes of a network with its settings."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chain.errors import ChainFault
from chain.fees import fee_history
from chain.fees.network_fees import KINDS
from chain.networks import BaseFeeRule, Network
from chain.nodes import attempts, head
from chain.nodes.answers import Fault, check_chain_id, member_quantity, quantity
from chain.nodes.attempts import Call, attempt, refuses_batches
from chain.transactions import decode
from relayer_service.background.pools import map_threads
from relayer_service.net.addresses import mask

COLUMNS = ("node", "chain ID", "head", "age", "fee history", "batches", "finalized", "oracle")
NOTHING = "-"

CHAIN_ID = Call("eth_chainId")
FINALIZED = Call("eth_getBlockByNumber", ["finalized", False])
BASE_FEE = Call("eth_baseFee")

# A transfer fills more of any realistic block.
MIN_FULLNESS = 1e-6

ZERO_ADDRESS = "0x" + "00" * 20
# For calls of the oracles: a legacy transfer of 0 to the zero address.
SAMPLE = decode(f"0xda808080{'94' + '00' * 20}8080")


@dataclass(frozen=True)
class NodeCheck:
    """The result of one node: a cell for each column, and hints about settings to change."""

    cells: tuple[str, ...]
    hints: tuple[str, ...] = ()
    # Whether it answers and is on the network's chain.
    is_usable: bool = True


def check_nodes(network: Network, urls: Sequence[str]) -> list[NodeCheck]:
    """Check every node, concurrently."""
    return map_threads(lambda url: _check_node(network, url), urls)


def _check_node(network: Network, url: str) -> NodeCheck:
    chain = NOTHING
    try:
        # Two calls, to learn whether batches are accepted.
        chain_id, block = attempt(url, [CHAIN_ID, head.CALL], None, attempts.ATTEMPT_SECONDS)
        chain = str(quantity(chain_id) or NOTHING)
        check_chain_id(chain_id, network.chain_id)
        answers = [
            _head(block),
            _age(network, block),
            _fees(network, url),
            ("rejected" if refuses_batches(url) else "accepted", []),
            _finalized(network, block, _call(url, FINALIZED)),
            _oracle(network, url),
        ]
    except Fault as fault:
        rest = (NOTHING,) * (len(COLUMNS) - 2)
        return NodeCheck((mask(url), chain, *rest), (str(fault),), is_usable=False)
    cells = (cell for cell, _ in answers)
    return NodeCheck((mask(url), chain, *cells), tuple(hint for _, hints in answers for hint in hints))


def _call(url: str, call: Call) -> Any:
    """Return the answer to a call, or None if it fails; a fault that pauses the node is raised."""
    try:
        (answer,) = attempt(url, [call], None, attempts.ATTEMPT_SECONDS)
    except Fault as fault:
        if fault.pause_seconds:
            raise
        return None
    return answer


# The text of a cell, and its hints.
Answer = tuple[str, list[str]]


def _head(block: Any) -> Answer:
    number = member_quantity(block, "number")
    return ("unreadable", [f"the node {head.NO_HEAD}"]) if number is None else (str(number), [])


def _age(network: Network, block: Any) -> Answer:
    timestamp, bound = member_quantity(block, "timestamp"), network.max_head_age_seconds
    if timestamp is None:
        return NOTHING, []
    age = max(0, int(time.time()) - timestamp)
    is_old = bound is not None and age > bound
    return f"{age} s", [f"the head block is older than max_head_age_seconds, {bound}"] if is_old else []


def _fees(network: Network, url: str) -> Answer:
    history, rule = _call(url, fee_history.CALL), network.base_fee_rule
    ratios, base_fees, rewards = _series(history, "gasUsedRatio", "baseFeePerGas", "reward")
    if len(base_fees) not in {len(ratios), len(ratios) + 1} or not base_fees:
        hint = "the fee history has no base fees: set base_fee_rule to none"
        return "none", [] if rule is BaseFeeRule.NONE else [hint]
    has_next, is_plausible = len(base_fees) > len(ratios), _plausible(ratios)
    parts = [
        "next base fee" if has_next else "last block",
        "rewards" if rewards else "no rewards",
        "fullness" if is_plausible else "no fullness",
    ]
    hints = []
    if not has_next and rule is BaseFeeRule.EIP_1559:
        hints.append("the fee history ends with the last block: set base_fee_rule, unless it follows EIP-1559")
    if rule is BaseFeeRule.ETH_BASE_FEE and quantity(_call(url, BASE_FEE)) is None:
        hints.append("eth_baseFee is not supported: set base_fee_rule to last-block")
    if network.reports_fullness and not is_plausible:
        hints.append("the fee history does not report how full blocks are: set reports_fullness to false")
    return ", ".join(parts), hints


def _series(history: Any, *names: str) -> list[list[Any]]:
    """Return lists of a fee history by name; a missing one is empty."""
    found = [history.get(name) if isinstance(history, dict) else None for name in names]
    return [values if isinstance(values, list) else [] for values in found]


def _plausible(ratios: list[Any]) -> bool:
    """Return whether numbers can be the fullness of blocks: not all equal, and not close to zero."""
    if not all(isinstance(ratio, int | float) and 0 <= ratio <= 1 for ratio in ratios):
        return False
    highest = max(ratios, default=0)
    return highest in {0, 1} or (highest >= MIN_FULLNESS and (len(ratios) == 1 or len({*ratios}) > 1))


def _finalized(network: Network, latest: Any, block: Any) -> Answer:
    newest, final = member_quantity(latest, "number"), member_quantity(block, "number")
    if final is None:
        hint = "the tag finalized is not supported: set finality_depth"
        return "not supported", [hint] if network.finality_depth is None else []
    return NOTHING if newest is None else f"{max(0, newest - final)} deep", []


def _oracle(network: Network, url: str) -> Answer:
    readings = KINDS[network.kind].specific_readings(SAMPLE, ZERO_ADDRESS)
    if not readings:
        return NOTHING, []
    for reading in readings.values():
        try:
            value = reading.read([_call(url, call) for call in reading.calls])
        except ChainFault:
            value = None
        if value is None:
            hint = f"the fee calls of kind {network.kind} are not supported: check kind"
            return "no answer", [hint]
    return "answers", []
