"""Fee models: how each kind of network charges for a transaction."""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import zstandard

from chain import limits
from chain.contracts import Unreadable, contract_call, read_call
from chain.errors import InsufficientData
from chain.fees import fee_history
from chain.fees.fee_history import BaseFeeSource, Market
from chain.fees.gas_estimate import GasEstimate, estimate
from chain.networks import Network, NetworkKind
from chain.nodes.answers import ChainError, member_quantity, quantity
from chain.nodes.attempts import Call
from chain.readings import ChainReading
from chain.transactions import Transaction, encode_with_placeholders
from relayer_service.amounts import NOTHING, Amount, with_bps

ESTIMATE_GAS = "eth_estimateGas"
ZERO_ADDRESS = "0x" + "00" * 20
NODE_INTERFACE = "0x00000000000000000000000000000000000000C8"
OP_STACK_ORACLE = "0x420000000000000000000000000000000000000F"
SCROLL_ORACLE = "0x5300000000000000000000000000000000000002"
# The compression level of Scroll's nodes.
SCROLL_LEVEL = 3
# Enough gas for the operator fee's share of it to be a whole number of wei.
SAMPLE_GAS = 1_000_000


@dataclass(frozen=True)
class Charges:
    """Charges on top of gas, in the native coin's smallest unit."""

    l1_fee: Amount = NOTHING
    operator_fee: Amount = NOTHING
    # The part of the gas that pays for L1; None if there is none, or it is unknown.
    l1_gas: int | None = None


class FeeModel:
    """The default model: gas at the market's price, and no other charges."""

    pays_priority_fee: ClassVar[bool] = True
    # Whether gas also pays for L1, so that even a transfer needs more of it when L1 prices rise.
    has_l1_gas: ClassVar[bool] = False
    # Whether gas is measured as on Ethereum, with its minimum for each transaction.
    has_ethereum_gas: ClassVar[bool] = True
    # Whether nodes overestimate gas, so that a limit below the estimate may suffice.
    pads_estimates: ClassVar[bool] = False
    estimate_method: ClassVar[str] = ESTIMATE_GAS

    def minimum_gas(self, transaction: Transaction, network: Network) -> int:
        return limits.minimum_gas(transaction, network) if self.has_ethereum_gas else 0

    def gas_reading(self, transaction: Transaction, sender: str, block: str = "") -> ChainReading:
        """Return the reading of the gas, at the node's default block unless one is given.

        Only `eth_estimateGas` accepts a block.
        """
        blocks = [block] if block and self.estimate_method == ESTIMATE_GAS else []
        call = Call(self.estimate_method, [transaction.call(sender), *blocks])
        return ChainReading([call], lambda answers: self.read_gas(answers[0]))

    def read_gas(self, answer: Any) -> GasEstimate:
        return estimate(answer, quantity(answer))

    def market_readings(self, network: Network, transaction: Transaction, sender: str) -> dict[str, ChainReading]:
        return fee_history.readings(network)

    def market(self, network: Network, found: Mapping[str, Any], speed: str | None) -> Market:
        return fee_history.market(network, found, speed)

    def charge_readings(self, transaction: Transaction) -> dict[str, ChainReading]:
        return {}

    def specific_readings(self, transaction: Transaction, sender: str) -> dict[str, ChainReading]:
        """Return the readings that only networks of this kind support."""
        is_standard = self.estimate_method == ESTIMATE_GAS
        gas = {} if is_standard else {"gas": self.gas_reading(transaction, sender)}
        return gas | self.charge_readings(transaction)

    def charges(self, found: Mapping[str, Any], gas: Amount, l1_margin_bps: int) -> Charges:
        """Return the charges on top of this gas."""
        return Charges()


def uint_reading(call: Call, name: str, key: Hashable = None) -> ChainReading:
    """Return the reading of one number from a contract of the network."""
    return ChainReading([call], lambda answers: read_uint(answers[0], name), key)


def read_uint(answer: Any, name: str, types: tuple[str, ...] = ("uint256",)) -> int:
    """Return the first value that a contract of the network returned."""
    try:
        return int(read_call(answer, types)[0])
    except Unreadable:
        raise InsufficientData(f"The network did not report its {name}.") from None


def with_margin(l1_fee: int, margin_bps: int) -> Amount:
    """Return an L1 fee whose maximum includes a margin, as L1 prices move."""
    return Amount(l1_fee, with_bps(l1_fee, margin_bps))


class Arbitrum(FeeModel):
    """Arbitrum's stack: `eth_estimateGas` includes the gas that pays for L1; priority fees are ignored."""

    pays_priority_fee = False
    has_l1_gas = True

    def charge_readings(self, transaction: Transaction) -> dict[str, ChainReading]:
        arguments = [transaction.to or ZERO_ADDRESS, transaction.to is None, transaction.data]
        call = contract_call(NODE_INTERFACE, "gasEstimateL1Component(address,bool,bytes)", arguments)
        return {"l1_gas": ChainReading([replace(call, is_optional=True)], self.read_l1_gas)}

    @staticmethod
    def read_l1_gas(answers: list[Any]) -> int | None:
        """Return the part of the gas that pays for L1, or None: it is only displayed."""
        try:
            return read_uint(answers[0], "L1 gas", ("uint64", "uint256", "uint256"))
        except InsufficientData:
            return None

    def charges(self, found: Mapping[str, Any], gas: Amount, l1_margin_bps: int) -> Charges:
        return Charges(l1_gas=found["l1_gas"])


