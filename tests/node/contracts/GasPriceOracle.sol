// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.26;

/// The OP-stack oracle since Fjord, as it was before there was an operator fee.
contract GasPriceOracle {
    /// What is taken for the signature that an unsigned transaction does not have.
    uint256 private constant SIGNATURE = 68;
    /// The line that estimates the size after compression, in millionths of a byte.
    int256 private constant INTERCEPT = -42_585_600;
    int256 private constant SLOPE = 836_500;
    int256 private constant MINIMUM = 100e6;

    /// FastLZ: its table has 2^13 places, a match is three bytes or more and at most 2^13 - 1 back, and none begins in
    /// the first two bytes or in the last fourteen.
    uint256 private constant FARTHEST = 0x1fff;
    uint256 private constant LONGEST_TOKEN = 262;
    uint256 private constant RUN = 32;
    uint256 private constant TAIL = 14;

    uint256 public l1BaseFee;
    uint256 public operatorFeeScalar;
    uint256 public operatorFeeConstant;
    uint256 public blobBaseFee;
    uint256 public baseFeeScalar;
    uint256 public blobBaseFeeScalar;

    function set(uint256 l1BaseFee_, uint256 blobBaseFee_, uint256 baseFeeScalar_, uint256 blobBaseFeeScalar_)
        external
    {
        l1BaseFee = l1BaseFee_;
        blobBaseFee = blobBaseFee_;
        baseFeeScalar = baseFeeScalar_;
        blobBaseFeeScalar = blobBaseFeeScalar_;
    }

    function setOperatorFee(uint256 scalar, uint256 constant_) external {
        operatorFeeScalar = scalar;
        operatorFeeConstant = constant_;
    }

    /// The fee of a transaction's unsigned encoding.
    function getL1Fee(bytes memory data) external view returns (uint256) {
        return estimatedSize(flzLength(data) + SIGNATURE) * perByte() / 1e12;
    }

    /// The most that the fee of an unsigned encoding of this length can be.
    function getL1FeeUpperBound(uint256 length) external view returns (uint256) {
        uint256 signed = length + SIGNATURE;
        return estimatedSize(signed + signed / 255 + 16) * perByte() / 1e12;
    }

    function getL1GasUsed(bytes memory data) external pure returns (uint256) {
        return estimatedSize(flzLength(data) + SIGNATURE) * 16 / 1e6;
    }

    function perByte() private view returns (uint256) {
        return 16 * baseFeeScalar * l1BaseFee + blobBaseFeeScalar * blobBaseFee;
    }

    function estimatedSize(uint256 compressed) private pure returns (uint256) {
        int256 size = INTERCEPT + SLOPE * int256(compressed);
        return uint256(size < MINIMUM ? MINIMUM : size);
    }

    /// The length of data after FastLZ of level 1: its matches and the runs of bytes between them, none of them written.
    function flzLength(bytes memory data) public pure returns (uint256 length) {
        uint256 written = 0;
        if (data.length > TAIL) {
            uint256[] memory places = new uint256[](FARTHEST + 1);
            uint256 at = 2;
            while (at + TAIL < data.length) {
                uint256 word = three(data, at);
                uint256 slot = slotOf(word);
                uint256 earlier = places[slot];
                places[slot] = at;
                if (at - earlier > FARTHEST || three(data, earlier) != word) {
                    at++;
                    continue;
                }
                length += runs(at - written);
                uint256 same = matched(data, earlier, at);
                length += tokens(same);
                at += same;
                // The two places that a match ends with are remembered, and not searched.
                for (uint256 i = 0; i < 2; i++) {
                    places[slotOf(three(data, at))] = at;
                    at++;
                }
                written = at;
            }
        }
        length += runs(data.length - written);
    }

    /// How many bytes are the same after the first two, up to the last four of the data.
    function matched(bytes memory data, uint256 earlier, uint256 at) private pure returns (uint256 same) {
        uint256 most = data.length - at - 7;
        for (same = 1; same < most && data[earlier + 2 + same] == data[at + 2 + same]; same++) {}
    }

    /// Bytes that are written as they are: each run of at most 32 has its length before it.
    function runs(uint256 count) private pure returns (uint256) {
        return count + (count + RUN - 1) / RUN;
    }

    /// Long matches are told in tokens of three bytes, and the rest in two if it is short.
    function tokens(uint256 same) private pure returns (uint256) {
        uint256 more = same - 1;
        return 3 * (more / LONGEST_TOKEN) + (more % LONGEST_TOKEN >= 6 ? 3 : 2);
    }

    function slotOf(uint256 word) private pure returns (uint256) {
        unchecked {
            return (2654435769 * word >> 19) & FARTHEST;
        }
    }

    /// Three bytes, the first of them the lowest; read at once, for contracts of the largest size to be affordable.
    function three(bytes memory data, uint256 at) private pure returns (uint256) {
        uint256 word;
        assembly ("memory-safe") {
            word := shr(232, mload(add(add(data, 32), at)))
        }
        return word >> 16 | word & 0xff00 | (word & 0xff) << 16;
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

/// Mantle since Arsia: the L1 fee in ETH, what it is in MNT, and an operator fee that is in MNT already.
contract MantleGasPriceOracle is JovianGasPriceOracle {
    uint256 public tokenRatio;

    function setTokenRatio(uint256 tokenRatio_) external {
        tokenRatio = tokenRatio_;
    }
}
