"""Request bodies of 1 MB in every shape, for each endpoint that takes a body."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

SIZE = 1_000_000
SECRETS = (
    *("password=", "0x" + "ab" * 32, "https://user:secret@host/", "Bearer abcdefghijk"),
    *("whsec_aaaaaaaaaaaa", "eyJabcdefgh.a.a"),
)


@dataclass(frozen=True)
class Endpoint:
    """Where bodies are sent to, and bodies with a place for a string, for any value and for members of an object."""

    name: str
    method: str
    path: str
    ordinary: str
    texts: tuple[str, ...]
    values: tuple[str, ...]
    members: tuple[str, ...]


SIGNER = '"type": "plain", "config": {"key": "k"}'
VAULT = '"address": "a", "key_name": "k", "role_id": "r", "secret_id": "s"'
GOOGLE = '{"type": "provider_b_kms", "config": {"service_account": {}, "key": '
CALL = '"jsonrpc": "2.0", "method": "feeEstimate"'
ENDPOINTS = [
    Endpoint(
        name="create a signer",
        method="POST",
        path="/api/v1/signers",
        ordinary='{"type": "plain", "config": {"key": %s}}',
        texts=(
            "{" + SIGNER + ', "id": %s}',
            '{"type": %s, "config": {"key": "k"}}',
            '{"type": "plain", "config": {"key": %s}}',
            '{"type": "provider_c", "config": {' + VAULT + ', "namespace": %s}}',
        ),
        values=("%s", GOOGLE + '{"a": %s}}}'),
        members=("{" + SIGNER + ", %s}", '{"type": "plain", "config": {%s}}', GOOGLE + "{%s}}}"),
    ),
    Endpoint(
        name="update a notification",
        method="PATCH",
        path="/api/v1/notifications/bench",
        ordinary='{"signing_key": %s}',
        texts=('{"type": %s}', '{"url": %s}', '{"signing_key": %s}'),
        values=("%s", '{"other": %s}'),
        members=("{%s}",),
    ),
    Endpoint(
        name="call a method",
        method="POST",
        path="/api/v1/relayers/bench/rpc",
        ordinary="{" + CALL + ', "params": {"fee_token": "ETH", "network": "evm", "transaction": %s}}',
        texts=(
            '{"jsonrpc": %s, "method": "feeEstimate"}',
            '{"jsonrpc": "2.0", "method": %s}',
            "{" + CALL + ', "params": {"network": "evm", "transaction": "0x", "fee_token": %s}}',
            "{" + CALL + ', "params": {"fee_token": "ETH", "transaction": "0x", "network": %s}}',
            "{" + CALL + ', "params": {"fee_token": "ETH", "network": "evm", "transaction": %s}}',
        ),
        values=("%s", "{" + CALL + ', "id": %s}', "{" + CALL + ', "params": {"transaction": %s}}'),
        members=("{%s}", "{" + CALL + ', "params": {%s}}'),
    ),
]


def filled(text: str, size: int) -> str:
    """Repeat a text up to a size, whole."""
    return text * (size // len(text.encode()))


def strings(size: int) -> Iterator[tuple[str, str]]:
    """Yield what a string of about a size can be made of."""
    for name, text in {
        "letters": "x",
        "commas": ",",
        "brackets": "[{",
        "spaces": " ",
        "escaped quotes": '\\"',
        "escaped backslashes": "\\\\",
        "escaped letters": "\\u0041",
        "escaped control characters": "\\n",
        "escaped NULs": "\\u0000",
        "escaped surrogate pairs": "\\ud83d\\ude00",
        "lone surrogates": "\\ud83d",
        "two bytes a letter": "é",
        "four bytes a letter": "\U0001f600",
        "combining marks": "\u0301",
        "hexadecimal": "0123456789abcdef",
        "URLs": "https://example.com/",
        "names of secrets": "password=",
    }.items():
        yield f"a string of {name}", f'"{filled(text, size)}"'
    for text in ("0x" + filled("ab", size), "0xf9ffff" + filled("c0", size), "http://" + filled("a.", size)):
        yield f"a string of {text[:12]}...", f'"{text}"'


def transactions(size: int) -> Iterator[tuple[str, str]]:
    """Yield encoded transactions with as much in them as they may have."""
    import rlp

    address, receiver = bytes(range(20)), bytes(20)
    addresses = [number.to_bytes(20, "big") for number in range(1, 4_900)]
    fields: list[Any] = [b"\x01", b"", b"", b"", b"\x52\x08", receiver, b"", b""]
    for name, kind, items in (
        ("data", b"\x02", [*fields[:-1], bytes(size // 2), []]),
        ("addresses", b"\x02", [*fields, [[each, []] for each in addresses[:3_300]]]),
        ("storage keys", b"\x02", [*fields, [[address, [n.to_bytes(32, "big") for n in range(1, 9_900)]]]]),
        ("blobs", b"\x03", [*fields, [], b"", [b"\x01" + bytes(31)] * 9_900]),
        (
            "authorizations",
            b"\x04",
            [*fields, [], [[b"\x01", each, b"", b"", b"\x01", b"\x01"] for each in addresses[:1_400]]],
        ),
        ("empty lists", b"\x02", [*fields, [[]] * 9_900]),
        ("zeros", b"\x02", [b""] * 400_000),
    ):
        text = (kind + rlp.encode(items)).hex()
        yield f"a transaction with much of {name}", f'"0x{text[: size - 4]}"'


def values(size: int) -> Iterator[tuple[str, str]]:
    """Yield JSON values of about a size."""
    yield from strings(size)
    for name, text in {
        "ones": "1",
        "floats": "1.5",
        "exponents": "1e9",
        "long integers": "9" * 4_000,
        "long floats": "0." + "9" * 4_000,
        "long exponents": "1e" + "0" * 4_000 + "1",
        "large exponents": "1e999",
        "literals": "true",
        "empty arrays": "[]",
        "empty objects": "{}",
        "empty strings": '""',
        "strings of commas": '",,,,,,,,"',
        "strings of 90 letters": f'"{"x" * 90}"',
        "objects": '{"a":1}',
        "arrays": "[1,1]",
    }.items():
        yield f"an array of {name}", f"[{filled(text + ',', size)}1]"
        many = filled(text + ",", min(size, 9_000 * (len(text) + 1)))
        yield f"an array of 9,000 {name}", f"[{many}1]"
    for name, text in {
        "integer": "9",
        "float": "0.9",
        "exponent": "1e9",
        "small exponent": "1e-9",
        "minus": "-",
    }.items():
        yield f"a long {name}", text + filled(text[-1], size)
    yield "a float with zeros", "1." + filled("0", size)
    yield "a long float, just above one", "1." + filled("0", size) + "1"
    yield "a long float, near a half", "0.1" + filled("5", size)
    yield "an exponent with zeros", "1e" + filled("0", size)
    yield "arrays in arrays", filled("[", size // 2) + filled("]", size // 2)
    yield "arrays in arrays, not closed", filled("[", size)
    yield "objects in objects", filled('{"a":', size // 6 * 5) + "1" + filled("}", size // 6)
    yield "64 levels, and then a string", "[" * 60 + f'"{filled("x", size)}"' + "]" * 60
    yield "1,000 levels", "[" * 1_000 + filled(" ", size) + "]" * 1_000
    yield "930 levels", "[" * 930 + filled(" ", size) + "]" * 930
    yield "closing brackets", "[" * 65 + filled("]", size)
    yield "spaces", filled(" ", size) + "1"
    yield "no JSON", filled("x", size)


def members(size: int) -> Iterator[tuple[str, str]]:
    """Yield members of an object, of about a size together."""

    def many(name: str, value: str = "1", maximum: int = sys.maxsize) -> str:
        """Number the names, as no two may be the same."""
        each = len((name % 1_000_000 + value).encode()) + 5
        return ",".join(f'"{name % (1_000_000 + n)}":{value}' for n in range(min(maximum, size // each)))

    yield "short names", many("%d")
    yield "9,000 short names", many("%d", maximum=9_000)
    yield "9,000 names of 100 letters", many("%d" + "x" * 93, maximum=9_000)
    yield "200 names of 4,900 letters", many("%d" + "x" * 4_893)
    yield "one long name", f'"{filled("x", size)}":1'
    yield "a name of escapes", f'"{filled(chr(92) + "u0041", size)}":1'
    yield "a name that stands many times", filled('"a":1,', size) + '"a":1'
    yield "a name that stands twice at the end", many("%d", maximum=9_000) + ',"a":1,"a":1'
    for secret in SECRETS:
        yield f"9,000 names with {secret[:12]}", many("%d" + secret, maximum=9_000)
        yield f"names of 4,000 letters with {secret[:12]}", many("%d" + filled(secret, 4_000))
        yield f"names of 4,000 letters that end with {secret[:12]}", many("%d" + "x" * 3_990 + secret)
    yield "values of 90 letters", many("%d", f'"{"x" * 90}"', 9_000)
    yield "objects", many("%d", '{"a":1}')


def shapes(endpoint: Endpoint) -> Iterator[tuple[str, bytes]]:
    """Yield every body with its name."""
    parts = {endpoint.texts: strings, endpoint.values: values, endpoint.members: members}
    if "transaction" in endpoint.ordinary:
        parts[(endpoint.ordinary,)] = transactions
    for places, fillings in parts.items():
        for place in places:
            for name, filling in fillings(SIZE):
                yield f"{name} in {place}", (place % filling).encode()
    whole = (endpoint.ordinary % f'"{filled("x", SIZE)}"').encode()
    for name, body in {
        "cut off": whole[:-1],
        "with more behind": whole + b"x",
        "with a byte that is no text at the end": whole[:-3] + b"\xff" + whole[-3:],
        "in UTF-16": whole.decode().encode("utf-16")[:SIZE],
    }.items():
        yield f"an ordinary body {name}", body
