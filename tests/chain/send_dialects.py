"""What clients answer to a transaction that they do not accept, by what it means; `send_texts.csv` has sources."""

from __future__ import annotations

from chain.broadcast.sending import Outcome

DIALECTS = {
    Outcome.KNOWN: """
already known
INTERNAL_ERROR: existing tx with same hash
existing txn with same hash
AlreadyKnown
pool(AlreadyImported)
Known transaction
known transaction. transaction with hash 0x1 is already in the system
submit transaction to pool failed: Pool(AlreadyImported(Any { .. }))
tx already in mempool
error on broadcastTxSync: tx already exists in cache
Known transaction: 0x1
Transaction with the same hash was already imported.
""",
    Outcome.NONCE_TOO_LOW: """
nonce too low: next nonce 7, tx nonce 5
nonce too low
OldNonce, Current nonce: 7, nonce of rejected tx: 5
pool(Stale)
Nonce too low
nonce too low: address 0xf39F, tx: 5 state: 7
nonce too low. allowed nonce range: 7 - 57, actual: 5
submit transaction to pool failed: Pool(InvalidTransaction(Stale))
submit transaction to pool failed: Pool(Stale)
Invalid Transaction: Transaction is outdated
invalid nonce; got 5, expected 7: invalid sequence
invalid nonce; got 5, should be expected 7 or higher with pending txs in the same block
account sequence mismatch, expected 7, got 5: incorrect account sequence
incorrect account sequence
tx nonce is lower than account nonce
[Request ID: 2e95] Nonce too low. Provided nonce: 15, current nonce: 16
Transaction nonce too low. Expected nonce to be at least 7 but got 5.
Transaction nonce is too low. Try incrementing the nonce.
nonce has already been used
""",
    Outcome.NONCE_TOO_HIGH: """
nonce too high: tx nonce 9, gapped nonce 7
gapped-nonce tx from delegated accounts
nonce too high
NonceGap, Future nonce. Expected nonce: 7
NonceTooFarInFuture
NotCurrentNonceForDelegation
delegation nonce gap
Nonce too high
Transaction nonce is too distant from current sender nonce
An invalid transaction with a lower nonce exists
nonce too high: address 0xf39F, tx: 9 state: 7
nonce too high. allowed nonce range: 7 - 57, actual: 60
submit transaction to pool failed: Ok(RejectedFutureTransaction)
Invalid Transaction: Transaction will be valid in the future
invalid nonce; got 9, expected 7: invalid sequence
account sequence mismatch, expected 7, got 10: incorrect account sequence
tx nonce is higher than account nonce
Nonce too high. Expected nonce to be 7 but got 9. Note that transactions can't be queued.
""",
    Outcome.REPLACEMENT_UNDERPRICED: """
replacement transaction underpriced
replacement transaction underpriced: new tx gas fee cap 10 <= 9 queued
could not replace existing tx
ReplacementNotAllowed
OwnNonceAlreadyUsed
FeeTooLowToCompete, FeePerGas needs to be higher than 7
Replacement transaction underpriced
Ok(TooLowPriority { old: 7, new: 5 })
there is another tx which has the same nonce in the tx pool
Replacement transaction underpriced. A gasPrice/maxFeePerGas of at least 11000000000 is necessary
Transaction gas price supplied is too low. There is another transaction with same nonce in the queue.
""",
    Outcome.UNDERPRICED: """
transaction underpriced: gas tip cap 1, minimum needed 25000000000
max fee per gas less than block base fee: address 0xf39F, maxFeePerGas: 1, baseFee: 7
transaction underpriced
underpriced
INTERNAL_ERROR: fee too low
FeeTooLow, MaxFeePerGas too low
Gas price below configured minimum gas price
Gas price below current base fee
max fee per gas less than block base fee: address 0xf39F, maxFeePerGas: 1, baseFee: 100000000
max fee per gas less than block base fee
gas price less than block base fee
insufficient fees; got: 1aevmos required: 2aevmos: insufficient fee
the tx gasfeecap is lower than the tx baseFee: 1 (gasfeecap), 2 (basefee): insufficient fee
Gas price '83' is below configured minimum gas price '95'
invalid gas fee cap. It must be set to value greater than or equal to baseFee
transaction gas price below minimum: gas tip cap 1, minimum needed 2
""",
    Outcome.INSUFFICIENT_FUNDS: """
insufficient funds for gas * price + value: balance 1, tx cost 2, overshot 1
gas required exceeds allowance (0)
insufficient funds for gas * price + value: have 1 want 2
insufficient funds for gas * price + value
InsufficientFunds, Account balance: 1, cumulative cost: 2
Upfront cost exceeds account balance
insufficient funds for gas * price + value: address 0xf39F have 1 want 2
not enough balance to cover the fee. fee: 2, value: 0, balance: 1
Invalid Transaction: Inability to pay some fees (e.g. account balance too low)
sender balance < tx cost (1 < 2aevmos): insufficient funds
Sender doesn't have enough funds to send tx. The max upfront cost is: 2 and the balance is: 1.
Insufficient balance for transfer
overdraft
""",
    Outcome.POOL_LIMIT: """
txpool is full
in-flight transaction limit reached for delegated accounts
account limit exceeded: pooled 16 txs
future transaction tries to replace pending
pending sub-pool is full
baseFee sub-pool is full
queued sub-pool is full
spammer
sequencer pending tx pool full, please try again
currently not accepting transactions due to expected surplus being below threshold
insertion of another transaction with the same nonce is in progress
submit transaction to pool failed: Ok(ImmediatelyDropped)
Immediately Dropped
Transaction is temporarily banned
mempool is full: number of txs 5000 (max: 5000), total txs bytes 9 (max: 1073741824)
There are too many transactions in the queue. Your transaction was dropped due to limit.
""",
    Outcome.FEE_CAP: """
tx fee (1.20 ether) exceeds the configured cap (1.00 ether)
tx fee (1.2 ether) exceeds the configured cap (1.0 ether)
Transaction fee cap exceeded
""",
    Outcome.REFUSED: """
intrinsic gas too low: gas 20000, minimum needed 21000
insufficient gas for floor data gas cost: gas 21000, minimum needed 24000
only replay-protected (EIP-155) transactions allowed over RPC
exceeds block gas limit
transaction gas limit too high (cap: 16777216, tx: 20000000)
oversized data: transaction size 140000, limit 131072
max initcode size exceeded: code size 49153, limit 49152
negative value
gas uint64 overflow
sender not an eoa: address 0xf39F, codehash: 0x1
transaction type not supported: type 4 rejected, pool not yet in Prague
max priority fee per gas higher than max fee per gas: tip 9, fee cap 8
execution reverted: not the owner
intrinsic gas too low
exceeds max transaction gas limit
sender is not an EOA
IntrinsicGas
RLPTooLong
SenderIsContract
GasLimitExceeded, Gas limit: 1, gas limit of tx: 2
gas limit reached, Gas limit: 1, gas limit of rejected tx: 2
MaxTxSizeExceeded, size of the transaction: 140000, maximum: 131072
transaction too large
Intrinsic gas exceeds gas limit
Transaction gas limit exceeds block gas limit
Invalid signature
Invalid transaction type
execution reverted
execution reverted: account validation error
invalid sender. can't start a transaction from a non-account
Failed to serialize transaction: oversized data. max: 1000000; actual: 1000001
Tx too large. Max size is 1048576, but got 2097431
Transaction gas limit provided '1' is insufficient of intrinsic gas required '21000'
Oversized data: transaction size 140000, transaction limit 131072
Calldata of transaction is greater than the allowed max of 60000
exceeds maximum per-transaction gas limit
Transaction requires at least 21000 gas but got 100
Transaction gas limit is 20000000 and exceeds transaction gas cap of 16777216
Error: VM Exception while processing transaction: reverted with reason string 'no'
""",
}
# Each message with its meaning.
MESSAGES = [(outcome, message) for outcome, text in DIALECTS.items() for message in text.strip().splitlines()]

