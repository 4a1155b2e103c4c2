// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.26;

/// What Arbitrum's nodes answer at 0xc8: gas for L1 by the bytes, with so much more for a contract's creation.
contract NodeInterface {
    uint64 private gasPerByte;
    uint64 private gasOfCreation;
    uint256 private baseFee;
    uint256 private l1BaseFeeEstimate;

    function set(uint64 gasPerByte_, uint64 gasOfCreation_, uint256 baseFee_, uint256 l1BaseFeeEstimate_) external {
        gasPerByte = gasPerByte_;
        gasOfCreation = gasOfCreation_;
        baseFee = baseFee_;
        l1BaseFeeEstimate = l1BaseFeeEstimate_;
    }

    function gasEstimateL1Component(address, bool contractCreation, bytes calldata data)
        external
        payable
        returns (uint64, uint256, uint256)
    {
        uint64 gas = gasPerByte * uint64(data.length) + (contractCreation ? gasOfCreation : 0);
        return (gas, baseFee, l1BaseFeeEstimate);
    }
}