class Linea(FeeModel):
    """Linea: one call returns gas, base fee and priority fee of a transaction; the priority fee pays for L1."""

    estimate_method = "linea_estimateGas"

    def read_gas(self, answer: Any) -> GasEstimate:
        found = estimate(answer, member_quantity(answer, "gasLimit"))
        base_fee, priority_fee = member_quantity(answer, "baseFeePerGas"), member_quantity(answer, "priorityFeePerGas")
        if base_fee is None or priority_fee is None:
            raise InsufficientData("The node did not report the price at which the transaction would be included.")
        return GasEstimate(found.gas, Market(base_fee, BaseFeeSource.LINEA, priority_fee))

    def market_readings(self, network: Network, transaction: Transaction, sender: str) -> dict[str, ChainReading]:
        return {"gas": self.gas_reading(transaction, sender)}

    def market(self, network: Network, found: Mapping[str, Any], speed: str | None) -> Market:
        market: Market = found["gas"].market
        return market


@dataclass(frozen=True)
class OperatorFee:
    """An operator fee: a constant, and a share per million gas."""

    constant: int = 0
    per_million: int = 0

    def for_gas(self, gas: int) -> int:
        """Return the fee as the chain computes it, rounded down."""
        return self.constant + gas * self.per_million // SAMPLE_GAS


class OpStack(FeeModel):
    """Optimism's stack: an L1 data fee by a transaction's size, and since Isthmus an operator fee by its gas."""

    def charge_readings(self, transaction: Transaction) -> dict[str, ChainReading]:
        # The oracle expects the encoding without a signature, and adds the size of one.
        l1_fee = contract_call(OP_STACK_ORACLE, "getL1Fee(bytes)", [encode_with_placeholders(transaction)])
        # Linear in gas, in Isthmus and in Jovian: two points determine the fee for any gas, before the gas is known.
        operator_fees = [contract_call(OP_STACK_ORACLE, "getOperatorFee(uint256)", [gas]) for gas in (0, SAMPLE_GAS)]
        return {
            "l1_fee": uint_reading(l1_fee, "L1 data fee"),
            "operator_fee": ChainReading(operator_fees, read_operator_fee, key="operator fee"),
        }

    def charges(self, found: Mapping[str, Any], gas: Amount, l1_margin_bps: int) -> Charges:
        l1_fee, operator_fee = found["l1_fee"], found["operator_fee"]
        return Charges(
            with_margin(l1_fee, l1_margin_bps),
            Amount(operator_fee.for_gas(math.ceil(gas.expected)), operator_fee.for_gas(math.ceil(gas.maximum))),
        )


def read_operator_fee(answers: list[Any]) -> OperatorFee:
    if all(isinstance(answer, ChainError) and answer.is_revert for answer in answers):
        # Before Isthmus the oracle does not have this function, and the chain has no such fee.
        return OperatorFee()
    at_zero, at_sample = (read_uint(answer, "operator fee") for answer in answers)
    if at_sample < at_zero:
        raise InsufficientData("The network's operator fee decreases with gas, which is impossible.")
    return OperatorFee(at_zero, at_sample - at_zero)


class Mantle(OpStack):
    """Mantle since Arsia: the oracle returns the L1 data fee in ETH; it is paid in MNT, at the oracle's ratio."""

    def charge_readings(self, transaction: Transaction) -> dict[str, ChainReading]:
        call = contract_call(OP_STACK_ORACLE, "tokenRatio()")
        ratio = uint_reading(call, "ratio of MNT to ETH", key="token ratio")
        return {**super().charge_readings(transaction), "token_ratio": ratio}

    def charges(self, found: Mapping[str, Any], gas: Amount, l1_margin_bps: int) -> Charges:
        return super().charges({**found, "l1_fee": found["l1_fee"] * found["token_ratio"]}, gas, l1_margin_bps)


class Scroll(FeeModel):
    """Scroll: an L1 data fee by the size of the signed transaction, compressed if that makes it smaller."""

    def charge_readings(self, transaction: Transaction) -> dict[str, ChainReading]:
        signed = encode_with_placeholders(transaction, with_signature=True)
        call = contract_call(SCROLL_ORACLE, "getL1Fee(bytes)", [compressed(signed)])
        return {"l1_fee": uint_reading(call, "L1 data fee")}

    def charges(self, found: Mapping[str, Any], gas: Amount, l1_margin_bps: int) -> Charges:
        return Charges(with_margin(found["l1_fee"], l1_margin_bps))


def compressed(signed: bytes) -> bytes:
    """Return the bytes that Scroll charges for."""
    # The parameters of a level depend on the size.
    parameters = zstandard.ZstdCompressionParameters.from_level(
        SCROLL_LEVEL, source_size=len(signed), format=zstandard.FORMAT_ZSTD1_MAGICLESS
    )
    return min(zstandard.ZstdCompressor(compression_params=parameters).compress(signed), signed, key=len)


class ZkSync(FeeModel):
    """ZKsync's EraVM: gas also pays for the data on L1, by the network's own rules; priority fees are ignored."""

    pays_priority_fee = False
    has_l1_gas = True
    has_ethereum_gas = False
    pads_estimates = True
    estimate_method = "zks_estimateFee"

    def read_gas(self, answer: Any) -> GasEstimate:
        return estimate(answer, member_quantity(answer, "gas_limit"))


KINDS: dict[NetworkKind, FeeModel] = {
    NetworkKind.NONE: FeeModel(),
    NetworkKind.OP_STACK: OpStack(),
    NetworkKind.MANTLE: Mantle(),
    NetworkKind.ARBITRUM: Arbitrum(),
    NetworkKind.LINEA: Linea(),
    NetworkKind.SCROLL: Scroll(),
    NetworkKind.ZKSYNC: ZkSync(),
}
