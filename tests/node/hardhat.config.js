// Blocks that are mined within one second have the same time, so that the chain's clock does not run ahead of the tests'.
module.exports = { networks: { hardhat: { chainId: 31337, allowBlocksWithSameTimestamp: true } } };
