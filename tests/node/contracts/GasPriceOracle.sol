// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.26;

/// The OP-stack oracle as it was before there was an operator fee.
contract GasPriceOracle {
    uint256 internal l1FeeScalar;
    uint256 internal operatorFeeScalar;
    uint256 internal operatorFeeConstant;

    function set(uint256 l1FeeScalar_, uint256 operatorFeeScalar_, uint256 operatorFeeConstant_) external {
        l1FeeScalar = l1FeeScalar_;
        operatorFeeScalar = operatorFeeScalar_;
        operatorFeeConstant = operatorFeeConstant_;
    }

    /// The fee of calldata's gas, which depends on the bytes and not on their number alone.
    function getL1Fee(bytes calldata data) external view returns (uint256) {
        uint256 gas = 0;
        for (uint256 i = 0; i < data.length; i++) {
            gas += data[i] == 0 ? 4 : 16;
        }
        return gas * l1FeeScalar;
    }
}

contract IsthmusGasPriceOracle is GasPriceOracle {
    function getOperatorFee(uint256 gas) external view returns (uint256) {
        return gas * operatorFeeScalar / 1e6 + operatorFeeConstant;
    }
}

contract JovianGasPriceOracle is GasPriceOracle {
    function getOperatorFee(uint256 gas) external view returns (uint256) {
        return gas * operatorFeeScalar * 100 + operatorFeeConstant;
    }
}
