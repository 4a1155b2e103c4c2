"""A chain with a mempool that remembers the state before each block, so that any of them can be replaced."""

from __future__ import annotations

from tests.transactions.hardhat import GWEI, LocalChain, hash_of, signed

BASE_FEE = GWEI


class MempoolChain(LocalChain):
    """A chain with the contract `Ledger`, whose base fee a test decides."""

    def reset(self) -> None:
        super().reset()
        self.ledger = self.deploy_ledger()
        self.start_over()

    def start_over(self) -> None:
        """Forget the blocks that there are, so that they are not replaced."""
        self.base_fee = BASE_FEE
        self._before: list[str] = []

    def block(self, count: int = 1) -> None:
        """Mine blocks, with what of the mempool pays the base fee."""
        for _ in range(count):
            self._before.append(self.snapshot())
            self.set_next_base_fee(self.base_fee)
            self.mine()

    def reorg(self, depth: int, *, keeps_mempool: bool = True) -> None:
        """Replace the last blocks by as many others and one more; what was sent since the fork is lost."""
        depth = min(depth, len(self._before))
        if depth:
            self.reorganise(self._before[-depth])
            del self._before[-depth:]
            if not keeps_mempool:
                self.drop()
            self.block(depth + 1)

    def spend_nonce(self, key: str, address: str) -> str:
        """Use the next nonce of an account without the service, at a high price, and return the hash."""
        fields = {"maxFeePerGas": 1_000 * GWEI, "maxPriorityFeePerGas": 500 * GWEI, "to": address}
        raw = signed(key, self.count(address), **fields)
        self.send_raw(raw)
        return hash_of(raw)
