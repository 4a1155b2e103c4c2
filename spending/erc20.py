"""The calls of ERC-20 that move tokens or allow others to, read from calldata."""

from dataclasses import dataclass

from relayer_service.evm import checksummed

SELECTOR_LENGTH = 4
WORD = 32
ADDRESS = 20
# By selector, the name of a function and the number of its arguments: addresses, of which the last is the recipient or
# spender, and the amount.
FUNCTIONS = {
    bytes.fromhex("a9059cbb"): ("transfer", 2),
    bytes.fromhex("095ea7b3"): ("approve", 2),
    bytes.fromhex("23b872dd"): ("transferFrom", 3),
}
NAMES = [name for name, _ in FUNCTIONS.values()]


@dataclass(frozen=True)
class TokenCall:
    """A call of ERC-20: `recipient` is the receiver of a transfer or the spender of an approval."""

    function: str
    recipient: str
    amount: int


def decode(data: bytes) -> TokenCall | None:
    """Return the call that the data encodes; None if it is another one or not in the canonical ABI encoding.

    Contracts read other encodings in different ways: some ignore the upper bytes of an address, trailing bytes or
    missing ones. What is decoded here has one meaning to every contract.
    """
    if (found := FUNCTIONS.get(data[:SELECTOR_LENGTH])) is None:
        return None
    name, arguments = found
    if len(data) != SELECTOR_LENGTH + arguments * WORD:
        return None
    *addresses, amount = (data[start : start + WORD] for start in range(SELECTOR_LENGTH, len(data), WORD))
    if any(any(word[:-ADDRESS]) for word in addresses):
        return None
    return TokenCall(name, checksummed(addresses[-1][-ADDRESS:]), int.from_bytes(amount, "big"))


def owner(data: bytes) -> str:
    """Return whose tokens a decoded `transferFrom` moves."""
    word = data[SELECTOR_LENGTH : SELECTOR_LENGTH + WORD]
    return checksummed(word[-ADDRESS:])
