"""Section 5: a bearer token in the Authorization header, and one answer to everything else."""

from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User

from tests.api import Answer, Api, WireApi
from tests.contract import bodies, raw
from tests.sample.models import Item
from tokens.credentials import Credential
from tokens.models import AccessToken
from tokens.writes import issue

SECRET = "0123456789abcdefghijABCDEFGHIJ0123456789"


def refused(answer: Answer) -> bool:
    """Hold an answer against the one that every refusal gets."""
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.headers["content-type"] == "application/json"
    assert answer.body == {"data": None, "message": "Unauthorized", "success": False}
    return True


def with_header(api: Api, value: bytes) -> Answer:
    """Send this Authorization header and no other."""
    return api.with_token("").get("/api/v1/items", headers={"Authorization": value.decode("latin-1")})


@pytest.mark.parametrize("scheme", [b"Bearer", b"bearer", b"BEARER", b"bEaReR"])
def test_the_name_of_the_scheme_is_accepted_in_any_case(api: Api, scheme: bytes) -> None:
    answer = with_header(api, scheme + b" " + api.token.encode())
    assert (answer.status, answer.body) == (200, bodies.page([], total_items=0))


def test_a_missing_header_is_refused(api: Api) -> None:
    assert refused(api.with_token("").get("/api/v1/items"))


def test_nothing_is_created_without_a_token(api: Api) -> None:
    assert refused(api.with_token("").post("/api/v1/items", {"id": "item-1", "name": "First"}))
    assert not Item.objects.exists()


def test_a_bad_body_does_not_come_before_a_missing_token(api: Api) -> None:
    assert refused(api.with_token("").post("/api/v1/items", raw=b"{"))


@pytest.mark.parametrize("scheme", ["Basic", "Token", "Digest", "Bearer:", "Bear", "BearerBearer", ""])
def test_another_scheme_is_refused(api: Api, scheme: str) -> None:
    assert refused(with_header(api, f"{scheme} {api.token}".encode()))


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"Bearer",
        b"Bearer ",
        b"Bearer null",
        b"Bearer " + b"x" * 8000,
        b"Bearer rms_000000000000_" + b"0" * 46,
        b"\xff\xfe\xfd",
        b"Bearer \xff\xfe\xfd",
        "Bearer ключ".encode(),
    ],
)
def test_what_is_no_token_is_refused(api: Api, header: bytes) -> None:
    assert refused(with_header(api, header))


def test_a_token_with_a_wrong_checksum_is_refused(api: Api) -> None:
    last = "0" if api.token[-1] != "0" else "1"
    assert refused(api.with_token(api.token[:-1] + last).get("/api/v1/items"))


def test_a_token_in_another_case_is_refused(api: Api) -> None:
    assert refused(api.with_token(api.token.swapcase()).get("/api/v1/items"))


def test_an_unknown_key_is_refused(api: Api) -> None:
    assert refused(api.with_token(Credential("0123456789ab", SECRET).reveal()).get("/api/v1/items"))


def test_a_wrong_secret_is_refused(api: Api) -> None:
    key = AccessToken.objects.get().key
    assert refused(api.with_token(Credential(key, SECRET).reveal()).get("/api/v1/items"))


def test_an_expired_token_is_refused(api: Api, user: User) -> None:
    text = issue(name="old", user=user, expires_at=datetime(2001, 1, 1, tzinfo=UTC))[1]
    assert refused(api.with_token(text).get("/api/v1/items"))


def test_a_token_that_has_not_expired_is_accepted(api: Api, user: User) -> None:
    text = issue(name="new", user=user, expires_at=datetime(2999, 1, 1, tzinfo=UTC))[1]
    answer = api.with_token(text).get("/api/v1/items")
    assert (answer.status, answer.body) == (200, bodies.page([], total_items=0))


def test_a_disabled_token_is_refused(api: Api) -> None:
    AccessToken.objects.update(enabled=False)
    assert refused(api.get("/api/v1/items"))


def test_a_token_from_another_network_is_refused(api: Api, user: User) -> None:
    text = issue(name="far", user=user, allowed_networks=["10.0.0.0/8", "2001:db8::/32"])[1]
    assert refused(api.with_token(text).get("/api/v1/items"))
    forged = {"X-Forwarded-For": "10.0.0.1", "X-Real-IP": "10.0.0.1", "Forwarded": "for=10.0.0.1"}
    assert refused(api.with_token(text).get("/api/v1/items", headers=forged))


def test_a_token_from_one_of_its_networks_is_accepted(api: Api, user: User) -> None:
    text = issue(name="near", user=user, allowed_networks=["10.0.0.0/8", "127.0.0.0/8"])[1]
    answer = api.with_token(text).get("/api/v1/items")
    assert (answer.status, answer.body) == (200, bodies.page([], total_items=0))


def test_a_token_of_an_inactive_user_is_refused(api: Api, user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)
    assert refused(api.get("/api/v1/items"))


def test_a_second_authorization_header_is_refused(wire: WireApi) -> None:
    good = b"Bearer " + wire.token.encode()
    for both in ((good, good), (good, b"Bearer x"), (b"Basic YTpi", good)):
        headers = b"".join(b"Authorization: %s\r\n" % value for value in both)
        assert refused(raw.send(wire.port, raw.request(b"GET", b"/api/v1/items", headers)))


def test_a_header_with_an_underscore_is_not_the_authorization_header(wire: WireApi) -> None:
    underscore = raw.request(b"GET", b"/api/v1/items", b"HTTP_AUTHORIZATION: Bearer %s\r\n" % wire.token.encode())
    assert refused(raw.send(wire.port, underscore))


def test_spaces_inside_the_token_are_refused(api: Api) -> None:
    token = api.token.encode()
    assert refused(with_header(api, b"Bearer " + token[:20] + b" " + token[20:]))
    assert refused(with_header(api, b"Bearer " + token + b" " + token))
    assert refused(with_header(api, b"Bearer\t" + token))


@pytest.mark.parametrize("extra", [b"\xff", b"\xa0", b"\x85", b"\xc3\xa9", b"\xef\xbc\x91", b",", b'"', b"%20"])
def test_bytes_after_the_token_are_refused(api: Api, extra: bytes) -> None:
    assert refused(with_header(api, b"Bearer " + api.token.encode() + extra))


@pytest.mark.parametrize("name", ["token", "access_token", "bearer_token", "Authorization"])
def test_a_token_in_the_query_is_not_accepted(api: Api, name: str) -> None:
    assert refused(api.with_token("").get(f"/api/v1/items?{name}={api.token}"))
    assert refused(api.with_token("").get(f"/api/v1/items?{name}=Bearer%20{api.token}"))


def test_a_token_in_the_body_is_not_accepted(api: Api) -> None:
    assert refused(api.with_token("").post("/api/v1/items", {"id": "a", "name": "b", "access_token": api.token}))
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert refused(api.with_token("").post("/api/v1/items", raw=f"access_token={api.token}".encode(), headers=form))


def test_a_token_in_a_cookie_or_another_header_is_not_accepted(api: Api) -> None:
    headers = {
        "Cookie": f"access_token={api.token}",
        "X-API-Key": api.token,
        "Proxy-Authorization": f"Bearer {api.token}",
    }
    assert refused(api.with_token("").get("/api/v1/items", headers=headers))


def test_a_wrong_method_without_a_token_is_refused(api: Api) -> None:
    assert refused(api.with_token("")("DELETE", "/api/v1/items"))
