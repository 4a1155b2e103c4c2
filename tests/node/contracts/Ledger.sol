// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.26;

/// Counts how often each id was recorded: more than once means that a request was executed twice.
contract Ledger {
    mapping(bytes32 => uint256) public counts;

    error Refused(bytes32 id);

    function record(bytes32 id) external payable {
        counts[id]++;
    }

    /// Record, and then fail if told to: the transaction is mined, and nothing is recorded.
    function recordThen(bytes32 id, bool fail) external payable {
        counts[id]++;
        if (fail) {
            revert Refused(id);
        }
    }
}
