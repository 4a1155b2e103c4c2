// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.26;

/// Scroll's oracle since Galileo, which takes a signed transaction after compression: only its length counts.
contract L1GasPriceOracle {
    uint256 private constant PRECISION = 1e9;

    uint256 public l1BaseFee;
    uint256 public l1BlobBaseFee;
    uint256 public commitScalar;
    uint256 public blobScalar;
    uint256 public penaltyFactor;

    function set(
        uint256 l1BaseFee_,
        uint256 l1BlobBaseFee_,
        uint256 commitScalar_,
        uint256 blobScalar_,
        uint256 penaltyFactor_
    ) external {
        l1BaseFee = l1BaseFee_;
        l1BlobBaseFee = l1BlobBaseFee_;
        commitScalar = commitScalar_;
        blobScalar = blobScalar_;
        penaltyFactor = penaltyFactor_;
    }

    /// The fee grows with the length, and a long transaction has a penalty that grows with it too.
    function getL1Fee(bytes calldata data) external view virtual returns (uint256) {
        uint256 base = perByte() * data.length;
        return (base + base * data.length / penaltyFactor) / PRECISION;
    }

    function perByte() internal view returns (uint256) {
        return commitScalar * l1BaseFee + blobScalar * l1BlobBaseFee;
    }
}

/// As it was since Feynman: for a signed transaction as it is, with the penalty of one that cannot be compressed.
contract FeynmanL1GasPriceOracle is L1GasPriceOracle {
    function getL1Fee(bytes calldata data) external view override returns (uint256) {
        return perByte() * data.length * penaltyFactor / 1e18;
    }
}
