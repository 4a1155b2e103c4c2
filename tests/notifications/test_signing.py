"""Signatures after Standard Webhooks, as the public package makes and verifies them."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from notifications.delivery.signing import UnusableKey, headers, key_bytes

NOON = datetime(2026, 1, 1, 12, 0, 0, 999_999, tzinfo=UTC)
BODY = b'{"type":"notification.test","data":{"name":"J\xc3\xbcrgen"}}'
NOT_BASE64 = "The signing key starts with whsec_ but is not valid base64 after it."


def now() -> datetime:
    return datetime.now(tz=UTC)


def test_the_headers_of_a_fixed_moment_are_exactly_these() -> None:
    assert headers("msg_1", NOON, BODY, "a key") == {
        "webhook-id": "msg_1",
        "webhook-timestamp": "1767268800",
        "webhook-signature": "v1,WlhVRoOavWTapkYCvXagsm8wSuuOLF2UM4Ks119VIcE=",
    }


def test_the_example_of_the_standard_comes_out() -> None:
    made = headers(
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        datetime.fromtimestamp(1614265330, tz=UTC),
        b'{"test": 2432232314}',
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    )
    assert made == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_without_a_key_there_is_no_signature_and_the_moment_may_be_in_any_zone() -> None:
    assert headers("msg_1", NOON, BODY, None) == {"webhook-id": "msg_1", "webhook-timestamp": "1767268800"}
    elsewhere = NOON.astimezone(timezone(timedelta(hours=-7)))
    assert headers("msg_1", elsewhere, BODY, "a key") == headers("msg_1", NOON, BODY, "a key")


def test_a_key_is_base64_behind_the_prefix_and_else_its_utf_8() -> None:
    plain = ["k", " ", "  a key  ", "schl\u00fcssel \U0001f511", "e\u0301", "a\x00b\n", "k" * 10_000]
    plain += ["WHSEC_AAEC", " whsec_AAEC", "whsec"]
    standard = {"AAEC": 3, "AAECAw==": 4, "AAECAw": 4, "AAECAwQ=": 5, "AAECAwQ": 5}
    expected = {text: text.encode() for text in plain} | {"whsec_+/+/": b"\xfb\xff\xbf"}
    expected |= {f"whsec_{text}": bytes(range(length)) for text, length in standard.items()}
    assert {text: key_bytes(text) for text in expected} == expected


def test_a_key_with_the_prefix_that_is_not_base64_is_refused() -> None:
    parts = ["", "=", "====", "A", "AAECA", "AA=C", "not base64", "AAEC\n", "-_-_", "schl\u00fcssel", "whsec_AAEC"]
    for part in (*parts, "AAEC\ud800"):
        with pytest.raises(UnusableKey) as raised:
            headers("msg_1", NOON, BODY, f"whsec_{part}")
        assert str(raised.value) == NOT_BASE64


def test_a_key_that_cannot_be_encoded_is_refused_and_not_shown() -> None:
    with pytest.raises(UnusableKey) as raised:
        key_bytes("secret \ud800")
    assert str(raised.value) == "The signing key is not valid Unicode."
    # A traceback would show the encoder's error, and with it the key.
    assert raised.value.__suppress_context__


@given(st.text(min_size=1, alphabet=st.characters(exclude_categories=["Cs"])).filter(lambda t: t[:6] != "whsec_"))
def test_what_any_plain_key_signs_is_verified_with_its_bytes(signing_key: str) -> None:
    Webhook(signing_key.encode()).verify(BODY, headers("msg_1", now(), BODY, signing_key))


@given(st.binary(min_size=1))
def test_what_any_standard_key_signs_is_verified_with_it_as_it_stands(key: bytes) -> None:
    padded = f"whsec_{base64.b64encode(key).decode()}"
    for signing_key in (padded, padded.rstrip("=")):
        Webhook(signing_key).verify(BODY, headers("msg_1", now(), BODY, signing_key))


def test_nothing_that_is_changed_is_verified() -> None:
    sent, other = (headers(f"msg_{seconds}", now() - timedelta(seconds=seconds), BODY, "a key") for seconds in (0, 2))
    changed = [bytearray(BODY) for _ in range(3)]
    for altered, place in zip(changed, (0, len(BODY) // 2, len(BODY) - 1), strict=True):
        altered[place] ^= 1
    cases: list[tuple[bytes, bytes, dict[str, str]]] = [
        *((b"a key", bytes(altered), sent) for altered in changed),
        *((b"a key", BODY, sent | {name: other[name]}) for name in sent),
        *((key, BODY, sent) for key in (b"another key", b"a ke", b"a key ", b"A key")),
    ]
    for key, body, made in cases:
        with pytest.raises(WebhookVerificationError, match="No matching signature found"):
            Webhook(key).verify(body, made, json_parse=False)


@pytest.mark.parametrize(("minutes", "said"), [(-6, "too old"), (6, "too new")])
def test_another_time_than_now_is_not_verified(minutes: int, said: str) -> None:
    moment = now() + timedelta(minutes=minutes)
    with pytest.raises(WebhookVerificationError, match=said):
        Webhook(b"a key").verify(BODY, headers("msg_1", moment, BODY, "a key"))
