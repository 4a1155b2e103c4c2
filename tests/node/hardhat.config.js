// Blocks that are mined within one second have the same time, so that the chain's clock does not run ahead of the tests'.
const hardhat = { chainId: 31337, allowBlocksWithSameTimestamp: true };
// Of `make node`: transactions get confirmations without anybody mining.
if (process.env.BLOCK_MILLISECONDS) {
  hardhat.mining = { auto: true, interval: Number(process.env.BLOCK_MILLISECONDS) };
}
module.exports = { networks: { hardhat } };
