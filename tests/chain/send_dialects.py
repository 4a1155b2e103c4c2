"""What clients answer to a transaction that they do not accept: the same condition in the words of each."""

from __future__ import annotations

from chain.sending import Outcome

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
        Outcome.REFUSED: [(-32000, "intrinsic gas too low"), (-32003, "exceeds block gas limit")],
    },
    "erigon": {
        Outcome.KNOWN: [(-32000, "already known")],
        Outcome.NONCE_TOO_LOW: [(-32000, "nonce too low")],
        Outcome.NONCE_TOO_HIGH: [(-32000, "nonce too high")],
        Outcome.REPLACEMENT_UNDERPRICED: [
            (-32000, "could not replace existing tx"),
            (-32000, "replacement transaction underpriced"),
        ],
        Outcome.UNDERPRICED: [(-32000, "transaction underpriced")],
        Outcome.INSUFFICIENT_FUNDS: [(-32000, "insufficient funds for gas * price + value")],
        Outcome.POOL_LIMIT: [(-32000, "txpool is full")],
        Outcome.REFUSED: [(-32000, "intrinsic gas too low")],
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
        ],
    },
    "besu": {
        Outcome.KNOWN: [(-32000, "Known transaction")],
        Outcome.NONCE_TOO_LOW: [(-32001, "Nonce too low")],
        Outcome.NONCE_TOO_HIGH: [
            (-32006, "Nonce too high"),
            (-32000, "Transaction nonce is too distant from current sender nonce"),
        ],
        Outcome.REPLACEMENT_UNDERPRICED: [(-32000, "Replacement transaction underpriced")],
        Outcome.UNDERPRICED: [(-32009, "Gas price below configured minimum gas price")],
        Outcome.INSUFFICIENT_FUNDS: [(-32004, "Upfront cost exceeds account balance")],
        Outcome.FEE_CAP: [(-32000, "Transaction fee cap exceeded")],
        Outcome.REFUSED: [
            (-32003, "Intrinsic gas exceeds gas limit"),
            (-32005, "Transaction gas limit exceeds block gas limit"),
            (-32002, "Invalid signature"),
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
        Outcome.POOL_LIMIT: [(-32000, "sequencer pending tx pool full, please try again")],
        Outcome.REFUSED: [(-32000, "execution reverted"), (-32000, "intrinsic gas too low")],
    },
    "zksync": {
        Outcome.KNOWN: [(-32000, "known transaction. transaction with hash 0x1 is already in the system")],
        Outcome.NONCE_TOO_LOW: [(-32000, "nonce too low. allowed nonce range: 7 - 57, actual: 5")],
        Outcome.NONCE_TOO_HIGH: [(-32000, "nonce too high. allowed nonce range: 7 - 57, actual: 60")],
        Outcome.REPLACEMENT_UNDERPRICED: [(-32000, "replacement transaction underpriced")],
        Outcome.UNDERPRICED: [(3, "max fee per gas less than block base fee")],
        Outcome.INSUFFICIENT_FUNDS: [(3, "not enough balance to cover the fee. fee: 2, value: 0, balance: 1")],
        Outcome.REFUSED: [(3, "execution reverted: account validation error")],
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

WRONG_CHAIN = [
    "invalid chain id for signer: have 31337 want 1",
    "Invalid chain ID",
    "invalid sender",
    "Trying to send a raw transaction with an invalid chainId. The expected chainId is 31337",
    "Trying to send an incompatible EIP-155 transaction, signed for another chain.",
]
