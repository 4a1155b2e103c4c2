"""The limits of a network: its maximums, and the minimum gas of a transaction."""

import rlp

from chain.networks import Network
from chain.transactions import NotATransaction, Transaction

TRANSFER_GAS = 21_000
CREATION_GAS = 32_000
# EIP-2028, EIP-3860, EIP-2930 and EIP-7702.
ZERO_BYTE_GAS, BYTE_GAS = 4, 16
INITCODE_WORD_BYTES, INITCODE_WORD_GAS = 32, 2
ACCESS_ADDRESS_GAS, ACCESS_KEY_GAS = 2_400, 1_900
AUTHORIZATION_GAS = 25_000
# EIP-7623: a byte counts as four tokens, a zero as one.
TOKENS_OF_A_BYTE = 4
FLOOR_GAS_OF_A_TOKEN = 10
MAX_UINT64, MAX_UINT256 = 2**64 - 1, 2**256 - 1
# More than all other fields of a signed transfer, call or creation take.
MAX_ENVELOPE_BYTES = 256


def check(transaction: Transaction, network: Network) -> None:
    """Raise `NotATransaction` if the transaction exceeds a limit of the network."""
    creation_bytes = len(transaction.data) if transaction.to is None else 0
    for name, value, maximum in (
        ("gas limit", transaction.gas, network.tx_gas_cap),
        ("creation code size", creation_bytes, network.max_initcode),
        ("number of blobs", len(transaction.blob_hashes), network.blobs_per_tx),
    ):
        if maximum is not None and value > maximum:
            raise NotATransaction(f"its {name} is {value}, above the maximum of {maximum} on {network.name}")


def check_size(transaction: Transaction, network: Network) -> None:
    """Raise `NotATransaction` if nodes of the network may refuse the signed transaction for its size."""
    if network.max_tx_bytes is None or len(transaction.data) + MAX_ENVELOPE_BYTES <= network.max_tx_bytes:
        return
    excess = maximum_bytes(transaction) - network.max_tx_bytes
    if excess > 0:
        limit = f"the maximum of {network.max_tx_bytes} bytes of a signed transaction on {network.name}"
        raise NotATransaction(f"it is up to {excess} bytes above {limit}: shorten its data")


def maximum_bytes(transaction: Transaction) -> int:
    """Return the maximum size of a signed transfer, call or creation, whatever its nonce, gas, prices and type."""
    receiver = bytes.fromhex(transaction.to.removeprefix("0x")) if transaction.to else b""
    # EIP-1559, the longest type: after the chain ID come nonce, prices and gas, and at the end the signature.
    numbers = [transaction.chain_id or MAX_UINT64, MAX_UINT64, MAX_UINT256, MAX_UINT256, MAX_UINT64]
    work = [receiver, transaction.value, transaction.data]
    return 1 + len(rlp.encode([*numbers, *work, [], 1, MAX_UINT256, MAX_UINT256]))


def minimum_gas(transaction: Transaction, network: Network) -> int:
    """Return the intrinsic gas, or the floor of EIP-7623 if that is higher."""
    zeros = transaction.data.count(0)
    others = len(transaction.data) - zeros
    intrinsic = TRANSFER_GAS + zeros * ZERO_BYTE_GAS + others * BYTE_GAS
    if transaction.to is None:
        words = -(-len(transaction.data) // INITCODE_WORD_BYTES)
        intrinsic += CREATION_GAS + words * INITCODE_WORD_GAS
    for entry in transaction.access_list:
        intrinsic += ACCESS_ADDRESS_GAS + len(entry["storageKeys"]) * ACCESS_KEY_GAS
    intrinsic += len(transaction.authorizations) * AUTHORIZATION_GAS
    if not network.has_data_floor:
        return intrinsic
    return max(intrinsic, TRANSFER_GAS + (zeros + others * TOKENS_OF_A_BYTE) * FLOOR_GAS_OF_A_TOKEN)