# No node says so of a transaction: these are faults of the node, and prove nothing about it.
NOT_READY = [
    "Syncing",
    "node is syncing",
    "Initial sync is still in progress",
    "Transaction pool not enabled. (Either txpool explicitly disabled, or node not yet in sync).",
    "World state unavailable",
    "sequencer temporarily not available",
    "context deadline exceeded",
    "server shutting down",
    "no backend is currently healthy to serve traffic",
    "Request timeout. Please try again.",
    "missing trie node 5e3f",
    "header not found",
]
QUOTAS = [
    "Your app has exceeded its compute units per second capacity. If you have retries enabled, ignore this message.",
    "Monthly capacity limit exceeded.",
    "daily request count exceeded, request rate limited",
    "project ID request rate exceeded",
    "Quota exceeded for this API key",
    "HBAR Rate limit exceeded",
    "Too Many Requests",
]

WRONG_CHAIN = [
    "InvalidTxChainId: Expected 1, got 5.",
    "Wrong chainId",
    "wrong chain id 5",
    "invalid chain-id",
    "invalid chain id for signer: have 31337 want 1",
    "Invalid chain ID",
    "invalid sender",
    "Trying to send a raw transaction with an invalid chainId. The expected chainId is 31337",
    "Trying to send an incompatible EIP-155 transaction, signed for another chain.",
]
