"""Addresses and their checksums (EIP-55)."""

import re
from functools import lru_cache

ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
# Of Keccak-256, in bytes.
BLOCK = 136


def check_address(value: str) -> str:
    """Return an address, or raise `ValueError` if it is malformed or its checksum is wrong."""
    if not (isinstance(value, str) and ADDRESS.fullmatch(value)):
        raise ValueError(f"An address is 0x and 40 hexadecimal digits, not {value!r}.")
    if value[2:] not in (value[2:].lower(), value[2:].upper()) and value != checksummed(value):
        raise ValueError(f"The checksum of the address {value} is wrong: a character may be mistyped.")
    return value


@lru_cache
def checksummed(address: str) -> str:
    digits = address[2:].lower()
    marks = _keccak(digits.encode()).hex()
    return "0x" + "".join(digit.upper() if mark >= "8" else digit for digit, mark in zip(digits, marks, strict=False))


def _keccak(data: bytes) -> bytes:
    """Return the Keccak-256 of less than a block."""
    block = bytearray((data + b"\x01").ljust(BLOCK, b"\0"))
    block[-1] |= 0x80
    words = [int.from_bytes(block[at : at + 8], "little") for at in range(0, BLOCK, 8)] + [0] * 8
    state, register = [words[x::5] for x in range(5)], 1
    for _ in range(24):
        columns = [a ^ b ^ c ^ d ^ e for a, b, c, d, e in state]
        state = [[word ^ columns[x - 1] ^ _rotated(columns[(x + 1) % 5], 1) for word in state[x]] for x in range(5)]
        x, y, word = 1, 0, state[1][0]
        for step in range(1, 25):
            x, y = y, (2 * x + 3 * y) % 5
            word, state[x][y] = state[x][y], _rotated(word, step * (step + 1) // 2 % 64)
        state = [[state[x][y] ^ (~state[x - 4][y] & state[x - 3][y]) for y in range(5)] for x in range(5)]
        for bit in range(7):
            register = (register << 1 ^ (register >> 7) * 0x71) % 256
            state[0][0] ^= (register >> 1 & 1) << (2**bit - 1)
    return b"".join(state[x][0].to_bytes(8, "little") for x in range(4))


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 64 - bits) % 2**64
