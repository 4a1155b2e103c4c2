"""What clients answer to a transaction that they do not accept: the same condition in the words of each."""

from __future__ import annotations

from chain.broadcast.sending import Outcome

# By client and outcome: the error's code and message.
DIALECTS: dict[str, dict[Outcome, list[tuple[int, str]]]] = {
    "geth": {
        Outcome.KNOWN: [(-32000, "already known")],
        Outcome.NONCE_TOO_LOW: [(-32000, "nonce too low: next nonce 7, tx nonce 5"), (-32000, "nonce too low")],
        Outcome.NONCE_TOO_HIGH: [
            (-32000, "nonce too high: tx nonce 9, gapped nonce 7"),
            (-32000, "gapped-nonce tx from delegated accounts"),
        ],
        Outcome.REPLACEMENT_UNDERPRICED: [
            (-32000, "replacement transaction underpriced"),
            (-32000, "replacement transaction underpriced: new tx gas fee cap 10 <= 9 queued"),
        ],
        Outcome.UNDERPRICED: [
            (-32000, "transaction underpriced: gas tip cap 1, minimum needed 25000000000"),
            (-32000, "max fee per gas less than block base fee: address 0xf39F, maxFeePerGas: 1, baseFee: 7"),
        ],
        Outcome.INSUFFICIENT_FUNDS: [
            (-32000, "insufficient funds for gas * price + value: balance 1, tx cost 2, overshot 1"),
            (-32000, "gas required exceeds allowance (0)"),
        ],
        Outcome.POOL_LIMIT: [
            (-32000, "txpool is full"),
            (-32000, "in-flight transaction limit reached for delegated accounts"),
            (-32000, "account limit exceeded: pooled 16 txs"),
            (-32000, "future transaction tries to replace pending"),
        ],
        Outcome.FEE_CAP: [(-32000, "tx fee (1.20 ether) exceeds the configured cap (1.00 ether)")],
        Outcome.REFUSED: [
            (-32000, "intrinsic gas too low: gas 20000, minimum needed 21000"),
            (-32000, "insufficient gas for floor data gas cost: gas 21000, minimum needed 24000"),
            (-32000, "only replay-protected (EIP-155) transactions allowed over RPC"),
            (-32000, "exceeds block gas limit"),
            (-32000, "transaction gas limit too high (cap: 16777216, tx: 20000000)"),
            (-32000, "oversized data: transaction size 140000, limit 131072"),
            (-32000, "max initcode size exceeded: code size 49153, limit 49152"),
            (-32000, "negative value"),
            (-32000, "gas uint64 overflow"),
            (-32000, "sender not an eoa: address 0xf39F, codehash: 0x1"),
            (-32000, "transaction type not supported: type 4 rejected, pool not yet in Prague"),
            (-32000, "max priority fee per gas higher than max fee per gas: tip 9, fee cap 8"),
            (3, "execution reverted: not the owner"),
        ],
    },
    "reth": {
        Outcome.KNOWN: [(-32000, "already known")],
        Outcome.NONCE_TOO_LOW: [(-32000, "nonce too low: next nonce 7, tx nonce 5")],
        Outcome.NONCE_TOO_HIGH: [(-32000, "nonce too high")],
        Outcome.REPLACEMENT_UNDERPRICED: [(-32000, "replacement transaction underpriced")],
        Outcome.UNDERPRICED: [(-32000, "transaction underpriced")],
        Outcome.INSUFFICIENT_FUNDS: [(-32003, "insufficient funds for gas * price + value: have 1 want 2")],
        Outcome.POOL_LIMIT: [(-32003, "txpool is full")],
        Outcome.FEE_CAP: [(-32003, "tx fee (1.2 ether) exceeds the configured cap (1.0 ether)")],
        Outcome.REFUSED: [
            (-32000, "intrinsic gas too low"),
            (-32003, "exceeds block gas limit"),
            (-32000, "exceeds max transaction gas limit"),
            (-32003, "sender is not an EOA"),
        ],
    },
    "erigon": {
        Outcome.KNOWN: [
            (-32000, "already known"),
            (-32000, "INTERNAL_ERROR: existing tx with same hash"),
            (-32000, "existing txn with same hash"),
        ],
        Outcome.NONCE_TOO_LOW: [(-32000, "nonce too low")],
        Outcome.NONCE_TOO_HIGH: [(-32000, "nonce too high")],
        Outcome.REPLACEMENT_UNDERPRICED: [
            (-32000, "could not replace existing tx"),
            (-32000, "replacement transaction underpriced"),
        ],
        Outcome.UNDERPRICED: [
            (-32000, "transaction underpriced"),
            (-32000, "underpriced"),
            (-32000, "INTERNAL_ERROR: fee too low"),
        ],
        Outcome.INSUFFICIENT_FUNDS: [(-32000, "insufficient funds for gas * price + value")],
        Outcome.POOL_LIMIT: [
            (-32000, "txpool is full"),
            (-32000, "pending sub-pool is full"),
            (-32000, "baseFee sub-pool is full"),
            (-32000, "queued sub-pool is full"),
            (-32000, "spammer"),
        ],
        Outcome.REFUSED: [
            (-32000, "intrinsic gas too low"),
            (-32000, "IntrinsicGas"),
            (-32000, "RLPTooLong"),
        ],
    },
    "nethermind": {
        Outcome.KNOWN: [(-32010, "AlreadyKnown"), (-32010, "pool(AlreadyImported)")],
        Outcome.NONCE_TOO_LOW: [
            (-32010, "OldNonce, Current nonce: 7, nonce of rejected tx: 5"),
            (-32010, "pool(Stale)"),
        ],
        Outcome.NONCE_TOO_HIGH: [
            (-32010, "NonceGap, Future nonce. Expected nonce: 7"),
            (-32010, "NonceTooFarInFuture"),
            (-32010, "NotCurrentNonceForDelegation"),
            (-32010, "delegation nonce gap"),
        ],
        Outcome.REPLACEMENT_UNDERPRICED: [
            (-32010, "ReplacementNotAllowed"),
            (-32010, "OwnNonceAlreadyUsed"),
            (-32010, "FeeTooLowToCompete, FeePerGas needs to be higher than 7"),
        ],
        Outcome.UNDERPRICED: [(-32010, "FeeTooLow, MaxFeePerGas too low")],
        Outcome.INSUFFICIENT_FUNDS: [(-32010, "InsufficientFunds, Account balance: 1, cumulative cost: 2")],
        Outcome.REFUSED: [
            (-32010, "SenderIsContract"),
            (-32010, "GasLimitExceeded, Gas limit: 1, gas limit of tx: 2"),
            (-32010, "gas limit reached, Gas limit: 1, gas limit of rejected tx: 2"),
            (-32010, "MaxTxSizeExceeded, size of the transaction: 140000, maximum: 131072"),
            (-32010, "transaction too large"),
        ],
    },
    "besu": {
        Outcome.KNOWN: [(-32000, "Known transaction")],
        Outcome.NONCE_TOO_LOW: [(-32001, "Nonce too low")],
        Outcome.NONCE_TOO_HIGH: [
            (-32006, "Nonce too high"),
            (-32000, "Transaction nonce is too distant from current sender nonce"),
            (-32000, "An invalid transaction with a lower nonce exists"),
        ],
        Outcome.REPLACEMENT_UNDERPRICED: [(-32000, "Replacement transaction underpriced")],
        Outcome.UNDERPRICED: [
            (-32009, "Gas price below configured minimum gas price"),
            (-32009, "Gas price below current base fee"),
        ],
        Outcome.INSUFFICIENT_FUNDS: [(-32004, "Upfront cost exceeds account balance")],
        Outcome.FEE_CAP: [(-32000, "Transaction fee cap exceeded")],
        Outcome.REFUSED: [
            (-32003, "Intrinsic gas exceeds gas limit"),
            (-32005, "Transaction gas limit exceeds block gas limit"),
            (-32002, "Invalid signature"),
            (-32602, "Invalid transaction type"),
        ],
    },
    "arbitrum": {
        Outcome.KNOWN: [(-32000, "already known")],
        Outcome.NONCE_TOO_LOW: [(-32000, "nonce too low: address 0xf39F, tx: 5 state: 7")],
        Outcome.NONCE_TOO_HIGH: [(-32000, "nonce too high: address 0xf39F, tx: 9 state: 7")],
        Outcome.UNDERPRICED: [
            (-32000, "max fee per gas less than block base fee: address 0xf39F, maxFeePerGas: 1, baseFee: 100000000")
        ],
        Outcome.INSUFFICIENT_FUNDS: [
            (-32000, "insufficient funds for gas * price + value: address 0xf39F have 1 want 2")
        ],
        Outcome.POOL_LIMIT: [
            (-32000, "sequencer pending tx pool full, please try again"),
            (-32000, "currently not accepting transactions due to expected surplus being below threshold"),
        ],
        Outcome.REFUSED: [(-32000, "execution reverted"), (-32000, "intrinsic gas too low")],
    },
    "zksync": {
        Outcome.KNOWN: [(-32000, "known transaction. transaction with hash 0x1 is already in the system")],
        Outcome.NONCE_TOO_LOW: [(-32000, "nonce too low. allowed nonce range: 7 - 57, actual: 5")],
        Outcome.NONCE_TOO_HIGH: [(-32000, "nonce too high. allowed nonce range: 7 - 57, actual: 60")],
        Outcome.REPLACEMENT_UNDERPRICED: [(-32000, "replacement transaction underpriced")],
        Outcome.UNDERPRICED: [(3, "max fee per gas less than block base fee")],
        Outcome.INSUFFICIENT_FUNDS: [(3, "not enough balance to cover the fee. fee: 2, value: 0, balance: 1")],
        Outcome.POOL_LIMIT: [(3, "insertion of another transaction with the same nonce is in progress")],
        Outcome.REFUSED: [
            (3, "execution reverted: account validation error"),
            (3, "invalid sender. can't start a transaction from a non-account"),
            (3, "Failed to serialize transaction: oversized data. max: 1000000; actual: 1000001"),
        ],
    },
    "frontier": {
        Outcome.KNOWN: [(-32603, "submit transaction to pool failed: Pool(AlreadyImported(Any { .. }))")],
        Outcome.NONCE_TOO_LOW: [
            (-32603, "submit transaction to pool failed: Pool(InvalidTransaction(Stale))"),
            (-32603, "submit transaction to pool failed: Pool(Stale)"),
            (1010, "Invalid Transaction: Transaction is outdated"),
        ],
        Outcome.NONCE_TOO_HIGH: [
            (-32603, "submit transaction to pool failed: Ok(RejectedFutureTransaction)"),
            (1010, "Invalid Transaction: Transaction will be valid in the future"),
        ],
        Outcome.REPLACEMENT_UNDERPRICED: [(-32603, "Ok(TooLowPriority { old: 7, new: 5 })")],
        Outcome.UNDERPRICED: [(-32603, "gas price less than block base fee")],
        Outcome.INSUFFICIENT_FUNDS: [
            (1010, "Invalid Transaction: Inability to pay some fees (e.g. account balance too low)")
        ],
        Outcome.POOL_LIMIT: [
            (-32603, "submit transaction to pool failed: Ok(ImmediatelyDropped)"),
            (1016, "Immediately Dropped"),
            (1012, "Transaction is temporarily banned"),
        ],
    },
    "cosmos": {
        Outcome.KNOWN: [
            (-32000, "tx already in mempool"),
            (-32603, "error on broadcastTxSync: tx already exists in cache"),
        ],
        Outcome.NONCE_TOO_LOW: [
            (-32000, "invalid nonce; got 5, expected 7: invalid sequence"),
            (-32000, "invalid nonce; got 5, should be expected 7 or higher with pending txs in the same block"),
            (-32000, "account sequence mismatch, expected 7, got 5: incorrect account sequence"),
            (-32000, "incorrect account sequence"),
            (-32000, "tx nonce is lower than account nonce"),
        ],
        Outcome.NONCE_TOO_HIGH: [
            (-32000, "invalid nonce; got 9, expected 7: invalid sequence"),
            (-32000, "account sequence mismatch, expected 7, got 10: incorrect account sequence"),
            (-32000, "tx nonce is higher than account nonce"),
        ],
        Outcome.UNDERPRICED: [
            (-32000, "insufficient fees; got: 1aevmos required: 2aevmos: insufficient fee"),
            (-32000, "the tx gasfeecap is lower than the tx baseFee: 1 (gasfeecap), 2 (basefee): insufficient fee"),
        ],
        Outcome.INSUFFICIENT_FUNDS: [(-32000, "sender balance < tx cost (1 < 2aevmos): insufficient funds")],
        Outcome.POOL_LIMIT: [
            (-32603, "mempool is full: number of txs 5000 (max: 5000), total txs bytes 9 (max: 1073741824)")
        ],
        Outcome.REFUSED: [(-32603, "Tx too large. Max size is 1048576, but got 2097431")],
    },
    "hedera": {
        Outcome.NONCE_TOO_LOW: [(32001, "[Request ID: 2e95] Nonce too low. Provided nonce: 15, current nonce: 16")],
        Outcome.UNDERPRICED: [(-32009, "Gas price '83' is below configured minimum gas price '95'")],
        Outcome.REFUSED: [
            (-32003, "Transaction gas limit provided '1' is insufficient of intrinsic gas required '21000'"),
            (-32201, "Oversized data: transaction size 140000, transaction limit 131072"),
        ],
    },
    "linea": {
        Outcome.REFUSED: [(-32000, "Calldata of transaction is greater than the allowed max of 60000")],
    },
    "kaia": {
        Outcome.REPLACEMENT_UNDERPRICED: [
            (-32000, "there is another tx which has the same nonce in the tx pool"),
        ],
        Outcome.UNDERPRICED: [
            (-32000, "invalid gas fee cap. It must be set to value greater than or equal to baseFee"),
        ],
    },
    "op-geth": {
        Outcome.REFUSED: [(-32000, "exceeds maximum per-transaction gas limit")],
        Outcome.UNDERPRICED: [(-32000, "transaction gas price below minimum: gas tip cap 1, minimum needed 2")],
    },
    "hardhat": {
        Outcome.KNOWN: [(-32000, "Known transaction: 0x1")],
        Outcome.NONCE_TOO_LOW: [(-32000, "Transaction nonce too low. Expected nonce to be at least 7 but got 5.")],
        Outcome.NONCE_TOO_HIGH: [
            (-32000, "Nonce too high. Expected nonce to be 7 but got 9. Note that transactions can't be queued.")
        ],
        Outcome.REPLACEMENT_UNDERPRICED: [
            (
                -32000,
                "Replacement transaction underpriced. A gasPrice/maxFeePerGas of at least 11000000000 is necessary",
            )
        ],
        Outcome.INSUFFICIENT_FUNDS: [
            (-32000, "Sender doesn't have enough funds to send tx. The max upfront cost is: 2 and the balance is: 1.")
        ],
        Outcome.REFUSED: [
            (-32000, "Transaction requires at least 21000 gas but got 100"),
            (-32000, "Transaction gas limit is 20000000 and exceeds transaction gas cap of 16777216"),
            (-32603, "Error: VM Exception while processing transaction: reverted with reason string 'no'"),
        ],
    },
}

# Of clients that no longer exist, whose words others still use.
OLD_WORDS: dict[Outcome, list[str]] = {
    Outcome.KNOWN: ["Transaction with the same hash was already imported."],
    Outcome.NONCE_TOO_LOW: [
        "Transaction nonce is too low. Try incrementing the nonce.",
        "nonce has already been used",
    ],
    Outcome.REPLACEMENT_UNDERPRICED: [
        "Transaction gas price supplied is too low. There is another transaction with same nonce in the queue."
    ],
    Outcome.INSUFFICIENT_FUNDS: ["Insufficient balance for transfer", "overdraft"],
    Outcome.POOL_LIMIT: ["There are too many transactions in the queue. Your transaction was dropped due to limit."],
}

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
