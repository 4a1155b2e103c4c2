"""What redaction costs: its patterns are linear, and long texts are cut first."""

import json
import re
import time
from collections.abc import Callable

import pytest
from django.conf import settings as django_settings
from django.test import Client

from relayer_service.observability import logs
from relayer_service.observability.logs import redact
from tests.relayer_service.observability.test_logs import HEX_KEY, JWT

# For each pattern, in their order, texts that it reads far into without a match.
WORST_CASES = [
    ("rms_", "rms_0123456789AB_ "),
    ("cookie:", "authorization" + " " * 9),
    ("bearer" + " " * 9, "bearer aaaaaaa,"),
    ("token " + "a" * 201 + ",", "basic" + " " * 9),
    ("whsec_", "whsec_/ "),
    ("eyJ-", "eyJaaaaaaaa.a ", "-eyJaaaaaaaa"),
    ("f" * 63 + "g", "0x" + "f" * 63),
    ("-----BEGIN " + "A" * 30, "-----BEGIN PRIVATE KEY----------END "),
    ("password", "secret={", 'secret={\\",', "secret={\\'\t", 'secret=\\"a ', "secret" + " " * 9, "cookie" + "." * 40),
    ("('", "('" + "password" * 5, "('secret',{\\\"\t"),
    ("a.", "a." * 15 + "://", "a://a.a"),
    ("://", "://a/", "://" + "/" * 200),
    ("https://", "http://" + "a" * 300),
]
PIECES = 16


@pytest.mark.parametrize(
    ("shape", "unit"),
    [(shape, unit) for (shape, _), units in zip(logs.SECRET_SHAPES, WORST_CASES, strict=True) for unit in units],
)
def test_a_text_costs_no_more_than_its_pieces(shape: re.Pattern[str], unit: str) -> None:
    """A pattern that reads the same text from many places takes 16 times as long for the whole."""
    piece = unit * (2_000 // len(unit))
    whole = piece * PIECES
    in_pieces = min(processor_time(lambda: [shape.sub("", piece) for _ in range(PIECES)]) for _ in range(5))
    at_once = min(processor_time(lambda: shape.sub("", whole)) for _ in range(5))
    assert at_once < 4 * in_pieces


def processor_time(work: Callable[[], object]) -> float:
    started = time.thread_time()
    work()
    return time.thread_time() - started


@pytest.mark.parametrize(
    ("secret", "hidden"),
    [
        (HEX_KEY, HEX_KEY[:6]),
        (JWT, JWT[:10]),
        (f"Bearer {HEX_KEY[:40]}", HEX_KEY[:4]),
        ("postgresql://relayer:hunter2@db", "hun"),
        ("wss://node/0123456789abcdef0123456789abcdef", "0123"),
        (json.dumps(json.dumps({"wallet_secret": "hunter2 " * 200})), "hunter2"),
        (json.dumps({"wallet_secret": {"a": "hunter2 " * 200}}), "hunter2"),
        (django_settings.SECRET_KEY, django_settings.SECRET_KEY[:6]),
    ],
)
def test_a_secret_at_the_cut_is_redacted_whole(secret: str, hidden: str) -> None:
    limit = 2_048
    for position in range(limit - len(secret) - 2, limit + logs.CUT_MARGIN + 2, 17):
        text = "." * position + " " + secret + " " + "." * 3_000
        assert hidden not in redact(text, limit)


def test_a_long_text_and_the_path_in_a_request_line_are_cut(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    assert redact("a " * 1_000_000) == "a " * (logs.MAX_LENGTH // 2) + "… (cut)"
    client.get("/" + "eyJ-" * 12_000)
    (record,) = [record for record in caplog.records if record.name == "relayer_service.requests"]
    assert record.__dict__["fields"]["path"] == "/" + ("eyJ-" * 512)[:-1] + "… (cut)"
