"""Simulations: what to read of a row before it gets a nonce, and the gas limit that follows from it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from chain import limits
from chain.errors import CannotBeIncluded
from chain.fees.network_fees import KINDS
from chain.networks import BaseFeeRule, Network, NetworkKind
from chain.readings import ChainReading
from chain.transactions import Transaction as Payload
from relayer_service.amounts import with_bps
from transactions.lanes.prices.market import Sender
from transactions.models import Transaction
from transactions.records import payloads

# The gas estimate among the readings of a row.
GAS = "gas"
MAX_SIMULATED_VALUE = 2**255


def row_readings(sender: Sender, row: Transaction) -> dict[str, ChainReading]:
    """Return what to read of one row; readings with a key are shared by rows."""
    network, policies = sender.network, sender.policies
    model, transaction = KINDS[network.kind], payloads.payload(network, policies, row)
    is_new = row.nonce is None or row.requested_action == Transaction.Action.REPLACE
    # Where gas pays for L1, there are no charges on top of it.
    found = model.charge_readings(transaction) if is_new and not model.has_l1_gas else {}
    # Linea returns the price with the gas.
    if network.kind == NetworkKind.LINEA or (is_new and is_simulated(policies, row)):
        found[GAS] = _gas_reading(sender, _simulated(sender, transaction))
    return found


def noop_reading(sender: Sender) -> ChainReading:
    """Return the reading of the gas of a no-op."""
    return _gas_reading(sender, payloads.noop(sender.network, sender.address))


def _gas_reading(sender: Sender, transaction: Payload) -> ChainReading:
    # Not at the pending block, the default of some nodes: what it contains may never be mined. Nodes from before base
    # fees do not accept a block.
    block = "" if sender.network.base_fee_rule == BaseFeeRule.NONE else "latest"
    return KINDS[sender.network.kind].gas_reading(transaction, sender.address, block)


def _simulated(sender: Sender, transaction: Payload) -> Payload:
    # Some nodes crash if value and fee exceed 256 bits. No account has so much, and the true value needs the funds.
    transaction = replace(transaction, value=min(transaction.value, MAX_SIMULATED_VALUE))
    # As if it were signed, its own limit is final; but nodes that overestimate would refuse one that suffices.
    has_limit = transaction.gas and not KINDS[sender.network.kind].pads_estimates
    return replace(transaction, sender=sender.address) if has_limit else transaction


def is_simulated(policies: Mapping[str, Any], row: Transaction) -> bool:
    """Return whether a row is simulated before it gets a nonce.

    With a gas limit and without `gas_limit_estimation` it is not. With both, it is simulated with that limit, so
    that a revert costs nothing. Without a limit there is no other way, even if the policy was changed meanwhile.
    """
    return row.requested_gas_limit is None or policies.get("gas_limit_estimation", True)


def buffered_gas(network: Network, estimate: int, block_gas_limit: int) -> int:
    """Return the gas limit for an estimate: with the buffer of estimates, within the network's maximum."""
    maximum = check_block_limit(network, estimate, block_gas_limit)
    if estimate == limits.TRANSFER_GAS and not KINDS[network.kind].has_l1_gas:
        return estimate
    return min(math.ceil(with_bps(estimate, network.gas_buffer_bps)), maximum)


def check_block_limit(network: Network, gas: int, block_gas_limit: int) -> int:
    """Return the maximum gas of a transaction; raise `CannotBeIncluded` if this one needs more."""
    # A network with blocks of different sizes has a cap.
    maximum = block_gas_limit if network.tx_gas_cap is None else network.tx_gas_cap
    if gas > maximum:
        raise CannotBeIncluded(f"it needs {gas} gas, above the maximum of {maximum} on {network.name}")
    return maximum
