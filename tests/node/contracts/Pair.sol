// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.26;

/// What a Uniswap-v2-style pair says of its tokens and reserves.
contract Pair {
    address public token0;
    address public token1;
    uint112 private reserve0;
    uint112 private reserve1;
    uint32 private blockTimestampLast;

    constructor(address token0_, address token1_) {
        token0 = token0_;
        token1 = token1_;
    }

    function set(uint112 reserve0_, uint112 reserve1_, uint32 blockTimestampLast_) external {
        reserve0 = reserve0_;
        reserve1 = reserve1_;
        blockTimestampLast = blockTimestampLast_;
    }

    function getReserves() external view returns (uint112, uint112, uint32) {
        return (reserve0, reserve1, blockTimestampLast);
    }
}
