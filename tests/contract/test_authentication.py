"""Section 5: a bearer token in the Authorization header, and one answer to everything else."""

from datetime import UTC, datetime

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


def test_the_name_of_the_scheme_is_accepted_in_any_case(api: Api) -> None:
    for scheme in (b"Bearer", b"bearer", b"BEARER", b"bEaReR"):
        answer = with_header(api, scheme + b" " + api.token.encode())
        assert (answer.status, answer.body) == (200, bodies.page([], total_items=0))


def test_without_a_token_any_request_is_refused_and_does_nothing(api: Api) -> None:
    nobody = api.with_token("")
    assert refused(nobody.get("/api/v1/items"))
    assert refused(nobody.post("/api/v1/items", {"id": "item-1", "name": "First"}))
    assert refused(nobody.post("/api/v1/items", raw=b"{"))
    assert refused(nobody("DELETE", "/api/v1/items"))
    assert not Item.objects.exists()


def test_what_is_no_token_is_refused(api: Api) -> None:
    token = api.token.encode()
    good, key = b"Bearer " + token, AccessToken.objects.get().key
    for header in (
        *(b"", b"Bearer", b"Bearer ", b"Bearer null", b"Bearer " + b"x" * 8000, b"\xff\xfe\xfd", b"Bearer \xff\xfe"),
        *(scheme + b" " + token for scheme in (b"Basic", b"Token", b"Bearer:", b"Bear", b"BearerBearer", b"")),
        *(good[:20] + b" " + good[20:], good + b" " + token, b"Bearer\t" + token),
        *(good + extra for extra in (b"\xff", b"\xa0", b"\x85", b"\xc3\xa9", b"\xef\xbc\x91", b",", b'"', b"%20")),
        # A wrong checksum, and another case.
        *(good[:-1] + (b"1" if good[-1:] == b"0" else b"0"), b"Bearer " + token.swapcase()),
        # An unknown key, and a wrong secret.
        *(b"Bearer " + Credential(known, SECRET).reveal().encode() for known in ("0123456789ab", key)),
    ):
        assert refused(with_header(api, header)), header


def test_a_token_that_is_over_is_refused(api: Api, user: User) -> None:
    expired = issue(name="old", user=user, expires_at=datetime(2001, 1, 1, tzinfo=UTC))[1]
    disabled = issue(name="off", user=user, enabled=False)[1]
    inactive = issue(name="gone", user=User.objects.create_user("gone", is_active=False))[1]
    for text in (expired, disabled, inactive):
        assert refused(api.with_token(text).get("/api/v1/items"))
    lasting = issue(name="new", user=user, expires_at=datetime(2999, 1, 1, tzinfo=UTC))[1]
    answer = api.with_token(lasting).get("/api/v1/items")
    assert (answer.status, answer.body) == (200, bodies.page([], total_items=0))


def test_a_token_from_another_network_is_refused(api: Api, user: User) -> None:
    text = issue(name="far", user=user, allowed_networks=["10.0.0.0/8", "2001:db8::/32"])[1]
    assert refused(api.with_token(text).get("/api/v1/items"))
    forged = {"X-Forwarded-For": "10.0.0.1", "X-Real-IP": "10.0.0.1", "Forwarded": "for=10.0.0.1"}
    assert refused(api.with_token(text).get("/api/v1/items", headers=forged))


def test_a_token_from_one_of_its_networks_is_accepted(api: Api, user: User) -> None:
    text = issue(name="near", user=user, allowed_networks=["10.0.0.0/8", "127.0.0.0/8"])[1]
    answer = api.with_token(text).get("/api/v1/items")
    assert (answer.status, answer.body) == (200, bodies.page([], total_items=0))


def test_headers_that_only_look_like_the_one_of_a_token_are_refused(wire: WireApi) -> None:
    good = b"Bearer " + wire.token.encode()
    for lines in ((good, good), (good, b"Bearer x"), (b"Basic YTpi", good)):
        headers = b"".join(b"Authorization: %s\r\n" % value for value in lines)
        assert refused(raw.send(wire.port, raw.request(b"GET", b"/api/v1/items", headers)))
    underscore = raw.request(b"GET", b"/api/v1/items", b"HTTP_AUTHORIZATION: %s\r\n" % good)
    assert refused(raw.send(wire.port, underscore))


def test_a_token_anywhere_else_is_not_accepted(api: Api) -> None:
    nobody, token = api.with_token(""), api.token
    for name in ("token", "access_token", "Authorization"):
        assert refused(nobody.get(f"/api/v1/items?{name}={token}"))
        assert refused(nobody.get(f"/api/v1/items?{name}=Bearer%20{token}"))
    assert refused(nobody.post("/api/v1/items", {"id": "a", "name": "b", "access_token": token}))
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert refused(nobody.post("/api/v1/items", raw=f"access_token={token}".encode(), headers=form))
    headers = {"Cookie": f"access_token={token}", "X-API-Key": token, "Proxy-Authorization": f"Bearer {token}"}
    assert refused(nobody.get("/api/v1/items", headers=headers))
