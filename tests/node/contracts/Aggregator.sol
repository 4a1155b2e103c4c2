// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.26;

/// A Chainlink-style price feed that says what it was told; with an answer of 0 or 1, an L2 sequencer's uptime feed.
contract Aggregator {
    uint8 public decimals;
    uint80 private roundId;
    int256 private answer;
    uint256 private startedAt;
    uint256 private updatedAt;
    uint80 private answeredInRound;

    constructor(uint8 decimals_) {
        decimals = decimals_;
    }

    function set(
        uint8 decimals_,
        uint80 roundId_,
        int256 answer_,
        uint256 startedAt_,
        uint256 updatedAt_,
        uint80 answeredInRound_
    ) external {
        decimals = decimals_;
        roundId = roundId_;
        answer = answer_;
        startedAt = startedAt_;
        updatedAt = updatedAt_;
        answeredInRound = answeredInRound_;
    }

    function latestRoundData() external view returns (uint80, int256, uint256, uint256, uint80) {
        return (roundId, answer, startedAt, updatedAt, answeredInRound);
    }
}

/// An aggregator that has bounds, as those behind Chainlink's proxies do; it answers beyond them if it is told to.
contract BoundedAggregator is Aggregator {
    int192 public immutable minAnswer;
    int192 public immutable maxAnswer;

    constructor(uint8 decimals_, int192 minAnswer_, int192 maxAnswer_) Aggregator(decimals_) {
        minAnswer = minAnswer_;
        maxAnswer = maxAnswer_;
    }
}

/// A feed as callers know it: it passes on what its aggregator answers, names it, and has no bounds itself.
contract FeedProxy {
    Aggregator public aggregator;

    constructor(Aggregator aggregator_) {
        aggregator = aggregator_;
    }

    function point(Aggregator aggregator_) external {
        aggregator = aggregator_;
    }

    function decimals() external view returns (uint8) {
        return aggregator.decimals();
    }

    function latestRoundData() external view returns (uint80, int256, uint256, uint256, uint80) {
        return aggregator.latestRoundData();
    }
}
