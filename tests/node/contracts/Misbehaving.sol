// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.26;

/// Every way in which a call fails, and work of any cost.
contract Misbehaving {
    mapping(uint256 => uint256) public written;

    error Refused(address caller, uint256 code);

    function revertWithReason(string calldata reason) external pure {
        revert(reason);
    }

    function revertWithError(uint256 code) external view {
        revert Refused(msg.sender, code);
    }

    function revertWithPanic() external pure {
        assert(false);
    }

    function revertWithoutData() external pure {
        assembly {
            revert(0, 0)
        }
    }

    function loop() external {
        while (true) {
            written[0]++;
        }
    }

    function returnNothing() external pure {}

    function acceptCoins() external payable {}

    /// Use this much gas, and what the call itself costs.
    function burn(uint256 gas) external view {
        uint256 start = gasleft();
        while (start - gasleft() < gas) {}
    }

    function write(uint256 slot, uint256 count, uint256 value) external {
        for (uint256 i = 0; i < count; i++) {
            written[slot + i] = value;
        }
    }
}
