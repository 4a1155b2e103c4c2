"""Codes of the second factor, and where they are kept."""

import json
from functools import partial

import pytest
from django.contrib.auth.models import User
from django.db import connection

from relayer_service.models import SecondFactor
from relayer_service.sign_in import codes
from relayer_service.sign_in.models import enable
from tests.concurrency import in_threads

# The key and codes of RFC 6238, Appendix B, whose codes have 8 digits there.
KEY = b"12345678901234567890".hex()
AT = 1_111_111_109
STEP = AT // 30
CODE = "081804"


@pytest.mark.parametrize(
    ("text", "after", "now", "step"),
    [
        (CODE, -1, AT, STEP),
        ("081 804", -1, AT, STEP),
        # One step off, in either direction, and two.
        *[(CODE, -1, AT + off, STEP) for off in (30, -30)],
        (CODE, -1, AT + 60, None),
        (CODE, -1, AT - 60, None),
        # Used before.
        (CODE, STEP, AT, None),
        (CODE, STEP - 1, AT, STEP),
        ("081805", -1, AT, None),
        ("81804", -1, AT, None),
        ("٠٨١٨٠٤", -1, AT, None),
        ("", -1, AT, None),
    ],
)
def test_a_code_is_valid_within_a_step_and_only_after_the_last(
    text: str, after: int, now: int, step: int | None
) -> None:
    assert codes.matching_step(KEY, text, after, now) == step


def test_apps_read_the_key_from_a_uri_and_recovery_codes_are_read_as_typed() -> None:
    assert codes.provisioning_uri(KEY, "olga@example.com") == (
        "otpauth://totp/Relayer%20Management%3Aolga%40example.com"
        "?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=Relayer%20Management"
    )
    found = codes.new_recovery_codes()
    assert len(set(found)) == 10
    assert codes.digest(found[0].upper().replace("-", " ")) == codes.digest(found[0])


def test_neither_key_nor_recovery_codes_are_stored_in_plain_text(user: User) -> None:
    _, recovery_codes = enable(user, KEY, step=-1)
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM relayer_service_secondfactor")
        row = json.dumps(cursor.fetchall(), default=str)
    secrets = [KEY, codes.base32(KEY), *recovery_codes, *map(codes.digest, recovery_codes)]
    assert [secret for secret in secrets if secret in row] == []
    assert SecondFactor.objects.get().recovery_codes == [codes.digest(each) for each in recovery_codes]


def test_a_code_is_accepted_once_by_two_at_a_time(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    user = User.objects.create_user("alice")
    _, recovery_codes = enable(user, KEY, step=-1)
    monkeypatch.setattr("time.time", lambda: AT)
    for text, kind in ((CODE, "code"), (recovery_codes[0], "recovery code")):
        works = [partial(SecondFactor.objects.get().verify, text) for _ in range(2)]
        assert sorted(in_threads(*works)) == ["", kind]
    assert len(SecondFactor.objects.get().recovery_codes) == 9
