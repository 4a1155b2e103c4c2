"""What a network takes of a transaction: its caps, and the gas that a transaction needs whatever it does."""

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


def check(transaction: Transaction, network: Network) -> None:
    """Raise `NotATransaction` if the network cannot take the transaction."""
    if network.tx_gas_cap is not None and transaction.gas > network.tx_gas_cap:
        raise NotATransaction(
            f"its gas limit is {transaction.gas}, and {network.name} takes at most {network.tx_gas_cap} a transaction"
        )
    size = len(transaction.data)
    if transaction.to is None and network.max_initcode is not None and size > network.max_initcode:
        raise NotATransaction(
            f"its creation code has {size} bytes, and {network.name} takes at most {network.max_initcode}"
        )
    blobs = len(transaction.blob_hashes)
    if network.blobs_per_tx is not None and blobs > network.blobs_per_tx:
        raise NotATransaction(
            f"it has {blobs} blobs, and {network.name} takes at most {network.blobs_per_tx} a transaction"
        )


def minimum_gas(transaction: Transaction, network: Network) -> int:
    """Return the gas that the transaction costs before it does anything, or by EIP-7623 at least."""
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
