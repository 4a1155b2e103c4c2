"""What a request body can cost: 1 MB of every shape, against an ordinary string of that size at the same endpoint.

All in one process, through the WSGI callable, on a SQLite database of its own; only ratios mean anything.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks import wsgi
from benchmarks.load import Failed
from tests.servers import PROJECT

SIZE = 1_000_000
MAX_RATIO = 5
# What looks slow in one turn is measured so often, and its best turn counts: the others were disturbed.
TURNS = 7
SUSPECT_RATIO = 1.5
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


def measure() -> dict[str, Any]:
    """Measure in a process of its own, as the settings differ."""
    command = [sys.executable, "-m", "benchmarks.bodies"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    if done.returncode:
        raise Failed(done.stderr.strip().splitlines()[-1])
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def measure_here() -> dict[str, Any]:
    """Return for each endpoint the number of shapes and the slowest, as multiples of the ordinary body's time."""
    token = prepare()
    found: dict[str, Any] = {}
    for endpoint in ENDPOINTS:
        ordinary = (endpoint.ordinary % f'"{filled("x", SIZE)}"').encode()
        for _ in range(3):
            seconds(endpoint, ordinary, token)
        usual = min(seconds(endpoint, ordinary, token) for _ in range(TURNS))
        ratios: dict[str, float] = {}
        for name, body in shapes(endpoint):
            taken = seconds(endpoint, body, token)
            if taken > SUSPECT_RATIO * usual:
                taken = min(taken, *(seconds(endpoint, body, token) for _ in range(TURNS)))
            ratios[name] = round(taken / usual, 2)
        slowest = sorted(ratios.items(), key=lambda each: -each[1])
        found[endpoint.name] = {
            "ordinary_milliseconds": round(usual * 1000, 1),
            "shapes": len(ratios),
            "slowest": dict(slowest[:5]),
        }
        if slowest[0][1] > MAX_RATIO:
            above = {name: ratio for name, ratio in slowest if ratio > MAX_RATIO}
            raise Failed(f"{endpoint.name}: these bodies take more than {MAX_RATIO} times as long: {above}")
    return found


def prepare() -> str:
    """Make the database and what the paths name; return a token."""
    import django
    from django.core.management import call_command

    django.setup()
    from django.contrib.auth.models import User

    from notifications.models import Notification
    from relayer_service.ops.tasks import prepare_queue
    from relayers.models import Relayer
    from signers.models import Signer
    from tokens.models import AccessToken

    call_command("migrate", verbosity=0)
    prepare_queue()
    Notification.objects.create(identifier="bench", url="https://example.com/")
    signer = Signer(identifier="bench", type="plain")
    signer.set_config({"key": "0x" + "11" * 32})
    signer.save()
    Relayer.objects.create(
        identifier="bench", name="bench", network="hardhat", address="0x" + "11" * 20, signer=signer
    )
    return str(AccessToken.objects.issue(name="benchmarks", user=User.objects.create_user("benchmarks"))[1])


def seconds(endpoint: Endpoint, body: bytes, token: str) -> float:
    """Return the processor's time for one request."""
    status, taken = wsgi.call(endpoint.method, endpoint.path, token, body=body)
    if int(status[:3]) not in {200, 201, 400}:
        raise Failed(f"{endpoint.name}: {status} to {body[:80]!r}")
    return taken


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"DJANGO_SETTINGS_MODULE": "benchmarks.settings", "DATA_DIR": folder, "LOG_LEVEL": "WARNING"}
        os.environ |= dict.fromkeys(("DATABASE_URL", "REDIS_URL", "TASK_QUEUE_URL"), "")
        # Where it is set at all, even to nothing, metrics are written to files.
        os.environ.pop("PROMETHEUS_MULTIPROC_DIR", None)
        try:
            print(json.dumps(measure_here(), indent=2))
        except Failed as reason:
            sys.exit(str(reason))
